/* SPDX-License-Identifier: BSD-3-Clause */
/* What the bench programs share: a shape, the options, the rows that they write, random
 * operands and the judge that says whose result is wrong. */
#ifndef GB_BENCH_H
#define GB_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "gb.h"

enum bench_place { BENCH_RESIDENT, BENCH_HOST_FRESH, BENCH_HOST_REPEAT };
enum bench_math { BENCH_NATIVE, BENCH_EMULATED, BENCH_FAST };

/* One line of a shapes file. */
struct bench_shape {
    char routine[16];
    enum gb_type type, type_c;
    enum gb_trans transa, transb;
    int64_t m, n, k;
    int64_t lda, ldb, ldc; /* as they are, never 0 */
    int64_t batch;
    double beta; /* alpha is 1 */
    /* What --epilogue asks for: bench_bias() for each row, an enum gb_activation. */
    bool bias;
    int activation;
};

struct bench_options {
    const char *program;
    const char *routine, *types, *shapes, *shape, *trans, *peers;
    const char *kernel, *device, *append, *note, *commit;
    const char *ours, *cublas, *blas, *nvblas;
    enum bench_place place;
    enum bench_math math;
    int group;            /* 0: the planner's */
    int splits;           /* 0: the planner's */
    const char *epilogue; /* "bias_gelu"; NULL: alpha and beta alone */
    const char *hints;    /* "keep,stream" of A and B; NULL: the planner's */
    int repeats;
    double block_ms;
    double pause_ms; /* negative: as the peers need */
    uint64_t seed;
};

/* One row of a results file, but for what the whole run shares. */
struct bench_row {
    const struct bench_shape *shape;
    enum bench_place place;
    enum bench_math math;
    const char *kernel;
    int splits; /* of k, where they are known */
    double ours_us, spread;
    const char *peer; /* NULL: none */
    double peer_us;
    bool ours_wrong, peer_wrong;
    const char *remark; /* for the note; NULL: none */
};

/* What the whole run shares. */
struct bench_run {
    char device[32], driver[32], commit[48];
    const char *note;
    const char *append; /* NULL: no file */
};

/* One line on stderr that names the thing and the mend, then exit status 2. */
void bench_die(const char *format, ...)
    __attribute__((format(printf, 1, 2), noreturn, cold));
void bench_name(const char *program);

/* The value of an option that needs one and has no place for garbage. */
int64_t bench_integer(const char *option, const char *text, int64_t low, int64_t high);
double bench_decimal(const char *option, const char *text, double low, double high);

/* rows.c: shapes in, rows out */
const char *bench_place_name(enum bench_place place);
const char *bench_math_name(enum bench_math math);
enum gb_type bench_type(const char *text); /* GB_TYPES when it is none */
enum gb_trans bench_trans(const char *text, bool *ok);

/* Reads a shapes file whole. *shapes is malloc'ed; dies with file and line on a bad
 * one. */
size_t bench_shapes_read(const char *path, struct bench_shape **shapes);
/* "4096", "64x4096x512" with types "f16:f32" and trans "NT"; dies on bad text. */
struct bench_shape bench_shape_from(const char *mnk, const char *types,
                                    const char *trans);
/* Sets what a name asks for: "bias", "bias_gelu", "silu" ...; dies on others. */
void bench_epilogue(const char *name, struct bench_shape *s);
/* The bias of row i, exact in every type. */
double bench_bias(int64_t i);
static inline bool bench_fused(const struct bench_shape *s)
{
    return s->bias || s->activation != 0;
}
/* Does the shape pass --routine and --type? */
bool bench_shape_wanted(const struct bench_shape *s, const struct bench_options *o);
int64_t bench_cols_a(const struct bench_shape *s);
int64_t bench_cols_b(const struct bench_shape *s);

void bench_run_init(struct bench_run *run, const char *device_name, int driver,
                    const struct bench_options *o);
/* A row in the file if there is one. */
void bench_row_append(const struct bench_run *run, const struct bench_row *row);
/* The same, and a line for people on stdout, with the share of the peak. */
void bench_row_write(const struct bench_run *run, const struct bench_row *row);

/* Sorts x in place. */
double bench_median(double *x, size_t n);
double bench_spread(double *x,
                    size_t n); /* interquartile range, per cent of the median */

double bench_now_us(void);
uint64_t bench_random(uint64_t *state); /* xorshift64* */
/* 0..n-1 in random order. */
void bench_shuffle(int *order, int n, uint64_t *state);

/* judge.c: operands and who is right */
void bench_fill(enum gb_type type, void *x, size_t elements, uint64_t *state);
/* Element `at` of a real type. */
void bench_put(enum gb_type type, void *x, int64_t at, double value);
size_t bench_bytes_a(const struct bench_shape *s);
size_t bench_bytes_b(const struct bench_shape *s);
size_t bench_bytes_c(const struct bench_shape *s);

/* Is x right, by sampled entries against sums in long double? a, b: operands; c0: C as
 * it was before the call. */
bool bench_judge(const struct bench_shape *s, enum bench_math math, const void *a,
                 const void *b, const void *c0, const void *x);
/* Every entry of x against y; where they differ by more than rounding explains, the
 * reference says who is wrong. */
void bench_judge_pair(const struct bench_shape *s, enum bench_math math, const void *a,
                      const void *b, const void *c0, const void *x, const void *y,
                      bool *x_wrong, bool *y_wrong);

#endif
