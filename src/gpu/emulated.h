/* SPDX-License-Identifier: BSD-3-Clause */
/* Launching a row with GB_K_EMULATED on operands that are on the device: several kernels, one after
 * the other, and memory for what they tell each other. Kernels: gemm_emul.h; of fp64
 * residue_args.h, launched by residues.h. */
#ifndef GB_EMULATED_H
#define GB_EMULATED_H

#include "device.h"
#include "gemm_args.h"
#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The kernels, in their order. Rows of fp32 have three of them: the split, the product and the
 * rest. */
enum gb_emulated_step {
    GB_STEP_SPLIT, /* of fp64: what must be known of the operands */
    GB_STEP_CHOOSE,
    GB_STEP_CUT,
    GB_STEP_GEMM,
    GB_STEP_JOIN,
    GB_STEP_REST, /* native: what the others left; one for each layout */
    GB_EMULATED_STEPS
};

/* Functions of the row's module; NULL: it has no such step. */
struct gb_emulated {
    struct gb_function *step[GB_EMULATED_STEPS];
};

/* The step's symbol, in the layout a, b ('n' or 't' each); false when row k has no such step. */
bool gb_emulated_symbol(const struct gb_kernel *k, enum gb_emulated_step step, char a,
                        char b, char *buf, size_t len);

/* The least and the most k of row k. What tensor cores lose by sums of its tile_k is the same share of the result
 * whatever k is; what a chain of multiply-adds loses grows with its root, and is to be more. */
int64_t gb_emulated_least_k(const struct gb_kernel *k);
int64_t gb_emulated_most_k(const struct gb_kernel *k);

/* Can row k compute this? All of k in one launch that writes C, and operands that do not lie at
 * lists of addresses. */
bool gb_emulated_takes(const struct gb_kernel *k, const struct gb_gemm_args *g);

/* Bytes of device memory, aligned to 256, that the launch works in. */
size_t gb_emulated_bytes(const struct gb_kernel *k, const struct gb_gemm_args *g);

/* Where the launch says what it left to native arithmetic, once it is done: a uint32_t, not 0 if anything. */
gb_devptr gb_emulated_left(const struct gb_kernel *k, const struct gb_gemm_args *g,
                           gb_devptr work);

/* Queue C := alpha op(A) op(B) + beta C by row k, in `work`. `most`: blocks at most, 0: as many as
 * suit the device. GB_E_UNSUPPORTED when the row does not take the operands. Only after
 * GB_E_DEVICE may a part of C have been written. */
enum gb_status gb_emulated_launch(struct gb_device *dev, struct gb_stream *s,
                                  const struct gb_emulated *f,
                                  const struct gb_kernel *k,
                                  const struct gb_gemm_args *g, gb_devptr work,
                                  uint32_t most);

#ifdef __cplusplus
}
#endif
#endif
