/* SPDX-License-Identifier: BSD-3-Clause */
/* Seeded random numbers, elements of every type, and matrices between guard pages. */
#include "operands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tap.h"

/* ---- random numbers -------------------------------------------------------------- */

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

/* ---- types ----------------------------------------------------------------------- */

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

enum gb_type verify_part(enum gb_type t)
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
    enum gb_type p = verify_part(t);

    store_part(p, at, v.re);
    if (gb_is_complex(t))
        store_part(p, (char *)at + gb_type_size(p), v.im);
}

struct verify_value verify_load(enum gb_type t, const void *at)
{
    enum gb_type p = verify_part(t);
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
    enum gb_type p = verify_part(t);
    const void *bits = p == GB_F16    ? (const void *)&f16
                       : p == GB_BF16 ? (const void *)&bf16
                       : p == GB_F32  ? (const void *)&f32
                                      : (const void *)&f64;

    for (size_t i = 0; i < gb_type_size(t) / gb_type_size(p); i++)
        memcpy(at + i * gb_type_size(p), bits, gb_type_size(p));
}

/* ---- matrices -------------------------------------------------------------------- */

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
