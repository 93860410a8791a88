/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_repair: copies operands of 16-bit elements from any address and leading dimension to
 * aligned columns. What one pass over memory costs, the kernels for aligned operands win back.
 *
 * A thread writes 16 bytes at a time. It reads the two aligned vectors that they lie in and
 * shifts: its neighbour's second is its own first, which the L1 cache has. Nothing before the
 * first element of a matrix or after its last is read; what lies between columns may be.
 *
 * Beside it, what calls for matrices in device memory need: copies between any strides, and
 * lists of addresses. */
#include "fused.h"
#include "repair_args.h"
#include "seam.h"

/* Eight elements from `at` on, of which n count, inside [begin, end). */
GB_INLINE Vec<uint16_t, 8> gb_repair_load(const uint16_t *at, int64_t n,
                                          const uint16_t *begin, const uint16_t *end)
{
    const uintptr_t skip = reinterpret_cast<uintptr_t>(at) % GB_REPAIR_ALIGN;
    const uint16_t *const first = at - skip / sizeof *at;
    Vec<uint16_t, 8> v = {};
    uint32_t w[9] = {};

    if (first < begin || end - first < (skip ? 16 : 8)) {
        GB_UNROLL
        for (int e = 0; e < 8; e++)
            if (e < n)
                v.at[e] = at[e];
        return v;
    }
    GB_UNROLL
    for (int half = 0; half < (skip ? 2 : 1); half++) {
        const Vec<uint32_t, 4> x =
            gb_load<uint32_t, 4>(reinterpret_cast<const uint32_t *>(first + 8 * half));

        GB_UNROLL
        for (int i = 0; i < 4; i++)
            w[4 * half + i] = x.at[i];
    }
    GB_UNROLL
    for (int i = 0; i < 6; i++)
        w[i] = skip & 8 ? w[i + 2] : w[i];
    GB_UNROLL
    for (int i = 0; i < 5; i++)
        w[i] = skip & 4 ? w[i + 1] : w[i];
    GB_UNROLL
    for (int i = 0; i < 4; i++) {
        const uint32_t both = skip & 2 ? w[i] >> 16 | w[i + 1] << 16 : w[i];

        v.at[2 * i] = (uint16_t)both;
        v.at[2 * i + 1] = (uint16_t)(both >> 16);
    }
    return v;
}

GB_INLINE void gb_repair_columns(const gb_repair &x, int64_t unit)
{
    const int lanes = 1 << x.lanes_log2, lane = gb_thread() & (lanes - 1);
    int64_t column =
        unit * (GB_REPAIR_THREADS >> x.lanes_log2) + (gb_thread() >> x.lanes_log2);
    const int64_t z = x.batch > 1 ? column / x.cols : 0;
    const uint16_t *const matrix =
        reinterpret_cast<const uint16_t *>(x.from) + z * x.batch_from;
    const uint16_t *const end = matrix + (x.cols - 1) * x.ld_from + x.rows;

    if (column >= x.cols * x.batch)
        return;
    column -= z * x.cols;
    for (int64_t row = 8 * lane; row < x.rows; row += 8 * lanes)
        gb_store(reinterpret_cast<uint16_t *>(x.to) + z * x.batch_to +
                     column * x.ld_to + row,
                 gb_repair_load(matrix + column * x.ld_from + row, x.rows - row, matrix,
                                end));
}

GB_KERNEL_OF(gb_repair_args, gb_repair_16, GB_REPAIR_THREADS, 4, r)
{
    const int64_t first = r.x[0].units, units = first + r.x[1].units;

    gb_grid_wait();
    GB_NO_UNROLL
    for (int64_t unit = gb_block(); unit < units; unit += gb_grid()) {
        const bool second = unit >= first;

        gb_repair_columns(r.x[second], unit - (second ? first : 0));
    }
}

template <class T>
GB_INLINE void gb_pack(const gb_pack_args &p)
{
    const int64_t total = p.rows * p.cols * p.batch;

    gb_grid_wait();
    GB_NO_UNROLL
    for (int64_t x = gb_block() * GB_REPAIR_THREADS + gb_thread(); x < total;
         x += gb_grid() * GB_REPAIR_THREADS) {
        const int64_t i = x % p.rows, j = x / p.rows % p.cols, z = x / p.rows / p.cols;
        const T *const from = gb_matrix<const T>(p.from, p.from_list, p.from_batch, z);
        T *const to = gb_matrix<T>(p.to, p.to_list, p.to_batch, z);

        to[i * p.to_row + j * p.to_col] = from[i * p.from_row + j * p.from_col];
    }
}

#define GB_PACK(bytes, T)                                                              \
    GB_KERNEL_OF(gb_pack_args, gb_pack_##bytes, GB_REPAIR_THREADS, 4, p)               \
    {                                                                                  \
        gb_pack<T>(p);                                                                 \
    }

/* Elements of 16 bytes are aligned to 8 alone. */
struct gb_two_words {
    uint64_t word[2];
};

GB_PACK(2, uint16_t)
GB_PACK(4, uint32_t)
GB_PACK(8, uint64_t)
GB_PACK(16, gb_two_words)

GB_KERNEL_OF(gb_list_args, gb_list, GB_REPAIR_THREADS, 4, l)
{
    gb_grid_wait();
    GB_NO_UNROLL
    for (int64_t i = gb_thread(); i < l.count; i += GB_REPAIR_THREADS)
        reinterpret_cast<uint64_t *>(l.to)[i] = l.at[i];
}
