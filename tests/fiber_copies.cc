/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels that copy asynchronously, with planted mistakes: see fiber_copies.h. */
#include "fiber_copies.h"

#include <string.h>

#include "accumulate.h"
#include "fused.h"
#include "seam.h"

namespace
{

enum Mistake {
    NONE,
    NO_WAIT,
    NO_BARRIER,
    LATE_WAIT,
    EARLY_REFILL,
    SOURCE_REUSED,
};

/* Shared memory is read once and then filled again, as the next step of a pipeline would. */
template <Mistake MISTAKE>
void copies(const gb_gemm_args &g)
{
    constexpr int bytes = COPIES_WORDS * 4, valid = COPIES_VALID * 4;
    GB_SHARED_DYNAMIC(uint32_t, shared);
    const int threads = (int)g.m, me = gb_thread(), other = (me + 37) % threads;
    const int64_t block = gb_block() * threads;
    uint32_t *mine = shared + me * COPIES_WORDS;
    const uint32_t *from =
        reinterpret_cast<const uint32_t *>(g.a) + (block + me) * COPIES_WORDS;
    uint32_t *to = reinterpret_cast<uint32_t *>(g.c) + (block + other) * COPIES_WORDS;
    alignas(16) uint32_t own[COPIES_WORDS];

    memcpy(own, from, sizeof own);
    gb_copy_async<bytes>(mine, MISTAKE == SOURCE_REUSED ? own : from, valid);
    own[0] = 0;
    if (MISTAKE != NO_WAIT && MISTAKE != LATE_WAIT)
        gb_copy_wait();
    if (MISTAKE != NO_BARRIER)
        gb_sync();
    if (MISTAKE == LATE_WAIT)
        gb_copy_wait();
    for (int i = 0; i < COPIES_WORDS; i++)
        to[i] = shared[other * COPIES_WORDS + i];
    if (MISTAKE != EARLY_REFILL)
        gb_sync();
    gb_copy_async<bytes>(mine, from, valid);
    if (MISTAKE == EARLY_REFILL)
        gb_sync();
    gb_copy_wait();
}

template <Mistake MISTAKE>
void body(const void *args)
{
    copies<MISTAKE>(*static_cast<const gb_gemm_args *>(args));
}

} // namespace

extern "C" {
void copies_right(const void *args)
{
    body<NONE>(args);
}

void copies_no_wait(const void *args)
{
    body<NO_WAIT>(args);
}

void copies_no_barrier(const void *args)
{
    body<NO_BARRIER>(args);
}

void copies_late_wait(const void *args)
{
    body<LATE_WAIT>(args);
}

void copies_early_refill(const void *args)
{
    body<EARLY_REFILL>(args);
}

void copies_source_reused(const void *args)
{
    body<SOURCE_REUSED>(args);
}
}

/* ---- the product's kernel ---- */

namespace
{

namespace whole
{
#include "gemm_simt.h"
}

#undef GB_GEMM_SIMT_H
#define gb_copy_wait() (void)0
namespace without
{
#include "gemm_simt.h"
}
#undef gb_copy_wait

/* As in gemm_simt_f64.cu and kernels.def. */
#define PRODUCT(space)                                                                 \
    void space##_nn(const void *args)                                                  \
    {                                                                                  \
        typedef space::SimtTile<double, double, double, 64, 64, 8, 4, 4> Tile;         \
                                                                                       \
        space::gb_gemm_simt<Tile, false, true>(                                        \
            *static_cast<const gb_gemm_args *>(args));                                 \
    }
PRODUCT(whole)
PRODUCT(without)
#undef PRODUCT

} // namespace

extern "C" {
const gb_emu_kernel copies_gemm = {"whole", "test", whole_nn};
const gb_emu_kernel copies_gemm_no_wait = {"without", "test", without_nn};
}
