/* SPDX-License-Identifier: BSD-3-Clause */
/* Execution of a plan on one device: panels of host matrices through pinned slots, C
 * committed piece by piece in the plan's order (geometry.h).
 *
 * The order of commits is a pure function of the plan, so `done` (pieces committed so far) is
 * the whole recovery state: a piece of C is final when its index is below done, and exactly
 * as the caller left it otherwise. */
#ifndef GB_EXEC_H
#define GB_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "gb.h"
#include "geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What one execution did, for statistics and traces. */
struct gb_exec_stats {
    uint64_t bytes_up, bytes_down;
    uint64_t launches;
    int64_t done; /* pieces committed */
};

struct gb_engine; /* one open device with its lanes, slots, modules and copy threads */

/* Open a device and what belongs to it. Slow (a GPU context); any thread. */
enum gb_status gb_engine_open(struct gb_device_ref ref, struct gb_engine **engine);
/* Only for tests and commands: a process that exits leaks it (see design, principle 3). */
void gb_engine_close(struct gb_engine *engine);

struct gb_device *gb_engine_device(struct gb_engine *engine);
bool gb_engine_lost(struct gb_engine *engine);

/* Open the device of a lost engine anew: the program may have destroyed the context that we
 * shared with it. Works once per engine, after the calls in flight have left it; meanwhile the
 * caller's signals are let through, so nothing may be held. What hung on the old context is
 * dropped; struct gb_device stays valid until the engine is closed.
 *   GB_SUCCESS   the engine can be used (another thread may have reopened it).
 *   GB_E_ABSENT  this process is a child of the engine's.
 *   others       the engine stays lost. */
enum gb_status gb_engine_reopen(struct gb_engine *engine);

/* Device memory that a plan may use now: what is free (and pooled) less a reserve, capped by
 * GEMMBLAS_MEM_LIMIT. 0 when the device fails meanwhile: then gb_engine_lost() says so. */
size_t gb_engine_budget(struct gb_engine *engine);

/* Run a plan. Blocks until C is final. Asynchronous signals and cancellation are held off
 * while slots are in flight and let through between panels; a handler that never returns
 * leaves nothing of ours pointing at the caller's memory.
 *   GB_OK              C is final.
 *   GB_WHY_OOM         nothing was touched; the caller may plan smaller panels.
 *   GB_WHY_UNSUPPORTED nothing was touched: the device has no such kernel.
 *   GB_WHY_FORKED      nothing was touched: this is a child of the engine's process, made before
 *                      the call or by a signal handler during it.
 *   GB_WHY_LOST        the device failed; stats->done pieces are final, the others untouched.
 *   GB_WHY_PART        stats->done > 0 pieces are final, the others untouched; the device is not
 *                      at fault (memory ran short, or this is a child that a handler made). */
enum gb_why gb_exec(struct gb_engine *engine, const struct gb_plan *plan,
                    struct gb_exec_stats *stats);

/* The same for what an earlier execution of the same plan left: `stats` as that one filled it
 * in, which goes on counting. Pieces below stats->done are not written; the panel that they end
 * in is computed whole, but only its other pieces are committed, so that beta is applied once.
 * GB_WHY_OOM, GB_WHY_UNSUPPORTED and GB_WHY_FORKED come only with stats->done == 0. */
enum gb_why gb_exec_from(struct gb_engine *engine, const struct gb_plan *plan,
                         struct gb_exec_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
