/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel registry: one constant row per kernel, from kernels.def, read by dispatch (which
 * chooses), exec (which launches), the emulated device, tests, bench and tune alike. */
#ifndef GB_KERNELS_H
#define GB_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "gb.h"

#ifdef __cplusplus
extern "C" {
#endif

enum gb_kernel_flags {
    GB_K_TRANS = 1u << 0,  /* serves all four layouts through symbols _nn _nt _tn _tt */
    GB_K_CONJ = 1u << 1,   /* conjugation of A and B as arguments */
    GB_K_UPLO = 1u << 2,   /* mask of a triangle of C */
    GB_K_SPLITK = 1u << 3, /* partial sums to a workspace, see gemm_args.h */
    GB_K_BATCH = 1u << 4,  /* batch strides */
    /* Multiplies on the tensor cores, and cuts k between launches at multiples of tile_k
     * only. */
    GB_K_TENSOR = 1u << 5,
    GB_K_TMA = 1u << 6, /* moves tiles by TMA: takes struct gb_tma_args, see launch.h */
    GB_K_PAIRS = 1u << 7, /* blocks come in clusters of two, neighbours along n */
    GB_K_PLAIN = 1u << 8, /* fuses nothing: its sums leave no registers for that */
    /* Takes all of k in one launch that writes C: for operands on the device. */
    GB_K_WHOLE = 1u << 9,
    /* A multiprocessor has registers for one block, which asks for its next tile before it stores
     * the last: it is launched to have several in turn. */
    GB_K_AHEAD = 1u << 10,
    /* Computes from several parts of each number, which are made first: emulated.h. One layout. */
    GB_K_EMULATED = 1u << 11,
    /* Multiplies fp32 as tf32, for GEMMBLAS_MATH=fast. One layout: operands that run
     * along k. Of the others, and of those that TMA cannot read, there are copies
     * first. */
    GB_K_FAST = 1u << 12,
    /* From here on: blocks that a multiprocessor has registers for, where a row tells (3 bits). */
    GB_K_BLOCKS = 13,
    /* Of 8-bit integers, which it reads K-major alone: integer.h. One layout. */
    GB_K_INTEGER = 1u << 16
};

/* The longest side, and k, of a launch of a row with GB_K_TMA: coordinates are int32_t, those
 * of a tile that reaches past the end too. */
enum { GB_TMA_MOST = INT32_MAX - 255 };

enum { GB_KERNEL_STATIC = 256 };

struct gb_kernel {
    const char
        *name; /* "gemm_simt_f32_128x128x16"; the symbols are gb_<name>_<layout> */
    const char *family; /* "gemm_simt": the image that holds it */
    enum gb_type type, type_c, type_acc;
    uint16_t arch_min, arch_max; /* inclusive sm number; 0, 0: AMD or emu only */
    uint16_t tile_m, tile_n, tile_k;
    uint8_t stages; /* shared-memory buffers in flight */
    uint8_t
        align; /* bytes that addresses and strides of A and B must be multiples of */
    uint16_t threads;
    /* Dynamic shared memory, bytes; 0 when it is static, else at most GB_KERNEL_STATIC are. */
    uint32_t smem;
    uint32_t flags;
    uint16_t efficiency; /* per mille of the peak of its arithmetic on large problems */
};

/* Most families that there may be, those without rows included: what a table of loaded images
 * has room for. */
enum { GB_FAMILIES = 32 };

extern const struct gb_kernel gb_kernels[];
extern const int gb_kernel_count;

const struct gb_kernel *gb_kernel_find(const char *name); /* NULL when there is none */

/* Does the row run on such a device? The emulated device runs every row whose family is
 * compiled into it, but programs get none from it that needs TMA: those are there for tests of
 * the kernels, but for rows of integers, which are the only ones of their type. Rows for one architecture alone run where this build has their image. */
bool gb_kernel_runs(const struct gb_kernel *k, const struct gb_device_info *info);

/* Thread blocks of a cluster, and so tiles side by side along n that one unit computes. */
static inline int gb_kernel_cluster(const struct gb_kernel *k)
{
    return k->flags & GB_K_PAIRS ? 2 : 1;
}

/* Blocks that a multiprocessor runs at once: as many as their shared memory lets it, of which each
 * takes 1 KiB more than it asks for, and, without TMA, their registers. */
static inline int gb_kernel_blocks(const struct gb_kernel *k,
                                   const struct gb_device_info *info)
{
    size_t blocks = (info->smem_per_block + 1024) / (k->smem + 1024);
    size_t told = k->flags >> GB_K_BLOCKS & 7;

    if (!(k->flags & GB_K_TMA) && blocks > told)
        blocks = told;
    return blocks > 1 ? (int)blocks : 1;
}

/* Write the symbol of row k for operands whose unit stride runs along rows ('n') or columns
 * ('t') of op(A) (m x k) and op(B) (k x n): gb_<name>_<a><b>. */
void gb_kernel_symbol(const struct gb_kernel *k, char a, char b, char *buf, size_t len);

/* The reduce kernel of a family for row k: sums split-K partials in fixed order and applies
 * alpha and beta. */
void gb_kernel_reduce_symbol(const struct gb_kernel *k, char *buf, size_t len);

/* Embedded device code (images.S, generated). A family may have several images: one fatbin
 * for NVIDIA, one code object per AMD architecture. */
struct gb_image {
    const char *family;
    enum gb_vendor vendor;
    int arch; /* 0: fatbin for every NVIDIA architecture; 942: gfx942 */
    const void *data;
    size_t bytes;
};
const struct gb_image *gb_image_find(const char *family,
                                     const struct gb_device_info *info);

#ifdef __cplusplus
}
#endif
#endif
