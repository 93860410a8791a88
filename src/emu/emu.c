/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of operations of the emulated device: each checks how it is used, then calls on
 * its memory or its queues. */
#include "emu.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "cost.h"
#include "emu_state.h"
#include "fault.h"
#include "fiber.h"
#include "log.h"
#include "tensor_map.h"
#include "util.h"

enum {
    SMEM = 227 << 10,
    MAX_BLOCK = 1024,
    MAX_ARGS = 4096,
};

struct gb_event {
    struct gb_stream *stream; /* NULL: never recorded */
    uint64_t position;
    uint64_t clock_ns; /* the device's time there */
};

struct gb_module {
    char family[64];
};

pthread_mutex_t gb_emu_lock = PTHREAD_MUTEX_INITIALIZER;
struct emu_device *gb_emu_devices;
static struct gb_emu_config config;
static __thread struct gb_device *entered;

void gb_emu_die(const char *format, ...)
{
    char line[256];
    int len = snprintf(line, sizeof line, "gemmblas: emulated device: ");
    va_list args;

    va_start(args, format);
    len += vsnprintf(line + len, sizeof line - (size_t)len, format, args);
    va_end(args);
    len = (int)gb_min(len, (int64_t)sizeof line - 1);
    line[len] = '\n';
    if (write(STDERR_FILENO, line, (size_t)len + 1) < 0)
        abort();
    abort();
}

void gb_emu_say(enum gb_log_level level, const char *format, ...)
{
    char line[256];
    va_list args;

    if (!config.log)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    config.log((int)level, line);
}

uint32_t gb_emu_draw(struct emu_device *dev)
{
    uint64_t x = dev->random += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(x >> 32);
}

static struct emu_device *emu_device(struct gb_device *dev)
{
    return (struct emu_device *)dev;
}

static void *pointer_of(gb_devptr ptr)
{
    return (void *)(uintptr_t)ptr;
}

/* ---- operations ---- */

/* Every operation begins here and ends in finish(): takes the lock, counts the call. */
static enum gb_status begin(struct gb_device *base, enum gb_fault_op op, bool *late)
{
    struct emu_device *dev = emu_device(base);
    enum gb_status status;

    if (entered != base)
        gb_emu_die("%s: the calling thread has not entered the device",
                   gb_fault_op_name[op]);
    pthread_mutex_lock(&gb_emu_lock);
    if (dev->lost)
        return GB_E_DEVICE;
    status = gb_fault_next(op, late);
    if (status != GB_SUCCESS)
        gb_emu_say(GB_LOG_INFO, "fault: %s", gb_fault_op_name[op]);
    if (status == GB_E_DEVICE)
        gb_emu_lose(dev);
    return status;
}

static enum gb_status finish(enum gb_status status)
{
    pthread_mutex_unlock(&gb_emu_lock);
    return status;
}

/* The same for operations that cannot fail; they are legal on a lost device. */
static struct emu_device *begin_release(struct gb_device *base, const char *operation)
{
    struct emu_device *dev = emu_device(base);

    pthread_mutex_lock(&gb_emu_lock);
    if (dev->lost)
        gb_emu_settle(dev);
    else if (entered != base)
        gb_emu_die("%s: the calling thread has not entered the device", operation);
    return dev;
}

static bool emu_plausible(void)
{
    return true;
}

static bool emu_loaded(void)
{
    return true;
}

static enum gb_status emu_count(int *n)
{
    *n = GB_EMU_DEVICES;
    return GB_SUCCESS;
}

static const struct gb_device_ops ops;

static enum gb_status emu_open(int ordinal, struct gb_device **out)
{
    struct emu_device *dev;
    enum gb_status status;
    bool late;

    if (ordinal < 0 || ordinal >= GB_EMU_DEVICES)
        return GB_E_ABSENT;
    dev = calloc(1, sizeof *dev);
    if (!dev)
        return GB_E_NOMEM;
    pthread_mutex_lock(&gb_emu_lock);
    status = gb_fault_next(GB_FAULT_open, &late);
    if (status != GB_SUCCESS) {
        free(dev);
        return finish(status);
    }
    dev->base.ops = &ops;
    dev->base.info = (struct gb_device_info){
        .vendor = GB_EMU,
        .name = "gemmblas emulated device",
        .arch_name = "emu",
        .ordinal = ordinal,
        .multiprocessors = 16,
        .mem_total = config.mem_total ? config.mem_total : (size_t)1 << 30,
        .smem_per_block = SMEM,
        .l2 = (size_t)1 << 20,
        .numa_node = -1,
    };
    dev->random = config.seed * 64 + (uint64_t)ordinal;
    dev->next = gb_emu_devices;
    gb_emu_devices = dev;
    *out = &dev->base;
    return finish(GB_SUCCESS);
}

static void emu_close(struct gb_device *base)
{
    struct emu_device *dev = emu_device(base);
    struct emu_device **link = &gb_emu_devices;
    unsigned left;
    bool lost;

    pthread_mutex_lock(&gb_emu_lock);
    lost = dev->lost;
    gb_emu_lose(dev);
    gb_emu_settle(dev);
    gb_emu_check_guards("close", "");
    left = gb_emu_blocks_drop(dev);
    if (left && !lost)
        gb_emu_say(GB_LOG_WARN, "emulated device %d closed with %u allocations",
                   base->info.ordinal, left);
    while (dev->streams) {
        struct gb_stream *s = dev->streams;

        dev->streams = s->next;
        free(s);
    }
    while (*link != dev)
        link = &(*link)->next;
    *link = dev->next;
    pthread_mutex_unlock(&gb_emu_lock);
    free(dev);
}

static enum gb_status emu_enter(struct gb_device *base, struct gb_guest *guest)
{
    enum gb_status status;
    bool late;

    gb_guest_save(guest);
    guest->saved[0] = (uintptr_t)entered;
    entered = base;
    status = finish(begin(base, GB_FAULT_enter, &late));
    if (status != GB_SUCCESS)
        entered = (struct gb_device *)guest->saved[0];
    return status;
}

static void emu_leave(struct gb_device *base, struct gb_guest *guest)
{
    if (entered != base)
        gb_emu_die("leave: the calling thread has not entered the device");
    entered = (struct gb_device *)guest->saved[0];
    gb_guest_restore(guest);
}

static enum gb_status emu_mem_info(struct gb_device *base, size_t *free_bytes,
                                   size_t *total)
{
    bool late;
    enum gb_status status = begin(base, GB_FAULT_mem_info, &late);

    if (status == GB_SUCCESS) {
        *total = base->info.mem_total;
        *free_bytes = *total - emu_device(base)->mem_used;
    }
    return finish(status);
}

static enum gb_status allocate(struct gb_device *base, enum gb_fault_op op,
                               size_t bytes, gb_devptr *ptr)
{
    struct emu_device *dev = emu_device(base);
    bool late;
    enum gb_status status = begin(base, op, &late);
    struct emu_block *b;

    if (bytes == 0)
        gb_emu_die("%s: 0 bytes", gb_fault_op_name[op]);
    if (status != GB_SUCCESS)
        return finish(status);
    if (bytes > base->info.mem_total - dev->mem_used)
        return finish(GB_E_NOMEM);
    b = gb_emu_block_create(dev, bytes, false);
    if (!b)
        return finish(GB_E_NOMEM);
    dev->mem_used += bytes;
    *ptr = (uintptr_t)b->data;
    return finish(GB_SUCCESS);
}

static enum gb_status emu_mem_alloc(struct gb_device *base, size_t bytes,
                                    gb_devptr *ptr)
{
    return allocate(base, GB_FAULT_mem_alloc, bytes, ptr);
}

static void release(struct emu_device *dev, const void *ptr, bool host,
                    const char *operation)
{
    struct emu_block *b = gb_emu_block_at(ptr, 1);

    if (!b || b->data != ptr || b->host != host || (!host && b->dev != dev))
        gb_emu_die("%s: not the address of an allocation", operation);
    gb_emu_block_free(dev, b, operation);
}

static void emu_mem_free(struct gb_device *base, gb_devptr ptr)
{
    struct emu_device *dev;

    if (!ptr)
        return;
    dev = begin_release(base, "mem_free");
    release(dev, pointer_of(ptr), false, "mem_free");
    finish(GB_SUCCESS);
}

static enum gb_status emu_host_alloc(struct gb_device *base, size_t bytes, void **ptr)
{
    bool late;
    enum gb_status status = begin(base, GB_FAULT_host_alloc, &late);
    struct emu_block *b;

    if (bytes == 0)
        gb_emu_die("host_alloc: 0 bytes");
    if (status != GB_SUCCESS)
        return finish(status);
    b = gb_emu_block_create(emu_device(base), bytes, true);
    if (!b)
        return finish(GB_E_NOMEM);
    *ptr = b->data;
    return finish(GB_SUCCESS);
}

static void emu_host_free(struct gb_device *base, void *ptr)
{
    struct emu_device *dev;

    if (!ptr)
        return;
    dev = begin_release(base, "host_free");
    release(dev, ptr, true, "host_free");
    finish(GB_SUCCESS);
}

static enum gb_mem_kind emu_mem_kind(struct gb_device *base, const void *ptr)
{
    enum gb_mem_kind kind = GB_MEM_PAGEABLE;
    const struct emu_block *b;

    begin_release(base, "mem_kind");
    b = gb_emu_block_at(ptr, 1);
    if (b)
        kind = b->host                      ? GB_MEM_PINNED
               : b->dev == emu_device(base) ? GB_MEM_DEVICE
                                            : GB_MEM_FOREIGN;
    finish(GB_SUCCESS);
    return kind;
}

static enum gb_mem_kind emu_mem_where(const void *ptr)
{
    enum gb_mem_kind kind = GB_MEM_PAGEABLE;
    const struct emu_block *b;

    pthread_mutex_lock(&gb_emu_lock);
    b = gb_emu_block_at(ptr, 1);
    if (b)
        kind = b->host ? GB_MEM_PINNED : GB_MEM_DEVICE;
    finish(GB_SUCCESS);
    return kind;
}

/* NULL when there is no memory. */
static struct gb_stream *new_stream(struct emu_device *dev)
{
    struct gb_stream *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->dev = dev;
    s->tail = &s->head;
    s->next = dev->streams;
    return dev->streams = s;
}

static enum gb_status emu_stream_create(struct gb_device *base, struct gb_stream **out)
{
    bool late;
    enum gb_status status = begin(base, GB_FAULT_stream_create, &late);
    struct gb_stream *s;

    if (status != GB_SUCCESS)
        return finish(status);
    s = new_stream(emu_device(base));
    if (!s)
        return finish(GB_E_NOMEM);
    *out = s;
    return finish(GB_SUCCESS);
}

static void emu_stream_destroy(struct gb_device *base, struct gb_stream *s)
{
    struct emu_device *dev;

    if (!s)
        return;
    dev = begin_release(base, "stream_destroy");
    if (s->destroyed)
        gb_emu_die("stream_destroy: destroyed before");
    /* Legal with work queued, which still runs. */
    if (gb_emu_run_until(dev, s, s->queued) == GB_SUCCESS)
        gb_emu_check_guards("stream_destroy", "");
    s->destroyed = true;
    finish(GB_SUCCESS);
}

static void check_stream(struct gb_device *base, const struct gb_stream *s,
                         enum gb_fault_op op)
{
    if (&s->dev->base != base || s->destroyed)
        gb_emu_die("%s: not a stream of this device", gb_fault_op_name[op]);
}

static enum gb_status wait_for(struct gb_device *base, struct gb_stream *s,
                               uint64_t position, enum gb_fault_op op)
{
    enum gb_status status = gb_emu_run_until(emu_device(base), s, position);

    gb_emu_check_guards(gb_fault_op_name[op], "");
    return status;
}

static enum gb_status emu_stream_sync(struct gb_device *base, struct gb_stream *s)
{
    bool late;
    enum gb_status status = begin(base, GB_FAULT_stream_sync, &late);

    if (status == GB_SUCCESS) {
        check_stream(base, s, GB_FAULT_stream_sync);
        status = wait_for(base, s, s->queued, GB_FAULT_stream_sync);
    }
    return finish(status);
}

/* A program's stream is one of stream_create()'s. */
static enum gb_status emu_stream_borrow(struct gb_device *base, void *theirs,
                                        struct gb_stream **out)
{
    struct emu_device *dev = emu_device(base);
    bool late;
    enum gb_status status = begin(base, GB_FAULT_stream_borrow, &late);

    if (status != GB_SUCCESS)
        return finish(status);
    if (theirs)
        check_stream(base, theirs, GB_FAULT_stream_borrow);
    else if (!dev->main)
        dev->main = new_stream(dev);
    *out = theirs ? theirs : dev->main;
    return finish(*out ? GB_SUCCESS : GB_E_NOMEM);
}

static void emu_stream_return(struct gb_device *base, struct gb_stream *s)
{
    (void)s;
    begin_release(base, "stream_return");
    finish(GB_SUCCESS);
}

/* At once, which is never too late for what is queued after it. */
static enum gb_status emu_alloc_queued(struct gb_device *base, struct gb_stream *s,
                                       size_t bytes, gb_devptr *ptr)
{
    check_stream(base, s, GB_FAULT_alloc_queued);
    return allocate(base, GB_FAULT_alloc_queued, bytes, ptr);
}

static void emu_free_queued(struct gb_device *base, struct gb_stream *s, gb_devptr ptr)
{
    struct emu_device *dev;
    struct emu_block *b;
    struct emu_op *op;

    if (!ptr)
        return;
    dev = begin_release(base, "free_queued");
    b = gb_emu_block_at(pointer_of(ptr), 1);
    op = calloc(1, sizeof *op);
    if (!b || b->data != pointer_of(ptr) || b->host || b->dev != dev)
        gb_emu_die("free_queued: not the address of an allocation");
    if (!op)
        gb_emu_die("free_queued: no memory");
    op->kind = EMU_FREE;
    op->u.freed = b;
    if (dev->lost) /* nothing is queued any more */
        free(op);
    else
        gb_emu_enqueue(s, op);
    finish(GB_SUCCESS);
}

static enum gb_status make_event(struct gb_device *base, enum gb_fault_op op,
                                 struct gb_event **out)
{
    bool late;
    enum gb_status status = begin(base, op, &late);
    struct gb_event *e;

    if (status != GB_SUCCESS)
        return finish(status);
    e = calloc(1, sizeof *e);
    if (!e)
        return finish(GB_E_NOMEM);
    *out = e;
    return finish(GB_SUCCESS);
}

static enum gb_status emu_event_create(struct gb_device *base, struct gb_event **out)
{
    return make_event(base, GB_FAULT_event_create, out);
}

static enum gb_status emu_timer_create(struct gb_device *base, struct gb_event **out)
{
    return make_event(base, GB_FAULT_timer_create, out);
}

static void emu_event_destroy(struct gb_device *base, struct gb_event *e)
{
    if (!e)
        return;
    begin_release(base, "event_destroy");
    free(e);
    finish(GB_SUCCESS);
}

static enum gb_status emu_event_record(struct gb_device *base, struct gb_event *e,
                                       struct gb_stream *s)
{
    bool late;
    enum gb_status status = begin(base, GB_FAULT_event_record, &late);

    if (status == GB_SUCCESS) {
        check_stream(base, s, GB_FAULT_event_record);
        *e = (struct gb_event){
            .stream = s, .position = s->queued, .clock_ns = s->clock_ns};
    }
    return finish(status);
}

/* An event of another device has its position in a stream that this one never runs. */
static void check_event(struct gb_device *base, const struct gb_event *e,
                        enum gb_fault_op op)
{
    if (e->stream && &e->stream->dev->base != base)
        gb_emu_die("%s: an event of another device", gb_fault_op_name[op]);
}

static enum gb_status emu_event_wait(struct gb_device *base, struct gb_event *e,
                                     struct gb_stream *s)
{
    bool late;
    enum gb_status status = begin(base, GB_FAULT_event_wait, &late);
    struct emu_op *op;

    if (status != GB_SUCCESS)
        return finish(status);
    check_stream(base, s, GB_FAULT_event_wait);
    check_event(base, e, GB_FAULT_event_wait);
    if (!e->stream)
        return finish(GB_SUCCESS);
    op = calloc(1, sizeof *op);
    if (!op)
        return finish(GB_E_NOMEM);
    op->kind = EMU_WAIT;
    op->u.wait.stream = e->stream;
    op->u.wait.position = e->position;
    gb_emu_enqueue(s, op);
    return finish(GB_SUCCESS);
}

static enum gb_status emu_event_sync(struct gb_device *base, struct gb_event *e)
{
    bool late;
    enum gb_status status = begin(base, GB_FAULT_event_sync, &late);

    if (status == GB_SUCCESS) {
        check_event(base, e, GB_FAULT_event_sync);
        if (e->stream)
            status = wait_for(base, e->stream, e->position, GB_FAULT_event_sync);
    }
    return finish(status);
}

static enum gb_status emu_event_query(struct gb_device *base, struct gb_event *e,
                                      bool *done)
{
    struct emu_device *dev = emu_device(base);
    bool late;
    enum gb_status status = begin(base, GB_FAULT_event_query, &late);
    struct gb_stream *s;
    uint64_t position;

    if (status != GB_SUCCESS)
        return finish(status);
    check_event(base, e, GB_FAULT_event_query);
    s = e->stream;
    position = e->position;
    /* Half of the questions see the device get on with it. */
    if (s && s->executed < position && gb_emu_draw(dev) % 2 == 0) {
        gb_emu_nudge(s);
        if (dev->lost)
            return finish(GB_E_DEVICE);
    }
    *done = !s || s->executed >= position;
    return finish(GB_SUCCESS);
}

static enum gb_status emu_timer_elapsed(struct gb_device *base, struct gb_event *start,
                                        struct gb_event *stop, double *us)
{
    bool late;
    enum gb_status status = begin(base, GB_FAULT_timer_elapsed, &late);

    if (status != GB_SUCCESS)
        return finish(status);
    if (!start->stream || start->stream != stop->stream ||
        &start->stream->dev->base != base)
        gb_emu_die("timer_elapsed: not two records in one stream of this device");
    if (stop->stream->executed < stop->position)
        gb_emu_die("timer_elapsed: the last record is not complete");
    *us = 1e-3 * (double)(int64_t)(stop->clock_ns - start->clock_ns);
    return finish(GB_SUCCESS);
}

/* Both directions. The device side must lie in one allocation, the host side in pinned
 * memory. */
static enum gb_status copy(struct gb_device *base, struct gb_stream *s,
                           enum gb_fault_op which, char *dst, size_t dst_pitch,
                           const char *src, size_t src_pitch, size_t width,
                           size_t height)
{
    bool in = which == GB_FAULT_copy_in;
    const char *device = in ? dst : src;
    const char *host = in ? src : dst;
    size_t device_pitch = in ? dst_pitch : src_pitch;
    size_t host_pitch = in ? src_pitch : dst_pitch;
    const char *name = gb_fault_op_name[which];
    struct emu_block *device_block, *host_block;
    bool late;
    enum gb_status status = begin(base, which, &late);
    struct emu_op *op;

    if (status != GB_SUCCESS)
        return finish(status);
    check_stream(base, s, which);
    if (width == 0 || height == 0)
        return finish(GB_SUCCESS);
    if (height > 1 && (dst_pitch < width || src_pitch < width))
        gb_emu_die("%s: a pitch is less than the width", name);
    device_block = gb_emu_block_at(device, (height - 1) * device_pitch + width);
    if (!device_block || device_block->host || device_block->dev != emu_device(base))
        gb_emu_die(
            "%s: %zu rows of %zu bytes, pitch %zu: outside an allocation of this "
            "device",
            name, height, width, device_pitch);
    host_block = gb_emu_block_at(host, (height - 1) * host_pitch + width);
    if (!host_block || !host_block->host)
        gb_emu_die(
            "%s: %zu rows of %zu bytes, pitch %zu: the host side is not pinned memory",
            name, height, width, host_pitch);
    op = calloc(1, sizeof *op);
    if (!op)
        return finish(GB_E_NOMEM);
    op->kind = in ? EMU_COPY_IN : EMU_COPY_OUT;
    op->late = late;
    op->u.copy.dst = dst;
    op->u.copy.src = src;
    op->u.copy.dst_pitch = dst_pitch;
    op->u.copy.src_pitch = src_pitch;
    op->u.copy.width = width;
    op->u.copy.height = height;
    op->u.copy.device = device_block;
    op->u.copy.host = host_block;
    gb_emu_enqueue(s, op);
    return finish(GB_SUCCESS);
}

static enum gb_status emu_copy_in(struct gb_device *base, struct gb_stream *s,
                                  gb_devptr dst, size_t dst_pitch, const void *src,
                                  size_t src_pitch, size_t width, size_t height)
{
    return copy(base, s, GB_FAULT_copy_in, pointer_of(dst), dst_pitch, src, src_pitch,
                width, height);
}

static enum gb_status emu_copy_out(struct gb_device *base, struct gb_stream *s,
                                   void *dst, size_t dst_pitch, gb_devptr src,
                                   size_t src_pitch, size_t width, size_t height)
{
    return copy(base, s, GB_FAULT_copy_out, dst, dst_pitch, pointer_of(src), src_pitch,
                width, height);
}

static enum gb_status emu_module_load(struct gb_device *base, const char *family,
                                      const void *image, size_t bytes,
                                      struct gb_module **out)
{
    bool late;
    enum gb_status status = begin(base, GB_FAULT_module_load, &late);
    struct gb_module *m;

    (void)image;
    (void)bytes;
    if (status != GB_SUCCESS)
        return finish(status);
    m = calloc(1, sizeof *m);
    if (!m)
        return finish(GB_E_NOMEM);
    snprintf(m->family, sizeof m->family, "%s", family);
    *out = m;
    return finish(GB_SUCCESS);
}

static void emu_module_unload(struct gb_device *base, struct gb_module *m)
{
    if (!m)
        return;
    begin_release(base, "module_unload");
    free(m);
    finish(GB_SUCCESS);
}

static enum gb_status emu_module_get(struct gb_device *base, struct gb_module *m,
                                     const char *symbol, struct gb_function **f)
{
    bool late;
    enum gb_status status = begin(base, GB_FAULT_module_get, &late);
    const struct gb_emu_kernel *kernel;

    if (status != GB_SUCCESS)
        return finish(status);
    kernel = gb_emu_kernel_find(m->family, symbol);
    if (!kernel)
        return finish(GB_E_UNSUPPORTED);
    *f = (struct gb_function *)(uintptr_t)kernel;
    return finish(GB_SUCCESS);
}

static enum gb_status emu_launch_shaped(struct gb_device *base, struct gb_stream *s,
                                        struct gb_function *f,
                                        const struct gb_launch_shape *shape,
                                        const void *args, size_t args_bytes)
{
    const uint32_t grid = shape->grid, block = shape->block;
    const uint32_t smem_bytes = shape->smem_bytes;
    const struct gb_emu_kernel *kernel = (const struct gb_emu_kernel *)f;
    bool late;
    enum gb_status status = begin(base, GB_FAULT_launch, &late);
    struct emu_op *op;

    if (status != GB_SUCCESS)
        return finish(status);
    check_stream(base, s, GB_FAULT_launch);
    if (grid == 0 || grid > INT32_MAX || block == 0 || block > MAX_BLOCK ||
        smem_bytes > SMEM || args_bytes > MAX_ARGS ||
        (shape->cluster > 0 && grid % shape->cluster != 0))
        gb_emu_die(
            "launch %s: grid %u, block %u, %u bytes shared, %zu of arguments: out of "
            "bounds",
            kernel->symbol, grid, block, smem_bytes, args_bytes);
    op = aligned_alloc(16, (sizeof *op + args_bytes + 15) & ~(size_t)15);
    if (!op)
        return finish(GB_E_NOMEM);
    *op = (struct emu_op){.kind = EMU_LAUNCH, .late = late};
    op->u.launch.kernel = kernel;
    op->u.launch.grid = grid;
    op->u.launch.block = block;
    op->u.launch.cluster = shape->cluster > 0 ? shape->cluster : 1;
    op->u.launch.smem = smem_bytes;
    op->u.launch.seed = gb_emu_draw(emu_device(base));
    op->u.launch.args_bytes = args_bytes;
    memcpy(op->args, args, args_bytes);
    s->clock_ns += gb_cost_ns(kernel->symbol, args, args_bytes);
    gb_emu_enqueue(s, op);
    return finish(GB_SUCCESS);
}

static enum gb_status emu_launch(struct gb_device *base, struct gb_stream *s,
                                 struct gb_function *f, uint32_t grid, uint32_t block,
                                 uint32_t smem_bytes, const void *args,
                                 size_t args_bytes)
{
    const struct gb_launch_shape shape = {
        .grid = grid, .block = block, .smem_bytes = smem_bytes};

    return emu_launch_shaped(base, s, f, &shape, args, args_bytes);
}

static enum gb_status emu_tensor_map(struct gb_device *dev,
                                     const struct gb_tensor *tensor,
                                     struct gb_tensor_map *map)
{
    const struct gb_host_tensor t = {
        .at = tensor->at,
        .dim = {tensor->dim[0], tensor->dim[1], tensor->dim[2]},
        .stride = {tensor->stride[0], tensor->stride[1]},
        .box = {tensor->box[0], tensor->box[1]},
        .element_bytes = (uint32_t)gb_type_size(tensor->type),
        .tf32 = tensor->tf32,
    };

    bool good = t.at % 16 == 0 && t.box[0] * t.element_bytes <= 128 &&
                t.box[1] <= 256 && t.box[0] > 0 && t.box[1] > 0;

    (void)dev;
    _Static_assert(sizeof t <= sizeof *map, "a description fits");
    for (int i = 0; i < 3; i++)
        good = good && t.dim[i] > 0 && t.dim[i] <= (uint64_t)1 << 31;
    for (int i = 0; i < 2; i++)
        good = good && t.stride[i] % 16 == 0 && t.stride[i] < (uint64_t)1 << 40;
    if (!good) /* a driver refuses it */
        gb_emu_die("tensor_map: a description that no device takes");
    memset(map, 0, sizeof *map);
    memcpy(map, &t, sizeof t);
    return GB_SUCCESS;
}

static const struct gb_device_ops ops = {
    .name = "emu",
    .plausible = emu_plausible,
    .loaded = emu_loaded,
    .count = emu_count,
    .open = emu_open,
    .close = emu_close,
    .enter = emu_enter,
    .leave = emu_leave,
    .mem_info = emu_mem_info,
    .mem_alloc = emu_mem_alloc,
    .mem_free = emu_mem_free,
    .host_alloc = emu_host_alloc,
    .host_free = emu_host_free,
    .mem_kind = emu_mem_kind,
    .mem_where = emu_mem_where,
    .stream_create = emu_stream_create,
    .stream_destroy = emu_stream_destroy,
    .stream_sync = emu_stream_sync,
    .stream_borrow = emu_stream_borrow,
    .stream_return = emu_stream_return,
    .alloc_queued = emu_alloc_queued,
    .free_queued = emu_free_queued,
    .event_create = emu_event_create,
    .event_destroy = emu_event_destroy,
    .event_record = emu_event_record,
    .event_wait = emu_event_wait,
    .event_sync = emu_event_sync,
    .event_query = emu_event_query,
    .timer_create = emu_timer_create,
    .timer_elapsed = emu_timer_elapsed,
    .copy_in = emu_copy_in,
    .copy_out = emu_copy_out,
    .module_load = emu_module_load,
    .module_unload = emu_module_unload,
    .module_get = emu_module_get,
    .launch = emu_launch,
    .launch_shaped = emu_launch_shaped,
    .tensor_map = emu_tensor_map,
};

const struct gb_device_ops *gb_emu_ops(const struct gb_emu_config *given)
{
    pthread_mutex_lock(&gb_emu_lock);
    config = *given;
    if (!gb_fault_set(config.fault))
        gb_emu_say(GB_LOG_WARN, "GEMMBLAS_FAULT=%s is not understood", config.fault);
    if (!gb_cost_set(config.cost))
        gb_emu_say(GB_LOG_WARN, "GEMMBLAS_COST=%s is not understood", config.cost);
    config.fault = config.cost = NULL; /* copied */
    pthread_mutex_unlock(&gb_emu_lock);
    return &ops;
}
