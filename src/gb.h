/* SPDX-License-Identifier: BSD-3-Clause */
/* The vocabulary of gemmblas: what a level-3 call is, whatever its flavour. Every layer
 * speaks in these terms; nothing here knows a device, a symbol or a knob. */
#ifndef GB_GB_H
#define GB_GB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum gb_type {
    GB_F16,
    GB_BF16,
    GB_F32,
    GB_F64,
    GB_C32, /* complex of two f32 */
    GB_C64, /* complex of two f64 */
    GB_I8,
    GB_I32,
    GB_TYPES
};

/* GB_CONJ is OpenBLAS's fourth form: conjugate without transpose. For real types it means
 * GB_N, and GB_C means GB_T. */
enum gb_trans { GB_N, GB_T, GB_C, GB_CONJ };
enum gb_uplo { GB_FULL, GB_UPPER, GB_LOWER };
enum gb_op { GB_GEMM, GB_OPS };

/* Why a call went where it went. GB_OK (0): the device has computed it and C is final; after
 * GB_WHY_LOST and GB_WHY_PART too, once dispatch has had the CPU finish it. Anything else: C is
 * as the caller left it and the caller must be forwarded. */
enum gb_why {
    GB_OK,
#define WHY(id, name, text) GB_WHY_##id,
#include "why.def"
#undef WHY
    GB_WHYS
};

/* Has the device had a part in it, so that C is final when dispatch returns? */
static inline bool gb_why_final(enum gb_why why)
{
    return why == GB_OK || why == GB_WHY_LOST || why == GB_WHY_PART;
}

/* What an internal operation answers. The function that decides that something is an error
 * logs it; callers pass it on. */
enum gb_status {
    GB_SUCCESS,
    GB_E_ABSENT,      /* no driver, no device, no such symbol */
    GB_E_NOMEM,       /* device or pinned memory refused; the device is still good */
    GB_E_UNSUPPORTED, /* no kernel or image for this device */
    GB_E_DEVICE,      /* the device failed; what it held is lost */
    GB_E_ARGUMENT,    /* a stream of the program's is none, or may not be used so */
};

/* A scalar in the widest type: an f16, f32 or f64 passes through unchanged; im is 0 for the
 * real types. */
struct gb_scalar {
    double re, im;
};

/* What is fused to a product (gemm_args.h), by vectors where its matrices are; NULL: none. Scales
 * are real, of the accumulator's precision. */
struct gb_extra {
    const void *bias, *row_scale, *col_scale;
    bool bias_cols; /* one entry for each column of C; else each row */
    bool bias_wide; /* of the accumulator's type; else of C's */
    int activation; /* enum gb_activation */
};

/* The class of arithmetic that the user lets a product have (GEMMBLAS_MATH). */
enum gb_math {
    GB_MATH_NATIVE,   /* IEEE multiply-adds of the type */
    GB_MATH_EMULATED, /* whatever keeps the type's bound on the error */
    GB_MATH_FAST      /* fp32 operands as tf32 */
};

/* Of integers, whose C is alpha (op(A) + a) (op(B) + b) + beta C + c: what is added to each
 * element. The bias of what is fused is added to c. */
struct gb_offsets {
    int32_t a, b, c;
    bool b_unsigned; /* the elements of B are 0 to 255, not -128 to 127 */
};

/* C := alpha op(A) op(B) + beta C, column-major, after the flavour has been normalised away.
 * op(A) is m x k, op(B) is k x n, C is m x n; ld* in elements. */
struct gb_problem {
    enum gb_op op;
    enum gb_type type, type_c; /* of A and B; of C */
    enum gb_trans transa, transb;
    enum gb_uplo uplo; /* GB_FULL, or the triangle of C that is computed */
    int64_t m, n, k;
    struct gb_scalar alpha, beta;
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc;
    int64_t batch;                /* of as many products; 0 is 1 */
    const struct gb_extra *extra; /* NULL: nothing is fused */
    enum gb_math math;
    struct gb_offsets offsets; /* of GB_I8 */
};

/* Who called: for traces, statistics and the choice among several providers. */
struct gb_call {
    const char *symbol; /* as exported: "scipy_cblas_dgemm64_" */
    const void *caller; /* return address in the calling object */
};

static inline bool gb_is_complex(enum gb_type t)
{
    return t == GB_C32 || t == GB_C64;
}

static inline bool gb_transposed(enum gb_trans t)
{
    return t == GB_T || t == GB_C;
}

static inline size_t gb_type_size(enum gb_type t)
{
    static const uint8_t size[GB_TYPES] = {2, 2, 4, 8, 8, 16, 1, 4};

    return size[t];
}

/* What products of it are summed in; and what its parts are, the real and the imaginary one. */
static inline enum gb_type gb_type_acc(enum gb_type t)
{
    return t == GB_F16 || t == GB_BF16 ? GB_F32 : t == GB_I8 ? GB_I32 : t;
}

static inline enum gb_type gb_type_part(enum gb_type t)
{
    return t == GB_C32 ? GB_F32 : t == GB_C64 ? GB_F64 : t;
}

/* "f16" "bf16" "f32" "f64" "c32" "c64" "i8" "i32", as bench rows spell them. */
const char *gb_type_name(enum gb_type t);
const char *gb_trans_name(enum gb_trans t); /* "N" "T" "C" "R" */
const char *gb_why_name(enum gb_why why); /* "small"; lower case, as traces spell it */
const char *gb_why_text(enum gb_why why); /* one sentence */
const char *gb_status_text(enum gb_status s);

#ifdef __cplusplus
}
#endif
#endif
