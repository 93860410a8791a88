/* SPDX-License-Identifier: BSD-3-Clause */
/* From the arguments of one flavour to a problem, and from the answer of dispatch to
 * what the entry does next. Independent of type, flavour and integer width. */
#ifndef GB_ARGS_H
#define GB_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "gb.h"
#include "real.h"

struct gb_routine {
    enum gb_op op;
    const char *name;     /* "dgemm", for dispatch, knobs and traces */
    const char *f77_name; /* "DGEMM ", for xerbla_ */
    enum gb_type type, type_c, type_scalar;
};

enum gb_routine_id {
#define ROUTINE(op, name, f77_name, type, type_c, scalar) GB_ROUTINE_##name,
#include "routines.def"
#undef ROUTINE
    GB_ROUTINES
};
extern const struct gb_routine gb_routines[GB_ROUTINES];

/* The arguments of a Fortran gemm. Integers are 32 or 64 bits wide as the provider has
 * them. */
struct gb_f77_gemm {
    const char *transa, *transb;
    const void *m, *n, *k, *alpha, *a, *lda, *b, *ldb, *beta;
    void *c;
    const void *ldc;
};

/* Those of a CBLAS gemm; where the provider has 32 bits the upper halves are
 * undefined. */
struct gb_cblas_gemm {
    int layout, transa, transb;
    int64_t m, n, k;
    const void *alpha, *a;
    int64_t lda;
    const void *b;
    int64_t ldb;
    const void *beta;
    void *c;
    int64_t ldc;
};

/* Those of a gemm of integers, as oneMKL has it: C_offset is one number ('F'), or the row ('R') or
 * column ('C') that each of its rows or columns is. */
struct gb_f77_integer {
    struct gb_f77_gemm gemm;
    const char *offsetc;
    const int8_t *ao, *bo;
    const int32_t *co;
};
struct gb_cblas_integer {
    struct gb_cblas_gemm gemm;
    int offsetc;
    int8_t ao, bo;
    const int32_t *co;
};

/* What remains for the entry to do: call fn with the caller's own arguments unless it
 * is NULL, and then unlock if locked. */
struct gb_forward {
    void *fn;
    bool locked;
};

struct gb_forward gb_f77_gemm(struct gb_real *real, enum gb_routine_id id,
                              const struct gb_f77_gemm *args, const void *caller);
struct gb_forward gb_cblas_gemm(struct gb_real *real, enum gb_routine_id id,
                                const struct gb_cblas_gemm *args, const void *caller);
struct gb_forward gb_f77_integer(struct gb_real *real, enum gb_routine_id id,
                                 const struct gb_f77_integer *args, const void *caller);
struct gb_forward gb_cblas_integer(struct gb_real *real, enum gb_routine_id id,
                                   const struct gb_cblas_integer *args,
                                   const void *caller);

/* Pure. They fill *p from the arguments and answer 0, or the number of the first
 * illegal argument as the reference numbers it (p is then only for traces). */
int gb_f77_gemm_parse(const struct gb_routine *r, const struct gb_f77_gemm *args,
                      enum gb_int_width width, struct gb_problem *p);
int gb_cblas_gemm_parse(const struct gb_routine *r, const struct gb_cblas_gemm *args,
                        enum gb_int_width width, struct gb_problem *p);
/* p->extra may be `extra`. */
int gb_f77_integer_parse(const struct gb_routine *r, const struct gb_f77_integer *args,
                         enum gb_int_width width, struct gb_problem *p,
                         struct gb_extra *extra);
int gb_cblas_integer_parse(const struct gb_routine *r,
                           const struct gb_cblas_integer *args, enum gb_int_width width,
                           struct gb_problem *p, struct gb_extra *extra);

#endif
