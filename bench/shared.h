/* SPDX-License-Identifier: BSD-3-Clause */
/* What the modes share about ours: the device that it uses, and what its trace says. */
#ifndef GB_SHARED_H
#define GB_SHARED_H

#include "bench.h"
#include "device.h"

/* The first device that --device allows. False: there is none. */
bool bench_first_device(const struct bench_options *o, struct gb_device_ref *ref);
/* As rows name it. */
const char *bench_row_name(const struct gb_device *dev);
/* Name and driver of the first device. False: there is none that opens. */
bool bench_device_name(const struct bench_options *o, char *name, size_t size,
                       int *driver);

/* What our library did, from its trace. */
struct bench_trace {
    char path[64];
    int fd; /* -1: the user has asked for a trace of his own */
};

struct bench_ran {
    char kernel[64]; /* "-" unknown */
    int splits;
    char remark[64]; /* for the note */
};

/* Makes an empty file, to be named in GEMMBLAS_TRACE where ours runs. */
void bench_trace_open(struct bench_trace *t);
void bench_trace_unlink(const struct bench_trace *t);
void bench_trace_clear(const struct bench_trace *t);
/* The first call since the file was made or emptied. */
void bench_trace_read(const struct bench_trace *t, struct bench_ran *ran);

#endif
