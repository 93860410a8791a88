/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that resets the device that we share with it, through the driver or through the
 * CUDA runtime: the next products are right and on the GPU again, after one reopening; a
 * second reset leaves them right, on the CPU. The emulated device loses itself instead. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "child.h"
#include "gemmblas/cblas.h"
#include "tap.h"
#include "verify.h"

enum { UNABLE = 77, DEVICE = 0 }; /* the first device is the one that products use */

/* Where a call must go; LOSING is the first that meets a device lost for good. */
enum where { GPU, LOSING, CPU };

static char why[640];

/* ---- in the child ---- */

/* The reason goes to the parent. */
static int unable(const char *reason)
{
    if (printf("%s", reason) < 0 || fflush(stdout) != 0)
        return 1;
    return UNABLE;
}

static void product(const char *routine, int64_t n, enum where where, const char *when)
{
    struct verify_random r = verify_seed((uint64_t)n);
    static const int64_t gaps[3] = {1, 0, 3};
    struct verify_gemm g = {.f = verify_flavour(routine),
                            .transa = GB_T,
                            .m = n,
                            .n = n + 1,
                            .k = n - 1,
                            .alpha = {.re = 1},
                            .beta = {.re = 2}};
    struct verify_trace t;
    bool good;

    if (!verify_gemm_integers(&g, VERIFY_INTEGERS, gaps, VERIFY_HIGH, &r, why,
                              sizeof why))
        bail("%s: %s", when, why);
    t = verify_trace_read();
    good = where == GPU ? t.on_gpu && strcmp(t.why, "ok") == 0
                        : !t.on_gpu || (where == LOSING && strcmp(t.why, "lost") == 0);
    if (t.calls != 1 || !good)
        bail("%s: %s of %lld: %ld calls, the last on the %s (%s)", when, routine,
             (long long)n, t.calls, t.on_gpu ? "GPU" : "CPU", t.why);
}

/* One family of kernels that is loaded already, and one that is not. */
static void products(int64_t n, enum where where, const char *when)
{
    product("dgemm_", n, where == CPU ? LOSING : where, when);
    product("dgemm_", n / 2, where, when);
    product("sgemm_", n, where, when);
}

/* Libraries stay open: what a driver has started cannot be stopped. */
static void *find(const char *const *names, const char *symbol)
{
    void *lib = NULL;

    while (*names && !lib)
        lib = dlopen(*names++, RTLD_NOW);
    return lib ? dlsym(lib, symbol) : NULL;
}

static const char *const driver[] = {"libcuda.so.1", NULL};
static const char *const runtime[] = {"libcudart.so", "libcudart.so.13",
                                      "libcudart.so.12", NULL};

static int by_driver(void)
{
    int (*init)(unsigned) = NULL, (*reset)(int) = NULL;

    *(void **)&init = find(driver, "cuInit");
    *(void **)&reset = find(driver, "cuDevicePrimaryCtxReset_v2");
    if (!init || !reset || init(0) != 0)
        return unable("no NVIDIA driver with a device");
    products(1000, GPU, "before the reset");
    if (reset(DEVICE) != 0)
        bail("cuDevicePrimaryCtxReset");
    products(1000, GPU, "after the reset");
    products(700, GPU, "later");
    if (reset(DEVICE) != 0)
        bail("cuDevicePrimaryCtxReset, again");
    products(700, CPU, "after a second reset");
    return 0;
}

/* The program has a context again before we notice, and memory in it, which is not ours. */
static int by_driver_in_use(void)
{
    enum { BYTES = 1 << 20 };
    int (*init)(unsigned) = NULL, (*reset)(int) = NULL;
    int (*retain)(void **, int) = NULL, (*set)(void *) = NULL, (*get)(void **) = NULL;
    int (*alloc)(uint64_t *, size_t) = NULL, (*release)(uint64_t) = NULL;
    int (*in)(uint64_t, const void *, size_t) = NULL;
    int (*out)(void *, uint64_t, size_t) = NULL;
    static char text[BYTES], back[BYTES];
    void *context = NULL, *current = NULL;
    uint64_t memory = 0;

    *(void **)&init = find(driver, "cuInit");
    *(void **)&reset = find(driver, "cuDevicePrimaryCtxReset_v2");
    *(void **)&retain = find(driver, "cuDevicePrimaryCtxRetain");
    *(void **)&set = find(driver, "cuCtxSetCurrent");
    *(void **)&get = find(driver, "cuCtxGetCurrent");
    *(void **)&alloc = find(driver, "cuMemAlloc_v2");
    *(void **)&release = find(driver, "cuMemFree_v2");
    *(void **)&in = find(driver, "cuMemcpyHtoD_v2");
    *(void **)&out = find(driver, "cuMemcpyDtoH_v2");
    if (!init || !reset || !retain || !set || !get || !alloc || !release || !in ||
        !out || init(0) != 0)
        return unable("no NVIDIA driver with a device");
    memset(text, 0x5a, BYTES);
    products(1000, GPU, "before the reset");
    if (reset(DEVICE) != 0 || retain(&context, DEVICE) != 0 || set(context) != 0 ||
        alloc(&memory, BYTES) != 0 || in(memory, text, BYTES) != 0)
        bail("the program has no context of its own after its reset");
    products(1000, GPU, "after the reset");
    products(700, GPU, "later");
    if (get(&current) != 0 || current != context)
        bail("another context is current");
    if (out(back, memory, BYTES) != 0 || memcmp(back, text, BYTES) != 0 ||
        release(memory) != 0)
        bail("the program's own memory is not as it was");
    return 0;
}

static int by_runtime(void)
{
    int (*reset)(void) = NULL, (*start)(void *) = NULL, (*last_error)(void) = NULL;

    *(void **)&reset = find(runtime, "cudaDeviceReset");
    *(void **)&start = find(runtime, "cudaFree");
    *(void **)&last_error = find(runtime, "cudaGetLastError");
    if (!reset || !start || !last_error)
        return unable("no CUDA runtime");
    if (start(NULL) != 0)
        return unable("the CUDA runtime finds no device");
    products(1000, GPU, "before the reset");
    if (reset() != 0)
        bail("cudaDeviceReset");
    products(1000, GPU, "after the reset");
    if (start(NULL) != 0 || last_error() != 0)
        bail("the program's runtime does not start again");
    products(700, GPU, "later");
    return 0;
}

/* Three launches: B is copied, A summed. */
static void integers(enum where where, const char *when)
{
    enum { N = 64 };
    static uint8_t a[N * N], b[N * N];
    static int32_t c[N * N];
    const int32_t co = 5;
    struct verify_trace t;

    memset(a, 3, sizeof a);
    memset(b, 200, sizeof b);
    cblas_gemm_s8u8s32(CblasColMajor, CblasNoTrans, CblasNoTrans, CblasFixOffset, N, N,
                       N, 1, a, N, 0, b, N, 0, 0, c, N, &co);
    for (int i = 0; i < N * N; i++)
        if (c[i] != N * 3 * 200 + co)
            bail("%s: a sum of integers is %d", when, c[i]);
    t = verify_trace_read();
    if (t.calls != 1 || t.on_gpu != (where == GPU))
        bail("%s: integers on the %s", when, t.on_gpu ? "GPU" : "CPU");
}

/* GEMMBLAS_FAULT is set: the third product, and in the other mode another one, meets a
 * device that has failed. */
static int emulated(bool twice)
{
    product("dgemm_", 100, GPU, "before");
    integers(GPU, "before");
    products(100, GPU, "the device fails");
    products(70, twice ? CPU : GPU, "later");
    integers(twice ? CPU : GPU, "at last");
    return 0;
}

static int scene(const char *mode)
{
    if (!verify_route("gpu"))
        return unable("not meant for a device");
    if (strcmp(mode, "driver") == 0)
        return by_driver();
    if (strcmp(mode, "driver-in-use") == 0)
        return by_driver_in_use();
    if (strcmp(mode, "runtime") == 0)
        return by_runtime();
    return emulated(strcmp(mode, "emulated-twice") == 0);
}

/* ---- in the parent ---- */

static int count(const char *text, const char *what)
{
    int n = 0;

    while ((text = strstr(text, what)) != NULL) {
        n++;
        text += strlen(what);
    }
    return n;
}

static void check(const char *mode, const char *const *changes, const char *what)
{
    struct child c;

    child_run(&c, mode, changes, 240);
    if (c.status == UNABLE && !c.timed_out) {
        skip("%s: %s", what, c.out);
        return;
    }
    ok(child_passed(&c),
       "%s: products before and after are right, and where they "
       "should be",
       what);
    if (!ok(count(c.err, "reopening the device: success") == 1 &&
                count(c.err, "reopening the device") == 1,
            "%s: the device is reopened once", what))
        diag("%s", c.err);
}

int main(int argc, char **argv)
{
    static const char *const log[] = {"GEMMBLAS_LOG=info", NULL};
    static const char *const once[] = {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_LOG=info",
                                       "GEMMBLAS_ROUTE=gpu", "GEMMBLAS_FAULT=launch@5",
                                       NULL};
    static const char *const twice[] = {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_LOG=info",
                                        "GEMMBLAS_ROUTE=gpu",
                                        "GEMMBLAS_FAULT=launch@5,launch@9", NULL};

    if (argc > 1)
        return scene(argv[1]);
    plan_lazy();
    check("emulated", once, "an emulated device that fails");
    check("emulated-twice", twice, "an emulated device that fails twice");
    if (!verify_on_hardware()) {
        skip("cuDevicePrimaryCtxReset needs hardware");
        skip("cudaDeviceReset needs hardware");
        return 0;
    }
    check("driver", log, "cuDevicePrimaryCtxReset");
    check("driver-in-use", log, "cuDevicePrimaryCtxReset and a new context");
    check("runtime", log, "cudaDeviceReset");
    return 0;
}
