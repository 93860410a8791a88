/* SPDX-License-Identifier: BSD-3-Clause */
/* A product of matrices in device memory, queued in the program's stream: what has to be copied
 * first, the kernel, the reduction, and the way back of a C that the kernel cannot write.
 * Nothing waits; all memory is taken and released in the order of the stream, so that calls in
 * several streams and threads know nothing of each other. */
#ifndef GB_ONSTREAM_H
#define GB_ONSTREAM_H

#include "engine.h"
#include "gemm_args.h"
#include "repair_args.h"

enum { GB_ON_A, GB_ON_B, GB_ON_C, GB_ON_OPERANDS };

/* One operand on its way to the kernel. */
struct gb_on_operand {
    const void *const
        *list;   /* addresses that the host has: they become a list; or NULL */
    size_t size; /* of an element */
    /* Copied to columns of the kernel's own: the kernel's arguments then say how those lie,
     * but not where. `copy` has the program's side, rows and columns. */
    bool packed;
    int64_t ld; /* of the columns */
    struct gb_pack_args copy;
};

struct gb_onstream {
    const struct gb_kernel *kernel;
    char a, b;       /* layouts */
    unsigned repair; /* enum gb_repaired */
    struct gb_gemm_args g;
    struct gb_offsets offsets; /* of integers */
    struct gb_on_operand operand[GB_ON_OPERANDS];
    void *stream; /* as the driver names it */
};

/* GB_E_NOMEM: nothing has been queued. GB_E_UNSUPPORTED: C is untouched. */
enum gb_status gb_onstream_run(struct gb_engine *engine, const struct gb_onstream *o);

#endif
