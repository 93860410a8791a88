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
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "device.h"
#include "driver.h"
#include "log.h"
#include "util.h"

struct CUctx_st;

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

    CU_STREAM_CAPTURE_MODE_RELAXED = 2,

    CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7,
    CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
    CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9,
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 = 11,
    CU_TENSOR_MAP_INTERLEAVE_NONE = 0,
    CU_TENSOR_MAP_SWIZZLE_128B = 3,
    CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2,
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0,
};

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

/* CUlaunchConfig, CUlaunchAttribute */
struct cuda_launch_attribute {
    int id, pad;
    unsigned value[16];
};
struct cuda_launch_config {
    unsigned grid[3], block[3], smem_bytes;
    void *stream;
    struct cuda_launch_attribute *attributes;
    unsigned count;
};
_Static_assert(sizeof(struct cuda_launch_attribute) == 72, "CUlaunchAttribute");
_Static_assert(sizeof(struct cuda_launch_config) == 56, "CUlaunchConfig");

/* CALL(symbol with its version, parameters): what only CUDA has, or has in its own way. All
 * answer a CUresult. */
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
    CALL(cuPointerGetAttributes,                                                       \
         (unsigned n, int *attributes, void **data, uint64_t ptr))                     \
    CALL(cuMemcpyHtoDAsync_v2,                                                         \
         (uint64_t dst, const void *src, size_t bytes, void *stream))                  \
    CALL(cuMemcpyDtoHAsync_v2, (void *dst, uint64_t src, size_t bytes, void *stream))  \
    CALL(cuMemcpy2DAsync_v2, (const struct cuda_memcpy2d *copy, void *stream))         \
    CALL(cuFuncGetAttribute, (int *value, int attribute, void *function))              \
    CALL(cuFuncSetAttribute, (void *function, int attribute, int value))               \
    CALL(cuLaunchKernelEx, (const struct cuda_launch_config *config, void *function,   \
                            void **params, void **extra))                              \
    CALL(cuTensorMapEncodeTiled,                                                       \
         (struct gb_tensor_map * map, int type, unsigned rank, void *at,               \
          const uint64_t *dim, const uint64_t *stride, const uint32_t *box,            \
          const uint32_t *step, int interleave, int swizzle, int promotion, int fill))

static struct cuda_api {
#define CALL(name, params) int(*name) params;
    CUDA_CALLS(CALL)
#undef CALL
} cu;

static struct gb_backend_calls calls;

static const struct gb_driver_symbol symbols[] = {
    {"cuMemGetInfo_v2", &calls.mem_info},
    {"cuMemAlloc_v2", &calls.mem_alloc},
    {"cuMemFree_v2", &calls.mem_free},
    {"cuMemHostAlloc", &calls.host_alloc},
    {"cuMemFreeHost", &calls.host_free},
    {"cuThreadExchangeStreamCaptureMode", &calls.capture_mode},
    {"cuStreamCreate", &calls.stream_create},
    {"cuStreamDestroy_v2", &calls.stream_destroy},
    {"cuStreamWaitEvent", &calls.stream_wait},
    {"cuMemPoolCreate", &calls.pool_create},
    {"cuMemPoolDestroy", &calls.pool_destroy},
    {"cuMemPoolSetAttribute", &calls.pool_set},
    {"cuMemAllocFromPoolAsync", &calls.alloc_queued},
    {"cuMemFreeAsync", &calls.free_queued},
    {"cuEventCreate", &calls.event_create},
    {"cuEventDestroy_v2", &calls.event_destroy},
    {"cuEventRecord", &calls.event_record},
    {"cuEventSynchronize", &calls.event_sync},
    {"cuEventQuery", &calls.event_query},
    {"cuEventElapsedTime", &calls.event_elapsed},
    {"cuModuleLoadData", &calls.module_load},
    {"cuModuleUnload", &calls.module_unload},
    {"cuModuleGetFunction", &calls.module_get},
    {"cuLaunchKernel", &calls.launch},
#define CALL(name, params) {#name, &cu.name},
    CUDA_CALLS(CALL)
#undef CALL
};

static const struct gb_backend_error errors[] = {
    {CUDA_ERROR_OUT_OF_MEMORY, GB_E_NOMEM},
    {CUDA_ERROR_INVALID_IMAGE, GB_E_UNSUPPORTED},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, GB_E_UNSUPPORTED},
    {CUDA_ERROR_INVALID_PTX, GB_E_UNSUPPORTED},
    {CUDA_ERROR_JIT_COMPILER_NOT_FOUND, GB_E_UNSUPPORTED},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, GB_E_UNSUPPORTED},
    {CUDA_ERROR_JIT_COMPILATION_DISABLED, GB_E_UNSUPPORTED},
    {CUDA_ERROR_NOT_FOUND, GB_E_UNSUPPORTED},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, GB_E_ABSENT},
    {CUDA_ERROR_NO_DEVICE, GB_E_ABSENT},
    {CUDA_ERROR_INVALID_DEVICE, GB_E_ABSENT},
};

static const char *const names[] = {"libcuda.so.1", NULL};
/* The module's node, its trace where nodes are made on first use, WSL, Jetson. */
static const char *const nodes[] = {"/dev/nvidiactl", "/proc/driver/nvidia/version",
                                    "/dev/dxg", "/dev/nvmap", NULL};

static const char *error_name(int error)
{
    const char *name = NULL;

    return cu.cuGetErrorName(error, &name) == CUDA_SUCCESS && name ? name
                                                                   : "unknown error";
}

static int start(int *visible)
{
    int error = cu.cuInit(0);

    return error == CUDA_SUCCESS ? cu.cuDeviceGetCount(visible) : error;
}

static enum gb_status cuda_copy(struct gb_device *dev, void *stream,
                                const struct gb_backend_copy *copy);

static struct gb_backend backend = {
    .what = "the CUDA driver",
    .names = names,
    .nodes = nodes,
    .symbols = symbols,
    .n_symbols = GB_COUNT(symbols),
    .errors = errors,
    .n_errors = GB_COUNT(errors),
    .calls = &calls,
    /* A packed argument would have to lie where the kernel's parameters begin, and that is
     * not a multiple of the 64 bytes to which tensor maps are aligned. */
    .launch_end = NULL,
    .start = start,
    .error_name = error_name,
    .copy = cuda_copy,
    .logged = ATOMIC_FLAG_INIT,
};

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static int visible; /* devices, after load_once */

struct cuda_device {
    struct gb_backend_device common;
    struct CUctx_st *context;
    unsigned long long context_id;
    int device;
};

static struct cuda_device *cuda_device(struct gb_device *dev)
{
    return (struct cuda_device *)dev;
}

/* The status of a call of CUDA's own: for anyone, and for a device. */
#define CU(name, ...) gb_backend_status(&backend, cu.name(__VA_ARGS__), &cu.name)
#define CU_DEV(dev, name, ...) gb_backend_check(dev, cu.name(__VA_ARGS__), &cu.name)

static bool cuda_plausible(void)
{
    return gb_driver_plausible(names, nodes);
}

static bool cuda_loaded(void)
{
    return gb_driver_loaded(names);
}

static void load(void)
{
    visible = gb_backend_load(&backend);
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
    struct gb_device_info *info = &dev->common.base.info;
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
    dev->common.max_pitch = (size_t)attribute(id, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
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
    dev->common.base.ops = &gb_cuda_ops;
    dev->common.backend = &backend;

    gb_hold_begin(&hold);
    status = CU(cuDeviceGet, &dev->device, ordinal);
    if (status != GB_SUCCESS)
        goto free_device;
    status = CU(cuDevicePrimaryCtxRetain, &dev->context, dev->device);
    if (status != GB_SUCCESS)
        goto free_device;
    status = CU(cuCtxGetId, dev->context, &dev->context_id);
    if (status != GB_SUCCESS)
        goto release_context;
    describe(dev, ordinal);
    gb_hold_end(&hold);
    *out = &dev->common.base;
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
    if (context_is_ours(dev)) {
        gb_backend_pool_drop(base);
        cu.cuDevicePrimaryCtxRelease_v2(dev->device);
    }
    gb_hold_end(&hold);
    free(dev);
}

static enum gb_status cuda_enter(struct gb_device *base, struct gb_guest *guest)
{
    struct cuda_device *dev = cuda_device(base);
    struct CUctx_st *popped;
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    enum gb_status status;

    if (!gb_backend_alive(base))
        return GB_E_DEVICE;
    gb_guest_save(guest);
    if (!context_is_ours(dev)) {
        if (!atomic_exchange(&dev->common.lost, true))
            gb_info("the program has destroyed the context of %s", base->info.name);
        status = GB_E_DEVICE;
        goto restore_guest;
    }
    status = CU_DEV(base, cuCtxPushCurrent_v2, dev->context);
    if (status != GB_SUCCESS)
        goto restore_guest;
    status = gb_backend_check(base, calls.capture_mode(&mode), &calls.capture_mode);
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
    calls.capture_mode(&mode);
    cu.cuCtxPopCurrent_v2(&popped);
    gb_guest_restore(guest);
}

typedef int (*cuda_query)(unsigned n, int *attributes, void **data, uint64_t ptr);

/* `device` -1: any. False when the driver does not answer. */
static bool ask_kind(cuda_query query, const void *ptr, int device,
                     enum gb_mem_kind *kind)
{
    int attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                        CU_POINTER_ATTRIBUTE_IS_MANAGED,
                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    unsigned type = 0, managed = 0;
    int ordinal = -1;
    void *data[] = {&type, &managed, &ordinal};

    /* Succeeds with zeros for memory that the driver does not know. */
    if (query(GB_COUNT(attributes), attributes, data, (uint64_t)(uintptr_t)ptr) !=
        CUDA_SUCCESS)
        return false;
    *kind = GB_MEM_PAGEABLE;
    if (managed)
        *kind = GB_MEM_MANAGED;
    else if (type == CU_MEMORYTYPE_HOST)
        *kind = GB_MEM_PINNED;
    else if (type == CU_MEMORYTYPE_DEVICE)
        *kind = device < 0 || ordinal == device ? GB_MEM_DEVICE : GB_MEM_FOREIGN;
    return true;
}

static enum gb_mem_kind cuda_mem_kind(struct gb_device *dev, const void *ptr)
{
    enum gb_mem_kind kind;

    return ask_kind(cu.cuPointerGetAttributes, ptr, cuda_device(dev)->device, &kind)
               ? kind
               : GB_MEM_PAGEABLE;
}

static pthread_once_t query_once = PTHREAD_ONCE_INIT;
static cuda_query
    loaded_query; /* of the program's driver, which we need not have started */

static void find_query(void)
{
    void *found = gb_driver_find(names, "cuPointerGetAttributes");

    memcpy(&loaded_query, &found, sizeof found);
}

/* Not by cuInit, which takes long: before the program calls it there is no device memory, and
 * in a forked child the driver refuses both. */
static enum gb_mem_kind cuda_mem_where(const void *ptr)
{
    enum gb_mem_kind kind;

    pthread_once(&query_once, find_query);
    return loaded_query && ask_kind(loaded_query, ptr, -1, &kind)
               ? kind
               : gb_driver_guess(ptr);
}

static enum gb_status cuda_copy(struct gb_device *dev, void *stream,
                                const struct gb_backend_copy *copy)
{
    void *host = (void *)(uintptr_t)(copy->in ? copy->src : copy->dst);
    struct cuda_memcpy2d rows = {.src_pitch = copy->src_pitch,
                                 .dst_pitch = copy->dst_pitch,
                                 .width = copy->width,
                                 .height = copy->height};

    if (copy->height == 1 && copy->in)
        return CU_DEV(dev, cuMemcpyHtoDAsync_v2, copy->dst, host, copy->width, stream);
    if (copy->height == 1)
        return CU_DEV(dev, cuMemcpyDtoHAsync_v2, host, copy->src, copy->width, stream);
    if (copy->in) {
        rows.src_type = CU_MEMORYTYPE_HOST;
        rows.src_host = host;
        rows.dst_type = CU_MEMORYTYPE_DEVICE;
        rows.dst_device = copy->dst;
    } else {
        rows.src_type = CU_MEMORYTYPE_DEVICE;
        rows.src_device = copy->src;
        rows.dst_type = CU_MEMORYTYPE_HOST;
        rows.dst_host = host;
    }
    return CU_DEV(dev, cuMemcpy2DAsync_v2, &rows, stream);
}

static enum gb_status cuda_module_get(struct gb_device *dev, struct gb_module *m,
                                      const char *symbol, struct gb_function **f)
{
    struct gb_function *function;
    struct gb_hold hold;
    enum gb_status status;
    int used = 0;

    gb_hold_begin(&hold); /* with lazy loading the code is loaded here */
    status = gb_backend_module_get(dev, m, symbol, &function);
    if (status == GB_SUCCESS)
        status = CU_DEV(dev, cuFuncGetAttribute, &used,
                        CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
    /* Lets a launch ask for whatever the block may have; launches set nothing then. */
    if (status == GB_SUCCESS)
        status = CU_DEV(dev, cuFuncSetAttribute, function,
                        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                        (int)dev->info.smem_per_block - used);
    gb_hold_end(&hold);
    if (status == GB_SUCCESS)
        *f = function;
    return status;
}

static enum gb_status cuda_launch_shaped(struct gb_device *dev, struct gb_stream *s,
                                         struct gb_function *f,
                                         const struct gb_launch_shape *shape,
                                         const void *args, size_t args_bytes)
{
    struct cuda_launch_attribute attributes[2];
    struct cuda_launch_config config = {
        .grid = {shape->grid, 1, 1},
        .block = {shape->block, 1, 1},
        .smem_bytes = shape->smem_bytes,
        .stream = gb_backend_stream_handle(s),
        .attributes = attributes,
    };
    void *params[] = {(void *)args};

    (void)args_bytes;
    if (shape->cluster)
        attributes[config.count++] =
            (struct cuda_launch_attribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                           .value = {shape->cluster, 1, 1}};
    if (shape->early)
        attributes[config.count++] = (struct cuda_launch_attribute){
            .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value = {1}};
    return gb_backend_check_queued(
        dev, s, cu.cuLaunchKernelEx(&config, f, params, NULL), &cu.cuLaunchKernelEx);
}

static enum gb_status cuda_tensor_map(struct gb_device *dev,
                                      const struct gb_tensor *tensor,
                                      struct gb_tensor_map *map)
{
    static const uint32_t step[3] = {1, 1, 1};
    const uint32_t box[3] = {tensor->box[0], tensor->box[1], 1};
    int type = tensor->type == GB_F16    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
               : tensor->type == GB_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
               : tensor->type == GB_I8   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
               : tensor->tf32            ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
                                         : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;

    /* Its one error says that the numbers are not what struct gb_tensor asks for. */
    if (cu.cuTensorMapEncodeTiled(
            map, type, 3, (void *)(uintptr_t)tensor->at, tensor->dim, tensor->stride,
            box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
            CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
        return GB_E_UNSUPPORTED;
    (void)dev;
    return GB_SUCCESS;
}

const struct gb_device_ops gb_cuda_ops = {
    .name = "cuda",
    .plausible = cuda_plausible,
    .loaded = cuda_loaded,
    .count = cuda_count,
    .open = cuda_open,
    .close = cuda_close,
    .enter = cuda_enter,
    .leave = cuda_leave,
    .mem_info = gb_backend_mem_info,
    .mem_alloc = gb_backend_mem_alloc,
    .mem_free = gb_backend_mem_free,
    .host_alloc = gb_backend_host_alloc,
    .host_free = gb_backend_host_free,
    .mem_kind = cuda_mem_kind,
    .mem_where = cuda_mem_where,
    .stream_create = gb_backend_stream_create,
    .stream_destroy = gb_backend_stream_destroy,
    .stream_sync = gb_backend_stream_sync,
    .stream_borrow = gb_backend_stream_borrow,
    .stream_return = gb_backend_stream_return,
    .alloc_queued = gb_backend_alloc_queued,
    .free_queued = gb_backend_free_queued,
    .event_create = gb_backend_event_create,
    .event_destroy = gb_backend_event_destroy,
    .event_record = gb_backend_event_record,
    .event_wait = gb_backend_event_wait,
    .event_sync = gb_backend_event_sync,
    .event_query = gb_backend_event_query,
    .timer_create = gb_backend_timer_create,
    .timer_elapsed = gb_backend_timer_elapsed,
    .copy_in = gb_backend_copy_in,
    .copy_out = gb_backend_copy_out,
    .module_load = gb_backend_module_load,
    .module_unload = gb_backend_module_unload,
    .module_get = cuda_module_get,
    .launch = gb_backend_launch,
    .launch_shaped = cuda_launch_shaped,
    .tensor_map = cuda_tensor_map,
};
