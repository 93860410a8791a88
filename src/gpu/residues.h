/* SPDX-License-Identifier: BSD-3-Clause */
/* fp64 products from residues: what emulated.h says of rows of fp64. Kernels: residue.h. */
#ifndef GB_RESIDUES_H
#define GB_RESIDUES_H

#include "emulated.h"
#include "residue_args.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of residues of B and of C there is no more at a time, or one panel of C's columns. A test makes it
 * small. */
extern int64_t gb_residues_panel_bytes;

/* What kernels must know of the moduli. */
void gb_residues_cutting(struct gb_cut_args *args);
void gb_residues_joining(struct gb_join_args *args);

/* As much as the product, or any part of it that has fewer rows or columns, works in. */
size_t gb_residues_bytes(const struct gb_gemm_args *g);
gb_devptr gb_residues_left(const struct gb_gemm_args *g, gb_devptr work);
enum gb_status gb_residues_launch(struct gb_device *dev, struct gb_stream *s,
                                  const struct gb_emulated *f,
                                  const struct gb_kernel *k,
                                  const struct gb_gemm_args *g, gb_devptr work,
                                  uint32_t most);

#ifdef __cplusplus
}
#endif
#endif
