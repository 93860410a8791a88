/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_wgmma and gemm_emul, of fp32 and of fp64, for the emulated device. Of the first every tile
 * once for 16 bits, those at least 128 wide along n with C of 16 bits, the others with C of fp32.
 * (All four pairs of types of each would take minutes to compile, and are no other text.) */
#include "emu_kernels.h"

#include <stddef.h>
#include <stdint.h>

#define EMU_WIDE_64(...)
#define EMU_WIDE_128(code, ...) code(__VA_ARGS__)
#define EMU_WIDE_256(code, ...) code(__VA_ARGS__)
#define EMU_NARROW_64(code, ...) code(__VA_ARGS__)
#define EMU_NARROW_128(...)
#define EMU_NARROW_256(...)

namespace
{

#include "gemm_wgmma.h"
#include "reduce.h"

#include "gemm_emul_f32.cu"
#include "gemm_emul_f64.cu"

namespace gemm_wgmma_tf32
{
#include "gemm_wgmma_tf32.cu"
}

#undef WGMMA
namespace gemm_wgmma_f16
{
#define WGMMA(name, tile_m, tile_n, stages, buffers, wgs, mi, cluster, efficiency)     \
    EMU_WIDE_##tile_n(GB_WGMMA_CODE_##cluster, gemm_wgmma_f16_##name, gb_f16, gb_f16,  \
                      wgs, mi, tile_m, stages, buffers)
#include "wgmma.def"
#undef WGMMA
GB_REDUCE(gb_reduce_f32_f16, gb_f16, float)
} // namespace gemm_wgmma_f16
namespace gemm_wgmma_bf16_f32
{
#define WGMMA(name, tile_m, tile_n, stages, buffers, wgs, mi, cluster, efficiency)     \
    EMU_NARROW_##tile_n(GB_WGMMA_CODE_##cluster, gemm_wgmma_bf16_f32_##name, gb_bf16,  \
                        float, wgs, mi, tile_m, stages, buffers)
#include "wgmma.def"
#undef WGMMA
GB_REDUCE(gb_reduce_f32_f32, float, float)
} // namespace gemm_wgmma_bf16_f32

template <class T, void (*KERNEL)(const T &)>
void run(const void *args)
{
    KERNEL(*static_cast<const T *>(args));
}

} // namespace

#define EMU_SYMBOL(family, symbol) {#symbol, #family, run<gb_tma_args, family::symbol>},
#define EMU_ROW_1(family, name)                                                        \
    EMU_SYMBOL(family, gb_##family##_##name##_nn)                                      \
    EMU_SYMBOL(family, gb_##family##_##name##_nt)                                      \
    EMU_SYMBOL(family, gb_##family##_##name##_tn)                                      \
    EMU_SYMBOL(family, gb_##family##_##name##_tt)
#define EMU_ROW_2(...)

const struct gb_emu_kernel gb_emu_kernels_wgmma[] = {
#define WGMMA(name, tile_m, tile_n, stages, buffers, wgs, mi, cluster, efficiency)     \
    EMU_WIDE_##tile_n(EMU_ROW_##cluster, gemm_wgmma_f16, name)                         \
        EMU_NARROW_##tile_n(EMU_ROW_##cluster, gemm_wgmma_bf16_f32, name)
#include "wgmma.def"
#undef WGMMA
#define TF32(name, tile_m, tile_n, stages, buffers, wgs, mi, cluster, efficiency)      \
    EMU_TF32_##cluster(gb_gemm_wgmma_tf32_##name##_tn)
#define EMU_TF32_1(symbol) EMU_SYMBOL(gemm_wgmma_tf32, symbol)
#define EMU_TF32_2(...)
#include "tf32.def"
#undef TF32
    {"gb_reduce_f32_f32", "gemm_wgmma_tf32",
     run<gb_gemm_args, gemm_wgmma_tf32::gb_reduce_f32_f32>},
#define EMU_EMUL(symbol, type) {#symbol, "gemm_emul_f32", run<type, symbol>},
#define EMUL_F32(name, ...) EMU_EMUL(gb_gemm_emul_f32_##name, gb_emul_args)
#define EMU_EMUL_F64(symbol, type) {#symbol, "gemm_emul_f64", run<type, symbol>},
#define EMUL_F64(name, ...) EMU_EMUL_F64(gb_gemm_emul_f64_##name, gb_residue_args)
#include "emul.def"
#undef EMUL_F32
#undef EMUL_F64
    EMU_EMUL_F64(gb_measure_f64, gb_measure_args) EMU_EMUL_F64(gb_choose_f64,
                                                               gb_choose_args)
        EMU_EMUL_F64(gb_cut_f64, gb_cut_args) EMU_EMUL_F64(gb_join_f64, gb_join_args)
            EMU_EMUL_F64(gb_rest_f64_nn, gb_rest_args) EMU_EMUL_F64(
                gb_rest_f64_nt, gb_rest_args) EMU_EMUL_F64(gb_rest_f64_tn, gb_rest_args)
                EMU_EMUL_F64(gb_rest_f64_tt, gb_rest_args) EMU_EMUL(
                    gb_split_f32, gb_split_args) EMU_EMUL(gb_rest_f32_nn, gb_rest_args)
                    EMU_EMUL(gb_rest_f32_nt, gb_rest_args)
                        EMU_EMUL(gb_rest_f32_tn, gb_rest_args)
                            EMU_EMUL(gb_rest_f32_tt, gb_rest_args){
                                "gb_reduce_f32_f16", "gemm_wgmma_f16",
                                run<gb_gemm_args, gemm_wgmma_f16::gb_reduce_f32_f16>},
    {"gb_reduce_f32_f32", "gemm_wgmma_bf16_f32",
     run<gb_gemm_args, gemm_wgmma_bf16_f32::gb_reduce_f32_f32>},
    {NULL, NULL, NULL},
};
