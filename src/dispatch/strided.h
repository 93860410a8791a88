/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of matrices of any strides, on host or device, with what is fused to them: what the
 * public API asks for, in this library's words. */
#ifndef GB_STRIDED_H
#define GB_STRIDED_H

#include <stdbool.h>
#include <stdint.h>

#include "gb.h"
#include "gemm_args.h"

/* Of gemmblas.h, in its order. */
enum gb_answer {
    GB_ANSWER_OK,
    GB_ANSWER_ARGUMENT,
    GB_ANSWER_TYPE,
    GB_ANSWER_OVERLAP,
    GB_ANSWER_PLACE,
    GB_ANSWER_MEMORY,
    GB_ANSWER_UNSUPPORTED,
    GB_ANSWER_DEVICE,
    GB_ANSWERS
};

/* rows x cols, `batch` of them; strides in elements. */
struct gb_matrix {
    const char *at;
    const void *const *list; /* addresses of the matrices, instead of `at`; or NULL */
    int64_t row, col, batch;
};

struct gb_vector {
    const char *at; /* NULL: there is none */
    int64_t batch;
};

struct gb_product {
    enum gb_type type, type_c;
    int64_t m, n, k, batch;
    struct gb_matrix a, b, c; /* m x k, k x n, m x n */
    bool conj_a, conj_b;
    bool lists_on_device, lists_aligned;
    struct gb_scalar alpha, beta;
    struct gb_vector bias, row_scale, col_scale;
    bool bias_cols, bias_wide;
    enum gb_activation activation;
    void *stream;
    const char *routine; /* that computes such types, for knobs and traces */
};

/* A and B, or C, count for what C becomes. */
static inline bool gb_product_reads_ab(const struct gb_product *p)
{
    return p->k > 0 && (p->alpha.re != 0 || p->alpha.im != 0);
}

static inline bool gb_product_reads_c(const struct gb_product *p)
{
    return p->beta.re != 0 || p->beta.im != 0;
}

/* The memory of matrix z of x. */
const char *gb_matrix_at(const struct gb_matrix *x, int64_t z, enum gb_type type);

/* x without its list, if addresses in it lie at one distance. */
struct gb_matrix gb_product_unlisted(const struct gb_product *p, struct gb_matrix x,
                                     enum gb_type type);

/* Pure: may this be computed? Sizes, strides, pointers, types; what no device is needed for. */
enum gb_answer gb_product_check(const struct gb_product *p);

/* Of products that pass the check. */
enum gb_answer gb_product_run(const struct gb_product *p, const struct gb_call *call);

#endif
