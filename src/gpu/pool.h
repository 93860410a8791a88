/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory that outlives a call: allocating from the driver costs more than many calls,
 * and freeing may wait for the whole device. */
#ifndef GB_POOL_H
#define GB_POOL_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"

enum { GB_POOL_BLOCKS = 48 };

struct gb_block {
    gb_devptr ptr;
    size_t bytes;  /* 0: none */
    int64_t stamp; /* when it was put back */
};

struct gb_pool {
    struct gb_device *dev;
    size_t limit; /* bytes taken and cached together; 0: what the device has */
    size_t keep;  /* most bytes cached */
    pthread_mutex_t lock;
    size_t used, cached;
    int n;
    struct gb_block blocks[GB_POOL_BLOCKS];
};

void gb_pool_init(struct gb_pool *pool, struct gb_device *dev, size_t limit);
/* No block may be taken any more. */
void gb_pool_drop(struct gb_pool *pool);

/* What a request of `bytes` takes: at most a sixteenth more. */
size_t gb_pool_round(size_t bytes);

/* A block of at least `bytes`, its content undefined. The device must be entered, here and
 * below. GB_E_NOMEM after everything cached has been freed in vain. */
enum gb_status gb_pool_get(struct gb_pool *pool, size_t bytes, struct gb_block *block);
/* The device must be done with the block. It becomes empty; an empty one is ignored. */
void gb_pool_put(struct gb_pool *pool, struct gb_block *block);
/* Free everything cached. */
void gb_pool_trim(struct gb_pool *pool);

struct gb_pool_level {
    size_t used, cached;
};
struct gb_pool_level gb_pool_level(struct gb_pool *pool);

#endif
