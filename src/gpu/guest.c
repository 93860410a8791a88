/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals between panels. */
#include "guest.h"

bool gb_hold_wanted(const struct gb_hold *hold)
{
    sigset_t pending;

    if (sigpending(&pending) != 0)
        return false;
    for (int s = 1; s <= SIGRTMAX; s++) {
        if (sigismember(&pending, s) == 1 && sigismember(&hold->mask, s) == 0)
            return true;
    }
    return false;
}

void gb_hold_pause(struct gb_hold *hold)
{
    gb_hold_end(hold);
    gb_hold_begin(hold);
}
