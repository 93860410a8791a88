/* SPDX-License-Identifier: BSD-3-Clause */
/* The reduction of partial sums (gemm_args.h), which every family with splits has in its image:
 * one element of C per thread and turn. */
#ifndef GB_REDUCE_H
#define GB_REDUCE_H

#include "accumulate.h"
#include "fused.h"

/* Element x of all C's as they lie in the workspace: of which batch, where in it. */
struct ReducePlace {
    int64_t z, in, i, j;

    template <class Int>
    GB_DEVICE void find(Int x, Int size, Int m)
    {
        const Int rest = x % size;

        z = x / size;
        in = rest;
        i = rest % m;
        j = rest / m;
    }
};

/* Sums the splits in ascending order and applies the epilogue; one element per thread and
 * turn, GB_REDUCE_THREADS threads per block, any grid. */
template <class Out, class T>
GB_INLINE void gb_gemm_reduce(const gb_gemm_args &g)
{
    typedef AccMath<T> Math;
    constexpr int AT_ONCE = 16; /* loads that do not wait for each other: sums do */
    const bool read = !(g.flags & GB_G_BETA_ZERO);
    const T alpha = Math::scalar(g.alpha);
    const T beta = read ? Math::scalar(g.beta) : Math::unread(alpha);
    const int64_t size = g.m * g.n, total = size * g.batch;

    gb_grid_wait();
    for (int64_t x = gb_block() * GB_REDUCE_THREADS + gb_thread(); x < total;
         x += gb_grid() * GB_REDUCE_THREADS) {
        ReducePlace at_x;
        T sum, old = {};

        if (total <= INT32_MAX) /* divisions of half the length */
            at_x.find((uint32_t)x, (uint32_t)size, (uint32_t)g.m);
        else
            at_x.find(x, size, g.m);
        const int64_t z = at_x.z, i = at_x.i, j = at_x.j;
        const T *from =
            reinterpret_cast<const T *>(g.partial) + z * g.splits * size + at_x.in;
        Out *at = gb_matrix<Out>(g.c, g.c_list, g.c_batch, z) + i + j * g.ldc;

        if (!gb_tile_wanted(&g, i, j))
            continue;
        sum = from[0];
        GB_NO_UNROLL
        for (int s = 1; s < g.splits; s += AT_ONCE) {
            T next[AT_ONCE];

            GB_UNROLL
            for (int e = 0; e < AT_ONCE; e++)
                if (s + e < g.splits)
                    next[e] = from[(s + e) * size];
            GB_UNROLL
            for (int e = 0; e < AT_ONCE; e++)
                if (s + e < g.splits)
                    sum = gb_plus(sum, next[e]);
        }
        if (read)
            gb_widen(*at, old);
        if (g.flags & GB_G_FUSED) {
            const T olds[1] = {old};
            T v[1] = {sum};

            FusedRows<Out, T, 1>(g, z, i, 1).apply(j, alpha, beta, olds, v);
            gb_narrow(v[0], *at);
        } else {
            gb_narrow(Math::epilogue(alpha, sum, beta, old), *at);
        }
    }
}

#define GB_REDUCE(symbol, out, acc)                                                    \
    GB_KERNEL(symbol, GB_REDUCE_THREADS, 1, g)                                         \
    {                                                                                  \
        gb_gemm_reduce<out, acc>(g);                                                   \
    }

#endif
