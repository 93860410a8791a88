/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program does after a product that fuses nothing: one pass over C that adds a bias for
 * each row and activates, by the same arithmetic as ours, in vectors of 16 bytes. As fast as
 * memory, so that the comparison is one of fusing and not of kernels. */
#include "fused.h"

enum { PASS_THREADS = 256 };

/* Threads that share a column: as many as it has vectors, a power of two. */
template <class Out, class T>
GB_INLINE void gb_pass(const gb_gemm_args &g)
{
    constexpr int V = 16 / (int)sizeof(Out);
    const bool vectors =
        (g.c | (uint64_t)g.ldc * sizeof(Out) | (uint64_t)g.c_batch * sizeof(Out)) %
            16 ==
        0;
    int lanes = 1;

    while (lanes < PASS_THREADS && lanes * V < g.m)
        lanes *= 2;

    const int lane = gb_thread() % lanes, columns = PASS_THREADS / lanes;
    const int64_t parts = (g.m + lanes * V - 1) / (lanes * V);
    const int64_t groups = (g.n + columns - 1) / columns;

    for (int64_t unit = gb_block(); unit < parts * groups * g.batch;
         unit += gb_grid()) {
        const int64_t i = unit % parts * lanes * V + lane * V;
        const int64_t j = unit / parts % groups * columns + gb_thread() / lanes;
        const int64_t z = unit / parts / groups;
        Out *const at = reinterpret_cast<Out *>(g.c) + z * g.c_batch + j * g.ldc + i;
        const int rows = (int)gb_tile_min(g.m - i, V);
        const bool whole = vectors && rows == V;
        Vec<Out, V> c = {};
        T v[V], old[V] = {};

        if (rows <= 0 || j >= g.n)
            continue;
        if (whole)
            c = gb_load<Out, V>(at);
        GB_UNROLL
        for (int e = 0; e < V; e++) {
            if (!whole && e < rows)
                c.at[e] = at[e];
            gb_widen(c.at[e], v[e]);
        }
        FusedRows<Out, T, V>(g, z, i, rows).apply(j, 1, 0, old, v);
        GB_UNROLL
        for (int e = 0; e < V; e++) {
            gb_narrow(v[e], c.at[e]);
            if (!whole && e < rows)
                at[e] = c.at[e];
        }
        if (whole)
            gb_store(at, c);
    }
}

#define GB_PASS(name, Out, T)                                                          \
    GB_KERNEL(gb_pass_##name, PASS_THREADS, 4, g)                                      \
    {                                                                                  \
        gb_pass<Out, T>(g);                                                            \
    }

GB_PASS(f16, gb_f16, float)
GB_PASS(bf16, gb_bf16, float)
GB_PASS(f32, float, float)
GB_PASS(f64, double, double)
