/* SPDX-License-Identifier: BSD-3-Clause */
/* A product on operands that are on the device, run as any choice would run it, and its time by
 * the device's clock. Operands are random and normal; sets of them rotate that together exceed
 * the L2 cache, so that nothing is warm by accident. A status that is no success is logged
 * where it came about. */
#ifndef GB_TRIAL_H
#define GB_TRIAL_H

#include "device.h"
#include "gb.h"
#include "plan.h"

/* The device, and what all shapes share. */
struct trial_bench {
    struct gb_device *dev;
    const struct gb_device_ops *ops;
    struct gb_guest guest;
    struct gb_stream *stream;
    struct gb_event *start, *stop;
    void *pinned; /* random elements of one type; results on their way to the host */
    enum gb_type filled; /* GB_TYPES: none */
    uint64_t random;
    uint32_t without; /* what no choice may have: see gb_plan_without() */
    const char *family[GB_FAMILIES];
    struct gb_module *module[GB_FAMILIES];
};

/* Opens the device and enters it. */
enum gb_status trial_open(struct trial_bench *b, const struct gb_device_ref *ref);
void trial_close(struct trial_bench *b);

/* One shape. */
struct trial {
    struct trial_bench *bench;
    struct gb_problem p; /* without operands; with leading dimensions */
    uint32_t align_a, align_b;
    int sets, at; /* of operands; the one that is next */
    size_t bytes_a, bytes_b, bytes_c;
    gb_devptr a, b, c;         /* `sets` each, in steps of whole 256 bytes */
    gb_devptr partial, copies; /* workspaces, as large as any choice has wanted */
    size_t partial_bytes, copies_bytes;
};

/* Bytes of device memory that one set of operands takes; SIZE_MAX: too many to count. */
size_t trial_bytes(const struct gb_problem *p);

/* Makes and fills the operands. On failure there is nothing to release. */
enum gb_status trial_begin(struct trial *x, struct trial_bench *b,
                           const struct gb_problem *p);
void trial_end(struct trial *x);

/* How many launches take about block_us, of the device or of the host. Warms up. */
enum gb_status trial_calibrate(struct trial *x, const struct gb_choice *c,
                               double block_us, int *launches);

/* Microseconds of one product, over as many launches. */
enum gb_status trial_time(struct trial *x, const struct gb_choice *c, int launches,
                          double *us);

/* Do the two give the same C from the same operands: bit for bit where both sum in the same
 * order, else within what rounding explains? */
enum gb_status trial_same(struct trial *x, const struct gb_choice *c,
                          const struct gb_choice *d, bool *same);

#endif
