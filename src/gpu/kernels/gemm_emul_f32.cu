/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_emul: fp32 from fp16, with gb_split_f32 ahead and gb_rest_f32 behind. */
#include "gemm_emul.h"
#include "gemm_ffma.h"
#include "left.h"

#define EMUL_F32(name, tile_m, tile_n, sum, stages, buffers, wgs, efficiency)          \
    GB_EMUL_ROW(gemm_emul_f32_##name, wgs, tile_m, stages, buffers, sum)
#include "emul.def"
#undef EMUL_F32

/* In fp32, those tiles that are left. */
#define FFMA_F32(name, tile_m, tile_n, tile_k, stages, per_m, per_n, blocks,           \
                 efficiency)                                                           \
    struct rest_##name                                                                 \
        : FfmaShape<float, tile_m, tile_n, tile_k, stages, per_m, per_n, blocks> {     \
        static constexpr int BLOCKS = blocks;                                          \
    };
#include "ffma.def"
#undef FFMA_F32
typedef rest_64x64x16 rest_shape; /* GB_REST_ROW */

#define GB_REST(symbol, ...)                                                           \
    GB_KERNEL_OF(gb_rest_args, symbol, rest_shape::THREADS, rest_shape::BLOCKS, args)  \
    {                                                                                  \
        const RestPick pick = {args.left};                                             \
                                                                                       \
        gb_grid_wait();                                                                \
        if (!pick.none())                                                              \
            gb_gemm_staged<FfmaTile<rest_shape, __VA_ARGS__>>(args.g, pick);           \
    }
GB_REST(gb_rest_f32_nn, false, true)
GB_REST(gb_rest_f32_nt, false, false)
GB_REST(gb_rest_f32_tn, true, true)
GB_REST(gb_rest_f32_tt, true, false)
