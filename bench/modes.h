/* SPDX-License-Identifier: BSD-3-Clause */
/* Where operands live decides how a measurement goes: one file per mode. Each answers
 * how many results of ours were wrong or missing. */
#ifndef GB_MODES_H
#define GB_MODES_H

#include "bench.h"

enum { BENCH_PEERS = 6 };

/* The comma-separated peers, copied into `text`; returns their number. */
int bench_peer_list(const struct bench_options *o, char *text, size_t size,
                    const char *spec[BENCH_PEERS]);

/* on_device.c: our kernels through the ops table, cuBLAS on the same operands */
int bench_on_device(const struct bench_options *o, const struct bench_shape *shapes,
                    size_t count);
/* on_host.c: the exported routines against other libraries in this process */
int bench_on_host(const struct bench_options *o, const struct bench_shape *shapes,
                  size_t count);
/* on_preload.c: a client program under our library and under NVBLAS, by turns */
int bench_on_preload(const struct bench_options *o, const struct bench_shape *shapes,
                     size_t count);

/* calltrace.c: what our library did, from its trace */
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

/* Name and driver of the first device that --device allows. False: there is none. */
bool bench_device_name(const struct bench_options *o, char *name, size_t size,
                       int *driver);

#endif
