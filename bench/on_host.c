/* SPDX-License-Identifier: BSD-3-Clause */
/* Host pointers: our exported routine against other libraries in one process, call by
 * call in random order. Fresh: every call gets pages that nobody has seen; repeat: the
 * same buffers, one set per library. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "modes.h"
#include "peers.h"
#include "shared.h"

/* Threads of a CPU BLAS spin for some 30 ms after a call and would take cores from the
 * copy threads of whoever comes next. */
static const double settle_ms = 40;

struct buffers {
    void *a, *b, *c;
};

struct sizes {
    size_t a, b, c;
};

struct host_bench {
    const struct bench_options *o;
    struct bench_trace trace;
    struct bench_run run;
    struct bench_peer side[1 + BENCH_PEERS]; /* side 0 is ours */
    int sides;
    uint64_t random;
    int wrong;
};

/* Everything that lives for one shape. */
struct host_shape {
    const struct bench_shape *s;
    struct sizes size;
    struct buffers master; /* operands, and C before a call */
    struct buffers kept[1 + BENCH_PEERS];
    void *result[1 + BENCH_PEERS];
    double *sample[1 + BENCH_PEERS];
    int calls[1 + BENCH_PEERS]; /* per sample */
    bool able[1 + BENCH_PEERS];
    struct bench_ran ran; /* ours */
};

/* mmap, so that pages are new even when malloc would reuse a block. */
static void *map_pages(size_t size)
{
    void *p =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        bench_die("%zu bytes: out of memory; take a smaller shape", size);
    return p;
}

static struct buffers map_buffers(struct sizes size)
{
    struct buffers f = {map_pages(size.a), map_pages(size.b), map_pages(size.c)};

    return f;
}

static void unmap_buffers(struct buffers f, struct sizes size)
{
    munmap(f.a, size.a);
    munmap(f.b, size.b);
    munmap(f.c, size.c);
}

static struct buffers copy_buffers(const struct host_shape *h)
{
    struct buffers f = map_buffers(h->size);

    memcpy(f.a, h->master.a, h->size.a);
    memcpy(f.b, h->master.b, h->size.b);
    memcpy(f.c, h->master.c, h->size.c);
    return f;
}

static double call_us(const struct host_bench *b, const struct bench_shape *s, int side,
                      struct buffers f, int calls)
{
    double start = bench_now_us();
    int i;

    for (i = 0; i < calls; i++)
        if (!bench_peer_host(&b->side[side], s, f.a, f.b, f.c))
            bench_die("%s reports an error; leave it out of --peer",
                      b->side[side].label);
    return (bench_now_us() - start) / calls;
}

static void prepare(struct host_bench *b, struct host_shape *h)
{
    const struct bench_shape *s = h->s;
    int i;

    h->size = (struct sizes){bench_bytes_a(s), bench_bytes_b(s), bench_bytes_c(s)};
    h->master = map_buffers(h->size);
    bench_fill(s->type, h->master.a, h->size.a / gb_type_size(s->type), &b->random);
    bench_fill(s->type, h->master.b, h->size.b / gb_type_size(s->type), &b->random);
    if (s->beta == 0)
        memset(h->master.c, 0xff, h->size.c); /* NaN: nobody may read it */
    else
        bench_fill(s->type_c, h->master.c, h->size.c / gb_type_size(s->type_c),
                   &b->random);
    for (i = 0; i < b->sides; i++) {
        h->able[i] = *bench_peer_can(&b->side[i], s) == '\0';
        h->sample[i] = calloc((size_t)b->o->repeats, sizeof(double));
        if (!h->sample[i])
            bench_die("out of memory; ask for fewer --repeats");
    }
}

static void release(struct host_bench *b, struct host_shape *h)
{
    int i;

    for (i = 0; i < b->sides; i++) {
        free(h->sample[i]);
        if (h->kept[i].a)
            unmap_buffers(h->kept[i], h->size);
        if (h->result[i])
            munmap(h->result[i], h->size.c);
    }
    unmap_buffers(h->master, h->size);
}

/* The first calls: warm up, keep a result to be judged, and find how many calls make a
 * sample. A fresh buffer serves one call. */
static void warm_up(struct host_bench *b, struct host_shape *h, int side)
{
    bool fresh = b->o->place == BENCH_HOST_FRESH;
    struct buffers f = copy_buffers(h);
    double us;

    if (side == 0)
        bench_trace_clear(&b->trace);
    call_us(b, h->s, side, f, 1);
    if (side == 0) {
        bench_trace_unlink(&b->trace); /* ours has it open by now */
        bench_trace_read(&b->trace, &h->ran);
    }
    h->result[side] = map_pages(h->size.c);
    memcpy(h->result[side], f.c, h->size.c);
    us = call_us(b, h->s, side, f, 1);
    h->calls[side] = 1;
    if (!fresh && us < b->o->block_ms * 1e3)
        h->calls[side] = 1 + (int)(b->o->block_ms * 1e3 / (us + 0.01));
    if (h->calls[side] > 100000)
        h->calls[side] = 100000;
    if (fresh)
        unmap_buffers(f, h->size);
    else
        h->kept[side] = f;
}

static void settle(const struct host_bench *b)
{
    double ms = b->o->pause_ms >= 0 ? b->o->pause_ms : settle_ms;

    usleep((useconds_t)(ms * 1e3));
}

static double one_sample(struct host_bench *b, struct host_shape *h, int side)
{
    struct buffers f;
    double us;

    if (b->o->place == BENCH_HOST_REPEAT) {
        settle(b);
        return call_us(b, h->s, side, h->kept[side], h->calls[side]);
    }
    f = copy_buffers(h);
    settle(b);
    us = call_us(b, h->s, side, f, 1);
    unmap_buffers(f, h->size);
    return us;
}

static void write_rows(struct host_bench *b, struct host_shape *h)
{
    size_t n = (size_t)b->o->repeats;
    struct bench_row row = {.shape = h->s,
                            .place = b->o->place,
                            .math = b->o->math,
                            .kernel = h->ran.kernel,
                            .splits = h->ran.splits,
                            .remark = h->ran.remark,
                            .ours_us = bench_median(h->sample[0], n),
                            .spread = bench_spread(h->sample[0], n)};
    int rows = 0;
    int i;

    for (i = 1; i < b->sides; i++) {
        if (!h->able[i])
            continue;
        row.peer = b->side[i].label;
        row.peer_us = bench_median(h->sample[i], n);
        bench_judge_pair(h->s, b->o->math, h->master.a, h->master.b, h->master.c,
                         h->result[0], h->result[i], &row.ours_wrong, &row.peer_wrong);
        bench_row_write(&b->run, &row);
        rows++;
    }
    if (rows == 0) {
        row.ours_wrong = !bench_judge(h->s, b->o->math, h->master.a, h->master.b,
                                      h->master.c, h->result[0]);
        bench_row_write(&b->run, &row);
    }
    b->wrong += row.ours_wrong;
}

static void measure(struct host_bench *b, const struct bench_shape *s)
{
    struct host_shape h = {.s = s};
    const char *why = bench_peer_can(&b->side[0], s);
    int order[1 + BENCH_PEERS];
    int r;
    int i;

    if (*why) {
        printf("%s %s: skipped, %s\n", gb_type_name(s->type), gb_type_name(s->type_c),
               why);
        return;
    }
    prepare(b, &h);
    for (i = 0; i < b->sides; i++)
        if (h.able[i])
            warm_up(b, &h, i);
    for (r = 0; r < b->o->repeats; r++) {
        bench_shuffle(order, b->sides, &b->random);
        for (i = 0; i < b->sides; i++)
            if (h.able[order[i]])
                h.sample[order[i]][r] = one_sample(b, &h, order[i]);
    }
    write_rows(b, &h);
    release(b, &h);
}

int bench_on_host(const struct bench_options *o, const struct bench_shape *shapes,
                  size_t count)
{
    struct host_bench *b = calloc(1, sizeof(*b));
    const char *spec[BENCH_PEERS];
    char text[1024];
    char name[64] = "none";
    int driver = 0;
    int wrong;
    size_t i;
    int n;

    if (!b)
        bench_die("out of memory; close other programs");
    b->o = o;
    b->random = o->seed;
    n = bench_peer_list(o, text, sizeof(text), spec);
    bench_device_name(o, name, sizeof(name), &driver);
    bench_run_init(&b->run, name, driver, o);
    bench_ours_open(&b->side[0], o);
    for (b->sides = 1; b->sides <= n; b->sides++) {
        if (strcmp(spec[b->sides - 1], "cublas") == 0)
            bench_die("--peer cublas: it needs --place resident; take cublasxt");
        bench_peer_open(&b->side[b->sides], spec[b->sides - 1], o);
    }
    bench_trace_open(&b->trace);
    if (b->trace.fd >= 0)
        setenv("GEMMBLAS_TRACE", b->trace.path, 1);
    for (i = 0; i < count; i++)
        measure(b, &shapes[i]);
    bench_trace_unlink(&b->trace);
    for (n = 1; n < b->sides; n++)
        bench_peer_close(&b->side[n]);
    wrong = b->wrong;
    free(b);
    return wrong;
}
