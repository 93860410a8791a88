/* SPDX-License-Identifier: BSD-3-Clause */
/* The last of a long k, in the splits that a call of the API gets (t_kernels.c forces others): of
 * matrices of ones every element of C is k. Some kernels of cuBLAS 13.1 drop what is left over there, of k from
 * 4104 on that are 8, 16 or 24 past a multiple of 64. */
#include <stdlib.h>
#include <string.h>

#include "dispatch.h"
#include "engine.h"
#include "gemmblas/gemmblas.h"
#include "tap.h"
#include "util.h"

enum { LEAST = 4096, MOST = 33024, MOST_M = 384, MOST_N = 256 };
enum { ONE_F16 = 0x3c00, ONE_BF16 = 0x3f80 };

static struct gb_device *dev;
static const struct gb_device_ops *ops;
static struct gb_stream *stream;
static struct gb_event *done;
static gb_devptr a, b, c;
static float *seen;

static void must(enum gb_status s, const char *what)
{
    if (s != GB_SUCCESS)
        bail("%s: %s", what, gb_status_text(s));
}

static void wait_for_device(void)
{
    must(ops->event_record(dev, done, stream), "event_record");
    must(ops->event_sync(dev, done), "event_sync");
}

static void fill(gb_devptr at, size_t elements, uint16_t one)
{
    uint16_t *host;

    must(ops->host_alloc(dev, elements * sizeof *host, (void **)&host), "host_alloc");
    for (size_t i = 0; i < elements; i++)
        host[i] = one;
    must(ops->copy_in(dev, stream, at, 0, host, 0, elements * sizeof *host, 1),
         "copy_in");
    wait_for_device();
    ops->host_free(dev, host);
}

/* Does every element of A B, A's unit stride along k or along m, say k? */
static bool sums_are_k(int type, bool along_k, int64_t m, int64_t n, int64_t k)
{
    struct gemmblas_product p = {
        .size = sizeof p,
        .type = type,
        .type_c = GEMMBLAS_F32,
        .m = m,
        .n = n,
        .k = k,
        .a = {.data = (const void *)(uintptr_t)a,
              .row_stride = along_k ? k : 1,
              .col_stride = along_k ? 1 : m},
        .b = {.data = (const void *)(uintptr_t)b, .row_stride = 1, .col_stride = k},
        .c = {.data = (const void *)(uintptr_t)c, .row_stride = 1, .col_stride = m},
        .alpha = {1, 0},
    };
    size_t bytes = (size_t)(m * n) * sizeof *seen;
    int status = gemmblas_gemm(&p);

    if (status != GEMMBLAS_OK)
        bail("gemmblas_gemm: %s", gemmblas_status_text(status));
    memset(seen, 0xff, bytes);
    must(ops->copy_out(dev, stream, seen, 0, c, 0, bytes, 1), "copy_out");
    wait_for_device();
    for (int64_t i = 0; i < m * n; i++) {
        if (seen[i] != (float)k) {
            diag("m=%lld n=%lld k=%lld, A along %c: element %lld is %g", (long long)m,
                 (long long)n, (long long)k, along_k ? 'k' : 'm', (long long)i,
                 (double)seen[i]);
            return false;
        }
    }
    return true;
}

static void sweep(int type, bool along_k, int64_t step)
{
    static const int64_t ms[] = {16, 64, 128, 384}, ns[] = {16, 128, 256};
    bool emu = strcmp(ops->name, "emu") == 0;
    long tried = 0, wrong = 0;

    for (int64_t k = LEAST; k + 24 < MOST; k += 64 * step) {
        for (int tail = 8; tail <= 24; tail += 8) {
            for (size_t i = 0; i < (emu ? 1 : GB_COUNT(ms)); i++) {
                for (size_t j = 0; j < (emu ? 1 : GB_COUNT(ns)); j++, tried++)
                    wrong += !sums_are_k(type, along_k, ms[i], ns[j], k + tail);
            }
        }
    }
    is_int(0, wrong, "%s, A along %c: %ld products",
           type == GEMMBLAS_F16 ? "f16" : "bf16", along_k ? 'k' : 'm', tried);
}

int main(void)
{
    struct gb_engine *engine;
    struct gb_guest guest;

    plan_lazy();
    engine = gb_dispatch_engine(true);
    if (!engine)
        skip_all("no device for GEMMBLAS_DEVICE");
    dev = gb_engine_device(engine);
    ops = dev->ops;
    must(ops->enter(dev, &guest), "enter");
    must(ops->stream_borrow(dev, NULL, &stream), "stream_borrow");
    must(ops->event_create(dev, &done), "event_create");
    must(ops->mem_alloc(dev, (size_t)MOST * MOST_M * 2, &a), "mem_alloc");
    must(ops->mem_alloc(dev, (size_t)MOST * MOST_N * 2, &b), "mem_alloc");
    must(ops->mem_alloc(dev, (size_t)MOST_M * MOST_N * sizeof *seen, &c), "mem_alloc");
    must(ops->host_alloc(dev, (size_t)MOST_M * MOST_N * sizeof *seen, (void **)&seen),
         "host_alloc");
    for (int type = GEMMBLAS_F16; type <= GEMMBLAS_BF16; type++) {
        uint16_t one = type == GEMMBLAS_F16 ? ONE_F16 : ONE_BF16;

        fill(a, (size_t)MOST * MOST_M, one);
        fill(b, (size_t)MOST * MOST_N, one);
        for (int along_k = 0; along_k < 2; along_k++)
            sweep(type, along_k, strcmp(ops->name, "emu") == 0 ? 97 : 3);
    }
    ops->host_free(dev, seen);
    ops->mem_free(dev, a);
    ops->mem_free(dev, b);
    ops->mem_free(dev, c);
    ops->event_destroy(dev, done);
    ops->stream_return(dev, stream);
    ops->leave(dev, &guest);
    return 0;
}
