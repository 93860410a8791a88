/* SPDX-License-Identifier: BSD-3-Clause */
/* Running a GPU kernel's own source on the host: one fiber per thread of a block, or of a cluster
 * of blocks; barriers and matrix operations of warps and warpgroups are rendezvous points. */
#ifndef GB_FIBER_H
#define GB_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gb_emu_kernel {
    const char *symbol; /* as in the device image */
    const char *family; /* image stem, as in kernels.def */
    void (*body)(
        const void *args); /* one thread of one block; seam.h gives its indices */
};

/* NULL when the emulated device has no such kernel. */
const struct gb_emu_kernel *gb_emu_kernel_find(const char *family, const char *symbol);

enum {
    GB_FIBER_WRONG = -1, /* a mistake of the kernel */
    GB_FIBER_NOMEM = -2  /* no memory for the fibers */
};

/* Run `grid` blocks of `block` threads, in clusters of `cluster` (1 to 8, a divisor of grid), whose
 * blocks run side by side. Blocks (clusters) and, between barriers, threads run in an order
 * drawn from `seed`; shared memory starts as NaN. Returns 0, or one of the above with a
 * message in `error`; mistakes are a divergent barrier, a write outside the dynamic shared
 * memory and the like. Thread-safe. */
int gb_fiber_run(const struct gb_emu_kernel *k, uint32_t grid, uint32_t block,
                 uint32_t cluster, uint32_t smem_bytes, const void *args,
                 size_t args_bytes, uint32_t seed, char *error, size_t error_bytes);

/* What the host back end of seam.h asks, legal only inside gb_fiber_run: indices, the barrier
 * (its line tells barriers apart: all threads must meet at the same one), the block's one
 * static object and its dynamic shared memory. */
uint32_t gb_fiber_thread(void);
uint32_t gb_fiber_block(void);
uint32_t gb_fiber_grid(void);
void gb_fiber_sync(int line);
void *gb_fiber_shared(size_t bytes);
void *gb_fiber_shared_dynamic(void);
/* The rendezvous of a warp: all of its 32 threads must come to the same line. When they have,
 * `all` (or NULL: a barrier) is called once with what each gave, and may write to it. */
void gb_fiber_warp(int line, void *mine, void (*all)(void *const *lanes));
/* The rendezvous of the block's `threads` threads that come to barrier `id` (below
 * GB_FIBER_BARRIERS), with `mine` and `all` as above: lanes are in the order of their threads. */
enum { GB_FIBER_BARRIERS = 32 };
void gb_fiber_group(int line, uint32_t id, uint32_t threads, void *mine,
                    void (*all)(void *const *lanes));
/* Of all threads of the cluster. */
void gb_fiber_cluster(int line);
/* Until ready(what), which others bring about. */
void gb_fiber_await(int line, bool (*ready)(void *what), void *what);
/* Ends the run: the kernel made a mistake. `why` is a literal. */
void gb_fiber_refuse(const char *why);
/* This block's place in its cluster, how many that has, and the dynamic shared memory of any of it; of one that has
 * ended it is a mistake to ask. */
uint32_t gb_fiber_rank(void);
uint32_t gb_fiber_cluster_size(void);
void *gb_fiber_shared_of(uint32_t rank);
/* run(what) some time later, at the latest when nothing else goes on: `bytes` (at most
 * GB_FIBER_LATER) of what are copied. It may ask for gb_fiber_shared_of() alone. */
enum { GB_FIBER_LATER = 64 };
void gb_fiber_later(void (*run)(const void *what), const void *what, size_t bytes);
/* Memory of this thread alone, zero when the kernel begins. */
enum { GB_FIBER_LOCAL = 4096 };
void *gb_fiber_local(void);
/* An asynchronous copy of `valid` bytes, zeros up to `bytes` (4, 8 or 16): the destination is
 * NaN until this thread's next wait, which reads the source and then writes it. A copy that
 * no wait follows never happens. */
void gb_fiber_copy(void *to, const void *from, uint32_t bytes, uint32_t valid);
void gb_fiber_copy_wait(void);
/* What was asked for since the last commit is a group; the other waits for all groups but the
 * latest `pending`, and for nothing that is in no group. */
void gb_fiber_copy_commit(void);
void gb_fiber_copy_wait_groups(uint32_t pending);

#ifdef __cplusplus
}
#endif
#endif
