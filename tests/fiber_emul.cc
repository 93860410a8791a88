/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_split and gemm_emul, compiled for fibers. */
#include "fiber_emul.h"

namespace
{
#include "gemm_emul.cu"
#include "gemm_split.cu"

template <class T, void (*KERNEL)(const T &)>
void run(const void *args)
{
    KERNEL(*static_cast<const T *>(args));
}
} // namespace

const struct gb_emu_kernel emul_split_along = {"gb_split_along", "test",
                                               run<gb_split_args, gb_split_along>};
const struct gb_emu_kernel emul_split_across = {"gb_split_across", "test",
                                                run<gb_split_args, gb_split_across>};
const struct emul_tile emul_tiles[EMUL_TILES] = {
    {{"128x128", "test", run<gb_emul_args, gb_gemm_emul_128x128x64>},
     128,
     128,
     384,
     GB_EMUL_SMEM(128, 128, 3, 2, 2)},
    {{"128x64", "test", run<gb_emul_args, gb_gemm_emul_128x64x64>},
     128,
     64,
     256,
     GB_EMUL_SMEM(128, 64, 4, 1, 2)},
};
