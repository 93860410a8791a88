/* SPDX-License-Identifier: BSD-3-Clause */
/* Copy threads: pitched copies between the program's memory and pinned slots, cut into parts
 * so that a single piece keeps every thread busy. Nothing between the rows is read or
 * written. The threads start with the first copy that is handed to them, with the mask of
 * the caller, who holds off signals; they sleep when there is nothing to do. */
#ifndef GB_STAGE_H
#define GB_STAGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GB_STAGE_THREADS = 8 };

/* Who waits for copies. Outlives every copy that names it. */
struct gb_party {
    pthread_cond_t cond;
};

/* One copy. Owned by whoever submits it; stays where it is until it is done. */
struct gb_copy {
    char *dst;
    const char *src; /* NULL: nothing is copied, dst is only faulted in */
    size_t dst_pitch, src_pitch, width, height;
    size_t part_width, part_height; /* what one part covers */
    uint32_t across;                /* parts side by side */
    uint32_t parts, next;           /* in all; the first that nobody has taken */
    atomic_uint left;               /* parts that are not finished; 0: done */
    struct gb_party *party;
    struct gb_copy *link;
};

struct gb_queue {
    struct gb_copy *head, *tail;
};

struct gb_stage {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct gb_queue copies, faults; /* faults only while there are no copies */
    int numa_node;
    int idle;
    bool started, stop;
    int threads; /* running; 0: the machine lets us have none */
    pthread_t thread[GB_STAGE_THREADS];
};

/* numa_node: of the device, -1 unknown. */
void gb_stage_init(struct gb_stage *stage, int numa_node);
/* Nothing may be queued. Waits for the threads to end. */
void gb_stage_drop(struct gb_stage *stage);

void gb_party_init(struct gb_party *party);
void gb_party_drop(struct gb_party *party);

/* `height` rows of `width` bytes, at least one of each. */
void gb_copy_make(struct gb_copy *copy, void *dst, size_t dst_pitch, const void *src,
                  size_t src_pitch, size_t width, size_t height);
/* Fault in what is absent of the pages that hold [at, at + bytes), contents untouched. */
void gb_copy_make_fault(struct gb_copy *copy, void *at, size_t bytes);

/* Copy in the calling thread. */
void gb_copy_now(struct gb_copy *copy);

static inline bool gb_copy_done(struct gb_copy *copy)
{
    return atomic_load_explicit(&copy->left, memory_order_acquire) == 0;
}

/* Hand over to the threads (without any, it is done on return, and a fault is dropped). */
void gb_stage_submit(struct gb_stage *stage, struct gb_copy *copy,
                     struct gb_party *party);
/* Do a part of some queued copy; false when none is queued. */
bool gb_stage_help(struct gb_stage *stage);
/* Sleep until the copy is done, or nanoseconds have passed unless negative. */
void gb_stage_wait(struct gb_stage *stage, struct gb_copy *copy, int64_t nanoseconds);
/* Drop the parts that nobody has taken and wait for the others. */
void gb_stage_cancel(struct gb_stage *stage, struct gb_copy *copy);

/* How many copy threads suit this process: CPUs that it may use, its cgroup's quota, at most
 * GB_STAGE_THREADS. */
int gb_stage_count(void);

/* Pure, for tests: CPUs that "max 100000" or "150000 100000" (cpu.max) allow, rounded up; 0
 * when it says nothing. */
int gb_stage_quota(const char *text);

#endif
