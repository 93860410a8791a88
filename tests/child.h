/* SPDX-License-Identifier: BSD-3-Clause */
/* Running this test program again in a mode of its own: knobs are read once per
 * process, and some questions are about how a process starts, forks and ends. */
#ifndef CHILD_H
#define CHILD_H

#include <stdbool.h>
#include <stddef.h>

struct child {
    bool timed_out;
    int status; /* of exit; 128 + signal when one ended it; -1 when it timed out */
    double seconds;
    char out[8192]; /* what it wrote, cut to fit, always terminated */
    char err[8192];
};

/* Run `/proc/self/exe mode` with changes to the environment: "NAME=value" sets, "NAME"
 * unsets; the list ends with NULL and may itself be NULL. Limits grow by themselves in a
 * sanitized build. */
void child_run(struct child *c, const char *mode, const char *const *changes,
               double limit_seconds);

/* Ended by itself with status 0; if not, its output goes to diag(). */
bool child_passed(const struct child *c);

/* Seconds of a clock that never goes back. */
double child_clock(void);

/* Wait for a forked child at most that long, then kill it: its status as above. */
int child_wait(int pid, double limit_seconds);

#endif
