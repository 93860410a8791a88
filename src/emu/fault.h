/* SPDX-License-Identifier: BSD-3-Clause */
/* GEMMBLAS_FAULT: the n-th call of an operation in this process fails. A list of
 *   operation@n[+][=how]
 * separated by commas, such as launch@3,copy_out@2+,mem_alloc@1=device,copy_in@4=late.
 * `+` means every call from the n-th on. How: `nomem`, `unsupported`, `absent` or
 * `device` is what the call answers; `late` lets a copy or launch succeed, and the
 * device fail when it would have run. Default: nomem for mem_alloc, alloc_queued and host_alloc,
 * device for the others. After `device` or `late` the device is lost. */
#ifndef GB_FAULT_H
#define GB_FAULT_H

#include <stdbool.h>

#include "gb.h"

/* Operations that answer a status, named as in the table of operations: those that products
 * need, and those that time them. */
#define GB_FAULT_OPS(OP)                                                               \
    OP(open)                                                                           \
    OP(enter)                                                                          \
    OP(mem_info)                                                                       \
    OP(mem_alloc)                                                                      \
    OP(host_alloc)                                                                     \
    OP(stream_create)                                                                  \
    OP(stream_sync)                                                                    \
    OP(stream_borrow)                                                                  \
    OP(alloc_queued)                                                                   \
    OP(event_create)                                                                   \
    OP(event_record)                                                                   \
    OP(event_wait)                                                                     \
    OP(event_sync)                                                                     \
    OP(event_query)                                                                    \
    OP(copy_in)                                                                        \
    OP(copy_out)                                                                       \
    OP(module_load)                                                                    \
    OP(module_get)                                                                     \
    OP(launch)
#define GB_FAULT_TIMER_OPS(OP)                                                         \
    OP(timer_create)                                                                   \
    OP(timer_elapsed)

enum gb_fault_op {
#define OP(name) GB_FAULT_##name,
    GB_FAULT_OPS(OP) GB_FAULT_TIMER_OPS(OP)
#undef OP
        GB_FAULT_COUNT
};

extern const char *const gb_fault_op_name[GB_FAULT_COUNT];

/* Replaces the faults and counts from 1 again; false when part of the text was not
 * understood (that part is ignored). */
bool gb_fault_set(const char *text);

/* Counts one call of op. What it must answer; GB_SUCCESS: carry on, but with *late fail
 * when the work would run. The caller serialises. */
enum gb_status gb_fault_next(enum gb_fault_op op, bool *late);

#endif
