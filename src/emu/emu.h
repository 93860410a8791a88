/* SPDX-License-Identifier: BSD-3-Clause */
/* The emulated device: a GPU in host memory that is as unkind as a GPU may be, so that
 * a program that is wrong on hardware is wrong here, every time.
 *
 * - Streams only queue. Work runs when a thread waits for it (or, now and then, asks
 *   whether it is done), in an order drawn from the seed: at times only what must run, at
 *   times everything else first. A missing event_wait, a slot used again too early, or a
 *   result read too early gives wrong numbers.
 * - Memory, pinned too, starts as NaN (all bytes 0xff), stands between guard zones that
 *   are NaN as well, and is aligned to 256 bytes but not to 512. Guards are checked after
 *   every kernel, at every wait and at every release.
 * - Misuse ends the process with one line on stderr that names the operation: a damaged
 *   guard, a copy outside an allocation or from memory that is not pinned, memory freed
 *   under a queued copy, an operation in a thread that has not entered the device, a
 *   kernel that goes wrong. For want of host memory it does not end: memory is refused,
 *   and a launch that cannot run loses the device.
 * - Operations fail on demand: see fault.h.
 * - Its clock tells planted times, not those of the host: see cost.h. */
#ifndef GB_EMU_H
#define GB_EMU_H

#include "device.h"

/* Called again (tests do), it sets a new configuration and counts operations from 1. */
__attribute__((visibility("default"))) const struct gb_device_ops *
gb_emu_ops(const struct gb_emu_config *config);

#endif
