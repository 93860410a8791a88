/* SPDX-License-Identifier: BSD-3-Clause */
/* The gemm of one type in one flavour: included by flavour.h with
 *   ROUTINE    dgemm
 *   SCALAR     how CBLAS passes alpha and beta: double, float, uint16_t or
 * GB_BY_ADDRESS F77, CBLAS make the exported names of a base name; either may be absent
 *   BARE       defined where the Fortran name is the bare base name
 *   BITS       32 or 64: what the entry reads; PLAIN: 1 where the provider decides
 * The slow paths are reached by a jump, so that their return address is the program's.
 * Hidden lengths of character arguments are passed on unseen; a caller may have given
 * none. */

#ifdef F77
#define SYMBOL F77(ROUTINE)
#define REAL GB_CAT(gb_real_, SYMBOL)
#define SLOW GB_CAT(gb_slow_, SYMBOL)

void SLOW(const char *transa, const char *transb, const void *m, const void *n,
          const void *k, const void *alpha, const void *a, const void *lda,
          const void *b, const void *ldb, const void *beta, void *c, const void *ldc,
          size_t len_a, size_t len_b);

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
GB_ENTRY_BARE(SYMBOL, SLOT, ENTRY, RESOLVER, REAL, SLOW, GB_SIZE_F77_32)
#undef ENTRY
#undef SLOT
#undef RESOLVER
#else
GB_ENTRY(SYMBOL, REAL, SLOW, GB_CAT(GB_SIZE_F77_, BITS))
#endif

void SLOW(const char *transa, const char *transb, const void *m, const void *n,
          const void *k, const void *alpha, const void *a, const void *lda,
          const void *b, const void *ldb, const void *beta, void *c, const void *ldc,
          size_t len_a, size_t len_b)
{
    const struct gb_f77_gemm args = {.transa = transa,
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
                                     .ldc = ldc};
    struct gb_forward next = gb_f77_gemm(&REAL, GB_CAT(GB_ROUTINE_, ROUTINE), &args,
                                         __builtin_return_address(0));
    __typeof__(SLOW) *real = next.fn;

    if (!real)
        return;
    real(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, len_a, len_b);
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

void SLOW(int layout, int transa, int transb, int64_t m, int64_t n, int64_t k,
          SCALAR alpha, const void *a, int64_t lda, const void *b, int64_t ldb,
          SCALAR beta, void *c, int64_t ldc);

struct gb_real REAL = {
    .fast = (void *)SLOW,
    .slow = (void *)SLOW,
    .symbol = GB_STR(SYMBOL),
    .sibling = GB_STR(CBLAS(isamax)),
    .width = BITS == 64 ? GB_INT64 : GB_INT32,
    .plain = PLAIN,
};

GB_ENTRY(SYMBOL, REAL, SLOW, GB_CAT(GB_SIZE_CBLAS_, BITS))

void SLOW(int layout, int transa, int transb, int64_t m, int64_t n, int64_t k,
          SCALAR alpha, const void *a, int64_t lda, const void *b, int64_t ldb,
          SCALAR beta, void *c, int64_t ldc)
{
    const struct gb_cblas_gemm args = {.layout = layout,
                                       .transa = transa,
                                       .transb = transb,
                                       .m = m,
                                       .n = n,
                                       .k = k,
                                       .alpha = GB_SCALAR_AT(alpha),
                                       .a = a,
                                       .lda = lda,
                                       .b = b,
                                       .ldb = ldb,
                                       .beta = GB_SCALAR_AT(beta),
                                       .c = c,
                                       .ldc = ldc};
    struct gb_forward next = gb_cblas_gemm(&REAL, GB_CAT(GB_ROUTINE_, ROUTINE), &args,
                                           __builtin_return_address(0));
    __typeof__(SLOW) *real = next.fn;

    if (!real)
        return;
    real(layout, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    if (next.locked)
        gb_real_unlock();
}
#undef SYMBOL
#undef REAL
#undef SLOW
#endif

#undef ROUTINE
#undef SCALAR
