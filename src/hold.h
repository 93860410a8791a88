/* SPDX-License-Identifier: BSD-3-Clause */
/* Holding off what could take the calling thread away from us, or change its state under us:
 * asynchronous signals, cancellation, the program's floating-point modes. Threads started
 * meanwhile inherit the mask. */
#ifndef GB_HOLD_H
#define GB_HOLD_H

#include <signal.h>
#include <stdint.h>

#include "fpstate.h"

struct gb_hold {
    sigset_t mask;
    int cancel;
    int error;
    uint64_t fp;
};

void gb_hold_begin(struct gb_hold *hold);
/* Everything as begin found it, errno and floating-point flags included. */
void gb_hold_end(const struct gb_hold *hold);

#endif
