/* SPDX-License-Identifier: BSD-3-Clause */
/* Behaviours of other BLAS libraries that were reported as bugs, each under the number
 * it has in our collection, forced to the device. Sizes beyond what the emulated device
 * can do shrink there and are full on hardware. Cases about processes are in
 * t_process.c, about loading in t_dl.c, about the program's own GPU work in t_driver.c.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "child.h"
#include "tap.h"
#include "verify.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static const double nan_ = (double)NAN, inf = (double)INFINITY;
static bool device, hardware;
static char why[640];

/* One flavour of each pair of types. */
static const char *const each_type[] = {"sgemm_", "dgemm_", "cgemm_",  "zgemm_",
                                        "hgemm_", "bgemm_", "shgemm_", "sbgemm_"};

/* Column-major, Fortran-like, by symbol. */
static void gemm(const char *symbol, const char *ta, const char *tb, int64_t m,
                 int64_t n, int64_t k, double alpha, const void *a, int64_t lda,
                 const void *b, int64_t ldb, double beta, void *c, int64_t ldc)
{
    verify_call(verify_flavour(symbol), 102, ta, tb, m, n, k, verify_real(alpha), a,
                lda, b, ldb, verify_real(beta), c, ldc);
}

/* A call that is forwarded by design leaves `bytes` of C as wanted, or as the BLAS behind
 * leaves them when it is called without us. */
static bool forwarded(const char *symbol, struct gb_scalar alpha, int64_t m, int64_t n,
                      int64_t k, const void *a, const void *b, struct gb_scalar beta,
                      void *c, const void *want, size_t bytes)
{
    const struct verify_flavour *f = verify_flavour(symbol);
    struct verify_flavour direct;
    char before[64], seen[64];
    bool same;

    memcpy(before, c, bytes);
    verify_call(f, 102, "N", "N", m, n, k, alpha, a, m, b, 1, beta, c, m);
    if (memcmp(c, want, bytes) == 0)
        return true;
    memcpy(seen, c, bytes);
    memcpy(c, before, bytes);
    if (!verify_direct(f, &direct))
        return false;
    verify_call(&direct, 102, "N", "N", m, n, k, alpha, a, m, b, 1, beta, c, m);
    same = memcmp(c, seen, bytes) == 0;
    memcpy(c, seen, bytes);
    if (same)
        diag("%s: the BLAS behind has its own idea of alpha or k = 0", symbol);
    return same;
}

/* Have all calls since the last question been traced, on the device if there should be
 * one? */
static bool served(long calls)
{
    struct verify_trace t = verify_trace_read();

    if (t.calls >= calls && (device ? t.cpu == 0 : t.gpu == 0))
        return true;
    diag(
        "%ld calls traced, %ld on the device; the last: %s m=%lld n=%lld k=%lld why %s",
        t.calls, t.gpu, t.routine, t.m, t.n, t.k, t.why);
    return false;
}

static bool kept_on_cpu(void)
{
    struct verify_trace t = verify_trace_read();

    return t.calls >= 1 && t.gpu == 0;
}

/* A random integer product between guard pages. */
static bool exact(const char *symbol, enum gb_trans ta, enum gb_trans tb, int64_t m,
                  int64_t n, int64_t k, double alpha, double beta, enum verify_fill c,
                  const int64_t extra[3], enum verify_place place)
{
    static const int64_t tight[3];
    struct verify_random r = verify_seed((uint64_t)(m * 1000003 + n * 1009 + k));
    struct verify_gemm g = {.f = verify_flavour(symbol),
                            .transa = ta,
                            .transb = tb,
                            .m = m,
                            .n = n,
                            .k = k,
                            .alpha = {.re = alpha},
                            .beta = {.re = beta}};
    bool right;

    right =
        verify_gemm_integers(&g, c, extra ? extra : tight, place, &r, why, sizeof why);
    if (!right)
        diag("%s", why);
    return right;
}

static void b01(void)
{
    const double zero = 0, two = 2, three = 3, six = 6, infinite = inf, no = nan_;
    const uint64_t same = 0x7ff4000000000123;
    uint64_t bits = same;
    double c = nan_;
    bool right;

    gemm("dgemm_", "N", "N", 1, 1, 1, 1, &two, 1, &three, 1, 0, &c, 1);
    ok(c == 6 && served(1), "B01a beta = 0 hides a NaN in C");
    c = nan_;
    right = forwarded("dgemm_", verify_real(0), 1, 1, 1, &no, &three, verify_real(0),
                      &c, &zero, sizeof c);
    ok(right && kept_on_cpu(), "B01b alpha = 0 and beta = 0 give zero");
    c = 3;
    right = forwarded("dgemm_", verify_real(0), 1, 1, 1, &infinite, &three,
                      verify_real(2), &c, &six, sizeof c);
    ok(right && kept_on_cpu(), "B01c alpha = 0 hides an infinite A");
    right = forwarded("dgemm_", verify_real(0), 1, 1, 1, &two, &three, verify_real(1),
                      &bits, &same, sizeof bits);
    ok(right && kept_on_cpu(),
       "B01d alpha = 0 and beta = 1 keep a signalling NaN's bits");
    c = nan_;
    gemm("dgemm_", "N", "N", 1, 1, 1, 1, &two, 1, &three, 1, 2, &c, 1);
    verify_trace_read();
    ok(isnan(c), "B01e beta = 2 keeps a NaN in C");
    c = nan_;
    gemm("dgemm_", "N", "N", 1, 1, 1, 1, &two, 1, &three, 1, 1, &c, 1);
    ok(isnan(c) && served(1), "B01e beta = 1 keeps a NaN in C");
}

static void b02(void)
{
    for (int i = 0; i < COUNT(each_type); i++)
        ok(exact(each_type[i], GB_N, GB_N, 257, 129, 65, 1, 0, VERIFY_NAN, NULL,
                 VERIFY_HIGH) &&
               served(1),
           "B02 %s: beta = 0 never reads C", each_type[i]);
}

static void b04(void)
{
    int64_t n = hardware ? 1500 : 200;
    static const int64_t tight[3];
    struct verify_random r = verify_seed(4);

    for (int i = 0; i < COUNT(each_type); i++) {
        struct verify_gemm g = {.f = verify_flavour(each_type[i]),
                                .m = n,
                                .n = n,
                                .k = n,
                                .alpha = {.re = 0},
                                .beta = {.re = 0.5}};
        bool right;

        verify_gemm_make(&g, VERIFY_NAN, VERIFY_INTEGERS, tight, VERIFY_LOW, &r);
        right = verify_gemm_run(&g, VERIFY_EXACT, why, sizeof why);
        if (!ok(right && kept_on_cpu(), "B04 %s: alpha = 0 never reads A and B",
                each_type[i]))
            diag("%s", why);
        verify_gemm_drop(&g);
    }
}

static void b05(void)
{
    const double scaled[4] = {1, 2, 3, 4}, zeros[4] = {0};
    double c[4] = {2, 4, 6, 8};
    uint64_t bits[4] = {0x7ff4000000000123, 0x7ff8000000000001, 1, 0x8000000000000000};
    const uint64_t same[4] = {0x7ff4000000000123, 0x7ff8000000000001, 1,
                              0x8000000000000000};

    ok(forwarded("dgemm_", verify_real(5), 2, 2, 0, NULL, NULL, verify_real(0.5), c,
                 scaled, sizeof c) &&
           kept_on_cpu(),
       "B05 k = 0 scales C");
    for (int i = 0; i < 4; i++)
        c[i] = nan_;
    ok(forwarded("dgemm_", verify_real(5), 2, 2, 0, NULL, NULL, verify_real(0), c,
                 zeros, sizeof c),
       "B05 k = 0 and beta = 0 clear C");
    ok(forwarded("dgemm_", verify_real(5), 2, 2, 0, NULL, NULL, verify_real(1), bits,
                 same, sizeof bits),
       "B05 k = 0 and beta = 1 leave C's bits");
    for (int i = 0; i < COUNT(each_type); i++)
        ok(exact(each_type[i], GB_T, GB_T, 130, 70, 0, 1, 2, VERIFY_INTEGERS, NULL,
                 VERIFY_HIGH),
           "B05 %s: k = 0 scales a larger C", each_type[i]);
    verify_trace_read();
}

static void b07(void)
{
    const double x[2] = {5, 5}, negated[2] = {-1, -2};
    double c[2] = {1, 2};

    ok(forwarded("dgemm_", verify_real(0), 2, 1, 1, x, x, verify_real(-1), c, negated,
                 sizeof c) &&
           kept_on_cpu(),
       "B07 alpha = 0 and beta = -1 negate C");
}

/* The printing is looked at by the parent. */
static int mode_b08(void)
{
    double b[15] = {0};

    verify_route("gpu");
    gemm("dgemm_", "N", "N", 3, 0, 2, 1, NULL, 3, NULL, 2, 0, NULL, 3);
    gemm("dgemm_", "N", "N", 0, 4, 2, 1, NULL, 1, NULL, 2, 0, NULL, 1);
    verify_call(verify_flavour("cblas_dgemm"), 101, "N", "N", 3, 0, 2, verify_real(1),
                NULL, 2, NULL, 1, verify_real(1), NULL, 1);
    if (verify_trace_read().gpu != 0)
        return 1;
    fflush(NULL);
    fprintf(stderr, "forwarded\n");
    /* Leading dimension 0 for an empty matrix: whatever the real BLAS says of it. */
    gemm("dgemm_", "N", "N", 0, 5, 3, 1, NULL, 0, b, 3, 0, NULL, 0);
    return verify_trace_read().gpu != 0;
}

static void b08(void)
{
    struct child c;

    child_run(&c, "b08", NULL, 60);
    ok(child_passed(&c) && *c.out == '\0' && strncmp(c.err, "forwarded\n", 10) == 0,
       "B08 empty C with NULL operands is silent");
}

static void b10(void)
{
    static const char *const symbols[] = {"sgemm_", "dgemm_", "zgemm_", "hgemm_"};
    int64_t n = hardware ? 512 : 144;
    struct verify_random r = verify_seed(10);
    static const int64_t tight[3];

    for (int i = 0; i < COUNT(symbols); i++) {
        struct verify_gemm g = {.f = verify_flavour(symbols[i]),
                                .m = n,
                                .n = n,
                                .k = n,
                                .alpha = {.re = 1},
                                .beta = {.re = 1}};

        verify_gemm_make(&g, VERIFY_NAN, VERIFY_NAN, tight, VERIFY_MIDDLE, &r);
        verify_gemm_call(&g);
        verify_gemm_drop(&g);
        ok(exact(symbols[i], GB_N, GB_T, n - 3, n - 3, n - 3, 1, 0, VERIFY_NAN, NULL,
                 VERIFY_MIDDLE) &&
               served(2),
           "B10 %s: no NaN of an earlier call in a reused workspace", symbols[i]);
    }
}

static void b11(void)
{
    static const char *const symbols[] = {"zgemm_", "cgemm_"};
    static const struct {
        struct gb_scalar alpha, beta, c, want;
        const char *name;
    } row[] = {
        {{0, 1}, {0, 1}, {2, 3}, {-3, 3}, "alpha and beta imaginary"},
        {{0, 1}, {0, 0}, {(double)NAN, (double)NAN}, {0, 1}, "beta = 0 hides NaN"},
        {{0, 0}, {1, 1}, {1, 0}, {1, 1}, "alpha = 0, beta = 1+i"},
        {{0, 0}, {0, 1}, {1, 2}, {-2, 1}, "alpha = 0, beta imaginary"},
        {{0, 2}, {1, 0}, {1, 1}, {1, 3}, "alpha imaginary, beta = 1"},
    };

    for (int s = 0; s < COUNT(symbols); s++) {
        for (int i = 0; i < COUNT(row); i++) {
            const struct verify_flavour *f = verify_flavour(symbols[s]);
            struct verify_value v;
            char a[16], c[16], want[16];

            verify_store(f->type, a, (struct verify_value){.re = 1});
            verify_store(f->type, c,
                         (struct verify_value){.re = row[i].c.re, .im = row[i].c.im});
            if (row[i].alpha.im == 0) {
                verify_store(
                    f->type, want,
                    (struct verify_value){.re = row[i].want.re, .im = row[i].want.im});
                ok(forwarded(symbols[s], row[i].alpha, 1, 1, 1, a, a, row[i].beta, c,
                             want, gb_type_size(f->type)) &&
                       kept_on_cpu(),
                   "B11 %s: %s", symbols[s], row[i].name);
                continue;
            }
            verify_call(f, 102, "N", "N", 1, 1, 1, row[i].alpha, a, 1, a, 1,
                        row[i].beta, c, 1);
            v = verify_load(f->type, c);
            ok(v.re == row[i].want.re && v.im == row[i].want.im && served(1),
               "B11 %s: %s", symbols[s], row[i].name);
        }
    }
}

static void b26(void)
{
    static const char *const symbols[] = {"cblas_dgemm", "cblas_dgemm64_",
                                          "cblas_dgemm_64", "scipy_cblas_dgemm",
                                          "scipy_cblas_dgemm64_"};
    const double a[2] = {1, 2}, b[3] = {10, 20, 30};
    const double want[10] = {10, 20, 30, -7, -7, 20, 40, 60, -7, -7};

    for (int i = 0; i < COUNT(symbols); i++) {
        bool right = true;
        double c[10];

        for (int j = 0; j < 10; j++)
            c[j] = -7;
        verify_call(verify_flavour(symbols[i]), 101, "N", "N", 2, 3, 1, verify_real(1),
                    a, 1, b, 3, verify_real(0), c, 5);
        for (int j = 0; j < 10; j++)
            right = right && c[j] == want[j];
        ok(right && served(1), "B26 %s: row-major, ldc > n", symbols[i]);
    }
}

static void b28(void)
{
    static const int64_t extra[3] = {5, 7, 3};

    for (int i = 0; i < COUNT(each_type); i++) {
        bool right = true;

        for (int form = 0; right && form < 4; form++) {
            enum gb_trans ta = form & 1 ? GB_T : GB_N, tb = form & 2 ? GB_T : GB_N;

            right = exact(each_type[i], ta, tb, 37, 41, 35, 1, 1, VERIFY_INTEGERS,
                          extra, VERIFY_HIGH) &&
                    exact(each_type[i], ta, tb, 37, 41, 35, 1, 1, VERIFY_INTEGERS,
                          extra, VERIFY_LOW);
        }
        ok(right && served(8), "B28 %s: no access past either end of a mapping",
           each_type[i]);
    }
}

static void b29(void)
{
    for (int i = 0; i < COUNT(each_type); i++) {
        bool right = true;
        long calls = 0;

        for (int64_t m = 1; right && m <= 9; m++)
            for (int64_t n = 1; right && n <= 9; n++, calls++)
                right = exact(each_type[i], GB_N, GB_N, m, n, 3, 1, 2, VERIFY_INTEGERS,
                              NULL, VERIFY_HIGH);
        ok(right && served(calls), "B29 %s: nothing written past C, m and n to 9",
           each_type[i]);
    }
}

/* C beyond 2 and 4 GiB. */
static void b31(void)
{
    int64_t n = hardware ? 32769 : 1025;
    size_t bytes = (size_t)(n * n) * sizeof(float);
    float *a = malloc((size_t)n * sizeof *a),
          *c = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                    -1, 0);
    struct verify_random r = verify_seed(31);
    bool right = true;

    if (!a || c == MAP_FAILED)
        bail("no memory for a C of %zu bytes", bytes);
    for (int64_t i = 0; i < n; i++)
        a[i] = 1;
    for (int64_t i = 0; i < n * n; i++)
        c[i] = -1;
    gemm("sgemm_", "N", "N", n, n, 1, 1, a, n, a, 1, 0, c, n);
    for (int64_t i = 0; i < n; i++)
        right = right && c[i + (n - 1) * n] == 1 && c[n - 1 + i * n] == 1;
    for (int i = 0; i < 100000; i++)
        right = right && c[verify_below(&r, n * n)] == 1;
    ok(right && served(1), "B31 all of a C of %.1f GiB is written",
       (double)bytes / 0x1p30);
    free(a);
    munmap(c, bytes);
}

static void b32(void)
{
    int64_t m = 64, n = 9, k = hardware ? 1872392 : 4001;
    struct verify_trace t;
    bool right =
        exact("zgemm_", GB_C, GB_N, m, n, k, 1, 0, VERIFY_NAN, NULL, VERIFY_HIGH);

    t = verify_trace_read();
    ok(right && t.on_gpu == device && (!device || t.panels == 1),
       "B32 a tall skinny product is one panel");
    if (device && t.panels != 1)
        diag("%lld panels", t.panels);
}

/* A failing device: the child says how the call went. */
static int mode_lost(void)
{
    static const int64_t extra[3] = {1, 1, 1};
    struct verify_trace t;
    bool right;

    device = verify_route("gpu");
    right = exact("dgemm_", GB_N, GB_T, 700, 600, 300, 1, 2, VERIFY_INTEGERS, extra,
                  VERIFY_HIGH);
    t = verify_trace_read();
    printf("why=%s panels=%lld\n", t.why, t.panels);
    /* The process goes on, on the CPU or on the device. */
    right = exact("sgemm_", GB_T, GB_N, 70, 80, 90, -1, 2, VERIFY_INTEGERS, extra,
                  VERIFY_LOW) &&
            right;
    return !right;
}

static void b34(void)
{
    static const char *const faults[] = {
        "copy_in@1",  "copy_in@2",    "copy_in@5",  "launch@1",
        "launch@2",   "launch@3",     "copy_out@1", "copy_out@2",
        "copy_out@3", "event_sync@2", "copy_out@7",
    };
    int lost = 0;
    long long most_panels = 0;

    if (hardware || !device) {
        skip("B34 faults are injected on the emulated device only");
        return;
    }
    for (int i = 0; i < 2 * COUNT(faults); i++) {
        char fault[64];
        const char *changes[] = {fault, "GEMMBLAS_MEM_LIMIT=4M", "GEMMBLAS_LOG=none",
                                 NULL};
        bool again = i % 2; /* the device can be opened again and finishes itself */
        const char *at;
        struct child c;

        snprintf(fault, sizeof fault, "GEMMBLAS_FAULT=%s%s", faults[i / 2],
                 again ? "" : ",open@2");
        child_run(&c, "lost", changes, 60);
        ok(child_passed(&c), "B34 beta applied once when %s fails, %s", faults[i / 2],
           again ? "once" : "for good");
        lost += strstr(c.out, "why=lost") != NULL;
        at = strstr(c.out, "panels=");
        if (at && atoll(at + 7) > most_panels)
            most_panels = atoll(at + 7);
    }
    ok(lost >= 5, "B34 the failures were seen (%d of %d calls finished by the CPU)",
       lost, COUNT(faults));
    ok(most_panels >= 3, "B34 there were several panels (%lld)", most_panels);
}

static int mode_b35(void)
{
    static const int64_t depth[] = {3 * 256 + 1, 3 * 512 + 1, 3 * 1024 + 1,
                                    3 * 4096 + 1};
    struct verify_trace t = {.splits = 0};
    bool right = true;

    device = verify_route("gpu");
    for (int i = 0; i < COUNT(depth); i++) {
        int64_t k = depth[i], m = 12, n = 10;
        double *a = malloc((size_t)(m * k) * sizeof *a),
               *b = malloc((size_t)(n * k) * sizeof *b);
        double c[120];

        if (!a || !b)
            bail("no memory");
        for (int64_t j = 0; j < m * k; j++)
            a[j] = 1;
        for (int64_t j = 0; j < n * k; j++)
            b[j] = 1;
        for (int j = 0; j < 120; j++)
            c[j] = 1;
        gemm("dgemm_", "N", "N", m, n, k, 1, a, m, b, k, 2, c, m);
        for (int j = 0; j < 120; j++)
            right = right && c[j] == (double)(k + 2);
        free(a);
        free(b);
        t = verify_trace_read();
        right = right && t.on_gpu == device;
    }
    printf("splits=%lld\n", t.splits);
    return !right;
}

static void b35(void)
{
    static const char *const limits[] = {"GEMMBLAS_MEM_LIMIT=0",
                                         "GEMMBLAS_MEM_LIMIT=4M"};

    for (int i = 0; i < 2; i++) {
        const char *changes[] = {limits[i], NULL};
        struct child c;

        child_run(&c, "b35", changes, 60);
        ok(child_passed(&c), "B35 beta applied once when k is split, %s", limits[i]);
    }
}

static void b37(void)
{
    static const char *const symbols[] = {"hgemm_", "cblas_hgemm", "bgemm_", "shgemm_",
                                          "sbgemm_"};

    for (int i = 0; i < COUNT(symbols); i++) {
        bool right = true;
        long calls = 0;

        for (int64_t m = 1; right && m <= 9; m++)
            for (int64_t n = 1; right && n <= 9; n++)
                for (int64_t k = 1; right && k <= 9; k += i == 0 ? 1 : 2, calls++)
                    right = exact(symbols[i], GB_N, GB_N, m, n, k, 1, 1,
                                  VERIFY_INTEGERS, NULL, VERIFY_HIGH);
        ok(right && served(calls), "B37 %s: m, n, k to 9", symbols[i]);
    }
}

static void b38(void)
{
    static const int64_t size[] = {1, 15, 16, 17, 63, 64, 65, 127, 129};
    static const int64_t pad[] = {0, 1, 3};

    for (int s = 0; s < COUNT(each_type); s++) {
        bool right = true;
        long calls = 0;
        int step = hardware || s == 0 ? 1 : 5;

        for (int i = 0; right && i < 729; i += step, calls++) {
            int64_t extra[3] = {pad[i % 3], pad[(i / 3 + s) % 3], pad[(i / 9) % 3]};
            enum gb_trans ta = (i / 2) % 2 ? GB_T : GB_N,
                          tb = (i / 4) % 2 ? GB_T : GB_N;

            right =
                exact(each_type[s], ta, tb, size[i % 9], size[i / 9 % 9], size[i / 81],
                      1, i % 2, VERIFY_INTEGERS, extra, VERIFY_MIDDLE);
        }
        ok(right && served(calls), "B38 %s: %ld odd sizes, strides and addresses",
           each_type[s], calls);
    }
}

static void *tile_plus_one(void *symbol)
{
    static const int64_t tile[] = {16, 32, 64, 128};
    bool right = true;

    for (int i = 0; right && i < COUNT(tile); i++) {
        int64_t t = tile[i];

        for (int which = 1; right && which < 8; which++)
            right = exact(symbol, GB_N, GB_T, t + (which & 1), t + (which >> 1 & 1),
                          t + (which >> 2), 1, 2, VERIFY_INTEGERS, NULL, VERIFY_HIGH);
    }
    return right ? symbol : NULL;
}

static void b40(void)
{
    static char first[] = "dgemm_", second[] = "sgemm_";
    pthread_t thread;
    void *there, *here;

    pthread_create(&thread, NULL, tile_plus_one, first);
    here = tile_plus_one(second);
    pthread_join(thread, &there);
    ok(here && there && served(56), "B40 one more than a tile, two threads");
}

static void b41(void)
{
    static const char *const symbols[] = {"sgemm_", "dgemm_", "cgemm_", "zgemm_"};
    static const int64_t extra[3] = {2, 1, 3};
    enum { M = 70, N = 67 };

    for (int s = 0; s < COUNT(symbols); s++) {
        struct verify_random r = verify_seed(41);
        struct verify_gemm g = {.f = verify_flavour(symbols[s]),
                                .m = M,
                                .n = N,
                                .k = 2,
                                .alpha = {.re = 1},
                                .beta = {.re = 0}};
        bool right = true;

        verify_gemm_make(&g, VERIFY_INTEGERS, VERIFY_NAN, extra, VERIFY_MIDDLE, &r);
        for (int64_t i = 0; i < M; i++) {
            verify_set(&g.a, i, 0, 1000 * (double)i, 0);
            verify_set(&g.a, i, 1, 1, 0);
        }
        for (int64_t j = 0; j < N; j++) {
            verify_set(&g.b, 0, j, 1, 0);
            verify_set(&g.b, 1, j, (double)j, 0);
        }
        verify_gemm_call(&g);
        for (int64_t j = 0; j < N; j++)
            for (int64_t i = 0; i < M; i++)
                right =
                    right && verify_get(&g.c, i, j).re == (long double)(1000 * i + j);
        ok(right && served(1), "B41 %s: every element lands in its own place",
           symbols[s]);
        verify_gemm_drop(&g);
    }
}

static void b43(void)
{
    int64_t n = hardware ? 4000000 : 20000;
    bool right = true;

    for (int64_t k = 1; right && k <= 4; k++)
        right =
            exact("dgemm_", GB_N, GB_N, 8, n, k, 1, 0, VERIFY_NAN, NULL, VERIFY_HIGH);
    ok(right && served(4), "B43 n = %lld with k = 1 to 4", (long long)n);
    ok(exact("dgemm_", GB_N, GB_N, 65, 66, 67, 1, 1, VERIFY_INTEGERS, NULL,
             VERIFY_LOW) &&
           served(1),
       "B43 and the device is still good");
}

static void b44(void)
{
    int64_t n = hardware ? 4096 : 300;
    float *a = malloc((size_t)n * sizeof *a), *b = malloc((size_t)n * sizeof *b);
    float *c = malloc((size_t)(n * n) * sizeof *c);
    bool right = true;

    if (!a || !b || !c)
        bail("no memory");
    for (int64_t i = 0; i < n; i++) {
        a[i] = 1 + 0x1p-12f;
        b[i] = 1;
    }
    gemm("sgemm_", "N", "N", n, n, 1, 1, a, n, b, 1, 0, c, n);
    for (int64_t i = 0; i < n * n; i++)
        right = right && c[i] == 1 + 0x1p-12f;
    ok(right && served(1), "B44 fp32 products keep all bits");
    free(a);
    free(b);
    free(c);
}

static void b46(void)
{
    const uint16_t a = verify_f16(256);
    float c = 0;
    uint16_t h = 0;

    gemm("shgemm_", "N", "N", 1, 1, 1, 1, &a, 1, &a, 1, 0, &c, 1);
    ok(c == 65536 && served(1), "B46 shgemm: 256 * 256 in fp32");
    gemm("hgemm_", "N", "N", 1, 1, 1, 1, &a, 1, &a, 1, 0, &h, 1);
    ok(h == verify_f16(inf) && served(1), "B46 hgemm: 256 * 256 overflows to infinity");
    gemm("hgemm_", "N", "N", 1, 1, 1, 0.5, &a, 1, &a, 1, 0, &h, 1);
    ok(h == verify_f16(32768) && served(1),
       "B46 hgemm: alpha comes before the rounding");
    gemm("cblas_gemm_f16f16f32", "N", "N", 1, 1, 1, 1, &a, 1, &a, 1, 0, &c, 1);
    ok(c == 65536 && served(1), "B46 cblas_gemm_f16f16f32: 256 * 256 in fp32");
}

static void b47(void)
{
    static const char *const symbols[] = {"sbgemm_", "cblas_sbgemm", "shgemm_",
                                          "cblas_gemm_bf16bf16f32"};

    for (int s = 0; s < COUNT(symbols); s++) {
        enum gb_type t = verify_flavour(symbols[s])->type;
        uint16_t a[9], b[9];
        float c[9];
        bool right = true;

        for (int i = 0; i < 9; i++) {
            verify_store(t, &a[i], (struct verify_value){.re = i % 4 == 0});
            verify_store(t, &b[i], (struct verify_value){.re = i - 4});
            c[i] = 1.0009765625f;
        }
        gemm(symbols[s], "N", "N", 3, 3, 3, 1, a, 3, b, 3, 1, c, 3);
        for (int i = 0; i < 9; i++)
            right = right && c[i] == (float)(i - 4) + 1.0009765625f;
        ok(right && served(1), "B47 %s: C is fp32 also when beta is 1", symbols[s]);
    }
}

static void b49(void)
{
    static const char *const faults[] = {"module_load@1", "module_get@1", "mem_alloc@1",
                                         "host_alloc@1", "open@1"};

    if (hardware || !device) {
        skip("B49 faults are injected on the emulated device only");
        return;
    }
    for (int i = 0; i < COUNT(faults); i++) {
        char fault[64];
        const char *changes[] = {fault, "GEMMBLAS_LOG=none", NULL};
        struct child c;

        snprintf(fault, sizeof fault, "GEMMBLAS_FAULT=%s,open@2", faults[i]);
        child_run(&c, "lost", changes, 60);
        ok(child_passed(&c), "B49 no stale C when %s fails", faults[i]);
        ok(strstr(c.out, "why=ok") == NULL || strstr(faults[i], "alloc"),
           "B49 the call that met %s says so (%.24s)", faults[i],
           strncmp(c.out, "why=", 4) == 0 ? c.out : "nothing");
    }
}

static void b50(void)
{
    static const char *const symbols[] = {"sgemm_", "dgemm_"};
    static const int64_t tight[3];

    for (int s = 0; s < COUNT(symbols); s++) {
        for (int round = 0; round < 3; round++) {
            int64_t n = hardware ? 700 + round * 333 : 120 + round * 45;
            struct verify_random r = verify_seed(50);
            struct verify_gemm g = {.f = verify_flavour(symbols[s]),
                                    .transb = GB_T,
                                    .m = n,
                                    .n = n,
                                    .k = 300,
                                    .alpha = {.re = 1}};
            bool right = true;

            verify_gemm_make(&g, VERIFY_NORMAL, VERIFY_NAN, tight, VERIFY_MIDDLE, &r);
            verify_call(g.f, 102, "N", "T", n, n, g.k, g.alpha, g.a.at, g.a.ld, g.a.at,
                        g.a.ld, g.beta, g.c.at, g.c.ld);
            for (int64_t j = 0; j < n; j++)
                for (int64_t i = 0; i < j; i++)
                    right =
                        right && verify_get(&g.c, i, j).re == verify_get(&g.c, j, i).re;
            ok(right && served(1),
               "B50 %s: A times its transpose is symmetric, n = %lld", symbols[s],
               (long long)n);
            verify_gemm_drop(&g);
        }
    }
}

/* Bits of several random products, as one number. */
static uint64_t bits_of_products(void)
{
    static const struct {
        const char *symbol;
        int64_t m, n, k;
    } row[] = {{"sgemm_", 130, 140, 700}, {"dgemm_", 300, 20, 1500},
               {"zgemm_", 65, 66, 600},   {"cgemm_", 20, 21, 2100},
               {"hgemm_", 150, 150, 900}, {"bgemm_", 40, 30, 1111},
               {"dgemm_", 700, 600, 40}};
    uint64_t hash = 0xcbf29ce484222325;
    static const int64_t tight[3];

    for (int i = 0; i < COUNT(row); i++) {
        struct verify_random r = verify_seed(52);
        struct verify_gemm g = {.f = verify_flavour(row[i].symbol),
                                .transa = GB_T,
                                .m = row[i].m,
                                .n = row[i].n,
                                .k = row[i].k,
                                .alpha = {.re = 0.7},
                                .beta = {.re = -1.3}};

        verify_gemm_make(&g, VERIFY_NORMAL, VERIFY_NORMAL, tight, VERIFY_MIDDLE, &r);
        verify_gemm_call(&g);
        for (size_t j = 0; j < g.c.data_bytes; j++)
            hash = (hash ^ (unsigned char)g.c.data[j]) * 0x100000001b3;
        verify_gemm_drop(&g);
    }
    return hash;
}

static int mode_bits(void)
{
    device = verify_route("gpu");
    printf("%016llx", (unsigned long long)bits_of_products());
    return !served(7);
}

static void b52(void)
{
    static const char *const variants[] = {
        "GEMMBLAS_SEED=2", "GEMMBLAS_SEED=77", "GEMMBLAS_MEM_LIMIT=4M",
        "GEMMBLAS_MEM_LIMIT=16M", "GEMMBLAS_STATS=0"};
    uint64_t first = bits_of_products();
    bool same = true;
    char wanted[32];

    for (int i = 0; i < (hardware ? 50 : 5); i++)
        same = same && bits_of_products() == first;
    ok(same && served(7), "B52 the same bits every time");
    snprintf(wanted, sizeof wanted, "%016llx", (unsigned long long)first);
    for (int i = 0; i < COUNT(variants); i++) {
        const char *changes[] = {variants[i], NULL};
        struct child c;

        child_run(&c, "bits", changes, 120);
        ok(child_passed(&c), "B52 a process with %s", variants[i]);
        is_string(wanted, c.out, "B52 the same bits with %s", variants[i]);
    }
}

/* Blocks that come and go at one address. */
static void b79(void)
{
    int rounds = hardware ? 1000 : 250;
    struct verify_random r = verify_seed(79);
    char *at = mmap(NULL, 1 << 24, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool right = true;

    if (at == MAP_FAILED)
        bail("no address space");
    for (int i = 0; right && i < rounds; i++) {
        int64_t n = 8 + verify_below(&r, hardware ? 500 : 40);
        size_t bytes = (size_t)(3 * n * n) * sizeof(double);
        double *a, *b, *c;

        munmap(at, 1 << 24);
        a = mmap(at, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (a == MAP_FAILED)
            bail("no memory");
        b = a + n * n;
        c = b + n * n;
        for (int64_t j = 0; j < n; j++) {
            a[j * n + j] = i + 1; /* a multiple of the identity */
            for (int64_t k = 0; k < n; k++)
                b[j * n + k] = (double)(j + k);
        }
        gemm("dgemm_", "N", "N", n, n, n, 1, a, n, b, n, 0, c, n);
        for (int64_t j = 0; j < n * n; j++)
            right = right && c[j] == (i + 1) * b[j];
        munmap(a, bytes);
        at = mmap(at, 1 << 24, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                  0);
    }
    munmap(at, 1 << 24);
    ok(right && served(rounds), "B79 %d blocks of other sizes at the same address",
       rounds);
}

static void b88(void)
{
    int64_t ldc = ((int64_t)1 << 28) + 1;
    size_t bytes = ((size_t)ldc * 7 + 4) * sizeof(double);
    double a[4] = {1, 2, 3, 4}, b[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    double *c = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    double start = child_clock();
    bool right = true;

    if (c == MAP_FAILED) {
        skip("B88 no address space for a sparse mapping of %zu GiB", bytes >> 30);
        return;
    }
    gemm("dgemm_", "N", "N", 4, 8, 1, 1, a, 4, b, 1, 0, c, ldc);
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 4; i++)
            right = right && c[i + j * ldc] == a[i] * b[j];
    ok(right && served(1), "B88 a leading dimension of 2 GiB");
    ok(child_clock() - start < 5, "B88 and the gaps are not touched");
    munmap(c, bytes);
}

static void b89(void)
{
    const float a[2] = {1, 1}, b[1] = {2};
    float c[2] = {(float)NAN, (float)NAN};

    verify_call(verify_flavour("cblas_sgemm"), 101, "N", "N", 2, 1, 1, verify_real(1),
                a, 1, b, 1, verify_real(0), c, 1);
    ok(c[0] == 2 && c[1] == 2 && served(1), "B89 one column, row-major");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {
        {"b08", mode_b08}, {"lost", mode_lost}, {"b35", mode_b35}, {"bits", mode_bits}};
    static void (*const cases[])(void) = {
        b01, b02, b04, b05, b07, b08, b10, b11, b26, b28, b29, b31, b32, b34, b35,
        b37, b38, b40, b41, b43, b44, b46, b47, b49, b50, b52, b79, b88, b89,
    };

    for (int i = 0; argc > 1 && i < COUNT(modes); i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            return modes[i].run();
    plan_lazy();
    device = verify_route("gpu");
    hardware = device && verify_on_hardware();
    verify_say_provider();
    for (int i = 0; i < COUNT(cases); i++)
        cases[i]();
    return 0;
}
