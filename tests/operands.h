/* SPDX-License-Identifier: BSD-3-Clause */
/* Operands for tests: seeded random numbers, elements of every type, and matrices between
 * guard pages whose gaps are watched. */
#ifndef OPERANDS_H
#define OPERANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gb.h"

/* A seeded sequence (xorshift64*). Not shared between threads. */
struct verify_random {
    uint64_t state;
};

struct verify_random verify_seed(uint64_t seed);
uint64_t verify_next(struct verify_random *r);
int64_t verify_below(struct verify_random *r, int64_t n); /* 0 .. n-1 */
double verify_normal(struct verify_random *r);            /* mean 0, variance 1 */

/* The 16-bit types, rounded to nearest even once from any exact value. */
uint16_t verify_f16(long double x);
uint16_t verify_bf16(long double x);
double verify_from_f16(uint16_t x);
double verify_from_bf16(uint16_t x);

const char *verify_type_name(enum gb_type t);
enum gb_type verify_part(enum gb_type t); /* of a part: f32 for c32 */

static inline struct gb_scalar verify_real(double re)
{
    return (struct gb_scalar){.re = re};
}

/* One element of a matrix in the widest type; im is 0 for real types. */
struct verify_value {
    long double re, im;
};

void verify_store(enum gb_type t, void *at, struct verify_value v); /* rounds once */
struct verify_value verify_load(enum gb_type t, const void *at);

/* Where the elements lie between the two guard pages. */
enum verify_place {
    VERIFY_LOW,    /* the first element follows the lower guard page */
    VERIFY_HIGH,   /* the last element of the matrix precedes the upper one */
    VERIFY_MIDDLE, /* aligned to nothing but an element */
    VERIFY_PLACES
};

/* rows x cols, column-major with ld >= rows, or row-major with ld >= cols. Everything
 * that does not belong to the matrix is filled with signalling NaNs. */
struct verify_matrix {
    enum gb_type type;
    bool row_major;
    int64_t rows, cols, ld;
    void *at;   /* element (0, 0); what a caller passes */
    char *data; /* the accessible pages */
    size_t data_bytes;
    char *before; /* their copy, see verify_freeze() */
    char *map;
    size_t map_bytes;
};

enum verify_fill {
    VERIFY_NORMAL,   /* normal random numbers */
    VERIFY_INTEGERS, /* small integers: every order of summation gives the same bits */
    VERIFY_NAN       /* quiet NaNs */
};

void verify_matrix_make(struct verify_matrix *x, enum gb_type type, bool row_major,
                        int64_t rows, int64_t cols, int64_t ld,
                        enum verify_place place);
void verify_matrix_fill(struct verify_matrix *x, enum verify_fill fill,
                        struct verify_random *r);
void verify_matrix_drop(struct verify_matrix *x);
void *verify_element(const struct verify_matrix *x, int64_t i, int64_t j);
struct verify_value verify_get(const struct verify_matrix *x, int64_t i, int64_t j);
void verify_set(const struct verify_matrix *x, int64_t i, int64_t j, double re,
                double im);

/* Remember all bytes; with read_only, a write faults. */
void verify_freeze(struct verify_matrix *x, bool read_only);
/* Are all bytes as remembered; all bytes that belong to no element? */
bool verify_untouched(const struct verify_matrix *x);
bool verify_gaps_untouched(const struct verify_matrix *x);

#endif
