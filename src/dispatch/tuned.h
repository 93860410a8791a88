/* SPDX-License-Identifier: BSD-3-Clause */
/* Tuned rows: for a shape, or for a class of shapes, the kernel row that was measured to be
 * the quickest, in place of the model's choice. Shipped ones are tables (tuned/sm_90.def and
 * its neighbours); those of this machine are in a file that `gemmblas tune` writes and
 * tuned_file.h reads. Looking one up is a pure function of the problem, the device and the
 * tables. */
#ifndef GB_TUNED_H
#define GB_TUNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "gb.h"
#include "geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

enum gb_tuned_scope { GB_TUNED_EXACT, GB_TUNED_CLASS };

/* What a row is for. Only what decides a kernel's speed is in it: a conjugation is free, and
 * so are alpha and beta. */
struct gb_tuned_key {
    enum gb_type type, type_c;
    enum gb_trans transa, transb; /* GB_N or GB_T */
    enum gb_tuned_scope scope;
    int64_t m, n, k, batch; /* sizes, or their classes; no batch is a batch of 1 */
    unsigned ragged; /* enum gb_repaired: operands not aligned to GB_PLAN_ALIGN */
};

/* `splits`: into how many parts k is cut; 0: as the model cuts it for this kernel. The length
 * of a part is the planner's to compute, so that one row can serve a class; where rounding
 * leaves a part empty, the row is not legal and the model decides. */
struct gb_tuned_row {
    struct gb_tuned_key key;
    const char *kernel;
    int splits, group_m;
    uint32_t hints; /* enum gb_gemm_flags, of L2 */
    int64_t ns,
        model_ns; /* what was measured of it and of the model's choice; 0 unknown */
};

/* Rows in ascending order of their keys, for devices like this one. */
struct gb_tuned_table {
    enum gb_vendor vendor;
    int arch, multiprocessors; /* a wave is as many blocks */
    const struct gb_tuned_row *rows;
    size_t n;
};

/* The class of a size: c where 2^(c - 1/2) <= x < 2^(c + 1/2), so that a power of two is in the
 * middle of its own. */
int64_t gb_tuned_class(int64_t size);

/* The key of a problem whose operands' addresses and strides are multiples of align_a and
 * align_b bytes. */
struct gb_tuned_key gb_tuned_key(const struct gb_problem *p, uint32_t align_a,
                                 uint32_t align_b, enum gb_tuned_scope scope);

/* <0, 0, >0 */
int gb_tuned_compare(const struct gb_tuned_key *x, const struct gb_tuned_key *y);

const struct gb_tuned_row *gb_tuned_search(const struct gb_tuned_table *table,
                                           const struct gb_tuned_key *key);

/* The shipped tables, for tests. */
extern const struct gb_tuned_table gb_tuned_shipped[];
extern const size_t gb_tuned_shipped_count;

/* Let these rows count, in place of what counted before; NULL: none. The table stays as it
 * is for good. */
void gb_tuned_use(const struct gb_tuned_table *table);

/* The rows that fit a problem, the one to be asked first in front: an exact shape before a
 * class, this machine's before a shipped one. */
struct gb_tuned_hit {
    const struct gb_tuned_row *row;
    enum gb_chosen by;
};
enum { GB_TUNED_HITS = 4 };
int gb_tuned_find(const struct gb_problem *p, const struct gb_device_info *info,
                  uint32_t align_a, uint32_t align_b,
                  struct gb_tuned_hit hits[GB_TUNED_HITS]);

#ifdef __cplusplus
}
#endif
#endif
