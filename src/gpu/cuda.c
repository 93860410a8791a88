/* SPDX-License-Identifier: BSD-3-Clause */
/* NVIDIA devices through the driver API of libcuda.so.1, which is found by dlopen and
 * called through prototypes of our own: the library builds without the CUDA toolkit and
 * loads where there is no driver.
 *
 * The context is the device's primary one, which the CUDA runtime and so most programs
 * use too: kernels of both then run at the same time (two contexts take turns), the
 * program's device pointers are ours, and no second context takes half a gigabyte. Its
 * flags are the program's business, so we wait on events made for blocking, never on a
 * stream. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "device.h"
#include "driver.h"
#include "log.h"
#include "util.h"

struct CUctx_st;
struct CUevent_st;
struct CUfunc_st;
struct CUmod_st;
struct CUstream_st;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46, /* another process has it for itself */
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_INVALID_PTX = 218,
    CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_ERROR_JIT_COMPILATION_DISABLED = 223,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,

    CU_DEVICE_ATTRIBUTE_MAX_PITCH = 11,
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,

    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,

    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,

    CU_MEMORYTYPE_HOST = 1,
    CU_MEMORYTYPE_DEVICE = 2,

    CU_MEMHOSTALLOC_PORTABLE = 1,
    CU_STREAM_NON_BLOCKING = 1,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2,
    CU_EVENT_BLOCKING_SYNC = 1,
    CU_EVENT_DISABLE_TIMING = 2,
};

#define CU_LAUNCH_PARAM_END ((void *)0)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)2)

/* CUDA_MEMCPY2D_v2 */
struct cuda_memcpy2d {
    size_t src_x, src_y;
    int src_type;
    const void *src_host;
    uint64_t src_device;
    void *src_array;
    size_t src_pitch;
    size_t dst_x, dst_y;
    int dst_type;
    void *dst_host;
    uint64_t dst_device;
    void *dst_array;
    size_t dst_pitch;
    size_t width, height;
};
_Static_assert(sizeof(struct cuda_memcpy2d) == 128, "layout of CUDA_MEMCPY2D_v2");

/* CALL(symbol with its version, parameters). All answer a CUresult. */
#define CUDA_CALLS(CALL)                                                               \
    CALL(cuInit, (unsigned flags))                                                     \
    CALL(cuDriverGetVersion, (int *version))                                           \
    CALL(cuGetErrorName, (int error, const char **name))                               \
    CALL(cuDeviceGetCount, (int *n))                                                   \
    CALL(cuDeviceGet, (int *device, int ordinal))                                      \
    CALL(cuDeviceGetName, (char *name, int len, int device))                           \
    CALL(cuDeviceGetAttribute, (int *value, int attribute, int device))                \
    CALL(cuDeviceGetPCIBusId, (char *pci, int len, int device))                        \
    CALL(cuDeviceTotalMem_v2, (size_t * bytes, int device))                            \
    CALL(cuDevicePrimaryCtxRetain, (struct CUctx_st * *context, int device))           \
    CALL(cuDevicePrimaryCtxRelease_v2, (int device))                                   \
    CALL(cuCtxGetId, (struct CUctx_st * context, unsigned long long *id))              \
    CALL(cuCtxPushCurrent_v2, (struct CUctx_st * context))                             \
    CALL(cuCtxPopCurrent_v2, (struct CUctx_st * *context))                             \
    CALL(cuThreadExchangeStreamCaptureMode, (int *mode))                               \
    CALL(cuMemGetInfo_v2, (size_t * free_bytes, size_t * total))                       \
    CALL(cuMemAlloc_v2, (uint64_t * ptr, size_t bytes))                                \
    CALL(cuMemFree_v2, (uint64_t ptr))                                                 \
    CALL(cuMemHostAlloc, (void **ptr, size_t bytes, unsigned flags))                   \
    CALL(cuMemFreeHost, (void *ptr))                                                   \
    CALL(cuPointerGetAttributes,                                                       \
         (unsigned n, int *attributes, void **data, uint64_t ptr))                     \
    CALL(cuStreamCreate, (struct CUstream_st * *stream, unsigned flags))               \
    CALL(cuStreamDestroy_v2, (struct CUstream_st * stream))                            \
    CALL(cuStreamWaitEvent,                                                            \
         (struct CUstream_st * stream, struct CUevent_st * event, unsigned flags))     \
    CALL(cuEventCreate, (struct CUevent_st * *event, unsigned flags))                  \
    CALL(cuEventDestroy_v2, (struct CUevent_st * event))                               \
    CALL(cuEventRecord, (struct CUevent_st * event, struct CUstream_st * stream))      \
    CALL(cuEventSynchronize, (struct CUevent_st * event))                              \
    CALL(cuEventQuery, (struct CUevent_st * event))                                    \
    CALL(cuMemcpyHtoDAsync_v2,                                                         \
         (uint64_t dst, const void *src, size_t bytes, struct CUstream_st *stream))    \
    CALL(cuMemcpyDtoHAsync_v2,                                                         \
         (void *dst, uint64_t src, size_t bytes, struct CUstream_st *stream))          \
    CALL(cuMemcpy2DAsync_v2,                                                           \
         (const struct cuda_memcpy2d *copy, struct CUstream_st *stream))               \
    CALL(cuModuleLoadData, (struct CUmod_st * *module, const void *image))             \
    CALL(cuModuleUnload, (struct CUmod_st * module))                                   \
    CALL(cuModuleGetFunction,                                                          \
         (struct CUfunc_st * *function, struct CUmod_st * module, const char *name))   \
    CALL(cuFuncGetAttribute, (int *value, int attribute, struct CUfunc_st *function))  \
    CALL(cuFuncSetAttribute, (struct CUfunc_st * function, int attribute, int value))  \
    CALL(cuLaunchKernel, (struct CUfunc_st * function, unsigned grid_x,                \
                          unsigned grid_y, unsigned grid_z, unsigned block_x,          \
                          unsigned block_y, unsigned block_z, unsigned smem_bytes,     \
                          struct CUstream_st *stream, void **params, void **extra))

static struct cuda_api {
#define CALL(name, params) int(*name) params;
    CUDA_CALLS(CALL)
#undef CALL
} cu;

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static int visible; /* devices, after load_once */

struct cuda_device {
    struct gb_device base;
    struct CUctx_st *context;
    unsigned long long context_id;
    int device;
    size_t max_pitch;
    atomic_bool lost;
};

struct gb_stream {
    struct CUstream_st *handle;
    struct CUevent_st *drained; /* what stream_sync() waits on */
};

static struct cuda_device *cuda_device(struct gb_device *dev)
{
    return (struct cuda_device *)dev;
}

static const char *error_name(int error)
{
    const char *name = NULL;

    return cu.cuGetErrorName(error, &name) == CUDA_SUCCESS && name ? name
                                                                   : "unknown error";
}

/* The status that a CUresult means, logged once per process when the device is at
 * fault. */
static enum gb_status status_of(int error, const char *call)
{
    static atomic_flag logged = ATOMIC_FLAG_INIT;

    switch (error) {
    case CUDA_SUCCESS:
        return GB_SUCCESS;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return GB_E_NOMEM;
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
    case CUDA_ERROR_NOT_FOUND:
        gb_info("%s: %s", call, error_name(error));
        return GB_E_UNSUPPORTED;
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
        gb_info("%s: %s", call, error_name(error));
        return GB_E_ABSENT;
    default:
        if (!atomic_flag_test_and_set(&logged))
            gb_error("%s failed: %s", call, error_name(error));
        return GB_E_DEVICE;
    }
}

/* The same for a device: remembers that it is lost. */
static enum gb_status check(struct gb_device *dev, int error, const char *call)
{
    enum gb_status status = status_of(error, call);

    if (status == GB_E_DEVICE)
        atomic_store(&cuda_device(dev)->lost, true);
    return status;
}

#define CU(dev, name, ...) check(dev, cu.name(__VA_ARGS__), #name)

static const char *const names[] = {"libcuda.so.1", NULL};
/* The module's node, its trace where nodes are made on first use, WSL, Jetson. */
static const char *const nodes[] = {"/dev/nvidiactl", "/proc/driver/nvidia/version",
                                    "/dev/dxg", "/dev/nvmap", NULL};

static bool cuda_plausible(void)
{
    return gb_driver_plausible(names, nodes);
}

static void load(void)
{
#define CALL(name, params) {#name, &cu.name},
    static const struct gb_driver_symbol symbols[] = {CUDA_CALLS(CALL)};
#undef CALL
    struct gb_hold hold;
    void *handle;
    int error;

    gb_hold_begin(&hold);
    handle = gb_driver_open(names, nodes);
    if (handle && gb_driver_bind(handle, symbols, GB_COUNT(symbols))) {
        error = cu.cuInit(0);
        if (error == CUDA_SUCCESS)
            error = cu.cuDeviceGetCount(&visible);
        if (error != CUDA_SUCCESS) {
            visible = 0;
            gb_info("the CUDA driver finds no device: %s", error_name(error));
        }
    }
    /* The handle is never closed: what the driver has started cannot be stopped. */
    gb_hold_end(&hold);
}

static enum gb_status cuda_count(int *n)
{
    pthread_once(&load_once, load);
    *n = visible;
    return visible > 0 ? GB_SUCCESS : GB_E_ABSENT;
}

static int attribute(int device, int which)
{
    int value = 0;

    return cu.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

static void describe(struct cuda_device *dev, int ordinal)
{
    struct gb_device_info *info = &dev->base.info;
    char pci[32] = "";
    int id = dev->device;

    info->vendor = GB_NVIDIA;
    info->ordinal = ordinal;
    if (cu.cuDeviceGetName(info->name, sizeof info->name, id) != CUDA_SUCCESS)
        info->name[0] = '\0';
    info->arch = 10 * attribute(id, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                 attribute(id, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    snprintf(info->arch_name, sizeof info->arch_name, "sm_%d", info->arch);
    info->multiprocessors = attribute(id, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    info->smem_per_block =
        (size_t)attribute(id, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    info->l2 = (size_t)attribute(id, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    info->clock_khz = attribute(id, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    if (cu.cuDeviceTotalMem_v2(&info->mem_total, id) != CUDA_SUCCESS)
        info->mem_total = 0;
    if (cu.cuDriverGetVersion(&info->driver) != CUDA_SUCCESS)
        info->driver = 0;
    if (cu.cuDeviceGetPCIBusId(pci, sizeof pci, id) != CUDA_SUCCESS)
        pci[0] = '\0';
    gb_driver_pci(info, pci);
    dev->max_pitch = (size_t)attribute(id, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
}

static enum gb_status cuda_open(int ordinal, struct gb_device **out)
{
    struct cuda_device *dev;
    struct gb_hold hold;
    enum gb_status status;
    int n;

    status = cuda_count(&n);
    if (status != GB_SUCCESS)
        return status;
    if (ordinal < 0 || ordinal >= n)
        return GB_E_ABSENT;
    dev = calloc(1, sizeof *dev);
    if (!dev)
        return GB_E_NOMEM;
    dev->base.ops = &gb_cuda_ops;

    gb_hold_begin(&hold);
    status = status_of(cu.cuDeviceGet(&dev->device, ordinal), "cuDeviceGet");
    if (status != GB_SUCCESS)
        goto free_device;
    status = status_of(cu.cuDevicePrimaryCtxRetain(&dev->context, dev->device),
                       "cuDevicePrimaryCtxRetain");
    if (status != GB_SUCCESS)
        goto free_device;
    status = status_of(cu.cuCtxGetId(dev->context, &dev->context_id), "cuCtxGetId");
    if (status != GB_SUCCESS)
        goto release_context;
    describe(dev, ordinal);
    gb_hold_end(&hold);
    *out = &dev->base;
    return GB_SUCCESS;

release_context:
    cu.cuDevicePrimaryCtxRelease_v2(dev->device);
free_device:
    gb_hold_end(&hold);
    free(dev);
    return status;
}

/* The program may have destroyed the primary context (cudaDeviceReset), and a later
 * call of its own made another: all our handles are then dangling. */
static bool context_is_ours(struct cuda_device *dev)
{
    unsigned long long id;

    return cu.cuCtxGetId(dev->context, &id) == CUDA_SUCCESS && id == dev->context_id;
}

static void cuda_close(struct gb_device *base)
{
    struct cuda_device *dev = cuda_device(base);
    struct gb_hold hold;

    gb_hold_begin(&hold);
    if (context_is_ours(dev))
        cu.cuDevicePrimaryCtxRelease_v2(dev->device);
    gb_hold_end(&hold);
    free(dev);
}

static enum gb_status cuda_enter(struct gb_device *base, struct gb_guest *guest)
{
    struct cuda_device *dev = cuda_device(base);
    struct CUctx_st *popped;
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    enum gb_status status;

    gb_guest_save(guest);
    if (atomic_load_explicit(&dev->lost, memory_order_relaxed))
        return GB_E_DEVICE;
    if (!context_is_ours(dev)) {
        if (!atomic_exchange(&dev->lost, true))
            gb_info("the program has destroyed the context of %s", base->info.name);
        status = GB_E_DEVICE;
        goto restore_guest;
    }
    status = CU(base, cuCtxPushCurrent_v2, dev->context);
    if (status != GB_SUCCESS)
        goto restore_guest;
    status = CU(base, cuThreadExchangeStreamCaptureMode, &mode);
    if (status != GB_SUCCESS)
        goto pop_context;
    guest->saved[0] = (uintptr_t)mode;
    return GB_SUCCESS;

pop_context:
    cu.cuCtxPopCurrent_v2(&popped);
restore_guest:
    gb_guest_restore(guest);
    return status;
}

static void cuda_leave(struct gb_device *base, struct gb_guest *guest)
{
    struct CUctx_st *popped;
    int mode = (int)guest->saved[0];

    (void)base;
    cu.cuThreadExchangeStreamCaptureMode(&mode);
    cu.cuCtxPopCurrent_v2(&popped);
    gb_guest_restore(guest);
}

static enum gb_status cuda_mem_info(struct gb_device *dev, size_t *free_bytes,
                                    size_t *total)
{
    size_t now_free, all;
    enum gb_status status = CU(dev, cuMemGetInfo_v2, &now_free, &all);

    if (status == GB_SUCCESS) {
        *free_bytes = now_free;
        *total = all;
    }
    return status;
}

static enum gb_status cuda_mem_alloc(struct gb_device *dev, size_t bytes,
                                     gb_devptr *ptr)
{
    uint64_t memory; /* the driver writes a zero when it refuses */
    enum gb_status status = CU(dev, cuMemAlloc_v2, &memory, bytes);

    if (status == GB_SUCCESS)
        *ptr = memory;
    return status;
}

/* What belongs to a lost device is left to the driver: its handles may be dangling. */
static bool alive(struct gb_device *dev)
{
    return !atomic_load_explicit(&cuda_device(dev)->lost, memory_order_relaxed);
}

static void cuda_mem_free(struct gb_device *dev, gb_devptr ptr)
{
    if (ptr && alive(dev))
        CU(dev, cuMemFree_v2, ptr);
}

static enum gb_status cuda_host_alloc(struct gb_device *dev, size_t bytes, void **ptr)
{
    void *memory;
    enum gb_status status =
        CU(dev, cuMemHostAlloc, &memory, bytes, CU_MEMHOSTALLOC_PORTABLE);

    if (status == GB_SUCCESS)
        *ptr = memory;
    return status;
}

static void cuda_host_free(struct gb_device *dev, void *ptr)
{
    if (ptr && alive(dev))
        CU(dev, cuMemFreeHost, ptr);
}

static enum gb_mem_kind cuda_mem_kind(struct gb_device *dev, const void *ptr)
{
    int attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                        CU_POINTER_ATTRIBUTE_IS_MANAGED,
                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    unsigned type = 0, managed = 0;
    int ordinal = -1;
    void *data[] = {&type, &managed, &ordinal};

    /* Succeeds with zeros for memory that the driver does not know. */
    if (cu.cuPointerGetAttributes(GB_COUNT(attributes), attributes, data,
                                  (uint64_t)(uintptr_t)ptr) != CUDA_SUCCESS)
        return GB_MEM_PAGEABLE;
    if (managed)
        return GB_MEM_MANAGED;
    if (type == CU_MEMORYTYPE_HOST)
        return GB_MEM_PINNED;
    if (type == CU_MEMORYTYPE_DEVICE)
        return ordinal == cuda_device(dev)->device ? GB_MEM_DEVICE : GB_MEM_FOREIGN;
    return GB_MEM_PAGEABLE;
}

static enum gb_status event_make(struct gb_device *dev, struct CUevent_st **event)
{
    return CU(dev, cuEventCreate, event,
              CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING);
}

static enum gb_status cuda_stream_create(struct gb_device *dev, struct gb_stream **out)
{
    struct gb_stream *s = calloc(1, sizeof *s);
    enum gb_status status;

    if (!s)
        return GB_E_NOMEM;
    status = CU(dev, cuStreamCreate, &s->handle, CU_STREAM_NON_BLOCKING);
    if (status != GB_SUCCESS)
        goto free_stream;
    status = event_make(dev, &s->drained);
    if (status != GB_SUCCESS)
        goto destroy_stream;
    *out = s;
    return GB_SUCCESS;

destroy_stream:
    cu.cuStreamDestroy_v2(s->handle);
free_stream:
    free(s);
    return status;
}

static void cuda_stream_destroy(struct gb_device *dev, struct gb_stream *s)
{
    if (!s)
        return;
    if (alive(dev)) {
        CU(dev, cuEventDestroy_v2, s->drained);
        CU(dev, cuStreamDestroy_v2, s->handle);
    }
    free(s);
}

static struct CUevent_st *event_of(struct gb_event *e)
{
    return (struct CUevent_st *)e;
}

static enum gb_status cuda_event_create(struct gb_device *dev, struct gb_event **out)
{
    struct CUevent_st *event;
    enum gb_status status = event_make(dev, &event);

    if (status == GB_SUCCESS)
        *out = (struct gb_event *)event;
    return status;
}

static void cuda_event_destroy(struct gb_device *dev, struct gb_event *e)
{
    if (e && alive(dev))
        CU(dev, cuEventDestroy_v2, event_of(e));
}

static enum gb_status cuda_event_record(struct gb_device *dev, struct gb_event *e,
                                        struct gb_stream *s)
{
    return CU(dev, cuEventRecord, event_of(e), s->handle);
}

static enum gb_status cuda_event_wait(struct gb_device *dev, struct gb_event *e,
                                      struct gb_stream *s)
{
    return CU(dev, cuStreamWaitEvent, s->handle, event_of(e), 0);
}

static enum gb_status cuda_event_sync(struct gb_device *dev, struct gb_event *e)
{
    return CU(dev, cuEventSynchronize, event_of(e));
}

static enum gb_status cuda_event_query(struct gb_device *dev, struct gb_event *e,
                                       bool *done)
{
    int error = cu.cuEventQuery(event_of(e));
    enum gb_status status = GB_SUCCESS;

    if (error != CUDA_ERROR_NOT_READY)
        status = check(dev, error, "cuEventQuery");
    if (status == GB_SUCCESS)
        *done = error == CUDA_SUCCESS;
    return status;
}

static enum gb_status cuda_stream_sync(struct gb_device *dev, struct gb_stream *s)
{
    enum gb_status status = CU(dev, cuEventRecord, s->drained, s->handle);

    return status == GB_SUCCESS ? CU(dev, cuEventSynchronize, s->drained) : status;
}

static enum gb_status cuda_copy_in(struct gb_device *dev, struct gb_stream *s,
                                   gb_devptr dst, size_t dst_pitch, const void *src,
                                   size_t src_pitch, size_t width, size_t height)
{
    enum gb_status status = GB_SUCCESS;

    if (gb_rows_fold(dst_pitch, src_pitch, &width, &height))
        return CU(dev, cuMemcpyHtoDAsync_v2, dst, src, width, s->handle);
    if (dst_pitch <= cuda_device(dev)->max_pitch &&
        src_pitch <= cuda_device(dev)->max_pitch) {
        const struct cuda_memcpy2d copy = {.src_type = CU_MEMORYTYPE_HOST,
                                           .src_host = src,
                                           .src_pitch = src_pitch,
                                           .dst_type = CU_MEMORYTYPE_DEVICE,
                                           .dst_device = dst,
                                           .dst_pitch = dst_pitch,
                                           .width = width,
                                           .height = height};

        return CU(dev, cuMemcpy2DAsync_v2, &copy, s->handle);
    }
    for (size_t i = 0; i < height && status == GB_SUCCESS; i++)
        status = CU(dev, cuMemcpyHtoDAsync_v2, dst + i * dst_pitch,
                    (const char *)src + i * src_pitch, width, s->handle);
    return status;
}

static enum gb_status cuda_copy_out(struct gb_device *dev, struct gb_stream *s,
                                    void *dst, size_t dst_pitch, gb_devptr src,
                                    size_t src_pitch, size_t width, size_t height)
{
    enum gb_status status = GB_SUCCESS;

    if (gb_rows_fold(dst_pitch, src_pitch, &width, &height))
        return CU(dev, cuMemcpyDtoHAsync_v2, dst, src, width, s->handle);
    if (dst_pitch <= cuda_device(dev)->max_pitch &&
        src_pitch <= cuda_device(dev)->max_pitch) {
        const struct cuda_memcpy2d copy = {.src_type = CU_MEMORYTYPE_DEVICE,
                                           .src_device = src,
                                           .src_pitch = src_pitch,
                                           .dst_type = CU_MEMORYTYPE_HOST,
                                           .dst_host = dst,
                                           .dst_pitch = dst_pitch,
                                           .width = width,
                                           .height = height};

        return CU(dev, cuMemcpy2DAsync_v2, &copy, s->handle);
    }
    for (size_t i = 0; i < height && status == GB_SUCCESS; i++)
        status = CU(dev, cuMemcpyDtoHAsync_v2, (char *)dst + i * dst_pitch,
                    src + i * src_pitch, width, s->handle);
    return status;
}

static enum gb_status cuda_module_load(struct gb_device *dev, const char *family,
                                       const void *image, size_t bytes,
                                       struct gb_module **m)
{
    struct CUmod_st *module;
    struct gb_hold hold;
    enum gb_status status;

    (void)bytes; /* a fatbin knows its length */
    if (!image)
        return GB_E_UNSUPPORTED;
    gb_hold_begin(&hold); /* compiling PTX may start threads and writes a cache */
    status = CU(dev, cuModuleLoadData, &module, image);
    gb_hold_end(&hold);
    if (status == GB_SUCCESS)
        *m = (struct gb_module *)module;
    else
        gb_info("the image of %s does not load on %s", family, dev->info.arch_name);
    return status;
}

static void cuda_module_unload(struct gb_device *dev, struct gb_module *m)
{
    if (m && alive(dev))
        CU(dev, cuModuleUnload, (struct CUmod_st *)m);
}

static enum gb_status cuda_module_get(struct gb_device *dev, struct gb_module *m,
                                      const char *symbol, struct gb_function **f)
{
    struct CUfunc_st *function;
    struct gb_hold hold;
    enum gb_status status;
    int used = 0;

    gb_hold_begin(&hold); /* with lazy loading the code is loaded here */
    status = CU(dev, cuModuleGetFunction, &function, (struct CUmod_st *)m, symbol);
    if (status == GB_SUCCESS)
        status = CU(dev, cuFuncGetAttribute, &used, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                    function);
    /* Lets a launch ask for whatever the block may have; launches set nothing then. */
    if (status == GB_SUCCESS)
        status = CU(dev, cuFuncSetAttribute, function,
                    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    (int)dev->info.smem_per_block - used);
    gb_hold_end(&hold);
    if (status == GB_SUCCESS)
        *f = (struct gb_function *)function;
    return status;
}

static enum gb_status cuda_launch(struct gb_device *dev, struct gb_stream *s,
                                  struct gb_function *f, uint32_t grid, uint32_t block,
                                  uint32_t smem_bytes, const void *args,
                                  size_t args_bytes)
{
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)args,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &args_bytes, CU_LAUNCH_PARAM_END};

    return CU(dev, cuLaunchKernel, (struct CUfunc_st *)f, grid, 1, 1, block, 1, 1,
              smem_bytes, s->handle, NULL, extra);
}

const struct gb_device_ops gb_cuda_ops = {
    .name = "cuda",
    .plausible = cuda_plausible,
    .count = cuda_count,
    .open = cuda_open,
    .close = cuda_close,
    .enter = cuda_enter,
    .leave = cuda_leave,
    .mem_info = cuda_mem_info,
    .mem_alloc = cuda_mem_alloc,
    .mem_free = cuda_mem_free,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .mem_kind = cuda_mem_kind,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .stream_sync = cuda_stream_sync,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_wait = cuda_event_wait,
    .event_sync = cuda_event_sync,
    .event_query = cuda_event_query,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .module_load = cuda_module_load,
    .module_unload = cuda_module_unload,
    .module_get = cuda_module_get,
    .launch = cuda_launch,
};
