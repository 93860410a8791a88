/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_mma, gemm_dmma and gemm_thin for the emulated device: the kernels' own source compiled for
 * the host. Each family has a namespace of its own, as it has an image of its own on a device. */
#include "emu_kernels.h"

#include <stddef.h>
#include <stdint.h>

namespace
{

#include "gemm_dmma.h"
#include "gemm_ffma.h"
#include "gemm_mma.h"
#include "gemm_thin.h"
#include "reduce.h"

namespace gemm_mma_f16
{
#include "gemm_mma_f16.cu"
}
namespace gemm_mma_f16_f32
{
#include "gemm_mma_f16_f32.cu"
}
namespace gemm_mma_bf16
{
#include "gemm_mma_bf16.cu"
}
namespace gemm_mma_bf16_f32
{
#include "gemm_mma_bf16_f32.cu"
}

namespace gemm_dmma_f64
{
#include "gemm_dmma_f64.cu"
}
namespace gemm_dmma_c64
{
#include "gemm_dmma_c64.cu"
}

namespace gemm_ffma_f32
{
#include "gemm_ffma_f32.cu"
}
namespace gemm_ffma_c32
{
#include "gemm_ffma_c32.cu"
}

namespace gemm_thin_f16
{
#include "gemm_thin_f16.cu"
}
namespace gemm_thin_f16_f32
{
#include "gemm_thin_f16_f32.cu"
}
namespace gemm_thin_bf16
{
#include "gemm_thin_bf16.cu"
}
namespace gemm_thin_bf16_f32
{
#include "gemm_thin_bf16_f32.cu"
}

template <void (*KERNEL)(const gb_gemm_args &)>
void run(const void *args)
{
    KERNEL(*static_cast<const gb_gemm_args *>(args));
}

} // namespace

const struct gb_emu_kernel gb_emu_kernels_mma[] = {
#define EMU_SYMBOL(family, symbol) {#symbol, #family, run<family::symbol>},
#define EMU_ROW(family, name)                                                          \
    EMU_SYMBOL(family, gb_##family##_##name##_nn)                                      \
    EMU_SYMBOL(family, gb_##family##_##name##_nt)                                      \
    EMU_SYMBOL(family, gb_##family##_##name##_tn)                                      \
    EMU_SYMBOL(family, gb_##family##_##name##_tt)
#define MMA(name, ...)                                                                 \
    EMU_ROW(gemm_mma_f16, name)                                                        \
    EMU_ROW(gemm_mma_f16_f32, name)                                                    \
    EMU_ROW(gemm_mma_bf16, name)                                                       \
    EMU_ROW(gemm_mma_bf16_f32, name)
#include "mma.def"
#undef MMA
#define THIN(name, ...)                                                                \
    EMU_ROW(gemm_thin_f16, name)                                                       \
    EMU_ROW(gemm_thin_f16_f32, name)                                                   \
    EMU_ROW(gemm_thin_bf16, name)                                                      \
    EMU_ROW(gemm_thin_bf16_f32, name)
#include "thin.def"
#undef THIN
#define DMMA_F64(name, ...) EMU_ROW(gemm_dmma_f64, name)
#define DMMA_C64(name, ...) EMU_ROW(gemm_dmma_c64, name)
#include "dmma.def"
#undef DMMA_F64
#undef DMMA_C64
#define FFMA_F32(name, ...) EMU_ROW(gemm_ffma_f32, name)
#define FFMA_C32(name, ...) EMU_ROW(gemm_ffma_c32, name)
#include "ffma.def"
#undef FFMA_F32
#undef FFMA_C32
    /* clang-format off */
    EMU_SYMBOL(gemm_ffma_f32, gb_reduce_f32_f32)
    EMU_SYMBOL(gemm_ffma_c32, gb_reduce_c32_c32)
    EMU_SYMBOL(gemm_dmma_f64, gb_reduce_f64_f64)
    EMU_SYMBOL(gemm_dmma_c64, gb_reduce_c64_c64)
    EMU_SYMBOL(gemm_mma_f16, gb_reduce_f32_f16)
    EMU_SYMBOL(gemm_mma_f16_f32, gb_reduce_f32_f32)
    EMU_SYMBOL(gemm_mma_bf16, gb_reduce_f32_bf16)
    EMU_SYMBOL(gemm_mma_bf16_f32, gb_reduce_f32_f32)
    {NULL, NULL, NULL},
    /* clang-format on */
};
