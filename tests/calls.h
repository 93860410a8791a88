/* SPDX-License-Identifier: BSD-3-Clause */
/* Every exported gemm: one way to call them all, and a call with its operands. */
#ifndef CALLS_H
#define CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gb.h"
#include "operands.h"

/* An exported gemm. */
enum verify_interface { VERIFY_FORTRAN, VERIFY_CBLAS };
enum verify_scalars { VERIFY_F32, VERIFY_F64, VERIFY_PTR, VERIFY_U16 };

struct verify_flavour {
    const char *symbol, *routine;
    enum verify_interface interface;
    int bits; /* of its integers */
    enum gb_type type, type_c;
    enum verify_scalars scalars;
    void (*fn)(void);
};

extern const struct verify_flavour verify_flavours[];
extern const int verify_flavour_count;
const struct verify_flavour *
verify_flavour(const char *symbol); /* ends the test if unknown */

/* A call. row_major only for CBLAS; m, n, k are the caller's. */
struct verify_gemm {
    const struct verify_flavour *f;
    bool row_major;
    enum gb_trans transa, transb;
    int64_t m, n, k;
    struct gb_scalar alpha, beta;
    struct verify_matrix a, b, c;
};

/* Matrices for g (its f, row_major, transposes and sizes are set): ld is as small as is
 * legal plus `extra`. Frees what verify_gemm_drop() frees. */
void verify_gemm_make(struct verify_gemm *g, enum verify_fill ab, enum verify_fill c,
                      const int64_t extra[3], enum verify_place place,
                      struct verify_random *r);
void verify_gemm_drop(struct verify_gemm *g);
void verify_gemm_call(const struct verify_gemm *g); /* nothing else than the call */
/* The same with any pointers and leading dimensions, legal or not. */
void verify_call(const struct verify_flavour *f, int layout, const char *transa,
                 const char *transb, int64_t m, int64_t n, int64_t k,
                 struct gb_scalar alpha, const void *a, int64_t lda, const void *b,
                 int64_t ldb, struct gb_scalar beta, void *c, int64_t ldc);

/* "cblas_dgemm row N T m=3 ...". */
void verify_describe(const struct verify_gemm *g, char *buf, size_t len);

/* On a fault, say which call of this thread it was in. Called by verify_gemm_run(). */
void verify_watch(const struct verify_gemm *g);

#endif
