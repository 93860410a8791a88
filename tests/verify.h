/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests of BLAS semantics share: seeded random data between guard pages, a
 * reference product in long double, the two yardsticks (netlib's and the design's),
 * one way to call every exported flavour, and what the trace says about where a
 * call went. */
#ifndef VERIFY_H
#define VERIFY_H

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

/* Freeze the operands and name the call for the crash report; call; compare. */
enum verify_how {
    VERIFY_EXACT, /* equal values (all zeros are equal; NaN equals NaN) */
    VERIFY_BOUND, /* within the design's elementwise bound and netlib's gauge */
    VERIFY_GAUGE  /* netlib's gauge alone: another library may have computed it */
};

/* true when C is right and nothing else has changed; otherwise `why` says what is
 * wrong, with the whole call. Large products are compared in samples: edges, corners,
 * random elements. */
bool verify_gemm_run(struct verify_gemm *g, enum verify_how how, char *why, size_t len);
bool verify_gemm_check(const struct verify_gemm *g, enum verify_how how, char *why,
                       size_t len);
/* "cblas_dgemm row N T m=3 ...". */
void verify_describe(const struct verify_gemm *g, char *buf, size_t len);

/* On a fault, say which call of this thread it was in. Called by verify_gemm_run(). */
void verify_watch(const struct verify_gemm *g);

/* The BLAS behind an exported name: what a call that is forwarded by design is judged
 * by. false: nobody has the name, ours serves. Known once the name has been called. */
bool verify_direct(const struct verify_flavour *f, struct verify_flavour *direct);
/* Is 'R' legal for whoever is behind f? The reference would stop the program. */
bool verify_takes_conj(const struct verify_flavour *f);
/* Say who is behind dgemm_ and how it was found, before the first test. */
void verify_say_provider(void);

/* Route and trace. verify_route() goes before the first BLAS call of the process:
 * unless the environment has a route already it sets the one given, sets the trace to a
 * file of its own, and answers whether calls are meant for a device. */
bool verify_route(const char *route);
bool verify_on_hardware(void); /* GEMMBLAS_DEVICE is neither emu nor none */

struct verify_trace {
    long calls, gpu, cpu;
    char routine[48], why[24], kernel[64]; /* of the last line */
    long long m, n, k;
    long long panels, splits;
    bool on_gpu;
};

/* What has been traced since the last reading. */
struct verify_trace verify_trace_read(void);

#endif
