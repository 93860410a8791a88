/* SPDX-License-Identifier: BSD-3-Clause */
/* Device-resident: a kernel row through the ops table, and cuBLAS in the same context
 * on the same operands. Sets of operands rotate while they would fit the L2 cache, so
 * that nothing is warm by accident. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "emulated.h"
#include "gemm_args.h"
#include "integer.h"
#include "kernels.h"
#include "launch.h"
#include "modes.h"
#include "peers.h"
#include "plan.h"
#include "shared.h"
#include "tuned_file.h"
#include "util.h"

enum {
    CHUNK = 32 << 20, /* of pinned memory, for copies */
    MOST_SETS = 1024,
    EMU_SETS = 2, /* enough to rotate */
    MOST_LAUNCHES = 20000,
};

/* Device time on CUDA: the ops table's timers, which are the driver's own events, so that
 * the driver can record them among a peer's work too. */
struct cuda_clock {
    int (*record)(void *event, void *stream);
    struct gb_event *start, *stop;
};

enum host_use { HOST_A, HOST_B, HOST_C0, HOST_X, HOST_Y, HOST_USES };

struct device_bench {
    const struct bench_options *o;
    struct bench_run run;
    struct gb_device *dev;
    const struct gb_device_ops *ops;
    struct gb_stream *stream;
    struct cuda_clock clock; /* start NULL: the host's clock */
    void *pinned;
    void *host[HOST_USES];
    size_t host_bytes[HOST_USES];
    const char *family[GB_FAMILIES];
    struct gb_module *module[GB_FAMILIES];
    struct bench_peer peer[BENCH_PEERS];
    int peers;
    uint64_t random;
    uint32_t hints;         /* enum gb_gemm_flags */
    void *pass_image;       /* of the kernel after a peer's product, see epilogue.cu */
    struct gb_module *pass; /* loaded with the first such peer */
    struct gb_stream *default_stream; /* the peers' */
    int wrong;
};

/* One kind of operand: `sets` of them in one allocation. */
struct operand {
    gb_devptr base;
    size_t stride; /* from set to set, bytes */
};

struct device_shape {
    const struct bench_shape *s;
    struct gb_choice choice;
    struct gb_extra extra;
    struct gb_function *gemm, *reduce, *repair, *pass;
    struct gb_emulated emulated;
    struct gb_integer integer;
    size_t bytes_a, bytes_b, bytes_c;
    void *a, *b, *c0, *x, *y; /* on the host: set 0, C before a call, two results */
    struct operand dev_a, dev_b, dev_c, dev_d; /* d: the peers' C */
    gb_devptr partial, repaired;               /* workspaces */
    gb_devptr bias;
    int sets;
    int at; /* the set that is next */
    double *sample[1 + BENCH_PEERS];
    int launches[1 + BENCH_PEERS];
    bool able[1 + BENCH_PEERS];
};

static void must(enum gb_status status, const char *what)
{
    if (status != GB_SUCCESS)
        bench_die("%s: %s; look at dmesg or take a smaller shape", what,
                  gb_status_text(status));
}

static void clock_open(struct device_bench *b)
{
    struct cuda_clock *c = &b->clock;
    void *driver;

    if (strcmp(b->ops->name, "cuda") != 0)
        return;
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver)
        bench_die("libcuda.so.1: %s; take --device emu", dlerror());
    *(void **)&c->record = dlsym(driver, "cuEventRecord");
    if (!c->record)
        bench_die("libcuda.so.1: no events; update the driver");
    must(b->ops->timer_create(b->dev, &c->start), "a timer");
    must(b->ops->timer_create(b->dev, &c->stop), "a timer");
}

/* The kernel that a peer's product is followed by lies beside this program. */
static void open_pass(struct device_bench *b)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 32);
    FILE *file;
    long bytes;

    if (length <= 0)
        bench_die("/proc/self/exe cannot be read");
    path[length] = '\0';
    memcpy(strrchr(path, '/') + 1, "epilogue.fatbin", sizeof("epilogue.fatbin"));
    file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0 || (bytes = ftell(file)) <= 0)
        bench_die("%s: no such image; build with CUDA", path);
    rewind(file);
    b->pass_image = malloc((size_t)bytes);
    if (!b->pass_image || fread(b->pass_image, 1, (size_t)bytes, file) != (size_t)bytes)
        bench_die("%s cannot be read", path);
    fclose(file);
    must(b->ops->module_load(b->dev, "bench", b->pass_image, (size_t)bytes, &b->pass),
         path);
    must(b->ops->stream_borrow(b->dev, NULL, &b->default_stream), "a stream");
    for (int i = 0; i < b->peers; i++) {
        size_t used = strlen(b->peer[i].label);

        snprintf(b->peer[i].label + used, sizeof(b->peer[i].label) - used, "+kernel");
    }
}

static void open_device(struct device_bench *b, struct gb_guest *guest)
{
    const char *spec[BENCH_PEERS];
    struct gb_device_ref ref;
    char text[1024];
    int i;

    if (!bench_first_device(b->o, &ref))
        bench_die("no device; take --device emu for the emulated one");
    b->ops = ref.ops;
    must(b->ops->open(ref.ordinal, &b->dev), "opening the device");
    must(b->ops->enter(b->dev, guest), "entering the device");
    must(b->ops->stream_create(b->dev, &b->stream), "a stream");
    must(b->ops->host_alloc(b->dev, CHUNK, &b->pinned), "pinned memory");
    gb_tuned_load(&b->dev->info);
    clock_open(b);
    b->peers = bench_peer_list(b->o, text, sizeof(text), spec);
    for (i = 0; i < b->peers; i++) {
        if (b->o->epilogue && strcmp(spec[i], "ours") == 0) {
            b->peer[i] = (struct bench_peer){.kind = PEER_OURS, .label = "ours"};
            continue;
        }
        if (strcmp(spec[i], "cublas") != 0)
            bench_die(
                "--peer %s: with --place resident only cublas; take --place host-fresh",
                spec[i]);
        if (strcmp(b->ops->name, "cuda") != 0)
            bench_die("--peer cublas: it needs an NVIDIA GPU; leave it out on %s",
                      b->dev->info.name);
        bench_peer_open(&b->peer[i], spec[i], b->o);
    }
    if (b->o->epilogue && b->peers > 0)
        open_pass(b);
    bench_run_init(&b->run, bench_row_name(b->dev), b->dev->info.driver, b->o);
}

static void close_device(struct device_bench *b, struct gb_guest *guest)
{
    int i;

    for (i = 0; i < b->peers; i++)
        bench_peer_close(&b->peer[i]);
    for (i = 0; i < GB_FAMILIES && b->module[i]; i++)
        b->ops->module_unload(b->dev, b->module[i]);
    if (b->pass) {
        b->ops->module_unload(b->dev, b->pass);
        b->ops->stream_return(b->dev, b->default_stream);
        free(b->pass_image);
    }
    for (i = 0; i < HOST_USES; i++)
        free(b->host[i]);
    b->ops->event_destroy(b->dev, b->clock.start);
    b->ops->event_destroy(b->dev, b->clock.stop);
    b->ops->host_free(b->dev, b->pinned);
    b->ops->stream_destroy(b->dev, b->stream);
    b->ops->leave(b->dev, guest);
    b->ops->close(b->dev);
}

static struct gb_module *module_of(struct device_bench *b, const char *family)
{
    const struct gb_image *image;
    int i;

    for (i = 0; i < GB_FAMILIES && b->module[i]; i++)
        if (strcmp(b->family[i], family) == 0)
            return b->module[i];
    if (i == GB_FAMILIES)
        bench_die("more than %d kernel families in one run; split the shapes file",
                  GB_FAMILIES);
    image = gb_image_find(family, &b->dev->info);
    must(b->ops->module_load(b->dev, family, image ? image->data : NULL,
                             image ? image->bytes : 0, &b->module[i]),
         family);
    b->family[i] = family;
    return b->module[i];
}

static bool plain(enum gb_trans t)
{
    return t == GB_N || t == GB_CONJ;
}

static char layout(enum gb_trans t)
{
    return plain(t) ? 'n' : 't';
}

static struct gb_problem problem_of(const struct device_shape *d)
{
    const struct bench_shape *s = d->s;

    return (struct gb_problem){
        .op = GB_GEMM,
        .type = s->type,
        .type_c = s->type_c,
        .transa = s->transa,
        .transb = s->transb,
        .m = s->m,
        .n = s->n,
        .k = s->k,
        .alpha = {1, 0},
        .beta = {s->beta, 0},
        .lda = s->lda,
        .ldb = s->ldb,
        .ldc = s->ldc,
        .batch = s->batch,
        .extra = bench_fused(s) ? &d->extra : NULL,
    };
}

/* Bytes that the address and strides of an operand are multiples of, at most 256. */
static uint32_t alignment(const struct bench_shape *s, int64_t ld)
{
    int64_t bits = 256 | ld * (int64_t)gb_type_size(s->type);

    return (uint32_t)(bits & -bits);
}

/* "" when there is a kernel for the shape, else why not. */
static const char *choose(struct device_bench *b, struct device_shape *d)
{
    struct gb_problem p = problem_of(d);
    uint32_t align_a = alignment(d->s, d->s->lda), align_b = alignment(d->s, d->s->ldb);
    const struct gb_kernel *row;
    struct gb_module *module;
    char symbol[96];

    if (b->o->math == BENCH_EMULATED)
        p.math = GB_MATH_EMULATED;
    else if (b->o->math == BENCH_FAST)
        p.math = GB_MATH_FAST;
    if (b->o->kernel) {
        row = gb_kernel_find(b->o->kernel);
        if (!row)
            bench_die("--kernel %s: no such row; gemmblas info --kernels lists them",
                      b->o->kernel);
        if (!gb_plan_row(&p, &b->dev->info, row, align_a, align_b, 0, b->o->splits,
                         &d->choice))
            return b->o->splits
                       ? "the kernel does not serve such operands in so many parts"
                       : "the kernel does not serve such operands on this device";
    } else if (!gb_plan_kernel(&p, &b->dev->info, align_a, align_b, &d->choice)) {
        return "no kernel for this type on this device";
    }
    row = d->choice.kernel;
    if (b->o->group)
        d->choice.group_m = b->o->group;
    if (b->o->hints)
        d->choice.hints = b->hints;
    if (d->s->batch > 1 && !(row->flags & GB_K_BATCH))
        return "the kernel has no batches";
    if (b->pass) {
        snprintf(symbol, sizeof(symbol), "gb_pass_%s", gb_type_name(d->s->type_c));
        must(b->ops->module_get(b->dev, b->pass, symbol, &d->pass), symbol);
    }
    module = module_of(b, row->family);
    gb_kernel_symbol(row, layout(d->s->transa), layout(d->s->transb), symbol,
                     sizeof(symbol));
    must(b->ops->module_get(b->dev, module, symbol, &d->gemm), symbol);
    if (d->choice.splits > 1) {
        gb_kernel_reduce_symbol(row, symbol, sizeof(symbol));
        must(b->ops->module_get(b->dev, module, symbol, &d->reduce), symbol);
    }
    if (row->flags & GB_K_EMULATED) {
        for (int i = 0; i < GB_EMULATED_STEPS; i++)
            if (gb_emulated_symbol(row, (enum gb_emulated_step)i, layout(d->s->transa),
                                   layout(d->s->transb), symbol, sizeof(symbol)))
                must(b->ops->module_get(b->dev, module, symbol, &d->emulated.step[i]),
                     symbol);
    } else if (row->flags & GB_K_INTEGER) {
        d->integer.gemm = d->gemm;
        must(b->ops->module_get(b->dev, module, GB_BYTES_SYMBOL, &d->integer.bytes),
             GB_BYTES_SYMBOL);
        must(b->ops->module_get(b->dev, module, GB_SUMS_SYMBOL, &d->integer.sums),
             GB_SUMS_SYMBOL);
    } else if (d->choice.repair)
        must(b->ops->module_get(b->dev, module_of(b, GB_REPAIR_FAMILY),
                                gb_launch_repair_symbol(row), &d->repair),
             gb_launch_repair_symbol(row));
    return "";
}

static void sync_stream(struct device_bench *b)
{
    must(b->ops->stream_sync(b->dev, b->stream), "waiting for the device");
}

static void upload(struct device_bench *b, gb_devptr to, const void *from, size_t bytes)
{
    size_t length;
    size_t at;

    for (at = 0; at < bytes; at += length) {
        length = bytes - at < CHUNK ? bytes - at : CHUNK;
        memcpy(b->pinned, (const char *)from + at, length);
        must(b->ops->copy_in(b->dev, b->stream, to + at, length, b->pinned, length,
                             length, 1),
             "copying to the device");
        sync_stream(b);
    }
}

static void download(struct device_bench *b, void *to, gb_devptr from, size_t bytes)
{
    size_t length;
    size_t at;

    for (at = 0; at < bytes; at += length) {
        length = bytes - at < CHUNK ? bytes - at : CHUNK;
        must(b->ops->copy_out(b->dev, b->stream, b->pinned, length, from + at, length,
                              length, 1),
             "copying from the device");
        sync_stream(b);
        memcpy((char *)to + at, b->pinned, length);
    }
}

static struct operand device_operand(struct device_bench *b, size_t bytes, int sets)
{
    struct operand x = {.stride = (bytes + 255) / 256 * 256};

    must(b->ops->mem_alloc(b->dev, x.stride * (size_t)sets, &x.base), "device memory");
    return x;
}

static gb_devptr operand_set(struct operand x, int set)
{
    return x.base + x.stride * (size_t)set;
}

/* Memory on the host that lives for the whole run: touching new pages for every shape
 * would take longer than its measurement. */
static void *host_memory(struct device_bench *b, enum host_use use, size_t bytes)
{
    if (b->host_bytes[use] < bytes) {
        free(b->host[use]);
        b->host[use] = malloc(bytes);
        if (!b->host[use])
            bench_die("%zu bytes: out of memory; take a smaller shape", bytes);
        b->host_bytes[use] = bytes;
    }
    return b->host[use];
}

static int rotation(const struct device_bench *b, size_t bytes)
{
    size_t sets = 3 * b->dev->info.l2 / bytes + 1;

    if (b->dev->info.vendor == GB_EMU)
        return EMU_SETS;
    return sets < MOST_SETS ? (int)sets : MOST_SETS;
}

static struct gb_gemm_args arguments(const struct device_shape *d, int set)
{
    const struct bench_shape *s = d->s;
    const struct gb_problem p = problem_of(d);
    struct gb_gemm_args g = gb_plan_args(&p, &d->choice);

    g.a = operand_set(d->dev_a, set);
    g.b = operand_set(d->dev_b, set);
    g.c = operand_set(d->dev_c, set);
    g.partial = d->partial;
    g.a_batch = s->lda * bench_cols_a(s);
    g.b_batch = s->ldb * bench_cols_b(s);
    g.c_batch = s->ldc * s->n;
    g.fused.bias = d->bias;
    return g;
}

static const struct gb_offsets no_offsets;

static size_t repair_bytes(const struct device_shape *d)
{
    const struct gb_gemm_args g = arguments(d, 0);

    if (d->choice.kernel->flags & GB_K_EMULATED)
        return gb_emulated_bytes(d->choice.kernel, &g);
    if (d->choice.kernel->flags & GB_K_INTEGER)
        return gb_integer_bytes(&g, &no_offsets);
    return gb_launch_repair_bytes(d->choice.kernel, d->choice.repair,
                                  layout(d->s->transa), layout(d->s->transb), &g);
}

static void prepare_bias(struct device_bench *b, struct device_shape *d)
{
    size_t size = gb_type_size(d->s->type_c);
    char *bias = calloc((size_t)d->s->m, size);

    if (!bias)
        bench_die("out of memory; take a smaller shape");
    for (int64_t i = 0; i < d->s->m; i++)
        bench_put(d->s->type_c, bias, i, bench_bias(i));
    must(b->ops->mem_alloc(b->dev, (size_t)d->s->m * size, &d->bias), "device memory");
    upload(b, d->bias, bias, (size_t)d->s->m * size);
    free(bias);
}

static void prepare(struct device_bench *b, struct device_shape *d)
{
    const struct bench_shape *s = d->s;
    size_t partial;
    int set;

    d->bytes_a = bench_bytes_a(s);
    d->bytes_b = bench_bytes_b(s);
    d->bytes_c = bench_bytes_c(s);
    d->sets = rotation(b, d->bytes_a + d->bytes_b + d->bytes_c);
    d->a = host_memory(b, HOST_A, d->bytes_a);
    d->b = host_memory(b, HOST_B, d->bytes_b);
    d->c0 = host_memory(b, HOST_C0, d->bytes_c);
    d->x = host_memory(b, HOST_X, d->bytes_c);
    d->y = host_memory(b, HOST_Y, d->bytes_c);
    d->dev_a = device_operand(b, d->bytes_a, d->sets);
    d->dev_b = device_operand(b, d->bytes_b, d->sets);
    d->dev_c = device_operand(b, d->bytes_c, d->sets);
    d->dev_d = device_operand(b, d->bytes_c, b->peers > 0 ? d->sets : 1);
    if (s->beta == 0)
        memset(d->c0, 0xff, d->bytes_c); /* NaN: nobody may read it */
    else
        bench_fill(s->type_c, d->c0, d->bytes_c / gb_type_size(s->type_c), &b->random);
    for (set = d->sets - 1; set >= 0; set--) {
        bench_fill(s->type, d->a, d->bytes_a / gb_type_size(s->type), &b->random);
        bench_fill(s->type, d->b, d->bytes_b / gb_type_size(s->type), &b->random);
        upload(b, operand_set(d->dev_a, set), d->a, d->bytes_a);
        upload(b, operand_set(d->dev_b, set), d->b, d->bytes_b);
        upload(b, operand_set(d->dev_c, set), d->c0, d->bytes_c);
        if (b->peers > 0)
            upload(b, operand_set(d->dev_d, set), d->c0, d->bytes_c);
    }
    if (s->bias)
        prepare_bias(b, d);
    if (d->choice.splits > 1) {
        if (!gb_mul3((size_t)s->m * (size_t)d->choice.splits,
                     (size_t)s->n * (size_t)s->batch,
                     gb_type_size(d->choice.kernel->type_acc), &partial))
            bench_die("partial sums too large; take a smaller shape");
        must(b->ops->mem_alloc(b->dev, partial, &d->partial), "device memory");
    }
    if (d->choice.repair)
        must(b->ops->mem_alloc(b->dev, repair_bytes(d), &d->repaired), "device memory");
    for (set = 0; set <= b->peers; set++) {
        d->sample[set] = calloc((size_t)b->o->repeats, sizeof(double));
        if (!d->sample[set])
            bench_die("out of memory; ask for fewer --repeats");
        d->able[set] = true;
    }
}

static void release(struct device_bench *b, struct device_shape *d)
{
    int i;

    for (i = 0; i <= b->peers; i++)
        free(d->sample[i]);
    if (d->partial)
        b->ops->mem_free(b->dev, d->partial);
    if (d->bias)
        b->ops->mem_free(b->dev, d->bias);
    if (d->repaired)
        b->ops->mem_free(b->dev, d->repaired);
    b->ops->mem_free(b->dev, d->dev_a.base);
    b->ops->mem_free(b->dev, d->dev_b.base);
    b->ops->mem_free(b->dev, d->dev_c.base);
    b->ops->mem_free(b->dev, d->dev_d.base);
}

/* Queue one product of ours; `alone`: without what is fused, as if it were a peer's. */
static void launch_ours(struct device_bench *b, const struct device_shape *d, int set,
                        bool alone)
{
    const struct gb_kernel *row = d->choice.kernel;
    char la = layout(d->s->transa), lb = layout(d->s->transb);
    struct gb_gemm_args g = arguments(d, set);

    if (alone) {
        g.flags &= ~(uint32_t)GB_G_FUSED;
        g.c = operand_set(d->dev_d, set);
    }
    if (row->flags & GB_K_EMULATED) {
        must(gb_emulated_launch(b->dev, b->stream, &d->emulated, row, &g, d->repaired,
                                0),
             row->name);
        return;
    }
    if (row->flags & GB_K_INTEGER) {
        must(gb_integer_launch(b->dev, b->stream, &d->integer, row, &g, &no_offsets,
                               d->repaired, 0),
             row->name);
        return;
    }
    if (d->choice.repair)
        must(gb_launch_repair(b->dev, b->stream, d->repair, row, d->choice.repair, la,
                              lb, d->repaired, &g),
             gb_launch_repair_symbol(row));
    must(gb_launch_gemm(b->dev, b->stream, d->gemm, row, la, lb, &g, 0), row->name);
    if (!(g.flags & GB_G_EPILOGUE))
        must(gb_launch_reduce(b->dev, b->stream, d->reduce, row, &g, 0),
             "the reduction");
}

/* Queue the kernel after a peer's product. */
static void launch_pass(struct device_bench *b, const struct device_shape *d, int set,
                        struct gb_stream *stream)
{
    enum { THREADS = 256, BLOCKS_EACH = 16 };
    struct gb_gemm_args g = arguments(d, set);

    g.c = operand_set(d->dev_d, set);
    must(b->ops->launch(b->dev, stream, d->pass,
                        (uint32_t)(b->dev->info.multiprocessors * BLOCKS_EACH), THREADS,
                        0, &g, sizeof(g)),
         "the kernel after a product");
}

/* Queue one product of side 0 (ours) or a peer; false when the peer refuses it. */
static bool queue(struct device_bench *b, const struct device_shape *d, int side,
                  int set)
{
    const struct bench_peer *peer = side > 0 ? &b->peer[side - 1] : NULL;
    bool ours = !peer || peer->kind == PEER_OURS;

    if (ours)
        launch_ours(b, d, set, peer != NULL);
    else if (!bench_peer_queue(peer, d->s, b->o->math, operand_set(d->dev_a, set),
                               operand_set(d->dev_b, set), operand_set(d->dev_d, set)))
        return false;
    if (peer && b->pass)
        launch_pass(b, d, set, ours ? b->stream : b->default_stream);
    return true;
}

static void record(struct device_bench *b, int side, struct gb_event *event)
{
    if (side == 0 || b->peer[side - 1].kind == PEER_OURS)
        must(b->ops->event_record(b->dev, event, b->stream), "an event");
    else if (b->clock.record(event, NULL) != 0)
        bench_die("cuEventRecord failed; look at dmesg");
}

/* Microseconds per product over `launches`, or a negative number when a peer refuses.
 */
static double block_us(struct device_bench *b, struct device_shape *d, int side,
                       int launches)
{
    double start = bench_now_us();
    bool device_clock = b->clock.start != NULL;
    double us;
    int i;

    if (device_clock)
        record(b, side, b->clock.start);
    for (i = 0; i < launches; i++) {
        if (!queue(b, d, side, d->at))
            return -1;
        d->at = (d->at + 1) % d->sets;
    }
    if (!device_clock) {
        sync_stream(b);
        return (bench_now_us() - start) / launches;
    }
    record(b, side, b->clock.stop);
    if (b->ops->event_sync(b->dev, b->clock.stop) != GB_SUCCESS ||
        b->ops->timer_elapsed(b->dev, b->clock.start, b->clock.stop, &us) != GB_SUCCESS)
        bench_die("%s failed on the device; look at dmesg",
                  side ? b->peer[side - 1].label : d->choice.kernel->name);
    return us / launches;
}

/* The first product on set 0, kept to be judged; then how many make a sample. */
static void warm_up(struct device_bench *b, struct device_shape *d, int side)
{
    gb_devptr result = operand_set(side ? d->dev_d : d->dev_c, 0);
    double us;

    if (side > 1)
        upload(b, result, d->c0, d->bytes_c); /* the peers share one C */
    d->at = 0;
    d->able[side] = block_us(b, d, side, 1) >= 0;
    if (!d->able[side])
        return;
    download(b, side ? d->y : d->x, result, d->bytes_c);
    us = block_us(b, d, side, 3);
    d->launches[side] = 1;
    if (us < b->o->block_ms * 1e3)
        d->launches[side] =
            1 +
            (int)gb_min(MOST_LAUNCHES, (int64_t)(b->o->block_ms * 1e3 / (us + 0.01)));
}

static void judge(struct device_bench *b, struct device_shape *d, struct bench_row *row)
{
    row->ours_wrong = row->peer_wrong = false;
    if (row->peer)
        bench_judge_pair(d->s, b->o->math, d->a, d->b, d->c0, d->x, d->y,
                         &row->ours_wrong, &row->peer_wrong);
    else
        row->ours_wrong = !bench_judge(d->s, b->o->math, d->a, d->b, d->c0, d->x);
}

/* "keep", "stream" or "none", for A and for B. */
static uint32_t hints_of(const char *text)
{
    uint32_t hints = 0;

    if (text && !gb_tuned_hints_parse(text, &hints))
        bench_die("--hints %s: give two of keep, stream and none", text);
    return hints;
}

/* What a row's note says of how ours ran. */
static void describe_choice(const struct bench_options *o, const struct device_shape *d,
                            char *remark, size_t size)
{
    static const char *const repaired[] = {"", "A copied", "B copied", "A, B copied"};
    const struct gb_choice *c = &d->choice;
    char group[24] = "", splits[24] = "", tail[24] = "";
    const char *part[] = {o->kernel                  ? "kernel forced"
                          : c->chosen != GB_BY_MODEL ? gb_plan_chosen_name(c->chosen)
                                                     : "",
                          group,
                          splits,
                          tail,
                          c->hints || o->hints ? gb_tuned_hints_text(c->hints) : "",
                          repaired[c->repair],
                          o->epilogue ? o->epilogue : ""};

    if (o->group || (c->chosen != GB_BY_MODEL && c->group_m != GB_PLAN_GROUP_M))
        snprintf(group, sizeof(group), "group %d", c->group_m);
    if (o->splits)
        snprintf(splits, sizeof(splits), "splits %d", o->splits);
    if (c->tail)
        snprintf(tail, sizeof(tail), "tail %d", c->tail);
    *remark = '\0';
    for (size_t i = 0; i < GB_COUNT(part); i++) {
        size_t used = strlen(remark);

        if (*part[i])
            snprintf(remark + used, size - used, "%s%s", used ? "; " : "", part[i]);
    }
}

static void measure(struct device_bench *b, const struct bench_shape *s)
{
    struct device_shape d = {.s = s, .extra = {.activation = s->activation}};
    struct bench_row row[1 + BENCH_PEERS];
    int order[1 + BENCH_PEERS];
    const char *why = choose(b, &d);
    char remark[64];
    bool wrong = false;
    int r;
    int i;

    if (*why) {
        printf("%s %s %lldx%lldx%lld: skipped, %s\n", gb_type_name(s->type),
               gb_type_name(s->type_c), (long long)s->m, (long long)s->n,
               (long long)s->k, why);
        return;
    }
    prepare(b, &d);
    describe_choice(b->o, &d, remark, sizeof(remark));
    for (i = 0; i <= b->peers; i++) {
        row[i] = (struct bench_row){.shape = s,
                                    .remark = remark,
                                    .place = BENCH_RESIDENT,
                                    .math = b->o->math,
                                    .kernel = d.choice.kernel->name,
                                    .splits = d.choice.splits,
                                    .peer = i ? b->peer[i - 1].label : NULL};
        warm_up(b, &d, i);
        if (d.able[i])
            judge(b, &d, &row[i]);
        wrong = wrong || row[i].ours_wrong;
    }
    /* One block of each that does not count: clocks rise. */
    for (r = -1; r < b->o->repeats; r++) {
        bench_shuffle(order, b->peers + 1, &b->random);
        for (i = 0; i <= b->peers; i++)
            if (d.able[order[i]])
                d.sample[order[i]][r < 0 ? 0 : r] =
                    block_us(b, &d, order[i], d.launches[order[i]]);
    }
    for (i = b->peers > 0; i <= b->peers; i++) {
        row[i].ours_us = bench_median(d.sample[0], (size_t)b->o->repeats);
        row[i].spread = bench_spread(d.sample[0], (size_t)b->o->repeats);
        row[i].ours_wrong = wrong;
        if (i && d.able[i])
            row[i].peer_us = bench_median(d.sample[i], (size_t)b->o->repeats);
        else
            row[i].peer = NULL;
        bench_row_write(&b->run, &row[i]);
    }
    b->wrong += wrong;
    release(b, &d);
}

int bench_on_device(const struct bench_options *o, const struct bench_shape *shapes,
                    size_t count)
{
    struct device_bench *b = calloc(1, sizeof(*b));
    struct gb_guest guest;
    int wrong;
    size_t i;

    if (!b)
        bench_die("out of memory; close other programs");
    b->o = o;
    b->random = o->seed;
    b->hints = hints_of(o->hints);
    open_device(b, &guest);
    for (i = 0; i < count; i++)
        measure(b, &shapes[i]);
    close_device(b, &guest);
    wrong = b->wrong;
    free(b);
    return wrong;
}
