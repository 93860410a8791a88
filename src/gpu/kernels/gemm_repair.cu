/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm_repair: copies operands of 16-bit elements from any address and leading
 * dimension to aligned columns. What one pass over memory costs, the kernels for
 * aligned operands win back.
 *
 * A thread writes vectors of 16 bytes, and asks for what all of them need before it
 * waits: an operand of a few MB is one wave of blocks, which takes as long as memory
 * takes to answer. A vector comes from the two aligned ones that it lies in, shifted:
 * its neighbour's second is its own first, which the L1 cache has. Nothing before the
 * first element of a matrix or after its last is read; what lies between columns may
 * be.
 *
 * gb_repack_32 copies 32-bit operands to where they run along k, whichever way they ran
 * before.
 *
 * Beside them, what calls for matrices in device memory need: copies between any
 * strides, and lists of addresses. */
#include "fused.h"
#include "repair_args.h"
#include "shift.h"
#include "tile_map.h"

/* The rows from `row` on that this thread has of a column: every `step`-th vector, GB_REPAIR_ROWS
 * times. */
GB_INLINE void gb_repair_rows(const uint16_t *from, uint16_t *to, int64_t row, int step,
                              int64_t rows, const uint16_t *begin, const uint16_t *end)
{
    const int skip = (int)(reinterpret_cast<uintptr_t>(from) % GB_REPAIR_ALIGN);
    const uint16_t *const first = from - skip / (int)sizeof *from + row;
    const int rest = (int)gb_tile_min(rows - row, INT32_MAX);
    /* vectors that begin this far on, or less, are read; but for the first of a matrix */
    const int most = (int)gb_tile_min(rest - 1, end - first - 16);
    const bool early = first < begin;
    Vec<uint32_t, 4> two[GB_REPAIR_ROWS][2];

    GB_UNROLL
    for (int i = 0; i < GB_REPAIR_ROWS; i++) {
        GB_UNROLL
        for (int half = 0; half < 2; half++)
            if (i * step <= most && !(i == 0 && early))
                two[i][half] = gb_load<uint32_t, 4>(
                    reinterpret_cast<const uint32_t *>(first + i * step + 8 * half));
    }
    GB_UNROLL
    for (int i = 0; i < GB_REPAIR_ROWS; i++)
        if (i * step <= most && !(i == 0 && early))
            gb_store(reinterpret_cast<uint32_t *>(to + row + i * step),
                     gb_shift_vectors(two[i], skip));
    /* at the first element of a matrix and at its last */
    GB_NO_UNROLL
    for (int i = 0; i < GB_REPAIR_ROWS && i * step < rest; i++) {
        Vec<uint16_t, 8> v = {};

        if (i * step <= most && !(i == 0 && early))
            continue;
        GB_UNROLL
        for (int e = 0; e < 8; e++)
            if (i * step + e < rest)
                v.at[e] = from[row + i * step + e];
        gb_store(to + row + i * step, v);
    }
}

/* A block's part: some columns, and of them GB_REPAIR_ROWS vectors for each thread. */
GB_INLINE void gb_repair_part(const gb_repair &x, int64_t unit)
{
    const int lanes = 1 << x.lanes_log2, lane = gb_thread() & (lanes - 1);
    const int64_t part = unit / x.parts;
    int64_t column =
        part * (GB_REPAIR_THREADS >> x.lanes_log2) + (gb_thread() >> x.lanes_log2);
    const int64_t z = x.batch > 1 ? column / x.cols : 0;
    const uint16_t *const matrix =
        reinterpret_cast<const uint16_t *>(x.from) + z * x.batch_from;
    const uint16_t *const end = matrix + (x.cols - 1) * x.ld_from + x.rows;

    if (column >= x.cols * x.batch)
        return;
    column -= z * x.cols;
    gb_repair_rows(matrix + column * x.ld_from,
                   reinterpret_cast<uint16_t *>(x.to) + z * x.batch_to +
                       column * x.ld_to,
                   (unit - part * x.parts) * (8 * GB_REPAIR_ROWS * lanes) + 8 * lane,
                   8 * lanes, x.rows, matrix, end);
}

GB_KERNEL_OF(gb_repair_args, gb_repair_16, GB_REPAIR_THREADS, 3, r)
{
    const int64_t first = r.x[0].units, units = first + r.x[1].units;

    gb_grid_wait();
    GB_NO_UNROLL
    for (int64_t unit = gb_block(); unit < units; unit += gb_grid()) {
        const bool second = unit >= first;

        gb_repair_part(r.x[second], unit - (second ? first : 0));
    }
}

struct gb_repack_square {
    /* of a vector, one after the other; one more, so that neither way of walking meets
     * a bank twice */
    uint32_t at[GB_REPACK_SIDE][GB_REPACK_SIDE + 1];
};

/* A square of vectors by elements of them. A warp reads along memory and writes along
 * memory; where these differ, what it has read goes through shared memory. */
GB_INLINE void gb_repack_part(const gb_repack &x, int64_t unit,
                              gb_repack_square &square)
{
    constexpr int SIDE = GB_REPACK_SIDE, ROWS = GB_REPAIR_THREADS / 32;
    const int64_t across = unit / x.wide, tall = (x.deep + SIDE - 1) / SIDE;
    const int64_t z = across / tall;
    const int64_t v0 = (unit - across * x.wide) * SIDE, l0 = (across - z * tall) * SIDE;
    const int vectors = (int)gb_tile_min(x.vectors - v0, SIDE);
    const int deep = (int)gb_tile_min(x.deep - l0, SIDE);
    const bool along = x.from_deep == 1;
    const int lane = gb_thread() % 32, row = gb_thread() / 32;
    const int64_t from_row = along ? x.from_vector : x.from_deep;
    const uint32_t *const from = reinterpret_cast<const uint32_t *>(x.from) +
                                 z * x.batch_from + v0 * x.from_vector +
                                 l0 * x.from_deep + row * from_row + lane;
    uint32_t *const to = reinterpret_cast<uint32_t *>(x.to) + z * x.batch_to +
                         (v0 + row) * x.to_vector + l0 + lane;
    const int rows = along ? vectors : deep, columns = along ? deep : vectors;
    uint32_t word[SIDE / ROWS][2];

    GB_UNROLL
    for (int i = 0; i < SIDE / ROWS; i++) {
        GB_UNROLL
        for (int half = 0; half < 2; half++)
            if (row + i * ROWS < rows && lane + 32 * half < columns)
                word[i][half] = from[i * ROWS * from_row + 32 * half];
    }
    if (!along) {
        gb_sync(); /* all have read the last square */
        GB_UNROLL
        for (int i = 0; i < SIDE / ROWS; i++) {
            GB_UNROLL
            for (int half = 0; half < 2; half++)
                if (row + i * ROWS < rows && lane + 32 * half < columns)
                    square.at[lane + 32 * half][row + i * ROWS] = word[i][half];
        }
        gb_sync();
        GB_UNROLL
        for (int i = 0; i < SIDE / ROWS; i++) {
            GB_UNROLL
            for (int half = 0; half < 2; half++)
                if (row + i * ROWS < vectors && lane + 32 * half < deep)
                    word[i][half] = square.at[row + i * ROWS][lane + 32 * half];
        }
    }
    GB_UNROLL
    for (int i = 0; i < SIDE / ROWS; i++) {
        GB_UNROLL
        for (int half = 0; half < 2; half++)
            if (row + i * ROWS < vectors && lane + 32 * half < deep)
                to[i * ROWS * x.to_vector + 32 * half] = word[i][half];
    }
}

GB_KERNEL_OF(gb_repack_args, gb_repack_32, GB_REPAIR_THREADS, 3, r)
{
    const int64_t first = r.x[0].units, units = first + r.x[1].units;
    GB_SHARED(gb_repack_square, square);

    gb_grid_wait();
    GB_NO_UNROLL
    for (int64_t unit = gb_block(); unit < units; unit += gb_grid()) {
        const bool second = unit >= first;

        gb_repack_part(r.x[second], unit - (second ? first : 0), square);
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

GB_PACK(1, uint8_t)
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
