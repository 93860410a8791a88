/* SPDX-License-Identifier: BSD-3-Clause */
/* What the CUDA and the HIP back end do alike. HIP took CUDA's driver API over, so that many
 * calls differ in nothing but their names: a back end fills in a table of them, says what its
 * errors mean, and puts the operations below into its own table of operations. What the two
 * do differently is in cuda.c and hip.c. */
#ifndef GB_BACKEND_H
#define GB_BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "driver.h"

/* CUmemPoolProps, hipMemPoolProps: memory of one device, for this process alone. */
struct gb_backend_pool {
    int type, handles;
    int place, device;
    void *security;
    unsigned char reserved[64];
};

/* Calls of the same arguments in the same order. All answer an error, 0 for none; streams,
 * events, modules and functions are pointers to what only the driver knows. CUDA's device
 * addresses are integers of a pointer's size. */
struct gb_backend_calls {
    int (*mem_info)(size_t *free_bytes, size_t *total);
    int (*mem_alloc)(void **ptr, size_t bytes);
    int (*mem_free)(void *ptr);
    int (*host_alloc)(void **ptr, size_t bytes, unsigned flags);
    int (*host_free)(void *ptr);
    int (*capture_mode)(int *mode); /* of the calling thread: exchanges it */
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_wait)(void *stream, void *event, unsigned flags);
    int (*pool_create)(void **pool, const struct gb_backend_pool *properties);
    int (*pool_destroy)(void *pool);
    int (*pool_set)(void *pool, int attribute, void *value);
    int (*alloc_queued)(void **ptr, size_t bytes, void *pool, void *stream);
    int (*free_queued)(void *ptr, void *stream);
    int (*event_create)(void **event, unsigned flags);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_sync)(void *event);
    int (*event_query)(void *event);
    int (*event_elapsed)(float *ms, void *start, void *stop);
    int (*module_load)(void **module, const void *image);
    int (*module_unload)(void *module);
    int (*module_get)(void **function, void *module, const char *name);
    int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                  unsigned block_x, unsigned block_y, unsigned block_z,
                  unsigned smem_bytes, void *stream, void **params, void **extra);
};

/* What an error means; any other means that the device has failed. */
struct gb_backend_error {
    int error;
    enum gb_status status;
};

/* Rows from host to device (`in`) or back; a device's address is an integer. */
struct gb_backend_copy {
    bool in;
    uint64_t dst, src;
    size_t dst_pitch, src_pitch, width, height; /* bytes, but for the height */
};

struct gb_backend {
    const char *what; /* for the log: "the CUDA driver" */
    /* NULL-terminated, for gb_driver_open() */
    const char *const *names, *const *nodes;
    const struct gb_driver_symbol *symbols; /* all, those of `calls` included */
    size_t n_symbols;
    const struct gb_backend_error *errors;
    size_t n_errors;
    const struct gb_backend_calls *calls;
    /* Ends the list that says where a launch's packed arguments are; NULL: the argument is
     * passed by its address. */
    void *launch_end;
    /* Initialise the loaded driver and count devices; an error of the driver's. */
    int (*start)(int *visible);
    const char *(*error_name)(int error);
    void (*forget)(void); /* take a failed call's error back; NULL: none is kept */
    /* Queue one row (pitches are then ignored) or several at once. */
    enum gb_status (*copy)(struct gb_device *dev, void *stream,
                           const struct gb_backend_copy *copy);
    atomic_flag logged; /* a failure of the device */
};

/* A back end's own device begins with this. */
struct gb_backend_device {
    struct gb_device base;
    struct gb_backend *backend;
    size_t max_pitch; /* of copies of several rows */
    void *pool;       /* of alloc_queued(), once there was one */
    atomic_bool lost;
};

static inline struct gb_backend_device *gb_backend_device(struct gb_device *dev)
{
    return (struct gb_backend_device *)dev;
}

/* Load the driver where there can be a device, and start it with signals held. How many
 * devices it has; once per process. */
int gb_backend_load(struct gb_backend *b);

/* The status that an error means. `slot` is where the call's pointer is kept: it names the
 * call in the log, which a failure of the device reaches once per process. */
enum gb_status gb_backend_status(struct gb_backend *b, int error, const void *slot);
/* The same for a device: remembers that it is lost. */
enum gb_status gb_backend_check(struct gb_device *dev, int error, const void *slot);

/* The same for a call that queues in a stream. In one of the program's it may fail by what the
 * program did, which is no failure of the device. */
enum gb_status gb_backend_check_queued(struct gb_device *dev, const struct gb_stream *s,
                                       int error, const void *slot);

/* What belongs to a lost device is left to the driver: its handles may be dangling. */
static inline bool gb_backend_alive(struct gb_device *dev)
{
    return !atomic_load_explicit(&gb_backend_device(dev)->lost, memory_order_relaxed);
}

/* Operations, as device.h has them. */
enum gb_status gb_backend_mem_info(struct gb_device *dev, size_t *free_bytes,
                                   size_t *total);
enum gb_status gb_backend_mem_alloc(struct gb_device *dev, size_t bytes,
                                    gb_devptr *ptr);
void gb_backend_mem_free(struct gb_device *dev, gb_devptr ptr);
enum gb_status gb_backend_host_alloc(struct gb_device *dev, size_t bytes, void **ptr);
void gb_backend_host_free(struct gb_device *dev, void *ptr);
enum gb_status gb_backend_stream_create(struct gb_device *dev, struct gb_stream **out);
void gb_backend_stream_destroy(struct gb_device *dev, struct gb_stream *s);
enum gb_status gb_backend_stream_sync(struct gb_device *dev, struct gb_stream *s);
enum gb_status gb_backend_stream_borrow(struct gb_device *dev, void *theirs,
                                        struct gb_stream **out);
void gb_backend_stream_return(struct gb_device *dev, struct gb_stream *s);
enum gb_status gb_backend_alloc_queued(struct gb_device *dev, struct gb_stream *s,
                                       size_t bytes, gb_devptr *ptr);
void gb_backend_free_queued(struct gb_device *dev, struct gb_stream *s, gb_devptr ptr);
/* Before the device is closed. What is queued still has its memory. */
void gb_backend_pool_drop(struct gb_device *dev);
void *gb_backend_stream_handle(struct gb_stream *s); /* the driver's own */
enum gb_status gb_backend_event_create(struct gb_device *dev, struct gb_event **out);
void gb_backend_event_destroy(struct gb_device *dev, struct gb_event *e);
enum gb_status gb_backend_event_record(struct gb_device *dev, struct gb_event *e,
                                       struct gb_stream *s);
enum gb_status gb_backend_event_wait(struct gb_device *dev, struct gb_event *e,
                                     struct gb_stream *s);
enum gb_status gb_backend_event_sync(struct gb_device *dev, struct gb_event *e);
enum gb_status gb_backend_event_query(struct gb_device *dev, struct gb_event *e,
                                      bool *done);
enum gb_status gb_backend_timer_create(struct gb_device *dev, struct gb_event **out);
enum gb_status gb_backend_timer_elapsed(struct gb_device *dev, struct gb_event *start,
                                        struct gb_event *stop, double *us);
enum gb_status gb_backend_copy_in(struct gb_device *dev, struct gb_stream *s,
                                  gb_devptr dst, size_t dst_pitch, const void *src,
                                  size_t src_pitch, size_t width, size_t height);
enum gb_status gb_backend_copy_out(struct gb_device *dev, struct gb_stream *s,
                                   void *dst, size_t dst_pitch, gb_devptr src,
                                   size_t src_pitch, size_t width, size_t height);
enum gb_status gb_backend_module_load(struct gb_device *dev, const char *family,
                                      const void *image, size_t bytes,
                                      struct gb_module **m);
void gb_backend_module_unload(struct gb_device *dev, struct gb_module *m);
enum gb_status gb_backend_module_get(struct gb_device *dev, struct gb_module *m,
                                     const char *symbol, struct gb_function **f);
enum gb_status gb_backend_launch(struct gb_device *dev, struct gb_stream *s,
                                 struct gb_function *f, uint32_t grid, uint32_t block,
                                 uint32_t smem_bytes, const void *args,
                                 size_t args_bytes);

#endif
