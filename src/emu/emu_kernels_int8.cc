/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_int8 for the emulated device. */
#include "emu_kernels.h"

#include <stddef.h>
#include <stdint.h>

namespace
{

#include "gemm_int8.cu"

template <class T, void (*KERNEL)(const T &)>
void run(const void *args)
{
    KERNEL(*static_cast<const T *>(args));
}

} // namespace

#define EMU_ROW_1(symbol) {#symbol, "gemm_int8", run<gb_int8_args, symbol>},
#define EMU_ROW_2(...)

const struct gb_emu_kernel gb_emu_kernels_int8[] = {
#define INT8(name, tile_m, tile_n, stages, buffers, wgs, mi, cluster, efficiency)      \
    EMU_ROW_##cluster(gb_gemm_int8_##name)
#include "int8.def"
#undef INT8
    {"gb_bytes_s8", "gemm_int8", run<gb_bytes_args, gb_bytes_s8>},
    {"gb_sums_s8", "gemm_int8", run<gb_sums_args, gb_sums_s8>},
    {NULL, NULL, NULL},
};
