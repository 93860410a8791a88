/* SPDX-License-Identifier: BSD-3-Clause */
/* The only way from an entry to a device. */
#ifndef GB_DISPATCH_H
#define GB_DISPATCH_H

#include <stdint.h>

#include "gb.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A call whose m*n*k is below this goes straight to the real BLAS. 0 until initialised and
 * whenever statistics, traces or ROUTE=gpu must see every call; UINT64_MAX once it is known
 * that no device will ever serve. Written with release, read relaxed. */
extern uint64_t gb_fast;

/* `why` is GB_OK when the entry found the arguments legal, else GB_WHY_BADARG (then p is only
 * for the trace). GB_OK: C is final. Otherwise C is untouched and the entry forwards the
 * caller's own arguments; nothing of ours is held while it does. `routine` is the base name
 * with type letter: "dgemm", "sbgemm". */
enum gb_why gb_dispatch(const struct gb_problem *p, const char *routine,
                        const struct gb_call *call, enum gb_why why);

struct gb_engine;

/* The open device; with `wait` opened now, if none is. NULL when there is none for this
 * process. */
struct gb_engine *gb_dispatch_engine(bool wait);

#ifdef __cplusplus
}
#endif
#endif
