/* SPDX-License-Identifier: BSD-3-Clause */
/* Making lanes and cutting their pinned memory into slots. */
#include "lane.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "util.h"

static atomic_int pinned_blocks; /* of the process */

static enum gb_status make_buffer(struct gb_device *dev, struct gb_buffer *buffer)
{
    enum gb_status s = dev->ops->event_create(dev, &buffer->ready);

    buffer->chunk = -1;
    buffer->last = -1;
    return s == GB_SUCCESS ? dev->ops->event_create(dev, &buffer->idle) : s;
}

static enum gb_status make_parts(struct gb_device *dev, struct gb_lane *lane)
{
    const struct gb_device_ops *ops = dev->ops;
    struct gb_buffer *const buffers[] = {&lane->a[0], &lane->a[1], &lane->b[0],
                                         &lane->b[1], &lane->c[0], &lane->c[1]};
    enum gb_status s = ops->stream_create(dev, &lane->up);

    if (s == GB_SUCCESS)
        s = ops->stream_create(dev, &lane->compute);
    if (s == GB_SUCCESS)
        s = ops->stream_create(dev, &lane->down);
    for (size_t i = 0; i < GB_COUNT(buffers) && s == GB_SUCCESS; i++)
        s = make_buffer(dev, buffers[i]);
    for (size_t i = 0; i < GB_COUNT(lane->computed) && s == GB_SUCCESS; i++)
        s = ops->event_create(dev, &lane->computed[i]);
    for (int i = 0; i < GB_RING && s == GB_SUCCESS; i++)
        s = ops->event_create(dev, &lane->ups[i].sent);
    for (int i = 0; i < GB_RING && s == GB_SUCCESS; i++)
        s = ops->event_create(dev, &lane->downs[i].arrived);
    return s;
}

enum gb_status gb_lane_make(struct gb_device *dev, struct gb_lane **lane)
{
    struct gb_lane *l = calloc(1, sizeof *l);
    enum gb_status s;

    if (!l)
        return GB_E_NOMEM;
    gb_party_init(&l->party);
    s = make_parts(dev, l);
    if (s != GB_SUCCESS) {
        gb_lane_drop(dev, l);
        return s;
    }
    *lane = l;
    return GB_SUCCESS;
}

static void drop_event(struct gb_device *dev, struct gb_event *e)
{
    if (e)
        dev->ops->event_destroy(dev, e);
}

static void drop_stream(struct gb_device *dev, struct gb_stream *s)
{
    if (s)
        dev->ops->stream_destroy(dev, s);
}

void gb_lane_drop(struct gb_device *dev, struct gb_lane *lane)
{
    for (int i = 0; i < lane->n_blocks; i++)
        dev->ops->host_free(dev, lane->blocks[i]);
    atomic_fetch_sub(&pinned_blocks, lane->n_blocks);
    for (int i = 0; i < GB_RING; i++) {
        drop_event(dev, lane->ups[i].sent);
        drop_event(dev, lane->downs[i].arrived);
    }
    for (int i = 0; i < 2; i++) {
        drop_event(dev, lane->computed[i]);
        drop_event(dev, lane->a[i].ready);
        drop_event(dev, lane->a[i].idle);
        drop_event(dev, lane->b[i].ready);
        drop_event(dev, lane->b[i].idle);
        drop_event(dev, lane->c[i].ready);
        drop_event(dev, lane->c[i].idle);
    }
    drop_stream(dev, lane->up);
    drop_stream(dev, lane->compute);
    drop_stream(dev, lane->down);
    gb_party_drop(&lane->party);
    free(lane);
}

/* Two blocks are a lane's right; beyond them it leaves two for each lane that may yet come. */
static bool claim_block(const struct gb_lane *lane, int lanes)
{
    int spare = lane->n_blocks < 2 ? INT32_MIN / 2 : 2 * (GB_LANES - lanes);

    if (atomic_fetch_add(&pinned_blocks, 1) + 1 + spare <= GB_PINNED_BLOCKS)
        return true;
    atomic_fetch_sub(&pinned_blocks, 1);
    return false;
}

enum gb_status gb_lane_slots(struct gb_device *dev, struct gb_lane *lane,
                             size_t slot_bytes, int64_t want_up, int64_t want_down,
                             int lanes)
{
    int64_t per = (int64_t)(GB_BLOCK_BYTES / slot_bytes);
    int64_t want, have;

    want_up = gb_min(gb_max(want_up, 1), GB_RING);
    want_down = gb_min(gb_max(want_down, 1), GB_RING);
    want = want_up + want_down;
    while (lane->n_blocks * per < want && lane->n_blocks < GB_LANE_BLOCKS &&
           claim_block(lane, lanes)) {
        void **block = &lane->blocks[lane->n_blocks];
        enum gb_status s = dev->ops->host_alloc(dev, GB_BLOCK_BYTES, block);

        if (s != GB_SUCCESS) {
            atomic_fetch_sub(&pinned_blocks, 1);
            if (s != GB_E_NOMEM || lane->n_blocks * per < 2)
                return s;
            break; /* fewer slots do as well */
        }
        lane->n_blocks++;
    }
    have = lane->n_blocks * per;
    if (want_up + want_down > have) {
        want_down = gb_min(want_down, gb_max(have / 2, have - want_up));
        want_up = gb_min(want_up, have - want_down);
    }
    lane->slot_bytes = slot_bytes;
    lane->n_up = (int)want_up;
    lane->n_down = (int)want_down;
    return GB_SUCCESS;
}

static void *slot(const struct gb_lane *lane, int i)
{
    int per = (int)(GB_BLOCK_BYTES / lane->slot_bytes);

    return (char *)lane->blocks[i / per] + (size_t)(i % per) * lane->slot_bytes;
}

void *gb_lane_slot_up(const struct gb_lane *lane, int i)
{
    return slot(lane, i);
}

void *gb_lane_slot_down(const struct gb_lane *lane, int i)
{
    return slot(lane, lane->n_up + i);
}
