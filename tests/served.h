/* SPDX-License-Identifier: BSD-3-Clause */
/* Who has served a call: which BLAS is behind an exported name, and what the trace says. */
#ifndef SERVED_H
#define SERVED_H

#include <stdbool.h>

#include "calls.h"

/* The BLAS behind an exported name: what a call that is forwarded by design is judged
 * by. false: nobody has the name, ours serves. Known once the name has been called. */
bool verify_direct(const struct verify_flavour *f, struct verify_flavour *direct);
/* Is 'R' legal for whoever is behind f? The reference would stop the program. */
bool verify_takes_conj(const struct verify_flavour *f);
/* Say who is behind dgemm_ and how it was found, before the first test. */
void verify_say_provider(void);

/* Route and trace. verify_route() goes before the first BLAS call of the process:
 * unless the environment has a route already it sets the one given, sets the trace to a
 * file of its own, and answers whether calls are meant for a device. */
bool verify_route(const char *route);
bool verify_on_hardware(void); /* GEMMBLAS_DEVICE is neither emu nor none */

struct verify_trace {
    long calls, gpu, cpu;
    char routine[48], why[24], kernel[64]; /* of the last line */
    long long m, n, k;
    long long panels, splits;
    bool on_gpu;
};

/* What has been traced since the last reading. */
struct verify_trace verify_trace_read(void);

/* Make the call, and leave no line of it. */
void verify_gemm_untraced(const struct verify_gemm *g);

#endif
