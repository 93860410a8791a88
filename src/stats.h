/* SPDX-License-Identifier: BSD-3-Clause */
/* What the calls of this process did: a table at exit (GEMMBLAS_STATS; with the shapes of the
 * calls, as JSON, where it names a file that ends in .json) and a line per call
 * (GEMMBLAS_TRACE). Costs nothing when neither is asked for. */
#ifndef GB_STATS_H
#define GB_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "gb.h"

struct gb_record {
    const char *kernel; /* NULL on the CPU */
    int splits;
    const char *chosen; /* who chose it: "model", "shipped" or "tuned" */
    int64_t panels;
    uint64_t bytes_up, bytes_down;
    uint64_t nanoseconds; /* of the device's part; 0 when the call was forwarded */
};

/* Opens the targets that the knobs name and registers the exit handler; once. */
void gb_stats_init(void);
bool gb_stats_wanted(void); /* a trace or statistics must see every call */

/* One call as it went. `p` may hold illegal values when why is GB_WHY_BADARG. */
void gb_stats_record(const struct gb_problem *p, const char *routine,
                     const struct gb_call *call, enum gb_why why,
                     const struct gb_record *record);

/* Pure, for tests: the trace line, newline included; returns its length. */
int gb_trace_line(char *buf, unsigned long len, const struct gb_problem *p,
                  const char *routine, const struct gb_call *call, enum gb_why why,
                  const struct gb_record *record);

#endif
