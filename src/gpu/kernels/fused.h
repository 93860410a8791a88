/* SPDX-License-Identifier: BSD-3-Clause */
/* What every GEMM kernel has at the end of its epilogue: bias, scales and activation
 * (gemm_args.h) of a few neighbours of one column of C at a time, and the matrices of a batch.
 *
 * The text for all activations is long, so a kernel has it in one place, in a loop that is not
 * unrolled; and a launch without GB_G_FUSED never comes there. */
#ifndef GB_FUSED_H
#define GB_FUSED_H

#include "activate.h"
#include "seam.h"

/* ---- storage types against accumulator types ---- */

template <class S, class T>
GB_INLINE void gb_widen(S x, T &y)
{
    if constexpr (sizeof(S) == sizeof(T))
        y = x;
    else
        y = gb_to_f32(x);
}

template <class T, class S>
GB_INLINE void gb_narrow(T x, S &y)
{
    if constexpr (sizeof(S) == sizeof(T))
        y = x;
    else
        gb_from_f32(x, y);
}

/* ---- matrices of a batch ---- */

/* The first of batch z: one of a list, or some elements on. */
template <class S>
GB_INLINE S *gb_matrix(uint64_t base, uint64_t list, int64_t stride, int64_t z)
{
    if (list)
        base = reinterpret_cast<const uint64_t *>(list)[z];
    return reinterpret_cast<S *>(base) + z * stride;
}

/* May vectors of 16 bytes be loaded from an operand of these strides? */
template <class S>
GB_INLINE bool gb_whole(uint64_t base, int64_t stride, int64_t batch)
{
    return (base | (uint64_t)stride * sizeof(S) | (uint64_t)batch * sizeof(S)) % 16 ==
           0;
}

/* ---- arithmetic ---- */

template <class T>
struct FusedMath;

#define GB_FUSED_MATH(type, t, real)                                                   \
    template <>                                                                        \
    struct FusedMath<type> {                                                           \
        typedef real Real;                                                             \
        GB_DEVICE static type mix(type alpha, real scale, type sum, type beta,         \
                                  type old, type bias)                                 \
        {                                                                              \
            return gb_fused_##t(alpha, scale, sum, beta, old, bias);                   \
        }                                                                              \
    };

GB_FUSED_MATH(float, f32, float)
GB_FUSED_MATH(double, f64, double)
GB_FUSED_MATH(gb_c32, c32, float)
GB_FUSED_MATH(gb_c64, c64, double)

/* Added, it leaves all as it is. */
template <class T>
GB_INLINE T gb_no_bias()
{
    if constexpr (sizeof(T) == sizeof(typename FusedMath<T>::Real))
        return (T)-0.0;
    else
        return T{(typename FusedMath<T>::Real) - 0.0,
                 (typename FusedMath<T>::Real) - 0.0};
}

/* All at once, so that the question which one is asked once. */
#define GB_ACTIVATE_ALL(name)                                                          \
    do {                                                                               \
        GB_UNROLL                                                                      \
        for (int e = 0; e < V; e++) {                                                  \
            if constexpr (sizeof(Out) == 2)                                            \
                v[e] = gb_##name##_f32s(v[e]);                                         \
            else if constexpr (sizeof(T) == 4)                                         \
                v[e] = gb_##name##_f32(v[e]);                                          \
            else                                                                       \
                v[e] = gb_##name##_f64(v[e]);                                          \
        }                                                                              \
    } while (0)

/* Of values that are rounded to Out. */
template <class Out, int V, class T>
GB_INLINE void gb_activate(int activation, T (&v)[V])
{
    if constexpr (sizeof(T) == sizeof(typename FusedMath<T>::Real)) {
        switch (activation) {
        case GB_ACT_RELU:
            GB_ACTIVATE_ALL(relu);
            break;
        case GB_ACT_GELU:
            GB_ACTIVATE_ALL(gelu);
            break;
        case GB_ACT_GELU_TANH:
            GB_ACTIVATE_ALL(gelu_tanh);
            break;
        case GB_ACT_SILU:
            GB_ACTIVATE_ALL(silu);
            break;
        case GB_ACT_TANH:
            GB_ACTIVATE_ALL(tanh);
            break;
        default:
            break;
        }
    }
}

/* ---- vectors ---- */

/* V entries from `at` on, of which `left` exist; `none` for the others. */
template <int V, class S, class T>
GB_INLINE void gb_entries(const S *at, int left, T none, T (&v)[V])
{
    if (V > 1 && left >= V && reinterpret_cast<uintptr_t>(at) % (V * sizeof(S)) == 0 &&
        V * sizeof(S) <= 16) {
        const Vec<S, V> x = gb_load<S, V>(at);

        GB_UNROLL
        for (int e = 0; e < V; e++)
            gb_widen(x.at[e], v[e]);
        return;
    }
    GB_UNROLL
    for (int e = 0; e < V; e++) {
        v[e] = none;
        if (e < left)
            gb_widen(at[e], v[e]);
    }
}

/* The fused part of V neighbouring rows of C, for any of its columns. */
template <class Out, class T, int V>
struct FusedRows {
    typedef typename FusedMath<T>::Real Real;

    const gb_gemm_args &g;
    int64_t batch;
    Real scale[V];
    T bias[V]; /* what is the same in all columns */

    /* Rows i and on, of which `rows` exist. */
    GB_DEVICE FusedRows(const gb_gemm_args &args, int64_t z, int64_t i, int rows)
        : g(args), batch(z)
    {
        const gb_fused &f = g.fused;

        GB_UNROLL
        for (int e = 0; e < V; e++) {
            scale[e] = 1;
            bias[e] = gb_no_bias<T>();
        }
        if (f.row_scale)
            gb_entries<V>(reinterpret_cast<const Real *>(f.row_scale) +
                              z * f.row_batch + i,
                          rows, (Real)1, scale);
        if (f.bias && !(f.flags & GB_F_BIAS_COLS))
            bias_at<V>(i, rows, bias);
    }

    template <int N>
    GB_DEVICE void bias_at(int64_t at, int left, T (&v)[N]) const
    {
        const gb_fused &f = g.fused;

        if (f.flags & GB_F_BIAS_ACC)
            gb_entries<N>(reinterpret_cast<const T *>(f.bias) + batch * f.bias_batch +
                              at,
                          left, gb_no_bias<T>(), v);
        else
            gb_entries<N>(reinterpret_cast<const Out *>(f.bias) + batch * f.bias_batch +
                              at,
                          left, gb_no_bias<T>(), v);
    }

    /* Sums become values of column j, which exists. */
    GB_DEVICE void apply(int64_t j, T alpha, T beta, const T (&old)[V], T (&v)[V]) const
    {
        const gb_fused &f = g.fused;
        Real along[1] = {1};
        T one[1] = {gb_no_bias<T>()};
        const bool by_column = f.bias && (f.flags & GB_F_BIAS_COLS);

        if (f.col_scale)
            gb_entries<1>(reinterpret_cast<const Real *>(f.col_scale) +
                              batch * f.col_batch + j,
                          1, (Real)1, along);
        if (by_column)
            bias_at<1>(j, 1, one);
        GB_UNROLL
        for (int e = 0; e < V; e++)
            v[e] = FusedMath<T>::mix(alpha, scale[e] * along[0], v[e], beta, old[e],
                                     by_column ? one[0] : bias[e]);
        gb_activate<Out, V>(f.activation, v);
    }
};

#endif
