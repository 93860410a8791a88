/* SPDX-License-Identifier: BSD-3-Clause */
/* A lane: what one call at a time holds of an engine. Three streams, two rings of pinned
 * slots (up and down), and the device buffers of the call. Lanes are made as callers come,
 * and kept. */
#ifndef GB_LANE_H
#define GB_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "pool.h"
#include "stage.h"

/* Pinned memory comes in blocks, which are cut into the slots of a call. A slot is at most a
 * block. The process as a whole never holds more than GB_PINNED_BLOCKS, but that every lane
 * may have two. */
#define GB_BLOCK_BYTES ((size_t)4 << 20)

enum {
    GB_PINNED_BLOCKS = 64,
    GB_LANES = 8,
    GB_LANE_BLOCKS = 16,
    GB_RING = 16 /* slots in one direction */
};

/* A piece on its way to the device: filled by a copy unless the device reads the program's
 * memory itself, then sent. */
struct gb_up {
    struct gb_copy fill;
    const void *src; /* what the device reads */
    size_t src_pitch;
    gb_devptr dst;
    size_t dst_pitch, width, height;
    int64_t step;            /* that needs it */
    struct gb_event *before; /* the device may write after this event; NULL: at once */
    struct gb_event
        *after; /* recorded when this piece, the last of its operand, is sent */
    struct gb_event *sent; /* the slot's own */
};

/* A piece on its way to the program. */
struct gb_down {
    struct gb_copy commit;
    struct gb_event *arrived; /* the slot's own */
    bool last;                /* of its panel */
};

/* A device buffer: a chunk of an operand, a panel of C, or the accumulators. */
struct gb_buffer {
    struct gb_block block;
    struct gb_event *ready; /* its content has arrived */
    struct gb_event *idle;  /* what used the content is done with it */
    int64_t chunk;          /* what it holds; -1 nothing */
    int64_t last;           /* the last step that needs it */
    int64_t ld;             /* elements */
};

struct gb_lane {
    struct gb_lane *link;
    struct gb_stream *up, *compute, *down;
    struct gb_buffer a[2], b[2], c[2], partial;
    struct gb_block vectors; /* of what is fused */
    struct gb_block copies;  /* of operands that the row does not read as they are */
    struct gb_event *computed[2]; /* c[i] holds results */
    void *blocks[GB_LANE_BLOCKS];
    int n_blocks;
    struct gb_party party;
    struct gb_copy fault; /* faulting in C */
    struct gb_up ups[GB_RING];
    struct gb_down downs[GB_RING];
    /* The slots of the call in hand. */
    size_t slot_bytes;
    int n_up, n_down;
};

enum gb_status gb_lane_make(struct gb_device *dev, struct gb_lane **lane);
/* Its work must be done, or the device lost. */
void gb_lane_drop(struct gb_device *dev, struct gb_lane *lane);

/* Cut the lane's memory into slots of slot_bytes (at most GB_BLOCK_BYTES), as many as are
 * wanted in either direction if memory allows, at least one. `lanes` is how many lanes the
 * engine has. */
enum gb_status gb_lane_slots(struct gb_device *dev, struct gb_lane *lane,
                             size_t slot_bytes, int64_t want_up, int64_t want_down,
                             int lanes);

void *gb_lane_slot_up(const struct gb_lane *lane, int i);
void *gb_lane_slot_down(const struct gb_lane *lane, int i);

#endif
