/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that calls sgemm_, dgemm_, cgemm_ or zgemm_ and knows nothing of any GPU:
 * those four symbols are left undefined, and whatever is preloaded provides them.
 *
 * client-gemm TYPE TRANSA TRANSB M N K LDA LDB LDC BETA PLACE CALLS SEED
 * prints the microseconds of each call on a line, then `right` or `wrong`. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"

enum { ARGUMENTS = 14 };

/* Weak, so that the program links without a BLAS; -z dynamic-undefined-weak keeps them
 * dynamic symbols all the same. */
#define DECLARE(name)                                                                  \
    __attribute__((weak)) void name(                                                   \
        const char *transa, const char *transb, const int *m, const int *n,            \
        const int *k, const void *alpha, const void *a, const int *lda, const void *b, \
        const int *ldb, const void *beta, void *c, const int *ldc, size_t length_a,    \
        size_t length_b)

DECLARE(sgemm_);
DECLARE(dgemm_);
DECLARE(cgemm_);
DECLARE(zgemm_);

struct client {
    struct bench_shape s;
    bool fresh;
    int calls;
    uint64_t random;
    size_t bytes_a, bytes_b, bytes_c;
    void *a, *b, *c0; /* masters */
};

static void *map_pages(size_t size)
{
    void *p =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        bench_die("%zu bytes: out of memory; take a smaller shape", size);
    return p;
}

static void gemm(const struct bench_shape *s, const void *a, const void *b, void *c)
{
    const char *ta = gb_trans_name(s->transa);
    const char *tb = gb_trans_name(s->transb);
    int m = (int)s->m;
    int n = (int)s->n;
    int k = (int)s->k;
    int lda = (int)s->lda;
    int ldb = (int)s->ldb;
    int ldc = (int)s->ldc;
    double one[2] = {1, 0};
    double beta[2] = {s->beta, 0};
    float one_f[2] = {1, 0};
    float beta_f[2] = {(float)s->beta, 0};

    switch (s->type) {
    case GB_F32:
        sgemm_(ta, tb, &m, &n, &k, one_f, a, &lda, b, &ldb, beta_f, c, &ldc, 1, 1);
        return;
    case GB_F64:
        dgemm_(ta, tb, &m, &n, &k, one, a, &lda, b, &ldb, beta, c, &ldc, 1, 1);
        return;
    case GB_C32:
        cgemm_(ta, tb, &m, &n, &k, one_f, a, &lda, b, &ldb, beta_f, c, &ldc, 1, 1);
        return;
    case GB_C64:
        zgemm_(ta, tb, &m, &n, &k, one, a, &lda, b, &ldb, beta, c, &ldc, 1, 1);
        return;
    case GB_F16:
    case GB_BF16:
    case GB_I8:
    case GB_I32:
    case GB_TYPES:
        break;
    }
    bench_die("type %s: give f32, f64, c32 or c64", gb_type_name(s->type));
}

static void parse(struct client *c, char **argv)
{
    bool ok_a;
    bool ok_b;

    c->s = (struct bench_shape){
        .routine = "gemm",
        .type = bench_type(argv[1]),
        .type_c = bench_type(argv[1]),
        .transa = bench_trans(argv[2], &ok_a),
        .transb = bench_trans(argv[3], &ok_b),
        .m = bench_integer("m", argv[4], 1, INT32_MAX),
        .n = bench_integer("n", argv[5], 1, INT32_MAX),
        .k = bench_integer("k", argv[6], 1, INT32_MAX),
        .lda = bench_integer("lda", argv[7], 1, INT32_MAX),
        .ldb = bench_integer("ldb", argv[8], 1, INT32_MAX),
        .ldc = bench_integer("ldc", argv[9], 1, INT32_MAX),
        .batch = 1,
        .beta = bench_decimal("beta", argv[10], -1e9, 1e9),
    };
    if (!ok_a || !ok_b || c->s.type >= GB_TYPES)
        bench_die("'%s %s %s': give a type and two of N, T, C", argv[1], argv[2],
                  argv[3]);
    c->fresh = strcmp(argv[11], bench_place_name(BENCH_HOST_FRESH)) == 0;
    if (!c->fresh && strcmp(argv[11], bench_place_name(BENCH_HOST_REPEAT)) != 0)
        bench_die("place '%s': give host-fresh or host-repeat", argv[11]);
    c->calls = (int)bench_integer("calls", argv[12], 1, 1000000);
    c->random = (uint64_t)bench_integer("seed", argv[13], 1, INT64_MAX);
}

static void prepare(struct client *c)
{
    const struct bench_shape *s = &c->s;

    c->bytes_a = bench_bytes_a(s);
    c->bytes_b = bench_bytes_b(s);
    c->bytes_c = bench_bytes_c(s);
    c->a = map_pages(c->bytes_a);
    c->b = map_pages(c->bytes_b);
    c->c0 = map_pages(c->bytes_c);
    bench_fill(s->type, c->a, c->bytes_a / gb_type_size(s->type), &c->random);
    bench_fill(s->type, c->b, c->bytes_b / gb_type_size(s->type), &c->random);
    if (s->beta == 0)
        memset(c->c0, 0xff, c->bytes_c); /* NaN: nobody may read it */
    else
        bench_fill(s->type, c->c0, c->bytes_c / gb_type_size(s->type), &c->random);
}

static void *copy_of(const void *from, size_t bytes)
{
    return memcpy(map_pages(bytes), from, bytes);
}

int main(int argc, char **argv)
{
    struct client c = {.calls = 0};
    bool right = true;
    double start;
    void *a;
    void *b;
    void *x;
    int i;

    bench_name("client-gemm");
    if (argc != ARGUMENTS)
        bench_die("give 13 arguments: TYPE TRANSA TRANSB M N K LDA LDB LDC BETA "
                  "host-fresh|host-repeat CALLS SEED");
    parse(&c, argv);
    if (!sgemm_ || !dgemm_ || !cgemm_ || !zgemm_)
        bench_die("no BLAS in this process; start it with LD_PRELOAD=libopenblas.so.0");
    prepare(&c);
    a = copy_of(c.a, c.bytes_a);
    b = copy_of(c.b, c.bytes_b);
    x = copy_of(c.c0, c.bytes_c);
    for (i = 0; i <= c.calls; i++) {
        start = bench_now_us();
        gemm(&c.s, a, b, x);
        /* The first call opens the device: it warms up and is judged, not counted. */
        if (i == 0)
            right = bench_judge(&c.s, BENCH_NATIVE, c.a, c.b, c.c0, x);
        else
            printf("%.3f\n", bench_now_us() - start);
        if (c.fresh) {
            munmap(a, c.bytes_a);
            munmap(b, c.bytes_b);
            munmap(x, c.bytes_c);
            a = copy_of(c.a, c.bytes_a);
            b = copy_of(c.b, c.bytes_b);
            x = copy_of(c.c0, c.bytes_c);
        }
    }
    printf("%s\n", right ? "right" : "wrong");
    return 0;
}
