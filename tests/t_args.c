/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading arguments: numbers of illegal ones in the reference's order (B13), letters
 * (B20), row-major, integer widths, scalars. */
#include "args.h"
#include "tap.h"

static const double one64 = 1;
static const struct gb_routine *const dgemm = &gb_routines[GB_ROUTINE_dgemm];

struct sizes {
    int64_t m, n, k, lda, ldb, ldc;
};

static int f77(const char *ta, const char *tb, struct sizes s, struct gb_problem *p)
{
    const struct gb_f77_gemm args = {.transa = ta,
                                     .transb = tb,
                                     .m = &s.m,
                                     .n = &s.n,
                                     .k = &s.k,
                                     .alpha = &one64,
                                     .lda = &s.lda,
                                     .ldb = &s.ldb,
                                     .beta = &one64,
                                     .ldc = &s.ldc};

    return gb_f77_gemm_parse(dgemm, &args, GB_INT64, p);
}

static int cblas(int layout, int ta, int tb, struct sizes s, struct gb_problem *p)
{
    static const char a, b;
    static char c;
    const struct gb_cblas_gemm args = {.layout = layout,
                                       .transa = ta,
                                       .transb = tb,
                                       .m = s.m,
                                       .n = s.n,
                                       .k = s.k,
                                       .alpha = &one64,
                                       .a = &a,
                                       .lda = s.lda,
                                       .b = &b,
                                       .ldb = s.ldb,
                                       .beta = &one64,
                                       .c = &c,
                                       .ldc = s.ldc};

    return gb_cblas_gemm_parse(dgemm, &args, GB_INT64, p);
}

static void fortran_numbers(void)
{
    static const struct {
        const char *ta, *tb;
        struct sizes s;
        int info;
    } t[] = {
        {"N", "N", {2, 2, 2, 2, 2, 2}, 0},   {"X", "N", {-1, 2, 2, 2, 2, 2}, 1},
        {"N", "/", {2, 2, 2, 2, 2, 2}, 2},   {"/", "/", {2, 2, 2, 2, 2, 2}, 1},
        {"N", "N", {-1, -1, 2, 2, 2, 2}, 3}, {"N", "N", {2, -1, -1, 2, 2, 2}, 4},
        {"N", "N", {2, 2, -1, 0, 0, 0}, 5},  {"N", "N", {2, 0, 0, 1, 1, 1}, 8},
        {"T", "N", {0, 0, 2, 1, 1, 1}, 8},   {"C", "N", {0, 0, 2, 1, 1, 1}, 8},
        {"R", "N", {2, 0, 0, 1, 1, 1}, 8},   {"N", "N", {0, 0, 2, 1, 1, 1}, 10},
        {"N", "T", {0, 2, 0, 1, 1, 1}, 10},  {"N", "R", {0, 0, 2, 1, 1, 1}, 10},
        {"N", "N", {2, 0, 0, 2, 1, 1}, 13},  {"N", "N", {0, 0, 0, 0, 1, 1}, 8},
        {"N", "N", {0, 0, 0, 1, 0, 1}, 10},  {"N", "N", {0, 0, 0, 1, 1, 0}, 13},
        {"N", "N", {0, 0, 0, 1, 1, 1}, 0},   {"T", "T", {3, 4, 5, 5, 4, 3}, 0},
        {"T", "T", {3, 4, 5, 4, 4, 3}, 8},   {"T", "T", {3, 4, 5, 5, 3, 3}, 10},
    };
    struct gb_problem p;

    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++)
        is_int(t[i].info, f77(t[i].ta, t[i].tb, t[i].s, &p), "B13 fortran row %zu", i);
}

static void cblas_numbers(void)
{
    static const struct {
        int64_t layout, ta, tb;
        struct sizes s;
        int64_t info;
    } t[] = {
        {102, 111, 111, {2, 3, 4, 2, 4, 2}, 0},
        {0, 0, 0, {-1, -1, -1, 0, 0, 0}, 1},
        {103, 111, 111, {2, 2, 2, 2, 2, 2}, 1},
        {102, 0, 0, {2, 2, 2, 2, 2, 2}, 2},
        {101, 0, 0, {2, 2, 2, 2, 2, 2}, 2},
        {102, 111, 0, {-1, 2, 2, 2, 2, 2}, 3},
        {101, 111, 115, {2, 2, 2, 2, 2, 2}, 3},
        {102, 110, 111, {2, 2, 2, 2, 2, 2}, 2},
        {102, 111, 111, {-1, -1, 2, 2, 2, 2}, 4},
        {102, 111, 111, {2, -1, -1, 2, 2, 2}, 5},
        {102, 111, 111, {2, 2, -1, 0, 0, 0}, 6},
        {102, 111, 111, {2, 2, 2, 1, 1, 1}, 9},
        {102, 111, 111, {2, 2, 2, 2, 1, 1}, 11},
        {102, 111, 111, {2, 2, 2, 2, 2, 1}, 14},
        {101, 111, 111, {-1, -1, 2, 2, 2, 2}, 5},
        {101, 111, 111, {-1, 2, -1, 2, 2, 2}, 4},
        {101, 111, 111, {2, 2, -1, 0, 0, 0}, 6},
        {101, 111, 111, {0, 0, 2, 1, 2, 2}, 9},
        {101, 111, 111, {0, 2, 0, 2, 1, 2}, 11},
        {101, 111, 111, {2, 2, 2, 1, 1, 1}, 11},
        {101, 111, 111, {0, 2, 0, 2, 2, 1}, 14},
        {101, 111, 111, {2, 3, 4, 4, 3, 3}, 0},
        {101, 112, 112, {2, 3, 4, 2, 4, 3}, 0},
        {101, 112, 112, {2, 3, 4, 1, 4, 3}, 9},
        {101, 113, 114, {2, 3, 4, 2, 2, 3}, 11},
    };
    struct gb_problem p;

    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++)
        is_int(t[i].info,
               cblas((int)t[i].layout, (int)t[i].ta, (int)t[i].tb, t[i].s, &p),
               "B13 cblas row %zu", i);
}

static void letters(void)
{
    static const struct {
        const char *text;
        enum gb_trans trans;
    } t[] = {{"N", GB_N},    {"n", GB_N},         {"no", GB_N},
             {"T", GB_T},    {"transpose", GB_T}, {"c", GB_C},
             {"Conj", GB_C}, {"R", GB_CONJ},      {"r", GB_CONJ}};
    struct gb_problem p;

    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        is_int(0, f77(t[i].text, "n", (struct sizes){2, 2, 2, 2, 2, 2}, &p),
               "B20 '%s' is legal", t[i].text);
        is_int(t[i].trans, p.transa, "B20 '%s' is understood", t[i].text);
        f77("N", t[i].text, (struct sizes){2, 2, 2, 2, 2, 2}, &p);
        is_int(t[i].trans, p.transb, "B20 '%s' for B", t[i].text);
    }
}

static void layouts(void)
{
    struct gb_problem col, row;

    cblas(102, 112, 113, (struct sizes){2, 3, 4, 10, 11, 12}, &col);
    ok(col.m == 2 && col.n == 3 && col.k == 4 && col.lda == 10 && col.ldb == 11 &&
           col.ldc == 12 && col.transa == GB_T && col.transb == GB_C,
       "column-major as it is");
    cblas(101, 112, 113, (struct sizes){2, 3, 4, 10, 11, 12}, &row);
    ok(row.m == 3 && row.n == 2 && row.k == 4 && row.lda == 11 && row.ldb == 10 &&
           row.ldc == 12 && row.transa == GB_C && row.transb == GB_T,
       "row-major with A and B in each other's place");
    ok(row.a == col.b && row.b == col.a && row.c == col.c, "and their addresses");
}

static void widths(void)
{
    const int64_t garbage = 0x7ffffff100000000, m = garbage | 2;
    const struct gb_f77_gemm f = {.transa = "N",
                                  .transb = "N",
                                  .m = &m,
                                  .n = &m,
                                  .k = &m,
                                  .alpha = &one64,
                                  .lda = &m,
                                  .ldb = &m,
                                  .beta = &one64,
                                  .ldc = &m};
    const struct gb_cblas_gemm c = {.layout = 102,
                                    .transa = 111,
                                    .transb = 111,
                                    .m = m,
                                    .n = m,
                                    .k = m,
                                    .alpha = &one64,
                                    .lda = m,
                                    .ldb = m,
                                    .beta = &one64,
                                    .ldc = m};
    struct gb_problem p;

    is_int(0, gb_f77_gemm_parse(dgemm, &f, GB_INT32, &p), "fortran, 32 bits");
    ok(p.m == 2 && p.n == 2 && p.k == 2 && p.lda == 2 && p.ldb == 2 && p.ldc == 2,
       "fortran reads 32 bits");
    gb_f77_gemm_parse(dgemm, &f, GB_INT64, &p);
    ok(p.m == m && p.n == m && p.k == m && p.lda == m && p.ldb == m && p.ldc == m,
       "fortran reads 64 bits");
    is_int(0, gb_cblas_gemm_parse(dgemm, &c, GB_INT32, &p), "cblas, 32 bits");
    ok(p.m == 2 && p.n == 2 && p.k == 2 && p.lda == 2 && p.ldb == 2 && p.ldc == 2,
       "cblas ignores the upper halves");
    gb_cblas_gemm_parse(dgemm, &c, GB_INT64, &p);
    ok(p.m == m && p.n == m && p.k == m && p.lda == m && p.ldb == m && p.ldc == m,
       "cblas takes 64 bits");
}

static struct gb_scalar alpha_of(enum gb_routine_id id, const void *alpha)
{
    const int64_t n = 1;
    const struct gb_f77_gemm f = {.transa = "N",
                                  .transb = "N",
                                  .m = &n,
                                  .n = &n,
                                  .k = &n,
                                  .alpha = alpha,
                                  .lda = &n,
                                  .ldb = &n,
                                  .beta = alpha,
                                  .ldc = &n};
    struct gb_problem p;

    gb_f77_gemm_parse(&gb_routines[id], &f, GB_INT64, &p);
    ok(p.alpha.re == p.beta.re && p.alpha.im == p.beta.im, "beta is read like alpha");
    return p.alpha;
}

static void scalars(void)
{
    const float s = 1.1f, c[2] = {1.25f, -2};
    const double d = 1.1, z[2] = {0.1, -0.3};
    const uint16_t half = 0xc100, brain = 0xc020; /* -2.5 both */
    struct gb_scalar x;

    x = alpha_of(GB_ROUTINE_sgemm, &s);
    ok(x.re == 1.1f && x.im == 0, "f32");
    x = alpha_of(GB_ROUTINE_dgemm, &d);
    ok(x.re == 1.1 && x.im == 0, "f64");
    x = alpha_of(GB_ROUTINE_cgemm, c);
    ok(x.re == 1.25 && x.im == -2, "c32");
    x = alpha_of(GB_ROUTINE_zgemm, z);
    ok(x.re == 0.1 && x.im == -0.3, "c64");
    x = alpha_of(GB_ROUTINE_hgemm, &half);
    ok(x.re == -2.5 && x.im == 0, "f16");
    x = alpha_of(GB_ROUTINE_bgemm, &brain);
    ok(x.re == -2.5 && x.im == 0, "bf16");
    x = alpha_of(GB_ROUTINE_shgemm, &s);
    ok(x.re == 1.1f, "f32 of a mixed routine");
    x = alpha_of(GB_ROUTINE_sbgemm, &s);
    ok(x.re == 1.1f, "f32 of the other mixed routine");
}

int main(void)
{
    plan_lazy();
    fortran_numbers();
    cblas_numbers();
    letters();
    layouts();
    widths();
    scalars();
    return 0;
}
