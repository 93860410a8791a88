/* SPDX-License-Identifier: BSD-3-Clause */
/* Tails of k, and of turns.
 *
 * The last of a long k, in the splits that a call of the API gets (t_kernels.c forces others): of
 * matrices of ones every element of C is k. Some kernels of cuBLAS 13.1 drop what is left over there, of k from
 * 4104 on that are 8, 16 or 24 past a multiple of 64.
 *
 * Products that are queued one behind the other and need each other's results, of sizes whose last
 * turn is a launch of its own (gb_launch_tail): each may start before the one ahead has ended, and
 * must wait for both of its launches. */
#include <stdlib.h>
#include <string.h>

#include "dispatch.h"
#include "engine.h"
#include "gemmblas/gemmblas.h"
#include "half.h"
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

/* ---- chains ---- */

/* A of -1, 0 and 1, in a pattern of period 3 in i + l, B in 2l + j: C has nine values, which fp16
 * holds. */
static int entry(int64_t x)
{
    return (int)(x % 3) - 1;
}

static int of_c(int64_t i, int64_t j, int64_t k)
{
    int sum = 0;

    for (int64_t l = 0; l < 3; l++) {
        int64_t count = (k - l + 2) / 3;

        sum += (int)count * entry(i + l) * entry(2 * l + j);
    }
    return sum;
}

static gb_devptr device_copy(const uint16_t *from, int64_t n, int64_t ld)
{
    size_t bytes = (size_t)(n * ld) * sizeof *from;
    gb_devptr at;

    must(ops->mem_alloc(dev, bytes, &at), "mem_alloc");
    must(ops->copy_in(dev, stream, at, 0, from, 0, bytes, 1), "copy_in");
    wait_for_device();
    return at;
}

static void queue(int64_t n, int64_t ld, double alpha, gb_devptr x, gb_devptr y,
                  gb_devptr z)
{
    struct gemmblas_product p = {
        .size = sizeof p,
        .type = GEMMBLAS_F16,
        .type_c = GEMMBLAS_F16,
        .m = n,
        .n = n,
        .k = n,
        .a = {.data = (const void *)(uintptr_t)x, .row_stride = 1, .col_stride = ld},
        .b = {.data = (const void *)(uintptr_t)y, .row_stride = 1, .col_stride = ld},
        .c = {.data = (const void *)(uintptr_t)z, .row_stride = 1, .col_stride = ld},
        .alpha = {alpha, 0},
    };
    int status = gemmblas_gemm(&p);

    if (status != GEMMBLAS_OK)
        bail("gemmblas_gemm: %s", gemmblas_status_text(status));
}

/* alpha A B, then by a matrix that turns columns by one, and again: in turns of alternating sign,
 * so that what a product reads too early is wrong. */
static void check_chain(int64_t n, int64_t ld, int turns)
{
    size_t elements = (size_t)(n * ld), bytes = elements * sizeof(uint16_t);
    gb_devptr in_a, in_b, turn, x, y, z;
    int64_t wrong = 0;
    uint16_t *host;

    must(ops->host_alloc(dev, bytes, (void **)&host), "host_alloc");
    memset(host, 0xff, bytes);
    x = device_copy(host, n, ld);
    y = device_copy(host, n, ld);
    z = device_copy(host, n, ld);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            host[i + j * ld] = gb_f32_to_f16((float)entry(i + j));
    in_a = device_copy(host, n, ld);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            host[i + j * ld] = gb_f32_to_f16((float)entry(2 * i + j));
    in_b = device_copy(host, n, ld);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            host[i + j * ld] = gb_f32_to_f16(i == (j + 1) % n ? 1.0f : 0.0f);
    turn = device_copy(host, n, ld);
    for (int t = 0; t < turns; t++) {
        queue(n, ld, t % 2 ? -1 : 1, in_a, in_b, x);
        queue(n, ld, 1, x, turn, y);
        queue(n, ld, 1, y, turn, z);
        if (t % 3 != 2 && t + 1 < turns)
            continue; /* into what the last products may still read */
        must(ops->copy_out(dev, stream, host, 0, z, 0, bytes, 1), "copy_out");
        wait_for_device();
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < n; i++)
                wrong += gb_f16_to_f32(host[i + j * ld]) !=
                         (float)((t % 2 ? -1 : 1) * of_c(i, (j + 2) % n, n));
    }
    is_int(0, wrong, "%d chains of products of %lld, ld %lld", turns, (long long)n,
           (long long)ld);
    ops->host_free(dev, host);
    ops->mem_free(dev, in_a);
    ops->mem_free(dev, in_b);
    ops->mem_free(dev, turn);
    ops->mem_free(dev, x);
    ops->mem_free(dev, y);
    ops->mem_free(dev, z);
}

int main(void)
{
    struct gb_engine *engine;
    struct gb_guest guest;

    engine = gb_dispatch_engine(true);
    if (!engine)
        skip_all("no device for GEMMBLAS_DEVICE");
    plan_lazy();
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
    if (strcmp(ops->name, "emu") == 0) {
        check_chain(70, 70, 5);
        check_chain(131, 140, 5);
    } else { /* on 132 multiprocessors 187 tiles: one turn and a tail */
        check_chain(2049, 2049, 60);
        check_chain(2100, 2112, 60);
        check_chain(2176, 2176, 60);
        check_chain(2304, 2304, 60);
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
