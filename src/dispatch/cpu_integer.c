/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of 8-bit integers on the CPU, for where no BLAS has them. Blocks of C are summed
 * modulo 2^32, from elements in 16 bits that have their zero points in them. */
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "util.h"

#include "cpu_fma.h"

#include "fpstate.h"
#include "round.h"

enum { BLOCK = 64, DEPTH = 128 };

/* dst[i][l] = element (r.i + i, r.j + l) of a matrix and `zero`, 0 beyond r.m and r.n. `along`: its
 * rows lie along memory; else its columns do. */
static void pack(int16_t (*dst)[DEPTH], const uint8_t *x, int64_t ld, bool along,
                 bool is_unsigned, int32_t zero, struct gb_rect r)
{
    const uint8_t flip = is_unsigned ? 0 : 0x80;

    zero -= flip; /* (x ^ 128) - 128 is x with its sign */
    memset(dst, 0, sizeof *dst * BLOCK);
    if (along)
        for (int64_t i = 0; i < r.m; i++)
            for (int64_t l = 0; l < r.n; l++)
                dst[i][l] = (int16_t)((x[r.j + l + (r.i + i) * ld] ^ flip) + zero);
    else
        for (int64_t l = 0; l < r.n; l++)
            for (int64_t i = 0; i < r.m; i++)
                dst[i][l] = (int16_t)((x[r.i + i + (r.j + l) * ld] ^ flip) + zero);
}

/* (Of 10 bits each, so that the sum is no overflow.) */
static int32_t dot(const int16_t *x, const int16_t *y)
{
    int32_t sum = 0;

    for (int l = 0; l < DEPTH; l++)
        sum += x[l] * y[l];
    return sum;
}

struct work {
    uint32_t sum[BLOCK][BLOCK]; /* by columns of C */
    int16_t a[BLOCK][DEPTH], b[BLOCK][DEPTH];
};

/* The sums of one block of C, of at most BLOCK x BLOCK. */
static void sum_block(const struct gb_problem *p, struct gb_rect r, struct work *w)
{
    const struct gb_offsets *o = &p->offsets;

    memset(w->sum, 0, sizeof w->sum);
    for (int64_t l = 0; l < p->k; l += DEPTH) {
        int64_t len = gb_min(DEPTH, p->k - l);

        pack(w->a, p->a, p->lda, gb_transposed(p->transa), false, o->a,
             (struct gb_rect){.i = r.i, .j = l, .m = r.m, .n = len});
        pack(w->b, p->b, p->ldb, !gb_transposed(p->transb), o->b_unsigned, o->b,
             (struct gb_rect){.i = r.j, .j = l, .m = r.n, .n = len});
        for (int64_t j = 0; j < r.n; j++)
            for (int64_t i = 0; i < r.m; i++)
                w->sum[j][i] += (uint32_t)dot(w->a[i], w->b[j]);
    }
}

/* C(i, j) from its sum. */
static void finish(const struct gb_problem *p, int64_t i, int64_t j, double alpha,
                   uint32_t sum)
{
    const struct gb_extra *x = p->extra;
    int32_t *c = (int32_t *)p->c + i + j * p->ldc;
    int64_t add = p->offsets.c;

    if (x && x->bias)
        add += ((const int32_t *)x->bias)[x->bias_cols ? j : i];
    *c = gb_integer_s32(alpha, (int32_t)sum, p->beta.re, p->beta.re != 0 ? *c : 0, add);
}

static int32_t element(const uint8_t *x, int64_t at, bool is_unsigned)
{
    return is_unsigned ? x[at] : (x[at] ^ 0x80) - 0x80;
}

/* Without workspace: slow, but a call never fails. */
static uint32_t sum_alone(const struct gb_problem *p, int64_t i, int64_t j)
{
    const struct gb_offsets *o = &p->offsets;
    const bool ta = gb_transposed(p->transa), tb = gb_transposed(p->transb);
    uint32_t sum = 0;

    for (int64_t l = 0; l < p->k; l++)
        sum += (uint32_t)((element(p->a, ta ? l + i * p->lda : i + l * p->lda, false) +
                           o->a) *
                          (element(p->b, tb ? j + l * p->ldb : l + j * p->ldb,
                                   o->b_unsigned) +
                           o->b));
    return sum;
}

void gb_cpu_integer_gemm(const struct gb_problem *p)
{
    const struct gb_rect whole = {.m = p->m, .n = p->n};
    const bool idle = p->k == 0 || p->alpha.re == 0;
    struct work *w = idle ? NULL : malloc(sizeof *w);
    uint64_t fp = gb_fp_enter();

    for (int64_t at = 0; at < gb_rect_pieces(whole, BLOCK, BLOCK); at++) {
        struct gb_rect r = gb_rect_piece(whole, BLOCK, BLOCK, at);

        if (w)
            sum_block(p, r, w);
        for (int64_t j = 0; j < r.n; j++)
            for (int64_t i = 0; i < r.m; i++)
                finish(p, r.i + i, r.j + j, idle ? 0 : p->alpha.re,
                       w      ? w->sum[j][i]
                       : idle ? 0
                              : sum_alone(p, r.i + i, r.j + j));
    }
    gb_fp_leave(fp);
    free(w);
}
