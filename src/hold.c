/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals that a thread raises by its own fault stay: they must not be lost. */
#include "hold.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>

void gb_hold_begin(struct gb_hold *hold)
{
    static const int own_fault[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                    SIGTRAP, SIGABRT, SIGSYS};
    sigset_t block;

    hold->error = errno;
    hold->fp = gb_fp_enter();
    sigfillset(&block);
    for (size_t i = 0; i < sizeof own_fault / sizeof own_fault[0]; i++)
        sigdelset(&block, own_fault[i]);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &hold->cancel);
    pthread_sigmask(SIG_BLOCK, &block, &hold->mask);
}

void gb_hold_end(const struct gb_hold *hold)
{
    pthread_sigmask(SIG_SETMASK, &hold->mask, NULL);
    pthread_setcancelstate(hold->cancel, NULL);
    gb_fp_leave(hold->fp);
    errno = hold->error;
}
