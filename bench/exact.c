/* SPDX-License-Identifier: BSD-3-Clause */
/* Data, and the exact product of them. Compiled without contraction: the errors of sums
 * are computed here, and a multiply-add where none is written would lose them. */
#include "exact.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

/* With the multiply-adds of the machine, where it has them: several times quicker. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("default", "fma")))
#else
#define WIDE
#endif

enum family {
    NORMAL,
    UNIFORM,
    POSITIVE,
    SPREAD, /* phi 0 to 6 */
    SPREAD_LAST = SPREAD + 6,
    GRADED,
    CANCELS,
    CANCELS_FAR,
    LARGE,
    TINY,
    DENORMAL,
    SPECIAL,
    INTEGER_3,
    INTEGER_6,
    INTEGER_10,
    INTEGER_20,
    FAMILIES
};

const struct exact_family exact_families[] = {
    [NORMAL] = {"normal", 1},
    [UNIFORM] = {"uniform", 1},
    [POSITIVE] = {"positive", 3},
    [SPREAD] = {"spread-0", 3},
    [SPREAD + 1] = {"spread-1", 3},
    [SPREAD + 2] = {"spread-2", 3},
    [SPREAD + 3] = {"spread-3", 3},
    [SPREAD + 4] = {"spread-4", 3},
    [SPREAD + 5] = {"spread-5", 3},
    [SPREAD_LAST] = {"spread-6", 3},
    [GRADED] = {"graded", 3},
    /* Made against any split into parts: native sums stay small, since each product is taken back
     * at once, while each of its parts has been rounded. No guard that looks at magnitudes sees
     * it. */
    [CANCELS] = {"cancels", 4},
    [CANCELS_FAR] = {"cancels-far", 3},
    [LARGE] = {"large", 3},
    [TINY] = {"tiny", 3},
    [DENORMAL] = {"denormal", 3},
    [SPECIAL] = {"special", 3},
    [INTEGER_3] = {"integers-3", 3},
    [INTEGER_6] = {"integers-6", 3},
    [INTEGER_10] = {"integers-10", 3},
    [INTEGER_20] = {"integers-20", 3},
};
const int exact_family_count = FAMILIES;

/* ---- threads ---- */

struct work {
    void (*of)(void *arg, int64_t item);
    void *arg;
    atomic_int_fast64_t next;
    int64_t items;
};

static void *worker(void *arg)
{
    struct work *w = arg;
    int64_t item;

    while ((item = atomic_fetch_add(&w->next, 1)) < w->items)
        w->of(w->arg, item);
    return NULL;
}

static void share(int threads, int64_t items, void (*of)(void *, int64_t), void *arg)
{
    struct work w = {.of = of, .arg = arg, .items = items};
    pthread_t *thread = calloc((size_t)threads, sizeof(*thread));
    int started = 0;

    while (thread && started < threads - 1 &&
           pthread_create(&thread[started], NULL, worker, &w) == 0)
        started++;
    worker(&w);
    while (started > 0)
        pthread_join(thread[--started], NULL);
    free(thread);
}

/* ---- data ---- */

double exact_roundoff(enum gb_type t)
{
    return gb_type_part(t) == GB_F64 ? 0x1p-53 : 0x1p-24;
}

double exact_least(enum gb_type t)
{
    return gb_type_part(t) == GB_F64 ? 0x1p-1074 : 0x1p-149;
}

double exact_part(enum gb_type t, const void *x, int64_t at)
{
    return gb_type_part(t) == GB_F64 ? ((const double *)x)[at] : ((const float *)x)[at];
}

static void put_part(enum gb_type t, void *x, int64_t at, double v)
{
    if (gb_type_part(t) == GB_F64)
        ((double *)x)[at] = v;
    else
        ((float *)x)[at] = (float)v;
}

static double uniform(uint64_t *state)
{
    return (double)(bench_random(state) >> 11) * 0x1p-53;
}

static double normal(uint64_t *state)
{
    double u = uniform(state) + 0x1p-54;

    return sqrt(-2 * log(u)) * cos(2 * M_PI * uniform(state));
}

static double integer(uint64_t *state, int bits)
{
    return floor(uniform(state) * (ldexp(2, bits) + 1)) - ldexp(1, bits);
}

/* What an element is drawn for: of row (or, side_b, of column) `vector`, at l of k. */
struct place {
    bool side_b, wide; /* wide: doubles */
    bool takes_back;   /* all but some of an earlier product, see apart() */
    int64_t vector, vectors, l, k;
};

static double special(const struct place *p, double otherwise)
{
    if (!p->side_b && p->vector == p->vectors / 3 && p->l == p->k / 2)
        return INFINITY;
    if (!p->side_b && p->vector == p->vectors - 1 && p->l == 0)
        return NAN;
    if (p->side_b && p->vector == p->vectors - 1 && p->l == p->k - 1)
        return -INFINITY;
    return otherwise;
}

/* Where products take back earlier ones: how far those are. */
static int64_t apart(int family, int64_t k)
{
    return family == CANCELS ? 1 : family == CANCELS_FAR ? gb_max(1, k / 2) : 0;
}

static double draw(int family, const struct place *p, double before, uint64_t *state)
{
    /* products of what is large are near overflow, of what is tiny near underflow */
    const int far = p->wide ? 500 : 58;

    if (family >= SPREAD && family <= SPREAD_LAST) {
        double half = uniform(state) - 0.5;

        return half * exp((family - SPREAD) * normal(state));
    }
    switch (family) {
    case UNIFORM:
        return 2 * uniform(state) - 1;
    case POSITIVE:
        return uniform(state);
    case GRADED:
        return ldexp(normal(state),
                     (int)(60 * p->l / p->k - 30) * (p->side_b ? -1 : 1));
    case CANCELS:
    case CANCELS_FAR:
        if (!p->takes_back)
            return normal(state);
        return p->side_b ? -before * (1 + 0x1p-10 * normal(state)) : before;
    case LARGE:
        return ldexp(normal(state), far);
    case TINY:
        return ldexp(normal(state), -far - 2);
    case DENORMAL:
        return p->l % 37 == 3 ? (p->wide ? 0x1p-1060 : 0x1p-140) : normal(state);
    case SPECIAL:
        return special(p, normal(state));
    case INTEGER_3:
        return integer(state, 3);
    case INTEGER_6:
        return integer(state, 6);
    case INTEGER_10:
        return integer(state, 10);
    case INTEGER_20:
        return integer(state, 20);
    default:
        return normal(state);
    }
}

struct fill {
    struct exact_problem *x;
    int family;
    uint64_t seed;
    void *a, *b;
};

/* Where real number `at` of C's row i or column j along k is kept. */
static double *packed_a(const struct exact_problem *x, int64_t i, int64_t at)
{
    return &x->a[(i / EXACT_LANES * x->deep + at) * EXACT_LANES + i % EXACT_LANES];
}

static void keep(const struct exact_problem *x, bool side_b, int64_t v, int64_t l,
                 const double z[2])
{
    int64_t at = l * x->parts;

    if (!side_b) {
        for (int q = 0; q < x->parts; q++)
            *packed_a(x, v, at + q) = z[q];
    } else if (x->parts == 1) {
        x->b[v * x->deep + at] = z[0];
    } else {
        double *re = x->b + 2 * v * x->deep + at, *im = re + x->deep;

        re[0] = z[0];
        re[1] = -z[1];
        im[0] = z[1];
        im[1] = z[0];
    }
}

/* One row of op(A), or one column of op(B). */
static void fill_vector(void *arg, int64_t item)
{
    const struct fill *f = arg;
    const struct exact_problem *x = f->x;
    const struct bench_shape *s = x->s;
    const bool side_b = item >= s->m;
    const int64_t v = side_b ? item - s->m : item;
    const enum gb_trans trans = side_b ? s->transb : s->transa;
    const bool conjugated = trans == GB_C || trans == GB_CONJ;
    const bool along = gb_transposed(trans) != side_b; /* k is the unit stride */
    const int64_t ld = side_b ? s->ldb : s->lda;
    void *to = side_b ? f->b : f->a;
    uint64_t state = f->seed ^ ((uint64_t)item + 1) * UINT64_C(0x9E3779B97F4A7C15);
    struct place p = {.side_b = side_b,
                      .wide = gb_type_part(s->type) == GB_F64,
                      .vector = v,
                      .vectors = side_b ? s->n : s->m,
                      .k = s->k};
    const int64_t back = apart(f->family, s->k) * (along ? 1 : ld) * x->parts;
    double z[2] = {0, 0};

    for (int i = 0; i < 8; i++) /* neighbouring seeds part */
        bench_random(&state);
    for (p.l = 0; p.l < s->k; p.l++) {
        int64_t at = (along ? p.l + v * ld : v + p.l * ld) * x->parts;

        p.takes_back = back > 0 && p.l / apart(f->family, s->k) % 2 == 1;
        for (int q = 0; q < x->parts; q++) {
            double before = p.takes_back ? exact_part(s->type, to, at + q - back) : 0;

            if (q && conjugated)
                before = -before;
            z[q] = draw(f->family, &p, before, &state);
            put_part(s->type, to, at + q, q && conjugated ? -z[q] : z[q]);
            z[q] = exact_part(s->type, to, at + q);
            z[q] = q && conjugated ? -z[q] : z[q];
        }
        keep(x, side_b, v, p.l, z);
    }
}

/* ---- sums ---- */

struct lanes {
    double sum[EXACT_LANES], rest[EXACT_LANES], size[EXACT_LANES], chain[EXACT_LANES];
};

/* Products are exact as x y and what its rounding lost, sums likewise; what is lost
 * adds up apart. */
WIDE static void add_up(const double *a, const double *b, int64_t deep,
                        struct lanes *out)
{
    struct lanes s = {.sum = {0}};

    for (int64_t l = 0; l < deep; l++)
        for (int v = 0; v < EXACT_LANES; v++) {
            double x = a[l * EXACT_LANES + v], y = b[l], p = x * y;
            double lost = __builtin_fma(x, y, -p), t = s.sum[v] + p, z = t - s.sum[v];

            s.rest[v] += (s.sum[v] - (t - z)) + (p - z) + lost;
            s.sum[v] = t;
            s.size[v] += __builtin_fabs(p);
            s.chain[v] = __builtin_fma(x, y, s.chain[v]);
        }
    *out = s;
}

/* The same of floats, whose products are exact in double; and a chain of floats. */
WIDE static void add_up_single(const double *a, const double *b, int64_t deep,
                               struct lanes *out)
{
    struct lanes s = {.sum = {0}};
    float chain[EXACT_LANES] = {0};

    for (int64_t l = 0; l < deep; l++)
        for (int v = 0; v < EXACT_LANES; v++) {
            double x = a[l * EXACT_LANES + v], y = b[l], p = x * y;
            double t = s.sum[v] + p, z = t - s.sum[v];

            s.rest[v] += (s.sum[v] - (t - z)) + (p - z);
            s.sum[v] = t;
            s.size[v] += __builtin_fabs(p);
            chain[v] = __builtin_fmaf((float)x, (float)y, chain[v]);
        }
    for (int v = 0; v < EXACT_LANES; v++)
        s.chain[v] = chain[v];
    *out = s;
}

/* Eight rows of one column of C. */
static void sum_item(void *arg, int64_t item)
{
    struct exact_problem *x = arg;
    const int64_t block = item / x->cols, j = item % x->cols;
    const size_t at = (size_t)(block * EXACT_LANES + j * x->rows);
    const double *a = x->a + block * x->deep * EXACT_LANES, *b = x->b + j * x->deep;
    struct lanes s;

    if (gb_type_part(x->s->type) == GB_F64)
        add_up(a, b, x->deep, &s);
    else
        add_up_single(a, b, x->deep, &s);
    memcpy(x->sum + at, s.sum, sizeof(s.sum));
    memcpy(x->rest + at, s.rest, sizeof(s.rest));
    memcpy(x->size + at, s.size, sizeof(s.size));
    memcpy(x->chain + at, s.chain, sizeof(s.chain));
}

static double *room(int64_t rows, int64_t cols)
{
    double *x = calloc((size_t)(rows * cols), sizeof(*x));

    if (!x)
        bench_die("out of memory; take a smaller shape");
    return x;
}

struct exact_problem exact_make(const struct bench_shape *s, int family, uint64_t seed,
                                int threads, void *a, void *b)
{
    struct exact_problem x = {.s = s, .parts = gb_is_complex(s->type) ? 2 : 1};
    struct fill f = {&x, family, seed, a, b};

    x.deep = s->k * x.parts;
    x.cols = s->n * x.parts;
    x.rows = gb_round_up(s->m, EXACT_LANES);
    x.a = room(x.rows, x.deep);
    x.b = room(x.cols, x.deep);
    x.sum = room(x.rows, x.cols);
    x.rest = room(x.rows, x.cols);
    x.size = room(x.rows, x.cols);
    x.chain = room(x.rows, x.cols);
    share(threads, s->m + s->n, fill_vector, &f);
    share(threads, x.rows / EXACT_LANES * x.cols, sum_item, &x);
    return x;
}

void exact_drop(struct exact_problem *x)
{
    free(x->a);
    free(x->b);
    free(x->sum);
    free(x->rest);
    free(x->size);
    free(x->chain);
}
