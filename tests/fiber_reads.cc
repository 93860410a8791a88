/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_mma, compiled with its reads of operands going through a watch: see fiber_reads.h. */
#include "fiber_reads.h"

#include "mma.h"

namespace
{

const unsigned char *legal_bytes;
uintptr_t first_byte;
size_t byte_count;
long wrong_count, all_count;

void watch(const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const uintptr_t at = reinterpret_cast<uintptr_t>(from) + i - first_byte;

        all_count++;
        wrong_count += at >= byte_count || !legal_bytes[at];
    }
}

void watched_get16(uint32_t *words, const void *from)
{
    watch(from, 16);
    gb_get16(words, from);
}

uint32_t watched_get2(const void *from)
{
    watch(from, 2);
    return gb_get2(from);
}

void watched_copy16(gb_shared_at to, const void *from, int valid = 16)
{
    watch(from, (size_t)valid);
    gb_copy16(to, from, valid);
}

#define gb_get16 watched_get16
#define gb_get2 watched_get2
#define gb_copy16 watched_copy16
#include "gemm_mma.h"

GB_MMA_ROW(aligned, 1, gb_f16, gb_f16, READS_TILE, READS_TILE, 32, 5, 1, 2, 16)
GB_MMA_ROW(ragged, 1, gb_f16, gb_f16, READS_TILE, READS_TILE, 32, 3, 2, 2, 2)

template <void (*KERNEL)(const gb_gemm_args &)>
void run(const void *args)
{
    KERNEL(*static_cast<const gb_gemm_args *>(args));
}

} // namespace

#define READS(name)                                                                    \
    {                                                                                  \
        {"nn", "test", run<gb_##name##_nn>}, {"nt", "test", run<gb_##name##_nt>},      \
            {"tn", "test", run<gb_##name##_tn>}, {"tt", "test", run<gb_##name##_tt>},  \
    }

const struct gb_emu_kernel reads_aligned[READS_LAYOUTS] = READS(aligned);
const struct gb_emu_kernel reads_ragged[READS_LAYOUTS] = READS(ragged);

extern "C" {
uint32_t reads_threads(const struct gb_emu_kernel *k)
{
    return k >= reads_ragged && k < reads_ragged + READS_LAYOUTS
               ? ragged_shape::THREADS
               : aligned_shape::THREADS;
}

uint32_t reads_smem(const struct gb_emu_kernel *k)
{
    return k >= reads_ragged && k < reads_ragged + READS_LAYOUTS
               ? ragged_shape::STAGES * ragged_shape::STAGE_BYTES
               : aligned_shape::STAGES * aligned_shape::STAGE_BYTES;
}

void reads_watch(const void *base, const unsigned char *legal, size_t bytes)
{
    first_byte = reinterpret_cast<uintptr_t>(base);
    legal_bytes = legal;
    byte_count = bytes;
    wrong_count = all_count = 0;
}

long reads_wrong(void)
{
    return wrong_count;
}

long reads_all(void)
{
    return all_count;
}
}
