/* SPDX-License-Identifier: BSD-3-Clause */
/* The fiber runner: every thread of every block runs once, barriers are barriers, mistakes
 * of a kernel are found, orders differ, several OS threads may run kernels at once. */
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "emu_kernels.h"
#include "fiber.h"
#include "fiber_copies.h"
#include "fiber_reads.h"
#include "gemm_args.h"
#include "tap.h"

/* A kernel's body gets a copy of this struct and works through its pointers. */
struct job {
    int *out;      /* one per thread of the grid */
    int *order;    /* of the threads of block 0, as they come */
    int *place;    /* next free place in order */
    int way;       /* what to do wrong */
    int threads;   /* per block */
    bool *flagged; /* set by a thread that saw something wrong */
};

static void count(const void *args)
{
    const struct job *j = args;

    j->out[gb_fiber_block() * (uint32_t)j->threads + gb_fiber_thread()]++;
    if (gb_fiber_block() == 0)
        j->order[(*j->place)++] = (int)gb_fiber_thread();
}

/* Each thread adds what its neighbours wrote before the barrier, ten times over. */
static void exchange(const void *args)
{
    const struct job *j = args;
    int *shared = gb_fiber_shared((size_t)j->threads * 2 * sizeof *shared);
    int me = (int)gb_fiber_thread(), value = me;

    for (int turn = 0; turn < 10; turn++) {
        int *now = shared + turn % 2 * j->threads;

        now[me] = value;
        gb_fiber_sync(__LINE__);
        value = now[(me + 1) % j->threads] + turn;
    }
    j->out[gb_fiber_block() * (uint32_t)j->threads + gb_fiber_thread()] = value;
}

static void poisoned(const void *args)
{
    const struct job *j = args;
    float *shared = gb_fiber_shared(64 * sizeof *shared);
    float *dynamic = gb_fiber_shared_dynamic();

    if (gb_fiber_thread() == 0) {
        for (int i = 0; i < 64; i++)
            *j->flagged |= !isnan(shared[i]) || !isnan(dynamic[i]);
        for (int i = 0; i < 64; i++)
            shared[i] = dynamic[i] = 0;
        j->out[gb_fiber_block()]++;
    }
}

static void add_all(void *const *lanes)
{
    int sum = 0;

    for (int l = 0; l < 32; l++)
        sum += *(int *)lanes[l];
    for (int l = 0; l < 32; l++)
        *(int *)lanes[l] = sum + l;
}

/* Warps meet by themselves, each another number of times, between two barriers. */
static void meetings(const void *args)
{
    const struct job *j = args;
    int me = (int)gb_fiber_thread(), value = me % 32;

    for (int turn = 0; turn <= me / 32; turn++)
        gb_fiber_warp(__LINE__, &value, add_all);
    gb_fiber_warp(__LINE__, NULL, NULL);
    gb_fiber_sync(__LINE__);
    j->out[gb_fiber_block() * (uint32_t)j->threads + gb_fiber_thread()] = value;
}

/* Groups of copies arrive in their order, not before they are waited for. */
static void groups(const void *args)
{
    const struct job *j = args;
    static const int32_t from[4] = {1, 2, 3, 4};
    int32_t to[4] = {0};

    for (int i = 0; i < 3; i++) {
        gb_fiber_copy(&to[i], &from[i], 4, 4);
        gb_fiber_copy_commit();
    }
    gb_fiber_copy(&to[3], &from[3], 4, 4);
    gb_fiber_copy_wait_groups(2);
    *j->flagged |= to[0] != 1 || to[1] != -1 || to[2] != -1 || to[3] != -1;
    gb_fiber_copy_commit();
    gb_fiber_copy_wait_groups(1);
    *j->flagged |= to[1] != 2 || to[2] != 3 || to[3] != -1;
    gb_fiber_copy_wait_groups(0);
    *j->flagged |= to[3] != 4;
    j->out[0]++;
}

enum {
    LEAVES,
    OTHER_BARRIER,
    OVERRUN,
    OVERRUN_DYNAMIC,
    TOO_MUCH,
    TWO_OBJECTS,
    OVERRUN_ODD,
    ALONE,
    OTHER_MEETING,
    NEVER,
    TWO_PLACES,
    AFTER_END
};

static bool never(void *what)
{
    (void)what;
    return false;
}

static void nothing(const void *what)
{
    (void)what;
}

static void wrong(const void *args)
{
    const struct job *j = args;
    bool odd = gb_fiber_thread() % 2;

    switch (j->way) {
    case LEAVES:
        if (odd)
            gb_fiber_sync(1);
        break;
    case OTHER_BARRIER:
        gb_fiber_sync(odd ? 1 : 2);
        break;
    case OVERRUN:
        ((volatile char *)gb_fiber_shared(256))[256] = 0;
        break;
    case OVERRUN_DYNAMIC:
        ((volatile char *)gb_fiber_shared_dynamic())[128] = 0;
        break;
    case TOO_MUCH:
        gb_fiber_shared(64 << 10);
        break;
    case TWO_OBJECTS:
        gb_fiber_shared(256);
        gb_fiber_shared(128);
        break;
    case OVERRUN_ODD:
        ((volatile char *)gb_fiber_shared(250))[250] = 0;
        break;
    case NEVER:
        gb_fiber_later(nothing, &odd, sizeof odd);
        gb_fiber_await(1, never, NULL);
        break;
    case TWO_PLACES:
        gb_fiber_group(odd ? 1 : 2, 3, 64, NULL, NULL);
        break;
    case AFTER_END: /* the first block has ended when the second asks */
        if (gb_fiber_rank() == 1)
            for (int i = 0; i < 100; i++) {
                gb_fiber_sync(1);
                gb_fiber_shared_of(0);
            }
        break;
    case ALONE:
        if (odd)
            gb_fiber_warp(1, NULL, NULL);
        break;
    case OTHER_MEETING:
        gb_fiber_warp(odd ? 1 : 2, NULL, NULL);
        break;
    }
}

static int run(void (*body)(const void *), const struct job *j, uint32_t grid,
               uint32_t seed, char *error, size_t len)
{
    struct gb_emu_kernel k = {.symbol = "test", .family = "test", .body = body};

    error[0] = '\0';
    return gb_fiber_run(&k, grid, (uint32_t)j->threads, 1, 256, j, sizeof *j, seed,
                        error, len);
}

static void check_runs(void)
{
    static int out[100 * 96], first[96], second[96];
    char error[200];

    for (int threads = 1; threads <= 96; threads += 19) {
        int place = 0, bad = 0;
        struct job j = {
            .out = out, .order = first, .place = &place, .threads = threads};

        memset(out, 0, sizeof out);
        ok(run(count, &j, 100, 7, error, sizeof error) == 0, "%d threads: %s", threads,
           error);
        for (int i = 0; i < 100 * threads; i++)
            bad += out[i] != 1;
        is_int(0, bad, "%d threads: every thread of every block ran once", threads);
    }
    for (int seed = 1; seed < 3; seed++) {
        int place = 0;
        struct job j = {.out = out,
                        .order = seed == 1 ? first : second,
                        .place = &place,
                        .threads = 96};

        run(count, &j, 1, (uint32_t)seed, error, sizeof error);
    }
    ok(memcmp(first, second, sizeof first) != 0,
       "another seed is another order of threads");
}

static bool exchanged(const int *out, int blocks, int threads)
{
    for (int b = 0; b < blocks; b++)
        for (int t = 0; t < threads; t++)
            if (out[b * threads + t] != (t + 10) % threads + 45)
                return false;
    return true;
}

static void check_barriers(void)
{
    static int out[9 * 256];
    char error[200];
    int bad = 0;

    for (uint32_t seed = 0; seed < 20; seed++) {
        struct job j = {.out = out, .threads = 256};

        memset(out, 0, sizeof out);
        bad += run(exchange, &j, 9, seed, error, sizeof error) != 0 ||
               !exchanged(out, 9, 256);
    }
    is_int(0, bad,
           "what is written before a barrier is read after it, whatever the order");
}

static void check_meetings(void)
{
    static int out[3 * 96];
    char error[200];
    int bad = 0;

    for (uint32_t seed = 0; seed < 20; seed++) {
        struct job j = {.out = out, .threads = 96};

        bad += run(meetings, &j, 3, seed, error, sizeof error) != 0;
        for (int i = 0; i < 3 * 96; i++) {
            int warp = i % 96 / 32, sum = 31 * 16;

            for (int turn = 0; turn < warp; turn++)
                sum = sum * 32 + 31 * 16;
            bad += out[i] != sum + i % 32;
        }
    }
    is_int(0, bad, "warps meet by themselves");
}

static void check_groups(void)
{
    int out[1] = {0};
    bool flagged = false;
    struct job j = {.out = out, .threads = 33, .flagged = &flagged};
    char error[200];

    ok(run(groups, &j, 1, 3, error, sizeof error) == 0 && out[0] == 33 && !flagged,
       "copies arrive by groups");
}

static void check_shared(void)
{
    int out[50] = {0};
    bool flagged = false;
    struct job j = {.out = out, .threads = 32, .flagged = &flagged};
    char error[200];

    ok(run(poisoned, &j, 50, 3, error, sizeof error) == 0 && out[0] == 1 &&
           out[49] == 1,
       "static and dynamic shared memory: %s", error);
    ok(!flagged, "both are NaN at the start of every block");
}

static void check_mistakes(void)
{
    static const struct {
        int way;
        const char *message;
    } cases[] = {
        {LEAVES, "has ended"},
        {OTHER_BARRIER, "waits at the barrier of line"},
        {TOO_MUCH, "too much shared memory"},
        {TWO_OBJECTS, "two objects"},
        {ALONE, "not all of its warp come"},
        {OTHER_MEETING, "not all of its warp come"},
        {NEVER, "for what never comes"},
        {TWO_PLACES, "to one barrier from two places"},
        {AFTER_END, "reached after its end"},
        {OVERRUN_ODD, "outside the shared memory"},
/* an address sanitizer ends the process at these itself */
#if !defined(__SANITIZE_ADDRESS__)
        {OVERRUN, "outside the shared memory"},
        {OVERRUN_DYNAMIC, "outside the shared memory"},
#endif
    };
    char error[200];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int out[64] = {0}, order[64], place = 0;
        struct job j = {.out = out,
                        .order = order,
                        .place = &place,
                        .threads = 64,
                        .way = cases[i].way};
        struct gb_emu_kernel k = {.symbol = "wrong", .family = "test", .body = wrong};
        int rc = gb_fiber_run(&k, 4, 64, cases[i].way == AFTER_END ? 2 : 1, 128, &j,
                              sizeof j, 1, error, sizeof error);

        ok(rc == -1 && strstr(error, cases[i].message), "found: %s", error);
        ok(run(count, &j, 1, 1, error, sizeof error) == 0 && place == 64 &&
               out[63] == 1,
           "and the next kernel runs");
    }
    struct gb_emu_kernel k = {.symbol = "count", .family = "test", .body = count};
    struct job j = {.threads = 2048};
    ok(run(count, &j, 1, 1, error, sizeof error) == -1 &&
           strstr(error, "illegal launch"),
       "a block that is too large is refused: %s", error);
    ok(gb_fiber_run(&k, 3, 64, 2, 0, &j, sizeof j, 1, error, sizeof error) == -1 &&
           strstr(error, "cluster 2"),
       "a grid of halves of clusters too: %s", error);
}

static void *thread_main(void *arg)
{
    enum { TURNS = 20 };
    int *bad = arg, *out = malloc(4 * 256 * sizeof *out);
    char error[200];

    for (uint32_t turn = 0; turn < TURNS; turn++) {
        struct job j = {.out = out, .threads = turn % 2 ? 256 : 64};

        if (run(exchange, &j, 4, turn + 1, error, sizeof error) != 0 ||
            !exchanged(out, 4, j.threads))
            (*bad)++;
    }
    free(out);
    return NULL;
}

static void check_threads(void)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    int bad[THREADS] = {0}, sum = 0;

    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, thread_main, &bad[i]) != 0)
            bail("no thread");
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += bad[i];
    }
    is_int(0, sum, "%d OS threads run kernels at once", THREADS);
}

static void check_table(void)
{
    const struct gb_emu_kernel *k =
        gb_emu_kernel_find("gemm_simt_f64", "gb_gemm_simt_f64_64x64x8_nt");

    ok(k && strcmp(k->symbol, "gb_gemm_simt_f64_64x64x8_nt") == 0, "a kernel is found");
    ok(gb_emu_kernel_find("gemm_simt_f64", "gb_reduce_f64_f64") != NULL,
       "and its reduction");
    ok(gb_emu_kernel_find("gemm_mma_bf16_f32", "gb_gemm_mma_bf16_f32_64x64x32_r_tt") !=
           NULL,
       "a kernel of the other table too");
    ok(gb_emu_kernel_find("gemm_simt_f32", "gb_gemm_simt_f64_64x64x8_nt") == NULL,
       "but not in another family");
}

/* A product on random data, whose sums round at every step. */
enum { M = 70, N = 66, K = 45 };
static double a[M * K], b[K * N], c[2][M * N];

static void fill_operands(void)
{
    srand48(1);
    for (int i = 0; i < M * K; i++)
        a[i] = drand48() - 0.5;
    for (int i = 0; i < K * N; i++)
        b[i] = drand48() - 0.5;
}

static const struct gb_emu_kernel *in_table(const struct gb_emu_kernel *k)
{
    while (k->symbol && strcmp(k->symbol, "gb_gemm_simt_f64_64x64x8_nn") != 0)
        k++;
    return k;
}

static void multiply(const struct gb_emu_kernel *k, double *to)
{
    char error[200];
    struct gb_gemm_args g = {.a = (uintptr_t)a,
                             .b = (uintptr_t)b,
                             .c = (uintptr_t)to,
                             .m = M,
                             .n = N,
                             .k = K,
                             .k_end = K,
                             .a_m = 1,
                             .a_k = M,
                             .b_k = 1,
                             .b_n = K,
                             .ldc = M,
                             .split_len = K,
                             .splits = 1,
                             .split_count = 1,
                             .batch = 1,
                             .group_m = 1,
                             .alpha = {0.3, 0},
                             .flags = GB_G_EPILOGUE | GB_G_BETA_ZERO};

    if (gb_fiber_run(k, 4, 256, 1, 0, &g, sizeof g, 1, error, sizeof error))
        bail("%s", error);
}

#if defined(__x86_64__)
static void check_compilations(void)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        skip("this processor has no fused multiply-add");
        return;
    }
    multiply(in_table(gb_emu_kernels_any), c[0]);
    multiply(in_table(gb_emu_kernels_fma), c[1]);
    ok(c[0][M * N - 1] != 0 && memcmp(c[0], c[1], sizeof c[0]) == 0,
       "a kernel gives the same bits with and without the processor's multiply-add");
}
#endif

/* ---- asynchronous copies ---- */

enum { SEEDS = 8 };

/* Under how many of the seeds the kernel's result is wrong. */
static int copied_wrong(void (*body)(const void *))
{
    enum { THREADS = 96, BLOCKS = 3, EACH = COPIES_WORDS };
    static uint32_t from[BLOCKS * THREADS * EACH], to[BLOCKS * THREADS * EACH];
    struct gb_emu_kernel k = {.symbol = "copies", .family = "test", .body = body};
    struct gb_gemm_args g = {.a = (uintptr_t)from, .c = (uintptr_t)to, .m = THREADS};
    char error[200];
    int wrong = 0;

    for (size_t i = 0; i < sizeof from / sizeof *from; i++)
        from[i] = (uint32_t)i + 1;
    for (uint32_t seed = 0; seed < SEEDS; seed++) {
        bool good = true;

        memset(to, 0, sizeof to);
        if (gb_fiber_run(&k, BLOCKS, THREADS, 1, THREADS * EACH * 4, &g, sizeof g, seed,
                         error, sizeof error) != 0)
            bail("%s", error);
        for (size_t i = 0; i < sizeof from / sizeof *from; i++)
            good = good && to[i] == (i % EACH < COPIES_VALID ? from[i] : 0);
        wrong += !good;
    }
    return wrong;
}

/* What is missing from a kernel is seen every time, whatever the order. */
static void check_copies(void)
{
    is_int(0, copied_wrong(copies_right), "copies, a wait and a barrier: right");
    is_int(SEEDS, copied_wrong(copies_no_wait), "copies without a wait are seen");
    is_int(SEEDS, copied_wrong(copies_no_barrier), "a wait without a barrier is seen");
    is_int(SEEDS, copied_wrong(copies_late_wait), "a wait after the barrier is seen");
    is_int(SEEDS, copied_wrong(copies_early_refill),
           "a copy over what other threads still read is seen");
    is_int(SEEDS, copied_wrong(copies_source_reused),
           "a source that changes under a copy is seen");
    multiply(gb_emu_kernel_find("gemm_simt_f64", "gb_gemm_simt_f64_64x64x8_nn"), c[0]);
    multiply(&copies_gemm, c[1]);
    ok(memcmp(c[0], c[1], sizeof c[0]) == 0, "the product's kernel compiled here");
    multiply(&copies_gemm_no_wait, c[1]);
    ok(memcmp(c[0], c[1], sizeof c[0]) != 0,
       "the product's kernel without its waits is wrong");
}

/* ---- what gemm_mma reads ---- */

/* One product of operands with gaps between their columns: A and B lie in one area, `skip`
 * elements from its beginning; only their elements may be read. Returns what was read beside
 * them. */
static long stray(const struct gb_emu_kernel *k, int m, int n, int deep, int skip,
                  int gap, bool hole)
{
    enum { ROOM = 1 << 16 };
    static _Alignas(16) uint16_t area[ROOM];
    static uint16_t product[200 * 200];
    static unsigned char legal[ROOM * 2];
    bool an = k->symbol[0] == 'n', bn = k->symbol[1] == 'n';
    int rows[2] = {an ? m : deep, bn ? deep : n},
        cols[2] = {an ? deep : m, bn ? n : deep};
    int ld[2], start[2], at = skip;
    struct gb_gemm_args g;
    char error[200];

    memset(legal, 0, sizeof legal);
    for (int o = 0; o < 2; o++) {
        ld[o] = gap ? rows[o] + gap : (rows[o] + 7) / 8 * 8 + 8;
        start[o] = at;
        for (int j = 0; j < cols[o]; j++)
            memset(legal + 2 * (at + j * ld[o]), 1, 2 * (size_t)rows[o]);
        at += ld[o] * cols[o] + (gap ? 3 : 8);
    }
    if (at > ROOM)
        bail("the operands do not fit");
    legal[2 * start[1]] = !hole;
    g = (struct gb_gemm_args){.a = (uintptr_t)(area + start[0]),
                              .b = (uintptr_t)(area + start[1]),
                              .c = (uintptr_t)product,
                              .m = m,
                              .n = n,
                              .k = deep,
                              .k_end = deep,
                              .a_m = an ? 1 : ld[0],
                              .a_k = an ? ld[0] : 1,
                              .b_k = bn ? 1 : ld[1],
                              .b_n = bn ? ld[1] : 1,
                              .ldc = 200,
                              .split_len = deep,
                              .splits = 1,
                              .split_count = 1,
                              .batch = 1,
                              .group_m = 1,
                              .alpha = {1, 0},
                              .flags = GB_G_EPILOGUE | GB_G_BETA_ZERO};
    reads_watch(area, legal, sizeof legal);
    if (gb_fiber_run(k, 3, reads_threads(k), 1, reads_smem(k), &g, sizeof g, 1, error,
                     sizeof error))
        bail("%s", error);
    if (reads_all() < 2 * ((long)m + n) * deep)
        bail("not even the operands are read");
    return reads_wrong();
}

static void check_reads(void)
{
    static const int sides[] = {1, 7, 63, 64, 72, 129}, depths[] = {1, 31, 40, 77};
    long aligned = 0, ragged = 0, tried = 0;

    for (int l = 0; l < READS_LAYOUTS; l++)
        for (size_t i = 0; i < 6 * 6 * 4; i++) {
            int m = sides[i % 6], n = sides[i / 6 % 6], k = depths[i / 36];

            aligned += stray(&reads_aligned[l], m, n, k, 0, 0, false);
            ragged +=
                stray(&reads_ragged[l], m, n, k, (int)(i * 5 % 8), (int)(i % 4), false);
            tried++;
        }
    is_int(0, aligned, "%ld products: nothing but the operands is read", tried);
    is_int(0, ragged, "nor of ragged ones, padding neither");
    ok(stray(&reads_aligned[0], 70, 70, 40, 0, 0, true) > 0 &&
           stray(&reads_ragged[0], 70, 70, 40, 1, 1, true) > 0,
       "a read of one element that is not the product's is seen");
}

int main(void)
{
    plan_lazy();
    check_runs();
    check_barriers();
    check_meetings();
    check_groups();
    check_shared();
    check_mistakes();
    check_threads();
    check_table();
    fill_operands();
    check_copies();
    check_reads();
#if defined(__x86_64__)
    check_compilations();
#endif
    return 0;
}
