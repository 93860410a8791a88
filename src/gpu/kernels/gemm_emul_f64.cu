/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_emul: fp64 from residues, with what makes and joins them, and gb_rest_f64 behind. */
#include "gemm_dmma.h"
#include "gemm_residue.h"
#include "left.h"

#define EMUL_F64(name, tile_m, tile_n, stages, efficiency)                             \
    GB_RESIDUE_ROW(gemm_emul_f64_##name, tile_m, stages)
#include "emul.def"
#undef EMUL_F64

/* Natively, those tiles that are left: of the shape of GB_REST_F64_ROW. */
typedef DmmaShape<double, 128, 64, 16, 4, 2, 2, 4> rest_f64_shape;

#define GB_REST_F64(symbol, ...)                                                       \
    GB_KERNEL_OF(gb_rest_args, symbol, rest_f64_shape::THREADS, 2, args)               \
    {                                                                                  \
        const RestPick pick = {args.left};                                             \
                                                                                       \
        gb_grid_wait();                                                                \
        if (!pick.none())                                                              \
            gb_gemm_staged<DmmaTile<rest_f64_shape, __VA_ARGS__>>(args.g, pick);       \
    }
GB_REST_F64(gb_rest_f64_nn, false, true)
GB_REST_F64(gb_rest_f64_nt, false, false)
GB_REST_F64(gb_rest_f64_tn, true, true)
GB_REST_F64(gb_rest_f64_tt, true, false)
