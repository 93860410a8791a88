/* SPDX-License-Identifier: BSD-3-Clause */
/* Launching a kernel row on operands that are on the device: how many blocks, and what the
 * row's kind needs beside gemm_args.h. */
#ifndef GB_LAUNCH_H
#define GB_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "gemm_args.h"
#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Can row k read these operands in place? Addresses and strides of A and B are multiples of
 * its `align`, sizes at most GB_TMA_MOST where TMA counts them. C may lie anywhere. */
bool gb_launch_takes(const struct gb_kernel *k, const struct gb_gemm_args *args);

/* Can row k add up so many splits of all of k in one launch? */
bool gb_launch_together(const struct gb_kernel *k, int64_t splits);

/* Does this launch? Then it is in the order of the reduction and to the same bits, may have
 * GB_G_EPILOGUE, needs no partial, and takes as many blocks as it has work units, whatever
 * `most` says. */
bool gb_launch_sums_splits(const struct gb_kernel *k, const struct gb_gemm_args *args);

/* Of so many units (of a tile, or of the two of a cluster), of which `room` run at once, those of
 * the last turn that a launch of its own computes: there a cluster has a tile, and each of its
 * args->tail blocks a split of it. 0 where the last turn is full or the only one, or row k has no
 * such clusters. The bits of these tiles are those of so many splits. */
int64_t gb_launch_tail(const struct gb_kernel *k, const struct gb_gemm_args *args,
                       int64_t units, int64_t room);

/* How long each of so many parts of `deep` of k is: whole steps of row k, which may leave the
 * last ones empty. */
int64_t gb_launch_split_length(const struct gb_kernel *k, int64_t deep, int splits);

/* Queue what `args` describes: f is row k's function for the layout (a, b), 'n' or 't' each
 * as for gb_kernel_symbol. `most`: blocks at most, 0: as many as suit the device
 * (a tail has a cluster for each of its tiles, whatever `most` says). GB_E_UNSUPPORTED when the
 * row does not take the operands. Only after GB_E_DEVICE may a part of C have been written. */
enum gb_status gb_launch_gemm(struct gb_device *dev, struct gb_stream *s,
                              struct gb_function *f, const struct gb_kernel *k, char a,
                              char b, const struct gb_gemm_args *args, uint32_t most);

/* Queue the reduction of its partial sums; f is row k's reduce function. */
enum gb_status gb_launch_reduce(struct gb_device *dev, struct gb_stream *s,
                                struct gb_function *f, const struct gb_kernel *k,
                                const struct gb_gemm_args *args, uint32_t most);

/* Operands that are copied to where a row can read them, by one launch ahead of it: both sides
 * of memory's rate, instead of a main loop that loads element by element. */
enum gb_repaired { GB_REPAIR_A = 1, GB_REPAIR_B = 2 };

/* The family and symbol of the kernels that copy: 16-bit operands as they are, and
 * those of rows with GB_K_FAST to where they run along k. */
#define GB_REPAIR_FAMILY "gemm_repair"
#define GB_REPAIR_SYMBOL "gb_repair_16"
#define GB_REPACK_SYMBOL "gb_repack_32"

/* The one of them for row k. */
const char *gb_launch_repair_symbol(const struct gb_kernel *k);

/* The operands (gb_repaired) in the layout (a, b), with addresses and strides that are
 * multiples of align_a and align_b bytes, of which row k wants a copy. */
unsigned gb_launch_repaired(const struct gb_kernel *k, char a, char b, uint32_t align_a,
                            uint32_t align_b);

/* Is there one for row k's operands? */
bool gb_launch_can_repair(const struct gb_kernel *k, const struct gb_device_info *info);

/* Bytes of memory that the copies of the operands `which` (gb_repaired) take. */
size_t gb_launch_repair_bytes(const struct gb_kernel *k, unsigned which, char a, char b,
                              const struct gb_gemm_args *args);

/* Queue the copies into `work`, aligned to 256 bytes, and let `args` describe them, for row k;
 * f is the kernel above. */
enum gb_status gb_launch_repair(struct gb_device *dev, struct gb_stream *s,
                                struct gb_function *f, const struct gb_kernel *k,
                                unsigned which, char a, char b, gb_devptr work,
                                struct gb_gemm_args *args);

/* Others of the family (engine.h has the symbols of all of them): a copy between any strides,
 * and a list of addresses. */
#define GB_LIST_SYMBOL "gb_list"

struct gb_pack_args;

/* Queue the copy. */
enum gb_status gb_launch_pack(struct gb_device *dev, struct gb_stream *s,
                              struct gb_function *f, const struct gb_pack_args *args);

/* Queue the making of a list of `count` addresses at `to`. */
enum gb_status gb_launch_list(struct gb_device *dev, struct gb_stream *s,
                              struct gb_function *f, gb_devptr to,
                              const void *const *list, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
