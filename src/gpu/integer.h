/* SPDX-License-Identifier: BSD-3-Clause */
/* Launching a row with GB_K_INTEGER on operands that are on the device: copies of those that
 * tensor cores cannot read, sums of vectors where there are zero points, the product; and memory
 * for what they tell each other. Kernels: gemm_int8.h. */
#ifndef GB_INTEGER_H
#define GB_INTEGER_H

#include "device.h"
#include "gb.h"
#include "gemm_args.h"
#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GB_BYTES_SYMBOL "gb_bytes_s8"
#define GB_SUMS_SYMBOL "gb_sums_s8"

/* Functions of the row's module. */
struct gb_integer {
    struct gb_function *bytes, *sums, *gemm;
};

/* Can row k compute this? All of k in one launch that writes C, and operands that do not lie at
 * lists of addresses. */
bool gb_integer_takes(const struct gb_kernel *k, const struct gb_gemm_args *g);

/* Bytes of device memory, aligned to 256, that the launch works in. An operand whose address is
 * not known yet, 0, will be aligned. */
size_t gb_integer_bytes(const struct gb_gemm_args *g, const struct gb_offsets *o);

/* Queue C := alpha (op(A) + o->a) (op(B) + o->b) + beta C + o->c by row k, in `work`. `most`:
 * blocks at most, 0: as many as suit the device. GB_E_UNSUPPORTED when the row does not take the
 * operands. Only after GB_E_DEVICE may a part of C have been written. */
enum gb_status gb_integer_launch(struct gb_device *dev, struct gb_stream *s,
                                 const struct gb_integer *f, const struct gb_kernel *k,
                                 const struct gb_gemm_args *g,
                                 const struct gb_offsets *o, gb_devptr work,
                                 uint32_t most);

#ifdef __cplusplus
}
#endif
#endif
