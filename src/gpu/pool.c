/* SPDX-License-Identifier: BSD-3-Clause */
/* Best fit over a short table; what was not used for a while is freed by the next call. The
 * lock is never held across a driver call. */
#include "pool.h"

#include <time.h>

enum { IDLE_SECONDS = 10, LEAST_BLOCK = 512 };

/* Blocks that left the table under the lock and are freed after it. */
struct victims {
    int n;
    gb_devptr ptr[GB_POOL_BLOCKS];
};

static int64_t seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return t.tv_sec;
}

size_t gb_pool_round(size_t bytes)
{
    size_t grain = LEAST_BLOCK;

    while (grain <= bytes / 32)
        grain *= 2;
    return bytes > SIZE_MAX - grain ? bytes : (bytes + grain - 1) / grain * grain;
}

void gb_pool_init(struct gb_pool *pool, struct gb_device *dev, size_t limit)
{
    *pool =
        (struct gb_pool){.dev = dev, .limit = limit, .keep = dev->info.mem_total / 4};
    pthread_mutex_init(&pool->lock, NULL);
}

static struct gb_block take_out(struct gb_pool *pool, int i)
{
    struct gb_block block = pool->blocks[i];

    pool->cached -= block.bytes;
    pool->blocks[i] = pool->blocks[--pool->n];
    return block;
}

static void evict(struct gb_pool *pool, int i, struct victims *out)
{
    out->ptr[out->n++] = take_out(pool, i).ptr;
}

static int oldest(const struct gb_pool *pool)
{
    int at = 0;

    for (int i = 1; i < pool->n; i++) {
        if (pool->blocks[i].stamp < pool->blocks[at].stamp)
            at = i;
    }
    return at;
}

static void evict_idle(struct gb_pool *pool, int64_t now, struct victims *out)
{
    for (int i = pool->n - 1; i >= 0; i--) {
        if (now - pool->blocks[i].stamp > IDLE_SECONDS)
            evict(pool, i, out);
    }
}

static void free_victims(struct gb_pool *pool, const struct victims *out)
{
    for (int i = 0; i < out->n; i++)
        pool->dev->ops->mem_free(pool->dev, out->ptr[i]);
}

/* The smallest block that holds `bytes` and wastes less than half of itself. */
static int best_fit(const struct gb_pool *pool, size_t bytes)
{
    int best = -1;

    for (int i = 0; i < pool->n; i++) {
        size_t b = pool->blocks[i].bytes;

        if (b >= bytes && b / 2 <= bytes && (best < 0 || b < pool->blocks[best].bytes))
            best = i;
    }
    return best;
}

enum gb_status gb_pool_get(struct gb_pool *pool, size_t bytes, struct gb_block *block)
{
    struct gb_device *dev = pool->dev;
    struct victims out = {.n = 0};
    enum gb_status s = GB_SUCCESS;
    gb_devptr ptr;
    int fit;

    bytes = gb_pool_round(bytes);
    pthread_mutex_lock(&pool->lock);
    fit = best_fit(pool, bytes);
    if (fit >= 0) {
        *block = take_out(pool, fit);
        pool->used += block->bytes;
    }
    evict_idle(pool, seconds(), &out);
    if (fit < 0) {
        while (pool->limit && pool->n &&
               pool->used + pool->cached + bytes > pool->limit)
            evict(pool, oldest(pool), &out);
        if (pool->limit && (bytes > pool->limit || pool->used > pool->limit - bytes))
            s = GB_E_NOMEM;
        else
            pool->used += bytes; /* reserved while the driver is asked */
    }
    pthread_mutex_unlock(&pool->lock);
    free_victims(pool, &out);
    if (fit >= 0 || s != GB_SUCCESS)
        return s;

    s = dev->ops->mem_alloc(dev, bytes, &ptr);
    if (s == GB_E_NOMEM) {
        gb_pool_trim(pool);
        s = dev->ops->mem_alloc(dev, bytes, &ptr);
    }
    if (s != GB_SUCCESS) {
        pthread_mutex_lock(&pool->lock);
        pool->used -= bytes;
        pthread_mutex_unlock(&pool->lock);
        return s;
    }
    *block = (struct gb_block){.ptr = ptr, .bytes = bytes};
    return GB_SUCCESS;
}

void gb_pool_put(struct gb_pool *pool, struct gb_block *block)
{
    struct victims out = {.n = 0};
    struct gb_block back = *block;

    if (!back.bytes)
        return;
    *block = (struct gb_block){.bytes = 0};
    back.stamp = seconds();
    pthread_mutex_lock(&pool->lock);
    pool->used -= back.bytes;
    evict_idle(pool, back.stamp, &out);
    while (pool->n &&
           (pool->n == GB_POOL_BLOCKS - 1 || pool->cached + back.bytes > pool->keep))
        evict(pool, oldest(pool), &out);
    if (back.bytes <= pool->keep) {
        pool->blocks[pool->n++] = back;
        pool->cached += back.bytes;
    } else {
        out.ptr[out.n++] = back.ptr;
    }
    pthread_mutex_unlock(&pool->lock);
    free_victims(pool, &out);
}

void gb_pool_trim(struct gb_pool *pool)
{
    struct victims out = {.n = 0};

    pthread_mutex_lock(&pool->lock);
    while (pool->n)
        evict(pool, pool->n - 1, &out);
    pthread_mutex_unlock(&pool->lock);
    free_victims(pool, &out);
}

void gb_pool_drop(struct gb_pool *pool)
{
    gb_pool_trim(pool);
    pthread_mutex_destroy(&pool->lock);
}

struct gb_pool_level gb_pool_level(struct gb_pool *pool)
{
    struct gb_pool_level level;

    pthread_mutex_lock(&pool->lock);
    level = (struct gb_pool_level){.used = pool->used, .cached = pool->cached};
    pthread_mutex_unlock(&pool->lock);
    return level;
}
