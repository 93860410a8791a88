/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations that CUDA and HIP have alike, through a back end's table of calls. */
#include "backend.h"

#include <pthread.h>
#include <stdlib.h>

#include "log.h"

/* The same numbers in both. */
enum {
    INVALID_VALUE = 1,
    INVALID_HANDLE = 400,
    NOT_READY = 600,
    CONTEXT_IS_DESTROYED = 709, /* HIP's word for a stream that is */
    NOT_SUPPORTED = 801,
    CAPTURE_FIRST = 900, /* errors of streams that are being captured: to */
    CAPTURE_LAST = 908,
    HOST_PORTABLE = 1,
    STREAM_NON_BLOCKING = 1,
    EVENT_BLOCKING_SYNC = 1,
    EVENT_DISABLE_TIMING = 2,
    POOL_PINNED = 1, /* the only type: memory that does not move */
    POOL_ON_DEVICE = 1,
    POOL_RELEASE_THRESHOLD = 4,
};

/* A pool gives back what it has beyond this when the program waits for the device: the usual
 * copies and sums come again, and the largest must not be missing elsewhere for good. */
#define POOL_KEEPS (UINT64_C(256) << 20)

#define LAUNCH_BUFFER_POINTER ((void *)1)
#define LAUNCH_BUFFER_SIZE ((void *)2)

struct gb_stream {
    void *handle;
    void *drained; /* the event that stream_sync() waits on */
    bool borrowed;
};

static const struct gb_backend_calls *calls_of(struct gb_device *dev)
{
    return gb_backend_device(dev)->backend->calls;
}

/* The status of a shared call. */
#define DO(dev, call, ...)                                                             \
    gb_backend_check(dev, calls_of(dev)->call(__VA_ARGS__), &calls_of(dev)->call)

/* And of one that queues in a stream. */
#define QUEUE(dev, s, call, ...)                                                       \
    gb_backend_check_queued(dev, s, calls_of(dev)->call(__VA_ARGS__),                  \
                            &calls_of(dev)->call)

/* ---- the driver ----------------------------------------------------------------------- */

int gb_backend_load(struct gb_backend *b)
{
    struct gb_hold hold;
    int visible = 0;
    void *handle;

    gb_hold_begin(&hold);
    handle = gb_driver_open(b->names, b->nodes);
    if (handle && gb_driver_bind(handle, b->symbols, b->n_symbols)) {
        int error = b->start(&visible);

        if (error) {
            visible = 0;
            gb_info("%s finds no device: %s", b->what, b->error_name(error));
            if (b->forget)
                b->forget();
        }
    }
    /* The handle is never closed: what the driver has started cannot be stopped. */
    gb_hold_end(&hold);
    return visible;
}

static const char *name_of(const struct gb_backend *b, const void *slot)
{
    for (size_t i = 0; i < b->n_symbols; i++) {
        if (b->symbols[i].slot == slot)
            return b->symbols[i].name;
    }
    return "a driver call";
}

static enum gb_status meaning(const struct gb_backend *b, int error)
{
    for (size_t i = 0; i < b->n_errors; i++) {
        if (b->errors[i].error == error)
            return b->errors[i].status;
    }
    return GB_E_DEVICE;
}

enum gb_status gb_backend_status(struct gb_backend *b, int error, const void *slot)
{
    enum gb_status status;

    if (!error)
        return GB_SUCCESS;
    if (b->forget)
        b->forget();
    status = meaning(b, error);
    if (status == GB_E_UNSUPPORTED || status == GB_E_ABSENT)
        gb_info("%s: %s", name_of(b, slot), b->error_name(error));
    else if (status == GB_E_DEVICE && !atomic_flag_test_and_set(&b->logged))
        gb_error("%s failed: %s", name_of(b, slot), b->error_name(error));
    return status;
}

enum gb_status gb_backend_check(struct gb_device *dev, int error, const void *slot)
{
    enum gb_status status =
        gb_backend_status(gb_backend_device(dev)->backend, error, slot);

    if (status == GB_E_DEVICE)
        atomic_store(&gb_backend_device(dev)->lost, true);
    return status;
}

enum gb_status gb_backend_check_queued(struct gb_device *dev, const struct gb_stream *s,
                                       int error, const void *slot)
{
    struct gb_backend *b = gb_backend_device(dev)->backend;
    bool argument = error == INVALID_VALUE || error == INVALID_HANDLE ||
                    error == CONTEXT_IS_DESTROYED ||
                    (error >= CAPTURE_FIRST && error <= CAPTURE_LAST);

    if (!s->borrowed || (!argument && error != NOT_SUPPORTED))
        return gb_backend_check(dev, error, slot);
    if (b->forget)
        b->forget();
    gb_info("%s in the program's stream: %s", name_of(b, slot), b->error_name(error));
    return argument ? GB_E_ARGUMENT : GB_E_UNSUPPORTED;
}

/* ---- memory --------------------------------------------------------------------------- */

enum gb_status gb_backend_mem_info(struct gb_device *dev, size_t *free_bytes,
                                   size_t *total)
{
    size_t now_free, all;
    enum gb_status status = DO(dev, mem_info, &now_free, &all);

    if (status == GB_SUCCESS) {
        *free_bytes = now_free;
        *total = all;
    }
    return status;
}

enum gb_status gb_backend_mem_alloc(struct gb_device *dev, size_t bytes, gb_devptr *ptr)
{
    void *memory; /* drivers write a zero when they refuse */
    enum gb_status status = DO(dev, mem_alloc, &memory, bytes);

    if (status == GB_SUCCESS)
        *ptr = (gb_devptr)(uintptr_t)memory;
    return status;
}

void gb_backend_mem_free(struct gb_device *dev, gb_devptr ptr)
{
    if (ptr && gb_backend_alive(dev))
        DO(dev, mem_free, (void *)(uintptr_t)ptr);
}

enum gb_status gb_backend_host_alloc(struct gb_device *dev, size_t bytes, void **ptr)
{
    void *memory;
    enum gb_status status = DO(dev, host_alloc, &memory, bytes, HOST_PORTABLE);

    if (status == GB_SUCCESS)
        *ptr = memory;
    return status;
}

void gb_backend_host_free(struct gb_device *dev, void *ptr)
{
    if (ptr && gb_backend_alive(dev))
        DO(dev, host_free, ptr);
}

/* ---- streams and events --------------------------------------------------------------- */

static enum gb_status event_make(struct gb_device *dev, void **event)
{
    return DO(dev, event_create, event, EVENT_BLOCKING_SYNC | EVENT_DISABLE_TIMING);
}

enum gb_status gb_backend_stream_create(struct gb_device *dev, struct gb_stream **out)
{
    struct gb_stream *s = calloc(1, sizeof *s);
    enum gb_status status;

    if (!s)
        return GB_E_NOMEM;
    status = DO(dev, stream_create, &s->handle, STREAM_NON_BLOCKING);
    if (status != GB_SUCCESS)
        goto free_stream;
    status = event_make(dev, &s->drained);
    if (status != GB_SUCCESS)
        goto destroy_stream;
    *out = s;
    return GB_SUCCESS;

destroy_stream:
    DO(dev, stream_destroy, s->handle);
free_stream:
    free(s);
    return status;
}

void gb_backend_stream_destroy(struct gb_device *dev, struct gb_stream *s)
{
    if (!s)
        return;
    if (gb_backend_alive(dev)) {
        DO(dev, event_destroy, s->drained);
        DO(dev, stream_destroy, s->handle);
    }
    free(s);
}

enum gb_status gb_backend_stream_sync(struct gb_device *dev, struct gb_stream *s)
{
    enum gb_status status = DO(dev, event_record, s->drained, s->handle);

    return status == GB_SUCCESS ? DO(dev, event_sync, s->drained) : status;
}

enum gb_status gb_backend_event_create(struct gb_device *dev, struct gb_event **out)
{
    void *event;
    enum gb_status status = event_make(dev, &event);

    if (status == GB_SUCCESS)
        *out = event;
    return status;
}

enum gb_status gb_backend_timer_create(struct gb_device *dev, struct gb_event **out)
{
    void *event;
    enum gb_status status = DO(dev, event_create, &event, EVENT_BLOCKING_SYNC);

    if (status == GB_SUCCESS)
        *out = event;
    return status;
}

enum gb_status gb_backend_timer_elapsed(struct gb_device *dev, struct gb_event *start,
                                        struct gb_event *stop, double *us)
{
    float ms;
    enum gb_status status = DO(dev, event_elapsed, &ms, start, stop);

    if (status == GB_SUCCESS)
        *us = 1e3 * (double)ms;
    return status;
}

void gb_backend_event_destroy(struct gb_device *dev, struct gb_event *e)
{
    if (e && gb_backend_alive(dev))
        DO(dev, event_destroy, e);
}

enum gb_status gb_backend_stream_borrow(struct gb_device *dev, void *theirs,
                                        struct gb_stream **out)
{
    struct gb_stream *s = calloc(1, sizeof *s);

    (void)dev;
    if (!s)
        return GB_E_NOMEM;
    s->handle = theirs;
    s->borrowed = true;
    *out = s;
    return GB_SUCCESS;
}

void gb_backend_stream_return(struct gb_device *dev, struct gb_stream *s)
{
    (void)dev;
    free(s);
}

/* A pool of our own, because the device's default one is the program's to tune. Not every
 * device has such. */
static enum gb_status pool_make(struct gb_device *dev, const struct gb_stream *s,
                                void **out)
{
    const struct gb_backend_pool properties = {
        .type = POOL_PINNED, .place = POOL_ON_DEVICE, .device = dev->info.ordinal};
    uint64_t most = POOL_KEEPS;
    void *pool;
    enum gb_status status = QUEUE(dev, s, pool_create, &pool, &properties);

    if (status != GB_SUCCESS)
        return status;
    status = DO(dev, pool_set, pool, POOL_RELEASE_THRESHOLD, &most);
    if (status == GB_SUCCESS)
        *out = pool;
    else
        DO(dev, pool_destroy, pool);
    return status;
}

static enum gb_status pool_of(struct gb_device *dev, const struct gb_stream *s,
                              void **pool)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct gb_backend_device *own = gb_backend_device(dev);
    enum gb_status status = GB_SUCCESS;

    pthread_mutex_lock(&lock);
    if (!own->pool)
        status = pool_make(dev, s, &own->pool);
    *pool = own->pool;
    pthread_mutex_unlock(&lock);
    return status;
}

void gb_backend_pool_drop(struct gb_device *dev)
{
    struct gb_backend_device *own = gb_backend_device(dev);

    if (own->pool && gb_backend_alive(dev))
        DO(dev, pool_destroy, own->pool);
    own->pool = NULL;
}

enum gb_status gb_backend_alloc_queued(struct gb_device *dev, struct gb_stream *s,
                                       size_t bytes, gb_devptr *ptr)
{
    void *pool, *memory;
    enum gb_status status = pool_of(dev, s, &pool);

    if (status == GB_SUCCESS)
        status = QUEUE(dev, s, alloc_queued, &memory, bytes, pool, s->handle);
    if (status == GB_SUCCESS)
        *ptr = (gb_devptr)(uintptr_t)memory;
    return status;
}

void gb_backend_free_queued(struct gb_device *dev, struct gb_stream *s, gb_devptr ptr)
{
    if (ptr && gb_backend_alive(dev))
        QUEUE(dev, s, free_queued, (void *)(uintptr_t)ptr, s->handle);
}

void *gb_backend_stream_handle(struct gb_stream *s)
{
    return s->handle;
}

enum gb_status gb_backend_event_record(struct gb_device *dev, struct gb_event *e,
                                       struct gb_stream *s)
{
    return DO(dev, event_record, e, s->handle);
}

enum gb_status gb_backend_event_wait(struct gb_device *dev, struct gb_event *e,
                                     struct gb_stream *s)
{
    return DO(dev, stream_wait, s->handle, e, 0);
}

enum gb_status gb_backend_event_sync(struct gb_device *dev, struct gb_event *e)
{
    return DO(dev, event_sync, e);
}

enum gb_status gb_backend_event_query(struct gb_device *dev, struct gb_event *e,
                                      bool *done)
{
    const struct gb_backend *b = gb_backend_device(dev)->backend;
    int error = b->calls->event_query(e);
    enum gb_status status = GB_SUCCESS;

    if (error != NOT_READY)
        status = gb_backend_check(dev, error, &b->calls->event_query);
    else if (b->forget)
        b->forget();
    if (status == GB_SUCCESS)
        *done = error == 0;
    return status;
}

/* ---- copies --------------------------------------------------------------------------- */

/* One row, all rows at once, or row by row where the pitch is beyond the driver. */
static enum gb_status copy_rows(struct gb_device *dev, struct gb_stream *s,
                                struct gb_backend_copy copy)
{
    const struct gb_backend_device *own = gb_backend_device(dev);
    size_t rows = copy.height;
    enum gb_status status = GB_SUCCESS;

    if (gb_rows_fold(copy.dst_pitch, copy.src_pitch, &copy.width, &copy.height) ||
        (copy.dst_pitch <= own->max_pitch && copy.src_pitch <= own->max_pitch))
        return own->backend->copy(dev, s->handle, &copy);
    copy.height = 1;
    for (size_t i = 0; i < rows && status == GB_SUCCESS; i++) {
        status = own->backend->copy(dev, s->handle, &copy);
        copy.dst += copy.dst_pitch;
        copy.src += copy.src_pitch;
    }
    return status;
}

enum gb_status gb_backend_copy_in(struct gb_device *dev, struct gb_stream *s,
                                  gb_devptr dst, size_t dst_pitch, const void *src,
                                  size_t src_pitch, size_t width, size_t height)
{
    return copy_rows(dev, s,
                     (struct gb_backend_copy){.in = true,
                                              .dst = dst,
                                              .src = (uintptr_t)src,
                                              .dst_pitch = dst_pitch,
                                              .src_pitch = src_pitch,
                                              .width = width,
                                              .height = height});
}

enum gb_status gb_backend_copy_out(struct gb_device *dev, struct gb_stream *s,
                                   void *dst, size_t dst_pitch, gb_devptr src,
                                   size_t src_pitch, size_t width, size_t height)
{
    return copy_rows(dev, s,
                     (struct gb_backend_copy){.in = false,
                                              .dst = (uintptr_t)dst,
                                              .src = src,
                                              .dst_pitch = dst_pitch,
                                              .src_pitch = src_pitch,
                                              .width = width,
                                              .height = height});
}

/* ---- kernels -------------------------------------------------------------------------- */

enum gb_status gb_backend_module_load(struct gb_device *dev, const char *family,
                                      const void *image, size_t bytes,
                                      struct gb_module **m)
{
    struct gb_hold hold;
    enum gb_status status;
    void *module;

    (void)bytes; /* fatbins and code objects know their length */
    if (!image)
        return GB_E_UNSUPPORTED;
    gb_hold_begin(&hold); /* compiling PTX may start threads and writes a cache */
    status = DO(dev, module_load, &module, image);
    gb_hold_end(&hold);
    if (status == GB_SUCCESS)
        *m = module;
    else
        gb_info("the image of %s does not load on %s", family, dev->info.arch_name);
    return status;
}

void gb_backend_module_unload(struct gb_device *dev, struct gb_module *m)
{
    if (m && gb_backend_alive(dev))
        DO(dev, module_unload, m);
}

enum gb_status gb_backend_module_get(struct gb_device *dev, struct gb_module *m,
                                     const char *symbol, struct gb_function **f)
{
    void *function;
    enum gb_status status = DO(dev, module_get, &function, m, symbol);

    if (status == GB_SUCCESS)
        *f = function;
    return status;
}

enum gb_status gb_backend_launch(struct gb_device *dev, struct gb_stream *s,
                                 struct gb_function *f, uint32_t grid, uint32_t block,
                                 uint32_t smem_bytes, const void *args,
                                 size_t args_bytes)
{
    void *end = gb_backend_device(dev)->backend->launch_end;
    void *extra[] = {LAUNCH_BUFFER_POINTER, (void *)args, LAUNCH_BUFFER_SIZE,
                     &args_bytes, end};
    void *params[] = {(void *)args};

    if (!end)
        return QUEUE(dev, s, launch, f, grid, 1, 1, block, 1, 1, smem_bytes, s->handle,
                     params, NULL);
    return QUEUE(dev, s, launch, f, grid, 1, 1, block, 1, 1, smem_bytes, s->handle,
                 NULL, extra);
}
