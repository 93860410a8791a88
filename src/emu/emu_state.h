/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the emulated device share: its state, its memory, its queues. Everything
 * here is called with the lock held, but for what says otherwise. */
#ifndef GB_EMU_STATE_H
#define GB_EMU_STATE_H

#include <pthread.h>

#include "device.h"
#include "fiber.h"
#include "log.h"

/* One allocation, device or pinned. */
struct emu_block {
    struct emu_block *next;
    struct emu_device *dev; /* that allocated it */
    char *map; /* an inaccessible page, guard, data, guard, inaccessible page */
    size_t map_bytes;
    char *data;
    size_t bytes;
    bool host;
};

enum emu_kind { EMU_COPY_IN, EMU_COPY_OUT, EMU_LAUNCH, EMU_WAIT, EMU_FREE };

struct emu_op {
    struct emu_op *next;
    enum emu_kind kind;
    bool late; /* the device fails here */
    union {
        struct {
            char *dst;
            const char *src;
            size_t dst_pitch, src_pitch, width, height;
            const struct emu_block *device, *host;
        } copy;
        struct {
            const struct gb_emu_kernel *kernel;
            uint32_t grid, block, cluster, smem, seed;
            size_t args_bytes;
        } launch;
        struct {
            struct gb_stream *stream;
            uint64_t position;
        } wait;
        struct emu_block *freed;
    } u;
    _Alignas(16) unsigned char args[];
};

/* Streams stay on the device's list until it closes, so that events may outlive them.
 * An event is a position in a stream: it is complete when that many operations have
 * run. */
struct gb_stream {
    struct gb_stream *next;
    struct emu_device *dev;
    struct emu_op *head, **tail;
    uint64_t queued, executed;
    uint64_t clock_ns; /* what all that was queued takes on the device's clock */
    bool busy;         /* a thread runs the head */
    bool destroyed;
};

struct emu_device {
    struct gb_device base;
    struct emu_device *next;
    struct gb_stream *streams;
    struct gb_stream *main; /* what a program gets for no stream of its own */
    size_t mem_used;
    uint64_t random;
    bool lost;
};

/* Guards everything. It is given up while a copy or a kernel runs, so that several threads
 * run streams at once. */
extern pthread_mutex_t gb_emu_lock;
extern struct emu_device *gb_emu_devices;

/* Ends the process with one line; the lock need not be held. */
void gb_emu_die(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));
void gb_emu_say(enum gb_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
uint32_t gb_emu_draw(struct emu_device *dev);

/* ---- memory (emu_memory.c) ---- */

struct emu_block *gb_emu_block_create(struct emu_device *dev, size_t bytes, bool host);
void gb_emu_block_destroy(struct emu_block *block);
/* Releases one: dies when what it was is damaged, or something queued uses it. */
void gb_emu_block_free(struct emu_device *dev, struct emu_block *block,
                       const char *operation);
/* All that the device still has; how many there were. */
unsigned gb_emu_blocks_drop(const struct emu_device *dev);
/* The block that holds `bytes` bytes at ptr, or NULL. */
struct emu_block *gb_emu_block_at(const void *ptr, size_t bytes);
bool gb_emu_guard_intact(const struct emu_block *b);
/* Dies when a guard zone is damaged; `culprit` is what ran last. */
void gb_emu_check_guards(const char *culprit, const char *detail);

/* ---- queues (emu_queue.c) ---- */

/* Mostly the device is late; at times it is at once as far as it can be. */
void gb_emu_enqueue(struct gb_stream *s, struct emu_op *op);
/* Runs work until `position` of `s` is reached: only what must run, whatever can, or
 * whatever else can first. */
enum gb_status gb_emu_run_until(struct emu_device *dev, struct gb_stream *s,
                                uint64_t position);
/* Runs one operation that `s` waits for, if there is one that can run. */
void gb_emu_nudge(struct gb_stream *s);
/* Drops what a lost device has not begun. */
void gb_emu_lose(struct emu_device *dev);
/* Waits until no thread runs anything on a lost device, whose queues are empty. */
void gb_emu_settle(struct emu_device *dev);
/* Dies when something queued on any device uses memory that is released. */
void gb_emu_check_unused(const struct emu_block *b, const char *operation);

#endif
