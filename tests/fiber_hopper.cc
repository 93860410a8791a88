/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_wgmma, compiled with its waits and barriers going through a gate: see fiber_hopper.h. */
#include "fiber_hopper.h"

#include <stdlib.h>
#include <string.h>

#include "seam.h"
#include "wgmma.h"

namespace
{

hopper_site sites[64];
int count;
uint64_t dropped; /* a bit for each */

bool goes_on(const char *what, const char *file, int line)
{
    int i = 0;

    while (i < count && !(sites[i].line == line && strcmp(sites[i].file, file) == 0))
        i++;
    if (i == 64)
        abort();
    if (i == count)
        sites[count++] = {file, what, line};
    return !(dropped >> i & 1);
}

#define SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

void gate_bar_wait(uint32_t bar, uint32_t parity, SITE)
{
    if (goes_on("gb_bar_wait", file, line))
        gb_bar_wait(bar, parity, line);
}

void gate_bar_arrive(uint32_t bar, SITE)
{
    if (goes_on("gb_bar_arrive", file, line))
        gb_bar_arrive(bar);
}

void gate_bar_arrive_at(uint32_t bar, uint32_t rank, SITE)
{
    if (goes_on("gb_bar_arrive_at", file, line))
        gb_bar_arrive_at(bar, rank);
}

template <int THREADS>
void gate_named_sync(int id, SITE)
{
    if (goes_on("gb_named_sync", file, line))
        gb_named_sync<THREADS>(id, line);
}

void gate_cluster_sync(SITE)
{
    if (goes_on("gb_cluster_sync", file, line))
        gb_cluster_sync();
}

template <int N>
void gate_wgmma_wait(SITE)
{
    if (goes_on("gb_wgmma_wait", file, line))
        gb_wgmma_wait<N>(line);
}

void gate_sync_warp(SITE)
{
    if (goes_on("gb_sync_warp", file, line))
        gb_fiber_warp(line, nullptr, nullptr);
}

void gate_sync(SITE)
{
    if (goes_on("gb_sync", file, line))
        gb_fiber_sync(line);
}

#define gb_bar_wait gate_bar_wait
#define gb_bar_arrive gate_bar_arrive
#define gb_bar_arrive_at gate_bar_arrive_at
#define gb_named_sync gate_named_sync
#define gb_cluster_sync gate_cluster_sync
#define gb_wgmma_wait gate_wgmma_wait
#undef gb_sync
#undef gb_sync_warp
#define gb_sync gate_sync
#define gb_sync_warp gate_sync_warp
#include "gemm_wgmma.h"

GB_WGMMA_ROW(one, gb_f16, gb_f16, 1, 1, 128, 2, 2)
GB_WGMMA_ROW(two, gb_f16, gb_f16, 2, 1, 128, 2, 2)
GB_WGMMA_ROW(wide, gb_bf16, float, 1, 1, 128, 2, 2)

template <void (*KERNEL)(const gb_tma_args &)>
void run(const void *args)
{
    KERNEL(*static_cast<const gb_tma_args *>(args));
}

} // namespace

#define HOPPER(name)                                                                   \
    {                                                                                  \
        {"nn", "test", run<gb_##name##_nn>}, {"nt", "test", run<gb_##name##_nt>},      \
            {"tn", "test", run<gb_##name##_tn>}, {"tt", "test", run<gb_##name##_tt>},  \
    }

const struct gb_emu_kernel hopper_kernels[HOPPER_TILES][HOPPER_LAYOUTS] = {
    HOPPER(one), HOPPER(two), HOPPER(wide)};

extern "C" {
uint32_t hopper_smem(int tile)
{
    return tile == 1 ? GB_WGMMA_SMEM(128, 128, 2, 2, 2)
                     : GB_WGMMA_SMEM(128, 64, 2, 1, 2);
}

int hopper_sites(const struct hopper_site **all)
{
    *all = sites;
    return count;
}

void hopper_drop(uint64_t which)
{
    dropped = which;
}
}
