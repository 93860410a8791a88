/* SPDX-License-Identifier: BSD-3-Clause */
/* Data, reference product, comparison, callers and trace for the tests of BLAS
 * semantics. */
#include "verify.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <float.h>
#include <link.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"

/* Random numbers */

struct verify_random verify_seed(uint64_t seed)
{
    struct verify_random r = {.state =
                                  seed * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u};

    for (int i = 0; i < 4; i++)
        verify_next(&r);
    return r;
}

uint64_t verify_next(struct verify_random *r)
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * 0x2545f4914f6cdd1du;
}

int64_t verify_below(struct verify_random *r, int64_t n)
{
    return (int64_t)(verify_next(r) >> 1) % n;
}

double verify_normal(struct verify_random *r)
{
    double sum = 0;

    /* Twelve uniform numbers of variance 1/12: cheap, and close enough in the
     * middle. */
    for (int i = 0; i < 3; i++) {
        uint64_t x = verify_next(r);

        for (int j = 0; j < 4; j++)
            sum += (double)(x >> 16 * j & 0xffff) / 65536;
    }
    /* All 52 bits of the fraction matter, or products would be exact. */
    return sum - 6 + (double)(verify_next(r) >> 11) * 0x1p-69;
}

/* Types */

static uint16_t pack16(long double x, int digits, int exponent_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    uint32_t infinity = ((1u << exponent_bits) - 1) << (digits - 1);
    uint32_t sign = signbit(x) ? 0x8000 : 0;
    int exponent, ulp;
    uint32_t bits;
    long double scaled;

    if (isnan(x))
        return (uint16_t)(sign | infinity | 1u << (digits - 2));
    if (isinf(x))
        return (uint16_t)(sign | infinity);
    frexpl(x, &exponent);
    if (exponent - 1 > bias)
        return (uint16_t)(sign | infinity);
    if (x == 0 || exponent - 1 < 1 - bias)
        exponent = 2 - bias;
    ulp = exponent - digits;
    scaled = rintl(ldexpl(fabsl(x), -ulp));
    /* A fraction that rounds up to the next power of two carries into the exponent. */
    bits = ((uint32_t)(exponent - 1 + bias) << (digits - 1)) + (uint32_t)scaled -
           (1u << (digits - 1));
    return (uint16_t)(sign | (bits > infinity ? infinity : bits));
}

static double unpack16(uint16_t x, int digits, int exponent_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (x & 0x7fff) >> (digits - 1);
    int fraction = x & ((1 << (digits - 1)) - 1);
    double value;

    if (exponent == (1 << exponent_bits) - 1)
        value = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        value = ldexp(fraction, 2 - bias - digits);
    else
        value = ldexp(fraction + (1 << (digits - 1)), exponent + 1 - bias - digits);
    return x & 0x8000 ? -value : value;
}

uint16_t verify_f16(long double x)
{
    return pack16(x, 11, 5);
}

uint16_t verify_bf16(long double x)
{
    return pack16(x, 8, 8);
}

double verify_from_f16(uint16_t x)
{
    return unpack16(x, 11, 5);
}

double verify_from_bf16(uint16_t x)
{
    return unpack16(x, 8, 8);
}

const char *verify_type_name(enum gb_type t)
{
    static const char *const name[GB_TYPES] = {"f16", "bf16", "f32", "f64",
                                               "c32", "c64",  "i8",  "i32"};

    return name[t];
}

/* The type of a part: f32 for c32. */
static enum gb_type part(enum gb_type t)
{
    return t == GB_C32 ? GB_F32 : t == GB_C64 ? GB_F64 : t;
}

static void store_part(enum gb_type t, void *at, long double x)
{
    uint16_t half = 0;
    float f = 0;
    double d = 0;

    switch (t) {
    case GB_F16:
        half = verify_f16(x);
        memcpy(at, &half, sizeof half);
        break;
    case GB_BF16:
        half = verify_bf16(x);
        memcpy(at, &half, sizeof half);
        break;
    case GB_F32:
        f = (float)x;
        memcpy(at, &f, sizeof f);
        break;
    case GB_F64:
        d = (double)x;
        memcpy(at, &d, sizeof d);
        break;
    default:
        bail("no elements of type %s", verify_type_name(t));
    }
}

static long double load_part(enum gb_type t, const void *at)
{
    uint16_t half;
    float f;
    double d;

    switch (t) {
    case GB_F16:
        memcpy(&half, at, sizeof half);
        return verify_from_f16(half);
    case GB_BF16:
        memcpy(&half, at, sizeof half);
        return verify_from_bf16(half);
    case GB_F32:
        memcpy(&f, at, sizeof f);
        return f;
    case GB_F64:
        memcpy(&d, at, sizeof d);
        return d;
    default:
        bail("no elements of type %s", verify_type_name(t));
    }
}

void verify_store(enum gb_type t, void *at, struct verify_value v)
{
    enum gb_type p = part(t);

    store_part(p, at, v.re);
    if (gb_is_complex(t))
        store_part(p, (char *)at + gb_type_size(p), v.im);
}

struct verify_value verify_load(enum gb_type t, const void *at)
{
    enum gb_type p = part(t);
    struct verify_value v = {.re = load_part(p, at)};

    if (gb_is_complex(t))
        v.im = load_part(p, (const char *)at + gb_type_size(p));
    return v;
}

/* A signalling NaN in each part; the payload says "gap". */
static void store_gap(enum gb_type t, char *at)
{
    static const uint16_t f16 = 0x7d6a, bf16 = 0x7faa;
    static const uint32_t f32 = 0x7fa06a90;
    static const uint64_t f64 = 0x7ff46a906a906a90;
    enum gb_type p = part(t);
    const void *bits = p == GB_F16    ? (const void *)&f16
                       : p == GB_BF16 ? (const void *)&bf16
                       : p == GB_F32  ? (const void *)&f32
                                      : (const void *)&f64;

    for (size_t i = 0; i < gb_type_size(t) / gb_type_size(p); i++)
        memcpy(at + i * gb_type_size(p), bits, gb_type_size(p));
}

/* Matrices */

static int64_t along(const struct verify_matrix *x) /* elements that lie side by side */
{
    return x->row_major ? x->cols : x->rows;
}

static int64_t lines(const struct verify_matrix *x)
{
    return x->row_major ? x->rows : x->cols;
}

void *verify_element(const struct verify_matrix *x, int64_t i, int64_t j)
{
    int64_t offset = x->row_major ? i * x->ld + j : i + j * x->ld;

    return (char *)x->at + offset * (int64_t)gb_type_size(x->type);
}

struct verify_value verify_get(const struct verify_matrix *x, int64_t i, int64_t j)
{
    return verify_load(x->type, verify_element(x, i, j));
}

void verify_set(const struct verify_matrix *x, int64_t i, int64_t j, double re,
                double im)
{
    verify_store(x->type, verify_element(x, i, j),
                 (struct verify_value){.re = re, .im = im});
}

void verify_matrix_make(struct verify_matrix *x, enum gb_type type, bool row_major,
                        int64_t rows, int64_t cols, int64_t ld, enum verify_place place)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t size = gb_type_size(type);
    size_t span = 0, shift = 0;

    *x = (struct verify_matrix){
        .type = type, .row_major = row_major, .rows = rows, .cols = cols, .ld = ld};
    if (rows > 0 && cols > 0)
        span = ((size_t)(lines(x) - 1) * (size_t)ld + (size_t)along(x)) * size;
    x->data_bytes = (span + 2 * size + page - 1) / page * page;
    x->map_bytes = x->data_bytes + 2 * page;
    x->map = mmap(NULL, x->map_bytes, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (x->map == MAP_FAILED)
        bail("no %zu bytes of memory", x->map_bytes);
    x->data = x->map + page;
    if (mprotect(x->data, x->data_bytes, PROT_READ | PROT_WRITE) != 0)
        bail("mprotect failed");
    if (place == VERIFY_HIGH)
        shift = x->data_bytes - span;
    else if (place == VERIFY_MIDDLE)
        shift = size;
    x->at = x->data + shift;
    for (size_t i = 0; i + size <= x->data_bytes; i += size)
        store_gap(type, x->data + i);
}

void verify_matrix_fill(struct verify_matrix *x, enum verify_fill fill,
                        struct verify_random *r)
{
    /* Sums of products of 16-bit integers must fit 8 bits in a bf16 C now and then, so
     * those stay smaller. */
    int64_t most = gb_type_size(x->type) == 2 ? 2 : 9;

    for (int64_t l = 0; l < lines(x); l++) {
        for (int64_t i = 0; i < along(x); i++) {
            struct verify_value v = {.re = (long double)NAN, .im = (long double)NAN};

            if (fill == VERIFY_NORMAL) {
                v.re = verify_normal(r);
                v.im = verify_normal(r);
            } else if (fill == VERIFY_INTEGERS) {
                v.re = verify_below(r, 2 * most + 1) - most;
                v.im = verify_below(r, 2 * most + 1) - most;
            }
            verify_store(
                x->type,
                (char *)x->at + (l * x->ld + i) * (int64_t)gb_type_size(x->type), v);
        }
    }
}

void verify_matrix_drop(struct verify_matrix *x)
{
    free(x->before);
    if (x->map)
        munmap(x->map, x->map_bytes);
    *x = (struct verify_matrix){.type = x->type};
}

void verify_freeze(struct verify_matrix *x, bool read_only)
{
    if (!x->before)
        x->before = malloc(x->data_bytes);
    if (!x->before)
        bail("no memory");
    memcpy(x->before, x->data, x->data_bytes);
    if (read_only && mprotect(x->data, x->data_bytes, PROT_READ) != 0)
        bail("mprotect failed");
}

bool verify_untouched(const struct verify_matrix *x)
{
    return memcmp(x->before, x->data, x->data_bytes) == 0;
}

bool verify_gaps_untouched(const struct verify_matrix *x)
{
    int64_t size = (int64_t)gb_type_size(x->type);
    const char *gap = x->data; /* the first byte after the last element seen */

    if (x->rows > 0 && x->cols > 0) {
        for (int64_t l = 0; l < lines(x); l++) {
            const char *line = (const char *)x->at + l * x->ld * size;

            if (memcmp(gap, x->before + (gap - x->data), (size_t)(line - gap)) != 0)
                return false;
            gap = line + along(x) * size;
        }
    }
    return memcmp(gap, x->before + (gap - x->data),
                  x->data_bytes - (size_t)(gap - x->data)) == 0;
}

/* Flavours */

#define GEMM(symbol, routine, interface, bits, type, type_c, scalars)                  \
    extern void symbol(void);
#include "flavours.def"
#undef GEMM

const struct verify_flavour verify_flavours[] = {
#define GEMM(symbol_, routine_, interface_, bits_, type_, type_c_, scalars_)           \
    {.symbol = #symbol_,                                                               \
     .routine = #routine_,                                                             \
     .interface = VERIFY_##interface_,                                                 \
     .bits = bits_,                                                                    \
     .type = GB_##type_,                                                               \
     .type_c = GB_##type_c_,                                                           \
     .scalars = VERIFY_##scalars_,                                                     \
     .fn = symbol_},
#include "flavours.def"
#undef GEMM
};
const int verify_flavour_count = sizeof verify_flavours / sizeof verify_flavours[0];

const struct verify_flavour *verify_flavour(const char *symbol)
{
    for (int i = 0; i < verify_flavour_count; i++)
        if (strcmp(verify_flavours[i].symbol, symbol) == 0)
            return &verify_flavours[i];
    bail("no flavour %s", symbol);
}

static int cblas_trans(const char *trans)
{
    switch (*trans) {
    case 'N':
        return 111;
    case 'T':
        return 112;
    case 'C':
        return 113;
    case 'R':
        return 114;
    default:
        return 0;
    }
}

/* The scalars' type is that of C: f32 for the mixed names, which take float scalars. */
void verify_call(const struct verify_flavour *f, int layout, const char *transa,
                 const char *transb, int64_t m, int64_t n, int64_t k,
                 struct gb_scalar alpha, const void *a, int64_t lda, const void *b,
                 int64_t ldb, struct gb_scalar beta, void *c, int64_t ldc)
{
    union {
        uint16_t u16;
        float f32;
        double f64;
        char bytes[16];
    } sa, sb;

    verify_store(f->type_c, &sa, (struct verify_value){.re = alpha.re, .im = alpha.im});
    verify_store(f->type_c, &sb, (struct verify_value){.re = beta.re, .im = beta.im});

#define CALL_FORTRAN(INT)                                                              \
    do {                                                                               \
        INT m_ = (INT)m, n_ = (INT)n, k_ = (INT)k;                                     \
        INT lda_ = (INT)lda, ldb_ = (INT)ldb, ldc_ = (INT)ldc;                         \
        ((void (*)(const char *, const char *, const INT *, const INT *, const INT *,  \
                   const void *, const void *, const INT *, const void *, const INT *, \
                   const void *, void *, const INT *, size_t, size_t))f->fn)(          \
            transa, transb, &m_, &n_, &k_, &sa, a, &lda_, b, &ldb_, &sb, c, &ldc_, 1,  \
            1);                                                                        \
    } while (0)
#define CALL_CBLAS(INT, SCALAR, sa_, sb_)                                              \
    ((void (*)(int, int, int, INT, INT, INT, SCALAR, const void *, INT, const void *,  \
               INT, SCALAR, void *, INT))f->fn)(                                       \
        layout, cblas_trans(transa), cblas_trans(transb), (INT)m, (INT)n, (INT)k, sa_, \
        a, (INT)lda, b, (INT)ldb, sb_, c, (INT)ldc)
#define CALL_CBLAS_BY(INT)                                                             \
    do {                                                                               \
        switch (f->scalars) {                                                          \
        case VERIFY_F32:                                                               \
            CALL_CBLAS(INT, float, sa.f32, sb.f32);                                    \
            break;                                                                     \
        case VERIFY_F64:                                                               \
            CALL_CBLAS(INT, double, sa.f64, sb.f64);                                   \
            break;                                                                     \
        case VERIFY_U16:                                                               \
            CALL_CBLAS(INT, uint16_t, sa.u16, sb.u16);                                 \
            break;                                                                     \
        case VERIFY_PTR:                                                               \
            CALL_CBLAS(INT, const void *, &sa, &sb);                                   \
            break;                                                                     \
        }                                                                              \
    } while (0)

    if (f->interface == VERIFY_FORTRAN && f->bits == 32)
        CALL_FORTRAN(int32_t);
    else if (f->interface == VERIFY_FORTRAN)
        CALL_FORTRAN(int64_t);
    else if (f->bits == 32)
        CALL_CBLAS_BY(int32_t);
    else
        CALL_CBLAS_BY(int64_t);
}

/* One product */

static const char *trans_letter(enum gb_trans t)
{
    static const char *const letter[] = {"N", "T", "C", "R"};

    return letter[t];
}

static bool transposed(enum gb_trans t)
{
    return t == GB_T || t == GB_C;
}

void verify_gemm_make(struct verify_gemm *g, enum verify_fill ab, enum verify_fill c,
                      const int64_t extra[3], enum verify_place place,
                      struct verify_random *r)
{
    int64_t a_rows = transposed(g->transa) ? g->k : g->m;
    int64_t a_cols = transposed(g->transa) ? g->m : g->k;
    int64_t b_rows = transposed(g->transb) ? g->n : g->k;
    int64_t b_cols = transposed(g->transb) ? g->k : g->n;
    int64_t lda = (g->row_major ? a_cols : a_rows) + extra[0];
    int64_t ldb = (g->row_major ? b_cols : b_rows) + extra[1];
    int64_t ldc = (g->row_major ? g->n : g->m) + extra[2];

    verify_matrix_make(&g->a, g->f->type, g->row_major, a_rows, a_cols,
                       lda > 0 ? lda : 1, place);
    verify_matrix_make(&g->b, g->f->type, g->row_major, b_rows, b_cols,
                       ldb > 0 ? ldb : 1, place);
    verify_matrix_make(&g->c, g->f->type_c, g->row_major, g->m, g->n, ldc > 0 ? ldc : 1,
                       place);
    verify_matrix_fill(&g->a, ab, r);
    verify_matrix_fill(&g->b, ab, r);
    verify_matrix_fill(&g->c, c, r);
}

void verify_gemm_drop(struct verify_gemm *g)
{
    verify_matrix_drop(&g->a);
    verify_matrix_drop(&g->b);
    verify_matrix_drop(&g->c);
}

void verify_gemm_call(const struct verify_gemm *g)
{
    verify_call(g->f, g->row_major ? 101 : 102, trans_letter(g->transa),
                trans_letter(g->transb), g->m, g->n, g->k, g->alpha, g->a.at, g->a.ld,
                g->b.at, g->b.ld, g->beta, g->c.at, g->c.ld);
}

void verify_describe(const struct verify_gemm *g, char *buf, size_t len)
{
    snprintf(
        buf, len,
        "%s %s %s %s m=%lld n=%lld k=%lld alpha=%g%+gi beta=%g%+gi lda=%lld ldb=%lld "
        "ldc=%lld",
        g->f->symbol, g->row_major ? "row" : "column", trans_letter(g->transa),
        trans_letter(g->transb), (long long)g->m, (long long)g->n, (long long)g->k,
        g->alpha.re, g->alpha.im, g->beta.re, g->beta.im, (long long)g->a.ld,
        (long long)g->b.ld, (long long)g->c.ld);
}

/* op(A) by rows or op(B) by columns, parts apart, k side by side, so that the reference
 * runs over contiguous memory. */
struct packed {
    double *re, *im;     /* im is NULL for real types */
    const int64_t *line; /* the row or column that each packed line holds */
    int64_t k;
};

static struct verify_value operand(const struct verify_matrix *x, enum gb_trans t,
                                   int64_t i, int64_t j)
{
    struct verify_value v = transposed(t) ? verify_get(x, j, i) : verify_get(x, i, j);

    if (t == GB_C || t == GB_CONJ)
        v.im = -v.im;
    return v;
}

static struct packed pack(const struct verify_matrix *x, enum gb_trans t, bool right,
                          const int64_t *line, int64_t count, int64_t k)
{
    size_t bytes = (size_t)(count * k + 1) * sizeof(double);
    struct packed p = {.re = malloc(bytes), .line = line, .k = k};

    if (gb_is_complex(x->type))
        p.im = malloc(bytes);
    if (!p.re || (gb_is_complex(x->type) && !p.im))
        bail("no memory");
    for (int64_t i = 0; i < count; i++) {
        for (int64_t l = 0; l < k; l++) {
            struct verify_value v =
                right ? operand(x, t, l, line[i]) : operand(x, t, line[i], l);

            p.re[i * k + l] = (double)v.re;
            if (p.im)
                p.im[i * k + l] = (double)v.im;
        }
    }
    return p;
}

/* A sum of products and the sum of their absolute values. Products of f32 are exact in
 * double, and double's own error is then far below the bound; f64 needs long double. */
struct dot {
    long double sum, abs;
};

static struct dot dot_short(const double *a, const double *b, int64_t k)
{
    double sum = 0, abs = 0;

    for (int64_t l = 0; l < k; l++) {
        double x = a[l] * b[l];

        sum += x;
        abs += fabs(x);
    }
    return (struct dot){.sum = sum, .abs = abs};
}

static struct dot dot_long(const double *a, const double *b, int64_t k)
{
    struct dot d = {.sum = 0};

    for (int64_t l = 0; l < k; l++) {
        long double x = (long double)a[l] * b[l];

        d.sum += x;
        d.abs += fabsl(x);
    }
    return d;
}

/* What C(i,j) should be, the gauge G of each part, and the part of it that is
 * beta*C. */
struct wanted {
    struct verify_value value, g, beta_c;
};

static struct wanted reference(const struct verify_gemm *g, enum verify_how how,
                               const struct packed *a, const struct packed *b,
                               int64_t ia, int64_t jb, struct verify_value before)
{
    struct dot (*dot)(const double *, const double *, int64_t) =
        part(g->f->type) == GB_F64 && how != VERIFY_EXACT ? dot_long : dot_short;
    long double ar = g->alpha.re, ai = g->alpha.im, br = g->beta.re, bi = g->beta.im;
    struct verify_value s = {.re = 0}, abs = {.re = 0};
    struct wanted w = {.value = {.re = 0}};
    int64_t k = g->k;

    if (g->k > 0 && a->re && b->re) { /* packed unless alpha is 0 */
        struct dot rr = dot(a->re + ia * k, b->re + jb * k, k);

        s.re = rr.sum;
        abs.re = rr.abs;
        if (a->im) {
            struct dot ii = dot(a->im + ia * k, b->im + jb * k, k);
            struct dot ri = dot(a->re + ia * k, b->im + jb * k, k);
            struct dot ir = dot(a->im + ia * k, b->re + jb * k, k);

            s.re -= ii.sum;
            abs.re += ii.abs;
            s.im = ri.sum + ir.sum;
            abs.im = ri.abs + ir.abs;
        }
        w.value.re = ar * s.re;
        w.g.re = fabsl(ar) * abs.re;
        if (a->im) {
            w.value.re -= ai * s.im;
            w.g.re += fabsl(ai) * abs.im;
            w.value.im = ar * s.im + ai * s.re;
            w.g.im = fabsl(ar) * abs.im + fabsl(ai) * abs.re;
        }
    }
    if (br != 0 || bi != 0) {
        w.value.re += br * before.re;
        w.beta_c.re = fabsl(br * before.re);
        if (gb_is_complex(g->f->type_c)) {
            w.value.re -= bi * before.im;
            w.beta_c.re += fabsl(bi * before.im);
            w.value.im += br * before.im + bi * before.re;
            w.beta_c.im = fabsl(br * before.im) + fabsl(bi * before.re);
        }
    }
    return w;
}

/* Unit roundoff of a type. */
static long double roundoff(enum gb_type t)
{
    switch (part(t)) {
    case GB_F16:
        return 0x1p-11L;
    case GB_BF16:
        return 0x1p-8L;
    case GB_F32:
        return 0x1p-24L;
    default:
        return 0x1p-53L;
    }
}

static bool part_right(const struct verify_gemm *g, enum verify_how how,
                       long double want, long double seen, long double gauge,
                       long double beta_c)
{
    enum gb_type type_c = part(g->f->type_c);
    char rounded[16];
    long double want_rounded, u, error, terms, allowed;

    store_part(type_c, rounded, want);
    want_rounded = load_part(type_c, rounded);
    if (isnan(want_rounded) || isnan(seen))
        return isnan(want_rounded) && isnan(seen);
    if (seen == want_rounded)
        return true;
    if (how == VERIFY_EXACT || isinf(want_rounded) || isinf(seen))
        return false;
    u = roundoff(part(g->f->type) == GB_F64 ? GB_F64 : GB_F32);
    error = fabsl(seen - want);
    /* One rounding to a C that is shorter than the accumulator; its smallest step when
     * the result is subnormal. */
    allowed = 0;
    if (roundoff(type_c) > u)
        allowed = roundoff(type_c) * fabsl(want) + (type_c == GB_F16 ? 0x1p-25L : 0);
    if (how == VERIFY_BOUND) {
        terms = (long double)g->k * (gb_is_complex(g->f->type) ? 2 : 1) + 2;
        if (error >
            (terms * u * gauge + 2 * u * beta_c) * (1 + roundoff(type_c)) + allowed)
            return false;
    }
    return error < 16 * 2 * u * (gauge + beta_c) + allowed;
}

static bool element_right(const struct verify_gemm *g, enum verify_how how,
                          const struct wanted *w, int64_t i, int64_t j, char *why,
                          size_t len)
{
    struct verify_value seen = verify_get(&g->c, i, j);
    char call[256];

    if (part_right(g, how, w->value.re, seen.re, w->g.re, w->beta_c.re) &&
        (!gb_is_complex(g->f->type_c) ||
         part_right(g, how, w->value.im, seen.im, w->g.im, w->beta_c.im)))
        return true;
    verify_describe(g, call, sizeof call);
    snprintf(why, len,
             "C(%lld,%lld) is %.17Lg%+.17Lgi, not %.17Lg%+.17Lgi (G %.3Lg): %s",
             (long long)i, (long long)j, seen.re, seen.im, w->value.re, w->value.im,
             w->g.re + w->beta_c.re, call);
    return false;
}

/* Which rows (or columns) to compare: all, or edges and random ones. Returns how
 * many. */
static int64_t choose(int64_t n, int64_t most, int64_t *line)
{
    struct verify_random r = verify_seed((uint64_t)n);

    if (n <= most) {
        for (int64_t i = 0; i < n; i++)
            line[i] = i;
        return n;
    }
    for (int64_t i = 0; i < most; i++)
        line[i] = i < 2 ? i : i < 4 ? n - 1 - (i - 2) : verify_below(&r, n);
    return most;
}

bool verify_gemm_check(const struct verify_gemm *g, enum verify_how how, char *why,
                       size_t len)
{
    struct verify_matrix c0 = g->c; /* C as it was */
    int64_t most_rows = g->m, most_cols = g->n, rows, cols;
    int64_t *row, *col;
    struct packed a = {.re = NULL}, b = {.re = NULL};
    char call[256];
    bool right = true;

    verify_describe(g, call, sizeof call);
    if (!verify_untouched(&g->a) || !verify_untouched(&g->b)) {
        snprintf(why, len, "an input has changed: %s", call);
        return false;
    }
    if (!verify_gaps_untouched(&g->c)) {
        snprintf(why, len, "memory that is not C's has changed: %s", call);
        return false;
    }
    /* About 2^26 multiply-adds of reference at most. */
    if ((double)g->m * (double)g->n * (double)(g->k + 1) > 0x1p26) {
        most_rows = g->m < 97 ? g->m : 97;
        most_cols = (int64_t)(0x1p26 / (double)(g->k + 1) / (double)most_rows) + 5;
        if (most_cols > 2000)
            most_cols = 2000;
    }
    row = malloc((size_t)(g->m + 1) * sizeof *row);
    col = malloc((size_t)(g->n + 1) * sizeof *col);
    if (!row || !col)
        bail("no memory");
    rows = choose(g->m, most_rows, row);
    cols = choose(g->n, most_cols, col);
    c0.at = c0.before + ((const char *)g->c.at - g->c.data);
    if (g->alpha.re != 0 || g->alpha.im != 0) {
        a = pack(&g->a, g->transa, false, row, rows, g->k);
        b = pack(&g->b, g->transb, true, col, cols, g->k);
    }
    for (int64_t j = 0; right && j < cols; j++) {
        for (int64_t i = 0; right && i < rows; i++) {
            struct wanted w =
                reference(g, how, &a, &b, i, j, verify_get(&c0, row[i], col[j]));

            right = element_right(g, how, &w, row[i], col[j], why, len);
        }
    }
    free(a.re);
    free(a.im);
    free(b.re);
    free(b.im);
    free(row);
    free(col);
    return right;
}

/* Crash reports */

static __thread char watched[256];

static void on_fault(int signal_number)
{
    static const char start[] = "not ok - fault in ";
    char text[sizeof start + sizeof watched + 2];
    size_t n = strlen(watched);

    memcpy(text, start, sizeof start - 1);
    memcpy(text + sizeof start - 1, watched, n);
    text[sizeof start - 1 + n] = '\n';
    if (write(STDOUT_FILENO, text, sizeof start + n) < 0)
        _exit(EXIT_FAILURE);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void verify_watch(const struct verify_gemm *g)
{
    static atomic_bool installed;

    verify_describe(g, watched, sizeof watched);
    if (!atomic_exchange(&installed, true)) {
        struct sigaction act = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};

        sigaction(SIGSEGV, &act, NULL);
        sigaction(SIGBUS, &act, NULL);
    }
}

/* The BLAS behind */

/* Of the calls, see verify_route(). */
static FILE *trace;
static char trace_path[64];

enum { OBJECTS = 256 };

struct objects {
    char *name[OBJECTS];
    int count;
};

/* The names only: nothing may be asked from in here. */
static int collect(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct objects *o = arg;

    (void)size;
    if (info->dlpi_name[0] && o->count < OBJECTS)
        o->name[o->count++] = strdup(info->dlpi_name);
    return 0;
}

static const struct link_map *object_of(const void *addr)
{
    struct link_map *map = NULL;
    Dl_info info;

    return addr && dladdr1(addr, &info, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

/* That object's own definition of the name, if it is no gemmblas and not what the test
 * calls. */
static void *defined_by(const char *object, const char *name)
{
    void *handle = object ? dlopen(object, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *fn = handle ? dlsym(handle, name) : NULL;
    const struct link_map *map = object_of(fn), *wanted = NULL;

    if (!handle)
        return NULL;
    dlinfo(handle, RTLD_DI_LINKMAP, (void *)&wanted);
    if (map != wanted || map == object_of(dlsym(RTLD_DEFAULT, name)) ||
        object_of(dlsym(handle, "gemmblas_version")) == map)
        fn = NULL;
    dlclose(handle);
    return fn;
}

static void *defined_by_any(const char *name)
{
    void *fn = defined_by(getenv("GEMMBLAS_LIBRARY"), name);
    struct objects o = {.count = 0};

    dl_iterate_phdr(collect, &o);
    for (int i = 0; i < o.count; i++) {
        if (!fn)
            fn = defined_by(o.name[i], name);
        free(o.name[i]);
    }
    return fn;
}

bool verify_direct(const struct verify_flavour *f, struct verify_flavour *direct)
{
    void *fn = defined_by_any(f->symbol);
    size_t len = strlen(f->symbol);
    char spelt[64];

    /* "dgemm", which hardly any BLAS has, is "dgemm_" by another name. */
    if (!fn && f->interface == VERIFY_FORTRAN && f->symbol[len - 1] != '_') {
        snprintf(spelt, sizeof spelt, "%s_", f->symbol);
        fn = defined_by_any(spelt);
    }
    *direct = *f;
    direct->fn = (void (*)(void))fn;
    return fn != NULL;
}

/* An empty call, so that the BLAS behind the name is known. */
static void touch(const struct verify_flavour *f)
{
    char none[16] = {0};

    verify_call(f, 102, "N", "N", 0, 0, 0, verify_real(1), none, 1, none, 1,
                verify_real(1), none, 1);
    if (trace)
        verify_trace_read();
}

bool verify_takes_conj(const struct verify_flavour *f)
{
    static const char *const marks[] = {"openblas_get_config", "openblas_get_config64_",
                                        "scipy_openblas_get_config",
                                        "scipy_openblas_get_config64_"};
    static signed char known[64]; /* 1: yes, -1: no */
    signed char *answer = &known[f - verify_flavours];
    struct verify_flavour direct;
    const struct link_map *map;
    void *handle;

    if (*answer)
        return *answer > 0;
    touch(f);
    *answer = 1;
    if (!verify_direct(f, &direct))
        return true;
    map = object_of((void *)direct.fn);
    handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
    *answer = -1;
    for (int i = 0; handle && i < 4; i++)
        if (dlsym(handle, marks[i]))
            *answer = 1;
    if (*answer < 0)
        diag("%s: the BLAS behind is no OpenBLAS, so the letter R is not tried",
             f->symbol);
    return *answer > 0;
}

void verify_say_provider(void)
{
    const struct verify_flavour *f = verify_flavour("dgemm_");
    struct verify_flavour direct;

    touch(f);
    if (verify_direct(f, &direct))
        diag("the BLAS behind dgemm_: %s", object_of((void *)direct.fn)->l_name);
    else
        diag("there is no BLAS behind dgemm_");
}

/* What the BLAS behind does with it is right, whatever that is: the same bytes, gaps
 * included. */
static bool as_direct(const struct verify_gemm *g, const struct verify_flavour *direct,
                      char *why, size_t len)
{
    struct verify_gemm again = *g;
    char *seen = malloc(g->c.data_bytes + 1), call[256];
    struct stat traced = {.st_size = 0};
    bool same;

    if (!seen)
        bail("no memory");
    memcpy(seen, g->c.data, g->c.data_bytes);
    memcpy(g->c.data, g->c.before, g->c.data_bytes);
    again.f = direct;
    if (trace && stat(trace_path, &traced) != 0)
        bail("no trace");
    verify_gemm_call(&again);
    /* The reference's cblas_dgemm calls dgemm_, which is ours. */
    if (trace && truncate(trace_path, traced.st_size) != 0)
        bail("no trace");
    same = memcmp(seen, g->c.data, g->c.data_bytes) == 0;
    memcpy(g->c.data, seen, g->c.data_bytes);
    free(seen);
    verify_describe(g, call, sizeof call);
    if (!same)
        snprintf(why, len, "not what the BLAS behind makes of it: %s", call);
    return same;
}

bool verify_gemm_run(struct verify_gemm *g, enum verify_how how, char *why, size_t len)
{
    struct verify_flavour direct;

    verify_freeze(&g->a, true);
    verify_freeze(&g->b, true);
    verify_freeze(&g->c, false);
    verify_watch(g);
    verify_gemm_call(g);
    if ((g->k == 0 || (g->alpha.re == 0 && g->alpha.im == 0)) &&
        verify_direct(g->f, &direct))
        return as_direct(g, &direct, why, len);
    return verify_gemm_check(g, how, why, len);
}

/* Route and trace */

static pid_t trace_owner;

static void drop_trace(void)
{
    if (getpid() == trace_owner)
        unlink(trace_path);
}

bool verify_route(const char *route)
{
    const char *device;
    int fd;

    setenv("GEMMBLAS_ROUTE", route, 0);
    setenv("GEMMBLAS_DEVICE", "emu", 0);
    snprintf(trace_path, sizeof trace_path, "/tmp/gemmblas-trace-XXXXXX");
    fd = mkstemp(trace_path);
    if (fd < 0 || !(trace = fdopen(fd, "r")))
        bail("no file for the trace");
    trace_owner = getpid();
    atexit(drop_trace);
    setenv("GEMMBLAS_TRACE", trace_path, 1);
    device = getenv("GEMMBLAS_DEVICE");
    route = getenv("GEMMBLAS_ROUTE");
    return route && device && strcmp(route, "gpu") == 0 && strcmp(device, "none") != 0;
}

bool verify_on_hardware(void)
{
    const char *device = getenv("GEMMBLAS_DEVICE");

    return device && strncmp(device, "emu", 3) != 0 && strcmp(device, "none") != 0;
}

/* The text after " key=" in a trace line, up to a blank, into buf. */
static bool field(const char *line, const char *key, char *buf, size_t len)
{
    char pattern[32];
    const char *at;
    size_t n;

    snprintf(pattern, sizeof pattern, " %s=", key);
    at = strstr(line, pattern);
    if (!at)
        return false;
    at += strlen(pattern);
    n = strcspn(at, " \n");
    if (n >= len)
        n = len - 1;
    memcpy(buf, at, n);
    buf[n] = '\0';
    return true;
}

static long long number(const char *line, const char *key)
{
    char text[32];

    return field(line, key, text, sizeof text) ? atoll(text) : -1;
}

struct verify_trace verify_trace_read(void)
{
    struct verify_trace t = {.calls = 0};
    char line[1024], route[8];

    clearerr(trace); /* past the end of file of the last reading */
    while (fgets(line, sizeof line, trace)) {
        if (!field(line, "route", route, sizeof route))
            continue;
        /* A BLAS whose cblas_dgemm calls dgemm_, which is ours: one call. */
        if (field(line, "why", t.why, sizeof t.why) && strcmp(t.why, "nested") == 0)
            continue;
        t.calls++;
        t.on_gpu = strcmp(route, "gpu") == 0;
        if (t.on_gpu)
            t.gpu++;
        else
            t.cpu++;
        t.kernel[0] = t.routine[0] = '\0';
        field(line, "routine", t.routine, sizeof t.routine);
        field(line, "kernel", t.kernel, sizeof t.kernel);
        t.m = number(line, "m");
        t.n = number(line, "n");
        t.k = number(line, "k");
        t.panels = number(line, "panels");
        t.splits = number(line, "splits");
    }
    return t;
}
