/* SPDX-License-Identifier: BSD-3-Clause */
/* The fp64 matrix operations of a warp on sm_80 and newer; on the host, rendezvous of a warp's
 * fibers.
 *
 *   gb_dmma_warp<KI>(sums, x, y)     KI of k of a warp's tile, all pairs of x and y
 *
 * x[i] are 16 rows: x[i][2s + h] is row lane/4 + 8h, k lane%4 + 4s. y[j] are 8 columns: y[j][s]
 * is column lane/4 of the same k. sums[i][j]: rows lane/4 (elements 0, 1) and lane/4 + 8 (2, 3),
 * columns 2*(lane%4) and the next. A sum is taken to be one chain of fused multiply-adds in
 * ascending k, whatever KI is: t_kernels compares the rows' bits. KI of 4 or 8 names the
 * instruction of Hopper, m16n8k<KI>; before, and after, there is m8n8k4. */
#ifndef GB_DMMA_H
#define GB_DMMA_H

#include "seam.h"

#if GB_SEAM_CUDA

#define GB_DMMA_SUMS "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])

template <int KI>
GB_INLINE void gb_dmma(double (&d)[4], const double (&x)[KI / 2],
                       const double (&y)[KI / 4])
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1000
    if constexpr (KI == 4)
        asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 "
                     "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                     : GB_DMMA_SUMS
                     : "d"(x[0]), "d"(x[1]), "d"(y[0]));
    else
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : GB_DMMA_SUMS
                     : "d"(x[0]), "d"(x[1]), "d"(x[2]), "d"(x[3]), "d"(y[0]),
                       "d"(y[1]));
#else
    GB_UNROLL
    for (int s = 0; s < KI / 4; s++) {
        GB_UNROLL
        for (int h = 0; h < 2; h++)
            asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, "
                         "{%2}, {%3}, {%0, %1};"
                         : "+d"(d[2 * h]), "+d"(d[2 * h + 1])
                         : "d"(x[2 * s + h]), "d"(y[s]));
    }
#endif
}

/* To and fro, so that successive products share a register operand. */
template <int KI, int XS, int YS>
GB_INLINE void gb_dmma_warp(double (&sums)[XS][YS][4], const double (&x)[XS][KI / 2],
                            const double (&y)[YS][KI / 4])
{
    GB_UNROLL
    for (int i = 0; i < XS; i++) {
        GB_UNROLL
        for (int turn = 0; turn < YS; turn++) {
            const int j = i % 2 ? YS - 1 - turn : turn;

            gb_dmma<KI>(sums[i][j], x[i], y[j]);
        }
    }
}

#elif GB_SEAM_HOST

/* What a lane brings to a product. */
struct HostDmma {
    double *sums;
    const double *x, *y;
};

template <int KI, int XS, int YS>
GB_INLINE void gb_host_dmma_text(void *const *lanes)
{
    static thread_local double x[KI][16 * XS], y[KI][8 * YS], sums[16 * XS][8 * YS];

    for (int l = 0; l < GB_LANES; l++) {
        const HostDmma *lane = static_cast<HostDmma *>(lanes[l]);

        for (int s = 0; s < KI / 4; s++) {
            for (int i = 0; i < 2 * XS; i++)
                x[4 * s + l % 4][8 * i + l / 4] =
                    lane->x[i / 2 * (KI / 2) + 2 * s + i % 2];
            for (int j = 0; j < YS; j++)
                y[4 * s + l % 4][8 * j + l / 4] = lane->y[j * (KI / 4) + s];
        }
        for (int i = 0; i < XS; i++)
            for (int j = 0; j < YS; j++)
                for (int e = 0; e < 4; e++)
                    sums[16 * i + l / 4 + e / 2 * 8][8 * j + l % 4 * 2 + e % 2] =
                        lane->sums[(i * YS + j) * 4 + e];
    }
    for (int n = 0; n < 16 * XS; n++)
        for (int k = 0; k < KI; k++)
            for (int m = 0; m < 8 * YS; m++)
                sums[n][m] = gb_fma_f64(x[k][n], y[k][m], sums[n][m]);
    for (int l = 0; l < GB_LANES; l++)
        for (int i = 0; i < XS; i++)
            for (int j = 0; j < YS; j++)
                for (int e = 0; e < 4; e++)
                    static_cast<HostDmma *>(lanes[l])->sums[(i * YS + j) * 4 + e] =
                        sums[16 * i + l / 4 + e / 2 * 8][8 * j + l % 4 * 2 + e % 2];
}

template <int KI, int XS, int YS>
static void gb_host_dmma(void *const *lanes)
{
    gb_host_dmma_text<KI, XS, YS>(lanes);
}

#if defined(__x86_64__)
template <int KI, int XS, int YS>
__attribute__((target("avx2,fma"))) static void gb_host_dmma_fma(void *const *lanes)
{
    gb_host_dmma_text<KI, XS, YS>(lanes);
}
#endif

template <int KI, int XS, int YS>
GB_INLINE void gb_dmma_warp(double (&sums)[XS][YS][4], const double (&x)[XS][KI / 2],
                            const double (&y)[YS][KI / 4], int line = __builtin_LINE())
{
    HostDmma mine = {&sums[0][0][0], &x[0][0], &y[0][0]};
    void (*products)(void *const *) = gb_host_dmma<KI, XS, YS>;

#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        products = gb_host_dmma_fma<KI, XS, YS>;
#endif
    gb_fiber_warp(line, &mine, products);
}

#endif
#endif
