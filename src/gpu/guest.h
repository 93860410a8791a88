/* SPDX-License-Identifier: BSD-3-Clause */
/* Letting the program's signals through between panels, while nothing of ours is in flight. */
#ifndef GB_GUEST_H
#define GB_GUEST_H

#include <stdbool.h>

#include "driver.h"

/* Is a signal pending that the caller would take if we did not hold it off? */
bool gb_hold_wanted(const struct gb_hold *hold);

/* Give mask and cancellation back to the caller, so that its handlers run, and take them
 * again. A handler may leave for good: call this only while holding nothing, neither a lock
 * nor a lane nor memory that the caller does not own. */
void gb_hold_pause(struct gb_hold *hold);

#endif
