/* SPDX-License-Identifier: BSD-3-Clause */
/* Random operands, and the judge: which of two results is right. The operands are
 * standard normal, so how far a correct sum may stray is known from k alone. The judge
 * shares no arithmetic with what it judges, not even the conversions of half types, but for
 * the activations, which t_activate.c holds against libm. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "activate.h"
#include "bench.h"
#include "util.h"

enum {
    POOL = 1 << 20,
    SMALL = 4096, /* results of so few entries are checked whole */
    SAMPLES = 64, /* of larger ones */
    DISPUTES = 16,
};

/* i8 operands are the same normal numbers times this, rounded. */
#define I8_SCALE 24.0

static float from_half(uint16_t h)
{
    uint32_t exponent = h >> 10 & 31;
    uint32_t fraction = h & 1023;
    float v;

    if (exponent == 31)
        v = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        v = (float)fraction * 0x1p-24f;
    else
        v = ldexpf((float)(1024 + fraction), (int)exponent - 25);
    return h & 0x8000 ? -v : v;
}

/* Only for the pool: normal numbers, no overflow to think of. */
static uint16_t to_half(float f)
{
    uint16_t sign = signbit(f) ? 0x8000 : 0;
    float v = fabsf(f);
    int exponent;

    if (v < 0x1p-14f)
        return (uint16_t)(sign | (uint16_t)lrintf(v * 0x1p24f));
    frexpf(v, &exponent); /* v = fraction * 2^exponent, fraction in [1/2, 1) */
    return (uint16_t)(sign | (((uint32_t)(exponent + 13) << 10) +
                              (uint32_t)lrintf(ldexpf(v, 11 - exponent))));
}

static float from_bfloat(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float v;

    memcpy(&v, &bits, sizeof(v));
    return v;
}

static uint16_t to_bfloat(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double normal(uint64_t *state)
{
    double u = ((double)(bench_random(state) >> 11) + 0.5) * 0x1p-53;
    double v = (double)(bench_random(state) >> 11) * 0x1p-53;

    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

static void store_real(enum gb_type type, void *x, size_t i, double v)
{
    switch (type) {
    case GB_F16:
        ((uint16_t *)x)[i] = to_half((float)v);
        return;
    case GB_BF16:
        ((uint16_t *)x)[i] = to_bfloat((float)v);
        return;
    case GB_F32:
    case GB_C32:
        ((float *)x)[i] = (float)v;
        return;
    case GB_F64:
    case GB_C64:
        ((double *)x)[i] = v;
        return;
    case GB_I8:
        ((int8_t *)x)[i] = (int8_t)fmax(-127, fmin(127, rint(v * I8_SCALE)));
        return;
    case GB_I32:
        ((int32_t *)x)[i] = (int32_t)rint(v * I8_SCALE);
        return;
    case GB_TYPES:
        break;
    }
}

/* Real number i of x: complex entries are two. */
static inline __attribute__((always_inline)) double load_real(enum gb_type type,
                                                              const void *x, size_t i)
{
    switch (type) {
    case GB_F16:
        return from_half(((const uint16_t *)x)[i]);
    case GB_BF16:
        return from_bfloat(((const uint16_t *)x)[i]);
    case GB_F32:
    case GB_C32:
        return ((const float *)x)[i];
    case GB_F64:
    case GB_C64:
        return ((const double *)x)[i];
    case GB_I8:
        return ((const int8_t *)x)[i];
    case GB_I32:
        return ((const int32_t *)x)[i];
    case GB_TYPES:
        break;
    }
    return NAN;
}

static size_t reals(enum gb_type type)
{
    return gb_is_complex(type) ? 2 : 1;
}

/* Drawing every element afresh would cost more time than the measurement: operands are
 * random pieces of one pool of normal numbers per type. */
void bench_fill(enum gb_type type, void *x, size_t elements, uint64_t *state)
{
    static void *pools[GB_TYPES];
    size_t real = gb_type_size(type) / reals(type);
    size_t left = elements * reals(type);
    char *to = x;
    size_t length;
    size_t at;
    size_t i;

    if (!pools[type]) {
        pools[type] = malloc(POOL * real);
        if (!pools[type])
            bench_die("out of memory; close other programs");
        for (i = 0; i < POOL; i++)
            store_real(type, pools[type], i, normal(state));
    }
    while (left > 0) {
        length = 1 + bench_random(state) % (POOL / 16);
        at = bench_random(state) % (POOL - length);
        if (length > left)
            length = left;
        memcpy(to, (const char *)pools[type] + at * real, length * real);
        to += length * real;
        left -= length;
    }
}

void bench_put(enum gb_type type, void *x, int64_t at, double value)
{
    store_real(type, x, (size_t)at, value);
}

static size_t bytes(enum gb_type type, int64_t ld, int64_t cols, int64_t batch)
{
    size_t size;

    if (!gb_mul3((size_t)ld, (size_t)cols, gb_type_size(type), &size) ||
        !gb_mul3(size, (size_t)batch, 1, &size))
        bench_die("a matrix of %lld columns of %lld: too large; take a smaller shape",
                  (long long)cols, (long long)ld);
    return size;
}

size_t bench_bytes_a(const struct bench_shape *s)
{
    return bytes(s->type, s->lda, bench_cols_a(s), s->batch);
}

size_t bench_bytes_b(const struct bench_shape *s)
{
    return bytes(s->type, s->ldb, bench_cols_b(s), s->batch);
}

size_t bench_bytes_c(const struct bench_shape *s)
{
    return bytes(s->type_c, s->ldc, s->n, s->batch);
}

/* Unit roundoff of a type's own arithmetic. */
static double roundoff(enum gb_type type)
{
    switch (type) {
    case GB_F16:
        return 0x1p-11;
    case GB_BF16:
        return 0x1p-8;
    case GB_F32:
    case GB_C32:
        return 0x1p-24;
    case GB_F64:
    case GB_C64:
        return 0x1p-53;
    case GB_I8:
    case GB_I32:
    case GB_TYPES:
        break;
    }
    return 0;
}

/* How far from the exact value a correct result of magnitude `value` may be. Sums over
 * normal data stray with the root of k, and by more than this with no order of
 * summation; a peer that drops eight of sixteen thousand products is outside. Exact for
 * integers. */
static double tolerance(const struct bench_shape *s, enum bench_math math, double value)
{
    double k = (double)s->k * (double)reals(s->type);
    double u_sum = s->type == GB_F64 || s->type == GB_C64 ? 0x1p-53 : 0x1p-24;
    double absolute = 0.64 * k + 2; /* sum of |a||b|, and beta C */
    double spread = sqrt(k) + 2;    /* root of the sum of squares: partial sums */
    double t;

    if (s->type == GB_I8)
        return 0;
    t = 4 * u_sum * (sqrt(k) + 8) * absolute;
    t += 2 * roundoff(s->type_c) * (fabs(value) + spread);
    if (bench_fused(s))
        t *= 2; /* activations rise by less; C may have been rounded before */
    if (math == BENCH_FAST && (s->type == GB_F32 || s->type == GB_C32))
        t += 8 * 0x1p-11 * spread;
    return t;
}

struct entry {
    int64_t z, i, j;
};

struct value {
    long double re, im;
};

static struct value load(enum gb_type type, const void *x, size_t at, bool conjugate)
{
    struct value v = {0, 0};

    if (gb_is_complex(type)) {
        v.re = load_real(type, x, 2 * at);
        v.im = load_real(type, x, 2 * at + 1);
        if (conjugate)
            v.im = -v.im;
    } else {
        v.re = load_real(type, x, at);
    }
    return v;
}

static bool conjugates(enum gb_trans t)
{
    return t == GB_C || t == GB_CONJ;
}

static size_t place_a(const struct bench_shape *s, int64_t z, int64_t i, int64_t l)
{
    int64_t row = s->transa == GB_N || s->transa == GB_CONJ ? i : l;
    int64_t col = s->transa == GB_N || s->transa == GB_CONJ ? l : i;

    return (size_t)((z * bench_cols_a(s) + col) * s->lda + row);
}

static size_t place_b(const struct bench_shape *s, int64_t z, int64_t l, int64_t j)
{
    int64_t row = s->transb == GB_N || s->transb == GB_CONJ ? l : j;
    int64_t col = s->transb == GB_N || s->transb == GB_CONJ ? j : l;

    return (size_t)((z * bench_cols_b(s) + col) * s->ldb + row);
}

static size_t place_c(const struct bench_shape *s, struct entry e)
{
    return (size_t)((e.z * s->n + e.j) * s->ldc + e.i);
}

static struct value reference(const struct bench_shape *s, const void *a, const void *b,
                              const void *c0, struct entry e)
{
    struct value sum = {0, 0};
    struct value x;
    struct value y;
    int64_t l;

    for (l = 0; l < s->k; l++) {
        x = load(s->type, a, place_a(s, e.z, e.i, l), conjugates(s->transa));
        y = load(s->type, b, place_b(s, e.z, l, e.j), conjugates(s->transb));
        sum.re += x.re * y.re - x.im * y.im;
        sum.im += x.re * y.im + x.im * y.re;
    }
    if (s->beta != 0) {
        x = load(s->type_c, c0, place_c(s, e), false);
        sum.re += s->beta * x.re;
        sum.im += s->beta * x.im;
    }
    if (s->bias)
        sum.re += bench_bias(e.i);
    if (s->activation != GB_ACT_NONE)
        sum.re = (long double)gb_activate_f64(s->activation, (double)sum.re);
    return sum;
}

/* NaN is never close. */
static bool is_close(const struct bench_shape *s, enum bench_math math,
                     struct value want, const void *x, struct entry e)
{
    struct value got = load(s->type_c, x, place_c(s, e), false);

    return fabsl(got.re - want.re) <= tolerance(s, math, (double)want.re) &&
           fabsl(got.im - want.im) <= tolerance(s, math, (double)want.im);
}

/* Corners first, then anywhere. */
static struct entry sample(const struct bench_shape *s, int64_t index, uint64_t *state)
{
    struct entry e = {0, 0, 0};

    if (index < 4) {
        e.z = index & 1 ? s->batch - 1 : 0;
        e.i = index & 1 ? s->m - 1 : 0;
        e.j = index & 2 ? s->n - 1 : 0;
    } else {
        e.z = (int64_t)(bench_random(state) % (uint64_t)s->batch);
        e.i = (int64_t)(bench_random(state) % (uint64_t)s->m);
        e.j = (int64_t)(bench_random(state) % (uint64_t)s->n);
    }
    return e;
}

static struct entry nth_entry(const struct bench_shape *s, int64_t i)
{
    return (struct entry){i / s->m / s->n, i % s->m, i / s->m % s->n};
}

bool bench_judge(const struct bench_shape *s, enum bench_math math, const void *a,
                 const void *b, const void *c0, const void *x)
{
    uint64_t state = 88172645463325252U;
    int64_t entries = s->m * s->n * s->batch;
    bool all = entries <= SMALL;
    struct entry e;
    int64_t i;

    for (i = 0; i < (all ? entries : SAMPLES); i++) {
        e = all ? nth_entry(s, i) : sample(s, i, &state);
        if (!is_close(s, math, reference(s, a, b, c0, e), x, e))
            return false;
    }
    return true;
}

/* Entries of one column where x and y differ by more than two correct results can.
 * Inlined once per type, since this reads every entry. */
static inline __attribute__((always_inline)) int64_t
column_dispute(enum gb_type type, const void *x, const void *y, size_t from,
               int64_t reals_n, int64_t at, double flat, double relative)
{
    double p;
    double q;

    for (; at < reals_n; at++) {
        p = load_real(type, x, from + (size_t)at);
        q = load_real(type, y, from + (size_t)at);
        if (!(fabs(p - q) <= flat + relative * fabs(p)))
            return at;
    }
    return -1;
}

static int64_t next_dispute(enum gb_type type, const void *x, const void *y,
                            size_t from, int64_t reals_n, int64_t at, double flat,
                            double relative)
{
    switch (type) {
    case GB_F16:
        return column_dispute(GB_F16, x, y, from, reals_n, at, flat, relative);
    case GB_BF16:
        return column_dispute(GB_BF16, x, y, from, reals_n, at, flat, relative);
    case GB_F32:
    case GB_C32:
        return column_dispute(GB_F32, x, y, from, reals_n, at, flat, relative);
    case GB_F64:
    case GB_C64:
        return column_dispute(GB_F64, x, y, from, reals_n, at, flat, relative);
    case GB_I8:
    case GB_I32:
        return column_dispute(GB_I32, x, y, from, reals_n, at, flat, relative);
    case GB_TYPES:
        break;
    }
    return -1;
}

void bench_judge_pair(const struct bench_shape *s, enum bench_math math, const void *a,
                      const void *b, const void *c0, const void *x, const void *y,
                      bool *x_wrong, bool *y_wrong)
{
    int64_t wide = (int64_t)reals(s->type_c);
    double flat = 2 * tolerance(s, math, 0);
    double relative = 4 * roundoff(s->type_c);
    struct entry e = {0, 0, 0};
    struct value want;
    int disputes = 0;
    int64_t at;

    *x_wrong = !bench_judge(s, math, a, b, c0, x);
    *y_wrong = !bench_judge(s, math, a, b, c0, y);
    for (e.z = 0; e.z < s->batch && disputes < DISPUTES; e.z++) {
        for (e.j = 0; e.j < s->n && disputes < DISPUTES; e.j++) {
            e.i = 0;
            at = next_dispute(s->type_c, x, y, place_c(s, e) * (size_t)wide,
                              s->m * wide, 0, flat, relative);
            if (at < 0)
                continue;
            disputes++;
            e.i = at / wide;
            want = reference(s, a, b, c0, e);
            if (!is_close(s, math, want, x, e))
                *x_wrong = true;
            if (!is_close(s, math, want, y, e))
                *y_wrong = true;
        }
    }
}
