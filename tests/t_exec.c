/* SPDX-License-Identifier: BSD-3-Clause */
/* The executor on the emulated device: exact results whatever the panels, pieces and slots;
 * nothing read or written but the elements; the same bits for every blocking. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine.h"
#include "product.h"
#include "tap.h"
#include "util.h"

static struct gb_engine *engine;

static bool run(struct product *x, char *why, size_t len)
{
    struct gb_exec_stats stats;
    enum gb_why answer = gb_exec(engine, &x->plan, &stats);
    int64_t total = product_pieces_total(x);

    if (answer != GB_OK) {
        snprintf(why, len, "answer %s", gb_why_name(answer));
        return false;
    }
    if (stats.done != total) {
        snprintf(why, len, "%lld of %lld pieces", (long long)stats.done,
                 (long long)total);
        return false;
    }
    return product_check(x, total, why, len);
}

static void expect(struct product *x, const char *what)
{
    char why[128] = "", text[400];

    product_describe(x, text, sizeof text);
    if (!ok(run(x, why, sizeof why), "%s", what))
        diag("%s: %s", why, text);
}

/* ---- random products ---- */

static const struct {
    enum gb_type type, type_c;
} types[] = {{GB_F32, GB_F32}, {GB_F64, GB_F64},   {GB_C32, GB_C32}, {GB_C64, GB_C64},
             {GB_F16, GB_F16}, {GB_BF16, GB_BF16}, {GB_F16, GB_F32}, {GB_BF16, GB_F32}};

static struct gb_scalar scalar(struct verify_random *r, bool complex)
{
    static const double value[] = {1, -1, 2, -3};
    struct gb_scalar s = {.re = value[verify_below(r, GB_COUNT(value))]};

    if (complex)
        s.im = (double)verify_below(r, 3) - 1;
    return s;
}

static struct product_spec random_spec(struct verify_random *r, size_t type,
                                       int64_t most)
{
    bool complex = gb_is_complex(types[type].type);
    struct product_spec spec = {
        .type = types[type].type,
        .type_c = types[type].type_c,
        .transa = (enum gb_trans)verify_below(r, 4),
        .transb = (enum gb_trans)verify_below(r, 4),
        .m = 1 + verify_below(r, most),
        .n = 1 + verify_below(r, most),
        .k = 1 + verify_below(r, 2 * most),
        .alpha = scalar(r, complex),
        .place = (enum verify_place)verify_below(r, VERIFY_PLACES),
        .fill = VERIFY_INTEGERS,
    };

    if (verify_below(r, 2))
        spec.beta = scalar(r, complex);
    for (int i = 0; i < 3; i++)
        spec.extra[i] = verify_below(r, 3) ? verify_below(r, 40) : 0;
    return spec;
}

static void random_products(size_t type, int count)
{
    struct verify_random r = verify_seed(1000 + type);
    char why[128] = "", text[400] = "";
    int i;

    for (i = 0; i < count; i++) {
        struct product_spec spec = random_spec(&r, type, i % 8 == 0 ? 150 : 40);
        struct product x;
        bool good;

        product_make(&x, &spec, &r);
        product_random_plan(&x, &r);
        product_describe(&x, text, sizeof text);
        good = run(&x, why, sizeof why);
        product_drop(&x);
        if (!good)
            break;
    }
    if (!ok(i == count, "%d random products %s -> %s", count,
            verify_type_name(types[type].type), verify_type_name(types[type].type_c)))
        diag("%s: %s", why, text);
}

/* ---- shapes that something has stumbled over ---- */

static struct product_spec plain(enum gb_type type, int64_t m, int64_t n, int64_t k)
{
    return (struct product_spec){.type = type,
                                 .type_c = type,
                                 .m = m,
                                 .n = n,
                                 .k = k,
                                 .alpha = {1, 0},
                                 .fill = VERIFY_INTEGERS};
}

static void named(const char *what, const struct product_spec *spec, int64_t pm,
                  int64_t pn, int64_t pk, int splits, int64_t rows, int64_t cols,
                  size_t slot)
{
    struct verify_random r = verify_seed(7);
    struct product x;

    product_make(&x, spec, &r);
    product_plan(&x, pm, pn, pk, splits);
    product_pieces(&x, rows, cols, slot);
    expect(&x, what);
    product_drop(&x);
}

static void shapes(void)
{
    struct product_spec s = plain(GB_F64, 33, 34, 97);

    s.beta.re = 2;
    named("B35: beta is applied once when k is cut in four", &s, 33, 34, 32, 1, 33, 34,
          0);
    named("B35: and when splits are reduced", &s, 20, 34, 30, 3, 33, 34, 0);
    s = plain(GB_F64, 65, 65, 17);
    named("B40: one more than a tile", &s, 64, 64, 16, 1, 64, 64, 0);
    s = plain(GB_F64, 8, 3000, 3);
    named("B43: n huge, k tiny, one panel", &s, 8, 3000, 3, 1, 8, 100, 0);
    named("n huge, k tiny, many panels", &s, 8, 500, 3, 1, 3, 70, 512);
    s = plain(GB_F32, 1, 1, 1);
    named("1 x 1 x 1", &s, 1, 1, 1, 1, 1, 1, 0);
    s = plain(GB_C64, 1, 9, 400);
    s.transa = GB_C;
    named("one row, conjugated", &s, 1, 4, 100, 2, 1, 2, 0);
    s = plain(GB_F32, 5000, 3, 2);
    named("columns longer than a slot", &s, 3000, 3, 2, 1, 100, 1, 400);
    s = plain(GB_F32, 300, 400, 20);
    s.beta.re = -1;
    s.extra[2] = 11;
    named("more pieces than slots", &s, 100, 400, 20, 1, 9, 13, 0);
    s = plain(GB_F32, 700, 600, 40);
    named("enough to wake the copy threads, fresh C", &s, 700, 150, 40, 1, 700, 40,
          65536);
    s.beta.re = 1;
    named("enough to wake the copy threads, C read", &s, 700, 150, 40, 1, 700, 40,
          65536);
}

/* The bits are those of the whole problem, whatever the blocking. */
static void same_bits(enum gb_type type)
{
    struct verify_random r = verify_seed(77);
    struct product_spec spec = plain(type, 90, 75, 333);
    struct product x;
    char *first = NULL;
    int runs = 0, splits = 3;

    spec.fill = VERIFY_NORMAL;
    spec.beta.re = 0.7;
    spec.alpha.re = 1.3;
    product_make(&x, &spec, &r);
    for (int i = 0; i < 25; i++) {
        struct gb_exec_stats stats;

        product_random_plan(&x, &r);
        x.plan.splits = splits;
        x.plan.split_len = 112;
        if (i == 0)
            product_plan(&x, 90, 75, 333, splits);
        product_restore(&x);
        if (gb_exec(engine, &x.plan, &stats) != GB_OK)
            break;
        if (!first) {
            first = malloc(x.c.data_bytes);
            memcpy(first, x.c.data, x.c.data_bytes);
        } else if (memcmp(first, x.c.data, x.c.data_bytes) != 0) {
            char text[400];

            product_describe(&x, text, sizeof text);
            diag("other bits: %s", text);
            break;
        }
        runs++;
    }
    is_int(25, runs, "%s: the same bits for every blocking", verify_type_name(type));
    free(first);
    product_drop(&x);
}

/* B88: a pitch that 2-D copies of the drivers refuse. Only the touched pages exist. */
static void huge_pitch(void)
{
    int64_t ld = (INT64_C(1) << 28) + 1;
    size_t bytes = (size_t)ld * 8 * 8;
    double *c = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct verify_random r = verify_seed(5);
    struct product_spec spec = plain(GB_F64, 4, 8, 1);
    struct gb_exec_stats stats;
    struct product x;
    int wrong = 0;

    if (c == MAP_FAILED) {
        skip("B88: no 17 GB of address space");
        return;
    }
    product_make(&x, &spec, &r);
    x.plan.p.c = c;
    x.plan.p.ldc = ld;
    x.plan.p.beta.re = 1;
    if (gb_exec(engine, &x.plan, &stats) != GB_OK)
        wrong = -1;
    for (int64_t j = 0; j < 8; j++) {
        for (int64_t i = 0; i < 4; i++)
            wrong += c[i + j * ld] !=
                     (double)(verify_get(&x.a, i, 0).re * verify_get(&x.b, 0, j).re);
    }
    is_int(0, wrong, "B88: a leading dimension of 2 GiB");
    product_drop(&x);
    munmap(c, bytes);
}

/* Page-locked operands are read in place; C goes through slots all the same. */
static void pinned(void)
{
    struct gb_device *dev = gb_engine_device(engine);
    struct verify_random r = verify_seed(9);
    struct product_spec spec = plain(GB_F32, 60, 50, 70);
    struct gb_guest guest;
    struct product x;
    void *a, *b;
    char why[128] = "";

    spec.transb = GB_T;
    product_make(&x, &spec, &r);
    if (dev->ops->enter(dev, &guest) != GB_SUCCESS ||
        dev->ops->host_alloc(dev, x.a.data_bytes, &a) != GB_SUCCESS ||
        dev->ops->host_alloc(dev, x.b.data_bytes, &b) != GB_SUCCESS)
        bail("no pinned memory");
    memcpy(a, x.a.data, x.a.data_bytes);
    memcpy(b, x.b.data, x.b.data_bytes);
    product_random_plan(&x, &r);
    x.plan.p.a = (char *)a + ((char *)x.a.at - x.a.data);
    x.plan.p.b = (char *)b + ((char *)x.b.at - x.b.data);
    ok(run(&x, why, sizeof why), "page-locked A and B: %s", why);
    dev->ops->host_free(dev, a);
    dev->ops->host_free(dev, b);
    dev->ops->leave(dev, &guest);
    product_drop(&x);
}

/* ---- what is sent, and what is allocated ---- */

static uint64_t least_up(const struct gb_problem *p)
{
    return (uint64_t)((p->m + p->n) * p->k) * gb_type_size(p->type);
}

static void traffic(void)
{
    struct verify_random r = verify_seed(3);
    struct product_spec spec = plain(GB_F32, 128, 192, 64);
    struct gb_exec_stats stats;
    struct product x;
    uint64_t c_bytes = 128 * 192 * 4;

    product_make(&x, &spec, &r);
    product_plan(&x, 128, 48, 64, 1);
    gb_exec(engine, &x.plan, &stats);
    is_int((long long)least_up(&x.p), (long long)stats.bytes_up,
           "A that stays is sent once, C not at all when beta is 0");
    is_int((long long)c_bytes, (long long)stats.bytes_down, "C is fetched once");
    is_int(4, (long long)stats.launches, "one launch per panel");
    product_plan(&x, 32, 192, 64, 1);
    x.plan.rows_first = true;
    gb_exec(engine, &x.plan, &stats);
    is_int((long long)least_up(&x.p), (long long)stats.bytes_up,
           "B that stays is sent once");
    product_plan(&x, 64, 96, 64, 1);
    gb_exec(engine, &x.plan, &stats);
    is_int((long long)least_up(&x.p), (long long)stats.bytes_up,
           "two chunks of either operand stay");
    product_plan(&x, 128, 48, 64, 1);
    x.plan.p.beta.re = 1;
    gb_exec(engine, &x.plan, &stats);
    is_int((long long)least_up(&x.p) + (long long)c_bytes, (long long)stats.bytes_up,
           "C is sent once when beta is not 0");
    product_drop(&x);
}

static int allocations;
static enum gb_status (*real_alloc)(struct gb_device *, size_t, gb_devptr *);

static enum gb_status counting_alloc(struct gb_device *dev, size_t bytes,
                                     gb_devptr *ptr)
{
    allocations++;
    return real_alloc(dev, bytes, ptr);
}

static void memory(void)
{
    struct gb_device *dev = gb_engine_device(engine);
    const struct gb_device_ops *before = dev->ops;
    struct gb_device_ops counting = *before;
    struct verify_random r = verify_seed(4);
    struct product_spec spec = plain(GB_F64, 80, 80, 80);
    struct gb_pool_level level;
    struct gb_exec_stats stats;
    struct gb_guest guest;
    struct product x;
    size_t budget;

    real_alloc = before->mem_alloc;
    counting.mem_alloc = counting_alloc;
    dev->ops = &counting;
    product_make(&x, &spec, &r);
    product_plan(&x, 40, 40, 50, 2);
    gb_exec(engine, &x.plan, &stats);
    allocations = 0;
    for (int i = 0; i < 5; i++)
        gb_exec(engine, &x.plan, &stats);
    is_int(0, allocations, "a call like the last one allocates nothing");
    level = gb_pool_level(&engine->pool);
    is_int(0, (long long)level.used, "between calls nothing is in use");
    ok(level.cached > 0, "but kept");
    budget = gb_engine_budget(engine);
    ok(budget > dev->info.mem_total / 2 && budget < dev->info.mem_total,
       "the budget counts what is kept (%zu of %zu)", budget, dev->info.mem_total);

    /* With no memory left the call answers so, and has touched nothing. */
    engine->pool.limit = gb_plan_bytes(&x.plan) / 2;
    if (dev->ops->enter(dev, &guest) == GB_SUCCESS) {
        gb_pool_trim(&engine->pool);
        dev->ops->leave(dev, &guest);
    }
    product_restore(&x);
    is_int(GB_WHY_OOM, gb_exec(engine, &x.plan, &stats), "too little memory");
    is_int(0, stats.done, "then nothing is done");
    ok(verify_untouched(&x.c), "and C is untouched");
    ok(gb_engine_budget(engine) <= gb_plan_bytes(&x.plan) / 2,
       "the budget keeps to the limit");
    product_plan(&x, 10, 10, 80, 1);
    ok(gb_plan_bytes(&x.plan) <= gb_engine_budget(engine), "smaller panels fit");
    expect(&x, "and run");
    engine->pool.limit = 0;
    ok(!gb_engine_lost(engine), "the engine is not lost");
    dev->ops = before;
    product_drop(&x);
}

static void refusals(void)
{
    struct verify_random r = verify_seed(4);
    struct product_spec spec = plain(GB_F64, 30, 30, 30);
    struct gb_exec_stats stats;
    struct product x;

    product_make(&x, &spec, &r);
    x.plan.p.uplo = GB_UPPER;
    is_int(GB_WHY_UNSUPPORTED, gb_exec(engine, &x.plan, &stats), "a triangle of C");
    x.plan.p.uplo = GB_FULL;
    x.plan.p.k = 0;
    is_int(GB_WHY_UNSUPPORTED, gb_exec(engine, &x.plan, &stats), "k of 0");
    x.plan.p.k = 30;
    x.plan.slot_bytes = 2 * GB_BLOCK_BYTES;
    x.plan.piece_rows = x.plan.piece_cols = 4096;
    is_int(GB_WHY_UNSUPPORTED, gb_exec(engine, &x.plan, &stats),
           "a slot above a block");
    ok(verify_untouched(&x.c), "C is untouched");
    product_drop(&x);
}

/* ---- staging alone ---- */

static void copies(void)
{
    static const size_t sizes[][4] = {
        /* width, height, pitches beyond the width */
        {1, 1, 0, 0},       {1, 70000, 0, 3},    {300, 5000, 0, 0},   {300, 5000, 7, 0},
        {700000, 3, 0, 11}, {262144, 4, 64, 64}, {262145, 4, 64, 64}, {262143, 9, 0, 1},
        {5, 300000, 1, 2},  {3000001, 1, 0, 0}};
    struct gb_stage *stage = &engine->stage;
    struct gb_party party;
    struct gb_copy copy;
    int wrong = 0;

    gb_party_init(&party);
    for (size_t s = 0; s < GB_COUNT(sizes); s++) {
        size_t width = sizes[s][0], height = sizes[s][1];
        size_t dp = width + sizes[s][2], sp = width + sizes[s][3];
        unsigned char *dst = malloc(dp * height), *src = malloc(sp * height);

        for (size_t i = 0; i < sp * height; i++)
            src[i] = (unsigned char)(i * 7 + i / 251);
        for (int how = 0; how < 3; how++) {
            memset(dst, 0xee, dp * height);
            gb_copy_make(&copy, dst, dp, src, sp, width, height);
            if (how == 0) {
                gb_copy_now(&copy);
            } else {
                gb_stage_submit(stage, &copy, &party);
                while (how == 2 && gb_stage_help(stage))
                    ;
                gb_stage_wait(stage, &copy, -1);
            }
            wrong += !gb_copy_done(&copy);
            for (size_t y = 0; y < height; y++) {
                wrong += memcmp(dst + y * dp, src + y * sp, width) != 0;
                for (size_t x = width; x < dp && y + 1 < height; x++)
                    wrong += dst[y * dp + x] != 0xee;
            }
        }
        free(dst);
        free(src);
    }
    is_int(0, wrong, "pitched copies by hand, by threads and by both");
    gb_party_drop(&party);
}

static void faults_ahead(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 5 << 20;
    char *at = mmap(NULL, bytes + 2 * page, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *resident = malloc(bytes / page + 2);
    struct gb_party party;
    struct gb_copy copy;
    size_t present = 0;

    gb_party_init(&party);
    gb_copy_make_fault(&copy, at + page + 100, bytes - 200);
    gb_stage_submit(&engine->stage, &copy, &party);
    gb_stage_wait(&engine->stage, &copy, -1);
    mincore(at, bytes + 2 * page, resident);
    for (size_t i = 0; i < bytes / page + 2; i++)
        present += resident[i] & 1;
    ok(present == bytes / page || present == 0,
       "the pages of a range are faulted in, and no others (%zu of %zu)", present,
       bytes / page);
    /* Cancelled at once: what is running ends, the rest is dropped, and it is over. */
    gb_copy_make_fault(&copy, at, bytes);
    gb_stage_submit(&engine->stage, &copy, &party);
    gb_stage_cancel(&engine->stage, &copy);
    ok(gb_copy_done(&copy), "a cancelled copy is done");
    munmap(at, bytes + 2 * page);
    free(resident);
    gb_party_drop(&party);
}

static void thread_count(void)
{
    int n = gb_stage_count();

    is_int(0, gb_stage_quota("max 100000\n"), "no quota");
    is_int(2, gb_stage_quota("150000 100000\n"), "a quota of one and a half CPUs");
    is_int(1, gb_stage_quota("1000 100000\n"), "a quota of a hundredth");
    is_int(0, gb_stage_quota("-1 100000"), "no quota, the older way");
    is_int(0, gb_stage_quota(""), "nothing");
    ok(n >= 1 && n <= GB_STAGE_THREADS, "%d copy threads", n);
}

static void pool(void)
{
    bool good = true;

    for (size_t bytes = 1; bytes < (size_t)1 << 40; bytes += bytes / 3 + 1) {
        size_t got = gb_pool_round(bytes);

        good = good && got >= bytes && got - bytes < 512 + bytes / 16;
    }
    ok(good, "the pool rounds up by about a sixteenth at most");
}

int main(void)
{
    plan_lazy();
    engine = product_engine();
    pool();
    thread_count();
    copies();
    faults_ahead();
    shapes();
    for (size_t t = 0; t < GB_COUNT(types); t++)
        random_products(t, 40);
    same_bits(GB_F32);
    same_bits(GB_F64);
    same_bits(GB_C32);
    huge_pitch();
    pinned();
    traffic();
    memory();
    refusals();
    gb_engine_close(engine);
    return 0;
}
