/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of the kernels of gemm_repair. The first copies up to two operands whose address
 * or leading dimension vector loads and TMA cannot take to where they can. Strides are in
 * elements. */
#ifndef GB_REPAIR_ARGS_H
#define GB_REPAIR_ARGS_H

#include <stdint.h>

enum {
    GB_REPAIR_THREADS = 256,
    GB_REPAIR_ALIGN = 16,
    GB_REPAIR_ROWS = 4,  /* vectors of a column that a thread has under way at once */
    GB_REPACK_SIDE = 64, /* of the squares that gb_repack_32 copies */
};

/* rows x cols elements of 16 bits, `batch` times. `to` is aligned to GB_REPAIR_ALIGN bytes, and
 * so is each of its columns, which are written in full vectors: ld_to has room for them. */
struct gb_repair {
    uint64_t from, to; /* device addresses */
    int64_t rows, cols, ld_from, ld_to;
    int64_t batch_from, batch_to, batch;
    int64_t parts; /* that cover a column */
    int64_t units; /* parts of blocks of columns: repair_of() in launch.c counts them */
    int32_t lanes_log2; /* threads that share a column */
};

struct gb_repair_args {
    struct gb_repair x[2]; /* without units: no second one */
};

/* `vectors` of 32-bit elements, rows of op(A) or columns of op(B), each `deep` long,
 * `batch` times: to where each is a run of memory. `to` is aligned to GB_REPAIR_ALIGN
 * bytes, and so is each vector. Of the two strides from_... one is 1. */
struct gb_repack {
    uint64_t from, to; /* device addresses */
    int64_t vectors, deep, from_vector, from_deep, to_vector;
    int64_t batch_from, batch_to, batch;
    int64_t wide, units; /* squares: that cover all vectors; of all batches */
};

struct gb_repack_args {
    struct gb_repack x[2]; /* without units: no second one */
};

/* For strides of which none is 1: element (i, j) of batch z goes from one matrix to another.
 * With a list, matrix z begins at its z-th address. */
struct gb_pack_args {
    uint64_t from, from_list, to, to_list; /* device addresses */
    int64_t rows, cols, batch;
    int64_t from_row, from_col, from_batch; /* in elements, of either sign */
    int64_t to_row, to_col, to_batch;
};

/* Addresses that the host has, to a list on the device: as many as arguments hold. */
enum { GB_LIST_MOST = 480 };

struct gb_list_args {
    uint64_t to;
    int64_t count;
    uint64_t at[GB_LIST_MOST];
};

#endif
