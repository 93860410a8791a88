/* SPDX-License-Identifier: BSD-3-Clause */
/* The gemm of 8-bit integers in one flavour, with oneMKL's signature: included by
 * flavour_integer.h with the macros of entry.h, but for SCALAR. alpha and beta are float, and
 * the integers that are added are as wide in every flavour. */

#ifdef F77
#define SYMBOL F77(ROUTINE)
#define REAL GB_CAT(gb_real_, SYMBOL)
#define SLOW GB_CAT(gb_slow_, SYMBOL)

void SLOW(const char *transa, const char *transb, const char *offsetc, const void *m,
          const void *n, const void *k, const float *alpha, const void *a,
          const void *lda, const int8_t *ao, const void *b, const void *ldb,
          const int8_t *bo, const float *beta, void *c, const void *ldc,
          const int32_t *co, size_t len_a, size_t len_b, size_t len_c);

struct gb_real REAL = {
    .fast = (void *)SLOW,
    .slow = (void *)SLOW,
    .symbol = GB_STR(SYMBOL),
    .sibling = GB_STR(F77(isamax)),
    .width = BITS == 64 ? GB_INT64 : GB_INT32,
    .plain = PLAIN,
#ifdef BARE
    .also = GB_STR(GB_CAT(ROUTINE, _)),
    .alias = &GB_CAT3(gb_real_, ROUTINE, _),
#endif
};

#ifdef BARE
#define ENTRY GB_CAT(gb_blas_, SYMBOL)
#define SLOT GB_CAT(gb_bare_, SYMBOL)
#define RESOLVER GB_CAT(gb_resolve_, SYMBOL)
void ENTRY(void);
void RESOLVER(void);
struct gb_bare SLOT = {
    .target = (void *)RESOLVER, .entry = (void *)ENTRY, .real = &REAL};
GB_ENTRY_BARE(SYMBOL, SLOT, ENTRY, RESOLVER, REAL, SLOW, GB_SIZE_ANY)
#undef ENTRY
#undef SLOT
#undef RESOLVER
#else
GB_ENTRY(SYMBOL, REAL, SLOW, GB_SIZE_ANY)
#endif

void SLOW(const char *transa, const char *transb, const char *offsetc, const void *m,
          const void *n, const void *k, const float *alpha, const void *a,
          const void *lda, const int8_t *ao, const void *b, const void *ldb,
          const int8_t *bo, const float *beta, void *c, const void *ldc,
          const int32_t *co, size_t len_a, size_t len_b, size_t len_c)
{
    const struct gb_f77_integer args = {.gemm = {.transa = transa,
                                                 .transb = transb,
                                                 .m = m,
                                                 .n = n,
                                                 .k = k,
                                                 .alpha = alpha,
                                                 .a = a,
                                                 .lda = lda,
                                                 .b = b,
                                                 .ldb = ldb,
                                                 .beta = beta,
                                                 .c = c,
                                                 .ldc = ldc},
                                        .offsetc = offsetc,
                                        .ao = ao,
                                        .bo = bo,
                                        .co = co};
    struct gb_forward next = gb_f77_integer(&REAL, GB_CAT(GB_ROUTINE_, ROUTINE), &args,
                                            __builtin_return_address(0));
    __typeof__(SLOW) *real = next.fn;

    if (!real)
        return;
    real(transa, transb, offsetc, m, n, k, alpha, a, lda, ao, b, ldb, bo, beta, c, ldc,
         co, len_a, len_b, len_c);
    if (next.locked)
        gb_real_unlock();
}
#undef SYMBOL
#undef REAL
#undef SLOW
#endif

#ifdef CBLAS
#define SYMBOL CBLAS(ROUTINE)
#define REAL GB_CAT(gb_real_, SYMBOL)
#define SLOW GB_CAT(gb_slow_, SYMBOL)

void SLOW(int layout, int transa, int transb, int offsetc, int64_t m, int64_t n,
          int64_t k, float alpha, const void *a, int64_t lda, int8_t ao, const void *b,
          int64_t ldb, int8_t bo, float beta, void *c, int64_t ldc, const int32_t *co);

struct gb_real REAL = {
    .fast = (void *)SLOW,
    .slow = (void *)SLOW,
    .symbol = GB_STR(SYMBOL),
    .sibling = GB_STR(CBLAS(isamax)),
    .width = BITS == 64 ? GB_INT64 : GB_INT32,
    .plain = PLAIN,
};

GB_ENTRY(SYMBOL, REAL, SLOW, GB_SIZE_ANY)

void SLOW(int layout, int transa, int transb, int offsetc, int64_t m, int64_t n,
          int64_t k, float alpha, const void *a, int64_t lda, int8_t ao, const void *b,
          int64_t ldb, int8_t bo, float beta, void *c, int64_t ldc, const int32_t *co)
{
    const struct gb_cblas_integer args = {.gemm = {.layout = layout,
                                                   .transa = transa,
                                                   .transb = transb,
                                                   .m = m,
                                                   .n = n,
                                                   .k = k,
                                                   .alpha = &alpha,
                                                   .a = a,
                                                   .lda = lda,
                                                   .b = b,
                                                   .ldb = ldb,
                                                   .beta = &beta,
                                                   .c = c,
                                                   .ldc = ldc},
                                          .offsetc = offsetc,
                                          .ao = ao,
                                          .bo = bo,
                                          .co = co};
    struct gb_forward next = gb_cblas_integer(&REAL, GB_CAT(GB_ROUTINE_, ROUTINE),
                                              &args, __builtin_return_address(0));
    __typeof__(SLOW) *real = next.fn;

    if (!real)
        return;
    real(layout, transa, transb, offsetc, m, n, k, alpha, a, lda, ao, b, ldb, bo, beta,
         c, ldc, co);
    if (next.locked)
        gb_real_unlock();
}
#undef SYMBOL
#undef REAL
#undef SLOW
#endif

#undef ROUTINE
