/* SPDX-License-Identifier: BSD-3-Clause */
/* The portable product of one type, included by cpu.c with T (float or double), COMPLEX
 * (0 or 1) and NAME(x). Blocks of C are summed over all of k before alpha and beta are
 * applied, so that each element is rounded as a plain loop over k would. */
#define WIDE (1 + COMPLEX) /* numbers per element */

/* dst[l][i] = element (i0 + i, l0 + l) of op(X); rows beyond are zero and their sums
 * unused. At most ROWS rows, in groups of GROUP side by side. */
static void NAME(pack)(T *dst, const T *x, int64_t ld, bool trans, bool conj,
                       int64_t i0, int64_t rows, int64_t l0, int64_t len)
{
    for (int64_t g = 0; g < rows; g += GROUP, dst += len * GROUP * WIDE)
        for (int64_t l = 0; l < len; l++)
            for (int64_t i = 0; i < GROUP; i++) {
                int64_t row = i0 + g + i, col = l0 + l;
                const T *s = x + (trans ? col + row * ld : row + col * ld) * WIDE;
                T *d = dst + (l * GROUP + i) * WIDE;
                bool there = g + i < rows;

                d[0] = there ? s[0] : 0;
#if COMPLEX
                d[1] = !there ? 0 : conj ? -s[1] : s[1];
#else
                (void)conj;
#endif
            }
}

/* acc += A B for one group of rows and one of columns; acc is GROUP x GROUP, by
 * columns. */
static void NAME(kernel)(T *acc, const T *a, const T *b, int64_t len)
{
    T sum[GROUP * GROUP * WIDE];

    memcpy(sum, acc, sizeof sum);
    for (int64_t l = 0; l < len; l++, a += GROUP * WIDE, b += GROUP * WIDE)
        for (int j = 0; j < GROUP; j++)
            for (int i = 0; i < GROUP; i++) {
#if COMPLEX
                sum[(i + j * GROUP) * 2] +=
                    a[2 * i] * b[2 * j] - a[2 * i + 1] * b[2 * j + 1];
                sum[(i + j * GROUP) * 2 + 1] +=
                    a[2 * i] * b[2 * j + 1] + a[2 * i + 1] * b[2 * j];
#else
                sum[i + j * GROUP] += a[i] * b[j];
#endif
            }
    memcpy(acc, sum, sizeof sum);
}

/* *c = alpha * sum + beta * *c; alpha or beta of 1 multiplies nothing, beta of 0 reads
 * nothing, sum of NULL stands for no product. */
static void NAME(element)(T *c, const T *sum, struct gb_scalar alpha,
                          struct gb_scalar beta)
{
    T out[WIDE] = {0};
    T br = (T)beta.re;
#if COMPLEX
    T ar = (T)alpha.re, ai = (T)alpha.im, bi = (T)beta.im;

    if (br == 1 && bi == 0) {
        out[0] = c[0];
        out[1] = c[1];
    } else if (br != 0 || bi != 0) {
        out[0] = br * c[0] - bi * c[1];
        out[1] = br * c[1] + bi * c[0];
    }
    if (sum && ar == 1 && ai == 0) {
        out[0] = sum[0] + out[0];
        out[1] = sum[1] + out[1];
    } else if (sum) {
        out[0] = (ar * sum[0] - ai * sum[1]) + out[0];
        out[1] = (ar * sum[1] + ai * sum[0]) + out[1];
    }
    c[1] = out[1];
#else
    if (br != 0)
        out[0] = br == 1 ? c[0] : br * c[0];
    if (sum)
        out[0] = (T)alpha.re * sum[0] + out[0];
#endif
    c[0] = out[0];
}

/* Without workspace: slow, but a call never fails. */
static void NAME(direct)(const struct gb_problem *p, struct gb_rect r)
{
    const bool ta = is_trans(p->transa), tb = is_trans(p->transb);

    for (int64_t j = r.j; j < r.j + r.n; j++)
        for (int64_t i = r.i; i < r.i + r.m; i++) {
            T acc[GROUP * GROUP * WIDE] = {0}, a[GROUP * WIDE], b[GROUP * WIDE];

            for (int64_t l = 0; l < p->k; l++) {
                NAME(pack)(a, p->a, p->lda, ta, is_conj(p->transa), i, 1, l, 1);
                NAME(pack)(b, p->b, p->ldb, !tb, is_conj(p->transb), j, 1, l, 1);
                NAME(kernel)(acc, a, b, 1);
            }
            NAME(element)((T *)p->c + (i + j * p->ldc) * WIDE, acc, p->alpha, p->beta);
        }
}

/* One block of C, of at most BLOCK x BLOCK. */
static void NAME(block)(const struct gb_problem *p, struct gb_rect r, T *work)
{
    T *acc = work, *a = acc + BLOCK * BLOCK * WIDE, *b = a + BLOCK * DEPTH * WIDE;
    const int64_t tile = GROUP * GROUP * WIDE, down = gb_ceil_div(r.m, GROUP);

    memset(acc, 0, sizeof(T) * BLOCK * BLOCK * WIDE);
    for (int64_t l = 0; l < p->k; l += DEPTH) {
        int64_t len = gb_min(DEPTH, p->k - l);

        NAME(pack)
        (a, p->a, p->lda, is_trans(p->transa), is_conj(p->transa), r.i, r.m, l, len);
        NAME(pack)
        (b, p->b, p->ldb, !is_trans(p->transb), is_conj(p->transb), r.j, r.n, l, len);
        for (int64_t j = 0; j < gb_ceil_div(r.n, GROUP); j++)
            for (int64_t i = 0; i < down; i++)
                NAME(kernel)
        (acc + (i + j * down) * tile, a + i * len * GROUP * WIDE,
         b + j * len * GROUP * WIDE, len);
    }
    for (int64_t j = 0; j < r.n; j++)
        for (int64_t i = 0; i < r.m; i++)
            NAME(element)
    ((T *)p->c + (r.i + i + (r.j + j) * p->ldc) * WIDE,
     acc + (i / GROUP + j / GROUP * down) * tile +
         (i % GROUP + j % GROUP * GROUP) * WIDE,
     p->alpha, p->beta);
}

static void NAME(portable)(const struct gb_problem *p)
{
    const struct gb_rect whole = {.m = p->m, .n = p->n};
    T *work;

    if (p->k == 0 || (p->alpha.re == 0 && p->alpha.im == 0)) {
        if (p->beta.re == 1 && p->beta.im == 0)
            return;
        for (int64_t j = 0; j < p->n; j++)
            for (int64_t i = 0; i < p->m; i++)
                NAME(element)
        ((T *)p->c + (i + j * p->ldc) * WIDE, NULL, p->alpha, p->beta);
        return;
    }
    work = malloc(sizeof(T) * WIDE * (BLOCK * BLOCK + 2 * BLOCK * DEPTH));
    if (!work) {
        NAME(direct)(p, whole);
        return;
    }
    for (int64_t i = 0; i < gb_rect_pieces(whole, BLOCK, BLOCK); i++)
        NAME(block)(p, gb_rect_piece(whole, BLOCK, BLOCK, i), work);
    free(work);
}

#undef WIDE
#undef T
#undef COMPLEX
#undef NAME
