/* SPDX-License-Identifier: BSD-3-Clause */
/* What gemmblas-accuracy measures against: families of data, and every sum of a product
 * in twice the precision of double, beside a chain of multiply-adds of the type. */
#ifndef GB_EXACT_H
#define GB_EXACT_H

#include "bench.h"

struct exact_family {
    const char *name;
    /* What emulated arithmetic promises of the Frobenius error, in native's. */
    double most;
};

extern const struct exact_family exact_families[];
extern const int exact_family_count;

/* op(A) by rows and op(B) by columns, as real numbers: a complex product is a real one
 * of twice the depth, for the real and for the imaginary parts of C. */
struct exact_problem {
    const struct bench_shape *s;
    int parts;          /* of an element: 1, or 2 of complex ones */
    int64_t deep, cols; /* k and n, times the parts */
    double *a, *b;      /* a: by EXACT_LANES rows at a time, side by side */
    double *sum, *rest, *size, *chain; /* of C's parts, at [i + j * rows] */
    int64_t rows;                      /* m rounded up to whole lanes */
};

enum { EXACT_LANES = 8 };

/* Draws the operands of `family`, A and B as a BLAS call has them, and computes
 * everything with `threads` threads. The same data whatever their number. */
struct exact_problem exact_make(const struct bench_shape *s, int family, uint64_t seed,
                                int threads, void *a, void *b);
void exact_drop(struct exact_problem *x);

double exact_roundoff(enum gb_type t);
double exact_least(enum gb_type t); /* the smallest positive number */
double exact_part(enum gb_type t, const void *x, int64_t at);

#endif
