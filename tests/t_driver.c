/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that uses the GPU itself, through the driver, beside ours: its context, its
 * registered memory, its allocations. Needs an NVIDIA GPU; says so where there is none.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tap.h"
#include "verify.h"

#define DRIVER(F)                                                                      \
    F(cuInit, (unsigned))                                                              \
    F(cuDeviceGetCount, (int *))                                                       \
    F(cuCtxGetCurrent, (void **))                                                      \
    F(cuCtxSetCurrent, (void *))                                                       \
    F(cuCtxGetDevice, (int *))                                                         \
    F(cuDevicePrimaryCtxRetain, (void **, int))                                        \
    F(cuMemHostRegister_v2, (void *, size_t, unsigned))                                \
    F(cuMemHostGetFlags, (unsigned *, void *))                                         \
    F(cuMemHostUnregister, (void *))                                                   \
    F(cuMemGetInfo_v2, (size_t *, size_t *))                                           \
    F(cuMemAlloc_v2, (uint64_t *, size_t))                                             \
    F(cuMemFree_v2, (uint64_t))                                                        \
    F(cuMemcpyHtoD_v2, (uint64_t, const void *, size_t))                               \
    F(cuMemcpyDtoH_v2, (void *, uint64_t, size_t))

#define POINTER(name, args) static int(*name) args;
DRIVER(POINTER)
#undef POINTER

static char why[640];

static bool load(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    bool found = lib != NULL;
    int n = 0;

#define LOAD(name, args)                                                               \
    if (lib)                                                                           \
        *(void **)&name = dlsym(lib, #name);                                           \
    found = found && name;
    DRIVER(LOAD)
#undef LOAD
    return found && cuInit(0) == 0 && cuDeviceGetCount(&n) == 0 && n > 0;
}

static bool product(int64_t n)
{
    struct verify_random r = verify_seed((uint64_t)n);
    static const int64_t tight[3];
    struct verify_gemm g = {.f = verify_flavour("dgemm_"),
                            .m = n,
                            .n = n,
                            .k = n,
                            .alpha = {.re = 1},
                            .beta = {.re = 2}};
    bool right;

    right = verify_gemm_integers(&g, VERIFY_INTEGERS, tight, VERIFY_HIGH, &r, why,
                                 sizeof why);
    if (!right)
        diag("%s", why);
    return right;
}

static void b86(void)
{
    void *current = &current, *mine = NULL, *after = NULL;
    int devices = 0, last, at = -1;

    ok(product(1000) && verify_trace_read().on_gpu,
       "B86 a call in a thread without a context");
    ok(cuCtxGetCurrent(&current) == 0 && !current, "B86 none is current afterwards");
    cuDeviceGetCount(&devices);
    last = devices - 1;
    if (cuDevicePrimaryCtxRetain(&mine, last) != 0 || cuCtxSetCurrent(mine) != 0)
        bail("no context of our own");
    ok(product(1000) && verify_trace_read().on_gpu, "B86 a call with device %d current",
       last);
    ok(cuCtxGetCurrent(&after) == 0 && after == mine,
       "B86 the same context afterwards");
    ok(cuCtxGetDevice(&at) == 0 && at == last, "B86 the same device afterwards");
}

static void b80(void)
{
    int64_t n = 1500;
    size_t bytes = (size_t)(n * n) * sizeof(double);
    double *a = mmap(NULL, 3 * bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    double *b, *c;
    unsigned flags;
    bool right = true;

    if (a == MAP_FAILED)
        bail("no memory");
    b = a + n * n;
    c = b + n * n;
    for (int64_t i = 0; i < n * n; i++) {
        a[i] = (double)(i % 5);
        b[i] = i % (n + 1) == 0;
    }
    ok(cuMemHostRegister_v2(a, bytes, 0) == 0, "B80 the program registers A");
    verify_call(verify_flavour("dgemm_"), 102, "N", "N", n, n, n, verify_real(1), a, n,
                b, n, verify_real(0), c, n);
    for (int64_t i = 0; i < n * n; i++)
        right = right && c[i] == a[i];
    ok(right && verify_trace_read().on_gpu, "B80 a product of registered memory");
    ok(cuMemHostGetFlags(&flags, a) == 0, "B80 A is still registered");
    ok(cuMemHostGetFlags(&flags, b) != 0 && cuMemHostGetFlags(&flags, c) != 0,
       "B82 nothing else has been registered");
    ok(cuMemHostUnregister(a) == 0, "B80 and can be unregistered");
    munmap(a, 3 * bytes);
}

static void b80_errors(void)
{
    static const char *const names[] = {"libcudart.so", "libcudart.so.13",
                                        "libcudart.so.12"};
    int (*last_error)(void) = NULL;

    for (int i = 0; !last_error && i < 3; i++) {
        void *lib = dlopen(names[i], RTLD_NOW);

        if (lib)
            *(void **)&last_error = dlsym(lib, "cudaGetLastError");
    }
    if (!last_error) {
        skip("B80 no CUDA runtime here to ask for its last error");
        return;
    }
    last_error();
    ok(product(700) && last_error() == 0, "B80 the program's last error is untouched");
}

/* Somebody else holds nearly all of the memory. */
static void b83(void)
{
    uint64_t held[256], kept;
    int count = 0;
    size_t free_bytes = 0, total = 0, step = (size_t)4 << 30;
    char pattern[64], back[64];
    struct verify_trace t;

    memset(pattern, 0x5a, sizeof pattern);
    if (cuMemAlloc_v2(&kept, 1 << 20) != 0)
        bail("no device memory");
    cuMemcpyHtoD_v2(kept, pattern, sizeof pattern);
    while (count < 256 && step >= (size_t)16 << 20) {
        cuMemGetInfo_v2(&free_bytes, &total);
        if (free_bytes < step + ((size_t)64 << 20) ||
            cuMemAlloc_v2(&held[count], step) != 0)
            step /= 2;
        else
            count++;
    }
    cuMemGetInfo_v2(&free_bytes, &total);
    ok(product(4000), "B83 a product with %zu MiB of device memory free",
       free_bytes >> 20);
    t = verify_trace_read();
    ok(t.on_gpu || strcmp(t.why, "oom") == 0,
       "B83 on the device or with reason oom (%s)", t.why);
    for (int i = 0; i < count; i++)
        cuMemFree_v2(held[i]);
    ok(product(4000) && verify_trace_read().on_gpu,
       "B83 on the device when there is room");
    ok(cuMemcpyDtoH_v2(back, kept, sizeof back) == 0 && memcmp(back, pattern, 64) == 0,
       "B83 the program's own device memory is as it was");
    cuMemFree_v2(kept);
}

int main(void)
{
    bool device = verify_route("gpu");

    if (!device || !verify_on_hardware())
        skip_all("the program's own GPU work needs hardware (B80, B83, B86)");
    if (!load())
        skip_all("no NVIDIA driver with a device (B80, B83, B86)");
    plan_lazy();
    b86();
    b80();
    b80_errors();
    b83();
    return 0;
}
