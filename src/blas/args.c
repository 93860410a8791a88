/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments: read, checked in the reference's order, normalised to column-major; and
 * reported where no BLAS is there to do so. */
#include "args.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "dispatch.h"
#include "half.h"
#include "log.h"

const struct gb_routine gb_routines[GB_ROUTINES] = {
#define ROUTINE(operation, id, f77, ab, c, ty)                                         \
    [GB_ROUTINE_##id] = {.op = GB_##operation,                                         \
                         .name = #id,                                                  \
                         .f77_name = f77,                                              \
                         .type = GB_##ab,                                              \
                         .type_c = GB_##c,                                             \
                         .type_scalar = GB_##ty},
#include "routines.def"
#undef ROUTINE
};

enum { ROW_MAJOR = 101, COL_MAJOR = 102 };

static int64_t integer(const void *p, enum gb_int_width width)
{
    int32_t narrow;
    int64_t wide;

    if (width == GB_INT64) {
        memcpy(&wide, p, sizeof wide);
        return wide;
    }
    memcpy(&narrow, p, sizeof narrow);
    return narrow;
}

static int64_t by_value(int64_t i, enum gb_int_width width)
{
    return width == GB_INT64 ? i : (int32_t)i;
}

static struct gb_scalar scalar(const void *p, enum gb_type type)
{
    struct gb_scalar s = {0};
    uint16_t h;
    float f[2] = {0};

    switch (type) {
    case GB_F16:
        memcpy(&h, p, sizeof h);
        s.re = gb_f16_to_f32(h);
        break;
    case GB_BF16:
        memcpy(&h, p, sizeof h);
        s.re = gb_bf16_to_f32(h);
        break;
    case GB_F64:
        memcpy(&s.re, p, sizeof s.re);
        break;
    case GB_C64:
        memcpy(&s, p, sizeof s);
        break;
    default:
        memcpy(f, p, gb_type_size(type));
        s.re = f[0];
        s.im = f[1];
    }
    return s;
}

/* -1 when illegal */
static int trans_of_letter(char c)
{
    switch (c) {
    case 'N':
    case 'n':
        return GB_N;
    case 'T':
    case 't':
        return GB_T;
    case 'C':
    case 'c':
        return GB_C;
    case 'R':
    case 'r':
        return GB_CONJ;
    default:
        return -1;
    }
}

static int trans_of_enum(int t)
{
    return t < 111 || t > 114 ? -1 : GB_N + (t - 111);
}

static bool is_plain(enum gb_trans t)
{
    return t == GB_N || t == GB_CONJ;
}

/* Sizes and leading dimensions, by the Fortran routine's numbers. */
static int check_gemm(const struct gb_problem *p)
{
    int64_t rows_a = is_plain(p->transa) ? p->m : p->k;
    int64_t rows_b = is_plain(p->transb) ? p->k : p->n;

    if (p->m < 0)
        return 3;
    if (p->n < 0)
        return 4;
    if (p->k < 0)
        return 5;
    if (p->lda < (rows_a > 1 ? rows_a : 1))
        return 8;
    if (p->ldb < (rows_b > 1 ? rows_b : 1))
        return 10;
    if (p->ldc < (p->m > 1 ? p->m : 1))
        return 13;
    return 0;
}

int gb_f77_gemm_parse(const struct gb_routine *r, const struct gb_f77_gemm *args,
                      enum gb_int_width width, struct gb_problem *p)
{
    int transa = trans_of_letter(*args->transa),
        transb = trans_of_letter(*args->transb);

    *p = (struct gb_problem){
        .op = r->op,
        .type = r->type,
        .type_c = r->type_c,
        .transa = transa < 0 ? GB_N : (enum gb_trans)transa,
        .transb = transb < 0 ? GB_N : (enum gb_trans)transb,
        .m = integer(args->m, width),
        .n = integer(args->n, width),
        .k = integer(args->k, width),
        .a = args->a,
        .b = args->b,
        .c = args->c,
        .lda = integer(args->lda, width),
        .ldb = integer(args->ldb, width),
        .ldc = integer(args->ldc, width),
    };
    int info = transa < 0 ? 1 : transb < 0 ? 2 : check_gemm(p);

    if (info == 0) {
        p->alpha = scalar(args->alpha, r->type_scalar);
        p->beta = scalar(args->beta, r->type_scalar);
    }
    return info;
}

int gb_cblas_gemm_parse(const struct gb_routine *r, const struct gb_cblas_gemm *args,
                        enum gb_int_width width, struct gb_problem *p)
{
    /* Where the Fortran argument is in the C list; of a row-major call, whose operands
     * change places: so N is looked at before M there, and ldb before lda. */
    static const uint8_t column[14] = {
        [3] = 4, [4] = 5, [5] = 6, [8] = 9, [10] = 11, [13] = 14};
    static const uint8_t row[14] = {
        [3] = 5, [4] = 4, [5] = 6, [8] = 11, [10] = 9, [13] = 14};
    int transa = trans_of_enum(args->transa), transb = trans_of_enum(args->transb);
    enum gb_trans ta = transa < 0 ? GB_N : (enum gb_trans)transa;
    enum gb_trans tb = transb < 0 ? GB_N : (enum gb_trans)transb;
    int64_t m = by_value(args->m, width), n = by_value(args->n, width);
    int64_t lda = by_value(args->lda, width), ldb = by_value(args->ldb, width);
    bool swap = args->layout == ROW_MAJOR;
    int info;

    /* Row-major C is column-major C^T = op(B)^T op(A)^T, and so are A and B. */
    *p = (struct gb_problem){
        .op = r->op,
        .type = r->type,
        .type_c = r->type_c,
        .transa = swap ? tb : ta,
        .transb = swap ? ta : tb,
        .m = swap ? n : m,
        .n = swap ? m : n,
        .k = by_value(args->k, width),
        .a = swap ? args->b : args->a,
        .b = swap ? args->a : args->b,
        .c = args->c,
        .lda = swap ? ldb : lda,
        .ldb = swap ? lda : ldb,
        .ldc = by_value(args->ldc, width),
    };
    if (!swap && args->layout != COL_MAJOR)
        return 1;
    if (transa < 0)
        return 2;
    if (transb < 0)
        return 3;
    info = check_gemm(p);
    if (info)
        return swap ? row[info] : column[info];
    p->alpha = scalar(args->alpha, r->type_scalar);
    p->beta = scalar(args->beta, r->type_scalar);
    return 0;
}

/* ---- integers ---- */

/* Forms of C_offset; 0 when illegal. */
enum offset { OFFSET_ROW = 171, OFFSET_COLUMN = 172, OFFSET_FIXED = 173 };

static int offset_of_letter(char c)
{
    switch (c) {
    case 'R':
    case 'r':
        return OFFSET_ROW;
    case 'C':
    case 'c':
        return OFFSET_COLUMN;
    case 'F':
    case 'f':
        return OFFSET_FIXED;
    default:
        return 0;
    }
}

/* Of the problem, in which operands may have changed places: then they, and the rows and columns
 * of C, are each other's. The one on the right has no sign: that is A of a row-major call. */
static void add_offsets(struct gb_problem *p, bool swap, int form, int8_t ao, int8_t bo,
                        const int32_t *co, struct gb_extra *extra)
{
    p->offsets = (struct gb_offsets){
        .a = swap ? bo : ao, .b = swap ? ao : bo, .b_unsigned = true};
    if (p->m == 0 || p->n == 0)
        return;
    if (form == OFFSET_FIXED) {
        memcpy(&p->offsets.c, co, sizeof *co);
        return;
    }
    *extra = (struct gb_extra){.bias = co, .bias_cols = (form == OFFSET_ROW) != swap};
    p->extra = extra;
}

int gb_f77_integer_parse(const struct gb_routine *r, const struct gb_f77_integer *args,
                         enum gb_int_width width, struct gb_problem *p,
                         struct gb_extra *extra)
{
    /* from gemm's numbers to those of a longer list */
    static const uint8_t number[14] = {
        [1] = 1, [2] = 2, [3] = 4, [4] = 5, [5] = 6, [8] = 9, [10] = 12, [13] = 16};
    int info = gb_f77_gemm_parse(r, &args->gemm, width, p);
    int form = offset_of_letter(*args->offsetc);

    if (form == 0 && (info == 0 || info > 2))
        return 3;
    if (info == 0)
        add_offsets(p, false, form, *args->ao, *args->bo, args->co, extra);
    return number[info];
}

int gb_cblas_integer_parse(const struct gb_routine *r,
                           const struct gb_cblas_integer *args, enum gb_int_width width,
                           struct gb_problem *p, struct gb_extra *extra)
{
    static const uint8_t number[15] = {[1] = 1, [2] = 2,  [3] = 3,   [4] = 5,  [5] = 6,
                                       [6] = 7, [9] = 10, [11] = 13, [14] = 17};
    int info = gb_cblas_gemm_parse(r, &args->gemm, width, p);
    int form = args->offsetc;

    if ((form < OFFSET_ROW || form > OFFSET_FIXED) && (info == 0 || info > 3))
        return 4;
    if (info == 0)
        add_offsets(p, args->gemm.layout == ROW_MAJOR, form, args->ao, args->bo,
                    args->co, extra);
    return number[info];
}

/* One line when nobody handles it, whatever GEMMBLAS_LOG says: the BLAS would print
 * too. */
static void complain(const char *name, int info)
{
    char line[128];
    int len = snprintf(line, sizeof line,
                       " ** On entry to %s parameter number %2d had an illegal value\n",
                       name, info);

    gb_log_emit(STDERR_FILENO, line, (unsigned long)len);
}

static void report_f77(const struct gb_routine *r, int info, enum gb_int_width width)
{
    /* Read by handlers of either width; the letters end in NUL for those written in
     * C. */
    int64_t wide = info;
    int32_t narrow = info;
    void *handler = gb_real_xerbla();

    if (!handler)
        complain(r->f77_name, info);
    else
        ((void (*)(const char *, const void *, size_t))handler)(
            r->f77_name,
            width == GB_INT64 ? (const void *)&wide : (const void *)&narrow,
            strlen(r->f77_name));
}

static void report_cblas(const struct gb_routine *r, int info,
                         const struct gb_cblas_gemm *args)
{
    char name[32];
    void *found = gb_real_cblas_xerbla();
    void (*handler)(int64_t, const char *, const char *, ...);

    handler = (void (*)(int64_t, const char *, const char *, ...))found;
    snprintf(name, sizeof name, "cblas_%s", r->name);
    if (!handler)
        complain(name, info);
    else if (info == 1)
        handler(info, name, "Illegal layout setting, %d\n", args->layout);
    else if (info == 2)
        handler(info, name, "Illegal TransA setting, %d\n", args->transa);
    else if (info == 3)
        handler(info, name, "Illegal TransB setting, %d\n", args->transb);
    else
        handler(info, name, "%s", "");
}

/* The fourth form of transpose is as legal as the BLAS behind the name has it, whatever
 * the route; ours takes it. */
static bool is_legal(const struct gb_problem *p, struct gb_provider provider)
{
    return !provider.fn || provider.conj ||
           (p->transa != GB_CONJ && p->transb != GB_CONJ);
}

/* What all flavours have in common once the arguments are read; info: the illegal one
 * or 0. */
static struct gb_forward decide(const struct gb_problem *p, const struct gb_routine *r,
                                const struct gb_real *real, struct gb_provider provider,
                                const void *caller, int info)
{
    const struct gb_call call = {.symbol = real->symbol, .caller = caller};
    bool legal = !info && is_legal(p, provider);

    if (gb_dispatch(p, r->name, &call, legal ? GB_OK : GB_WHY_BADARG) == GB_OK)
        return (struct gb_forward){0};
    if (provider.fn)
        /* Bad arguments go unlocked: their handler may never return. */
        return (struct gb_forward){provider.fn, legal && gb_real_lock()};
    if (legal)
        gb_cpu_real_gemm(p);
    return (struct gb_forward){0};
}

struct gb_forward gb_f77_gemm(struct gb_real *real, enum gb_routine_id id,
                              const struct gb_f77_gemm *args, const void *caller)
{
    const struct gb_routine *r = &gb_routines[id];
    struct gb_provider provider = gb_real_find(real, caller);
    struct gb_problem p;
    int info = gb_f77_gemm_parse(r, args, provider.width, &p);
    struct gb_forward next = decide(&p, r, real, provider, caller, info);

    if (info && !provider.fn)
        report_f77(r, info, provider.width);
    return next;
}

struct gb_forward gb_cblas_gemm(struct gb_real *real, enum gb_routine_id id,
                                const struct gb_cblas_gemm *args, const void *caller)
{
    const struct gb_routine *r = &gb_routines[id];
    struct gb_provider provider = gb_real_find(real, caller);
    struct gb_problem p;
    int info = gb_cblas_gemm_parse(r, args, provider.width, &p);
    struct gb_forward next = decide(&p, r, real, provider, caller, info);

    if (info && !provider.fn)
        report_cblas(r, info, args);
    return next;
}

struct gb_forward gb_f77_integer(struct gb_real *real, enum gb_routine_id id,
                                 const struct gb_f77_integer *args, const void *caller)
{
    const struct gb_routine *r = &gb_routines[id];
    struct gb_provider provider = gb_real_find(real, caller);
    struct gb_extra extra;
    struct gb_problem p;
    int info = gb_f77_integer_parse(r, args, provider.width, &p, &extra);
    struct gb_forward next = decide(&p, r, real, provider, caller, info);

    if (info && !provider.fn)
        report_f77(r, info, provider.width);
    return next;
}

struct gb_forward gb_cblas_integer(struct gb_real *real, enum gb_routine_id id,
                                   const struct gb_cblas_integer *args,
                                   const void *caller)
{
    const struct gb_routine *r = &gb_routines[id];
    struct gb_provider provider = gb_real_find(real, caller);
    struct gb_extra extra;
    struct gb_problem p;
    int info = gb_cblas_integer_parse(r, args, provider.width, &p, &extra);
    struct gb_forward next = decide(&p, r, real, provider, caller, info);

    if (info && !provider.fn)
        report_cblas(r, info, &args->gemm);
    return next;
}
