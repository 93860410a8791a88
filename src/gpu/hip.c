/* SPDX-License-Identifier: BSD-3-Clause */
/* AMD devices through the HIP runtime, which is found by dlopen and called through
 * prototypes of our own, limited to what is the same from ROCm 5 to 7: no
 * hipDeviceProp_t (its layout and the symbol changed with 6.0), attributes whose
 * numbers did not change, and the memory types of a pointer by the runtime's major
 * version.
 *
 * HIP has a current device per thread, no stack of contexts: enter() notes it and
 * leave() sets it again. A call that failed leaves its error for hipGetLastError();
 * ours are taken back, so that the program never sees them. */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "driver.h"
#include "log.h"
#include "util.h"

struct ihipEvent_t;
struct ihipModuleSymbol_t;
struct ihipModule_t;
struct ihipStream_t;

enum {
    hipSuccess = 0,
    hipErrorOutOfMemory = 2,
    hipErrorNoDevice = 100,
    hipErrorInvalidDevice = 101,
    hipErrorInvalidImage = 200,
    hipErrorNoBinaryForGpu = 209,
    hipErrorInvalidKernelFile = 218,
    hipErrorNotFound = 500,
    hipErrorNotReady = 600,

    hipDeviceAttributeClockRate = 5,
    hipDeviceAttributeL2CacheSize = 19,
    hipDeviceAttributeComputeCapabilityMajor = 23,
    hipDeviceAttributeMaxPitch = 58,
    hipDeviceAttributeComputeCapabilityMinor = 61,
    hipDeviceAttributeMultiprocessorCount = 63,
    hipDeviceAttributeMaxSharedMemoryPerBlock = 74,

    hipMemcpyHostToDevice = 1,
    hipMemcpyDeviceToHost = 2,

    hipHostMallocPortable = 1,
    hipStreamNonBlocking = 1,
    hipStreamCaptureModeRelaxed = 2,
    hipEventBlockingSync = 1,
    hipEventDisableTiming = 2,
};

#define HIP_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define HIP_LAUNCH_PARAM_BUFFER_SIZE ((void *)2)
#define HIP_LAUNCH_PARAM_END ((void *)3)

/* hipPointerAttribute_t */
struct hip_pointer {
    int type;
    int device;
    void *device_pointer, *host_pointer;
    int is_managed;
    unsigned flags;
};
_Static_assert(sizeof(struct hip_pointer) == 32, "layout of hipPointerAttribute_t");

/* CALL(symbol, parameters). All answer a hipError_t. */
#define HIP_CALLS(CALL)                                                                \
    CALL(hipInit, (unsigned flags))                                                    \
    CALL(hipDriverGetVersion, (int *version))                                          \
    CALL(hipRuntimeGetVersion, (int *version))                                         \
    CALL(hipGetLastError, (void))                                                      \
    CALL(hipGetDeviceCount, (int *n))                                                  \
    CALL(hipGetDevice, (int *device))                                                  \
    CALL(hipSetDevice, (int device))                                                   \
    CALL(hipDeviceGetName, (char *name, int len, int device))                          \
    CALL(hipDeviceGetAttribute, (int *value, int attribute, int device))               \
    CALL(hipDeviceGetPCIBusId, (char *pci, int len, int device))                       \
    CALL(hipDeviceTotalMem, (size_t * bytes, int device))                              \
    CALL(hipThreadExchangeStreamCaptureMode, (int *mode))                              \
    CALL(hipMemGetInfo, (size_t * free_bytes, size_t * total))                         \
    CALL(hipMalloc, (void **ptr, size_t bytes))                                        \
    CALL(hipFree, (void *ptr))                                                         \
    CALL(hipHostMalloc, (void **ptr, size_t bytes, unsigned flags))                    \
    CALL(hipHostFree, (void *ptr))                                                     \
    CALL(hipPointerGetAttributes, (struct hip_pointer * attributes, const void *ptr))  \
    CALL(hipStreamCreateWithFlags, (struct ihipStream_t * *stream, unsigned flags))    \
    CALL(hipStreamDestroy, (struct ihipStream_t * stream))                             \
    CALL(hipStreamWaitEvent,                                                           \
         (struct ihipStream_t * stream, struct ihipEvent_t * event, unsigned flags))   \
    CALL(hipEventCreateWithFlags, (struct ihipEvent_t * *event, unsigned flags))       \
    CALL(hipEventDestroy, (struct ihipEvent_t * event))                                \
    CALL(hipEventRecord, (struct ihipEvent_t * event, struct ihipStream_t * stream))   \
    CALL(hipEventSynchronize, (struct ihipEvent_t * event))                            \
    CALL(hipEventQuery, (struct ihipEvent_t * event))                                  \
    CALL(hipMemcpyAsync, (void *dst, const void *src, size_t bytes, int kind,          \
                          struct ihipStream_t *stream))                                \
    CALL(hipMemcpy2DAsync,                                                             \
         (void *dst, size_t dst_pitch, const void *src, size_t src_pitch,              \
          size_t width, size_t height, int kind, struct ihipStream_t *stream))         \
    CALL(hipModuleLoadData, (struct ihipModule_t * *module, const void *image))        \
    CALL(hipModuleUnload, (struct ihipModule_t * module))                              \
    CALL(hipModuleGetFunction, (struct ihipModuleSymbol_t * *function,                 \
                                struct ihipModule_t * module, const char *name))       \
    CALL(hipModuleLaunchKernel,                                                        \
         (struct ihipModuleSymbol_t * function, unsigned grid_x, unsigned grid_y,      \
          unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,       \
          unsigned smem_bytes, struct ihipStream_t *stream, void **params,             \
          void **extra))

static struct hip_api {
#define CALL(name, params) int(*name) params;
    HIP_CALLS(CALL)
#undef CALL
    const char *(*hipGetErrorName)(int error);
} hip;

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static int visible; /* devices, after load_once */
static int major;   /* of the runtime: 5, 6, 7 */

struct hip_device {
    struct gb_device base;
    size_t max_pitch;
    atomic_bool lost;
};

struct gb_stream {
    struct ihipStream_t *handle;
    struct ihipEvent_t *drained; /* what stream_sync() waits on */
};

static struct hip_device *hip_device(struct gb_device *dev)
{
    return (struct hip_device *)dev;
}

/* The status that a hipError_t means, logged once per process when the device is at
 * fault. */
static enum gb_status status_of(int error, const char *call)
{
    static atomic_flag logged = ATOMIC_FLAG_INIT;

    if (error == hipSuccess)
        return GB_SUCCESS;
    hip.hipGetLastError();
    switch (error) {
    case hipErrorOutOfMemory:
        return GB_E_NOMEM;
    case hipErrorInvalidImage:
    case hipErrorNoBinaryForGpu:
    case hipErrorInvalidKernelFile:
    case hipErrorNotFound:
        gb_info("%s: %s", call, hip.hipGetErrorName(error));
        return GB_E_UNSUPPORTED;
    case hipErrorNoDevice:
    case hipErrorInvalidDevice:
        gb_info("%s: %s", call, hip.hipGetErrorName(error));
        return GB_E_ABSENT;
    default:
        if (!atomic_flag_test_and_set(&logged))
            gb_error("%s failed: %s", call, hip.hipGetErrorName(error));
        return GB_E_DEVICE;
    }
}

/* The same for a device: remembers that it is lost. */
static enum gb_status check(struct gb_device *dev, int error, const char *call)
{
    enum gb_status status = status_of(error, call);

    if (status == GB_E_DEVICE)
        atomic_store(&hip_device(dev)->lost, true);
    return status;
}

#define HIP(dev, name, ...) check(dev, hip.name(__VA_ARGS__), #name)

static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6",
                                    "libamdhip64.so.5", NULL};
static const char *const nodes[] = {"/dev/kfd", NULL};

static bool hip_plausible(void)
{
    return gb_driver_plausible(names, nodes);
}

static void load(void)
{
#define CALL(name, params) {#name, &hip.name},
    static const struct gb_driver_symbol symbols[] = {
        HIP_CALLS(CALL){"hipGetErrorName", &hip.hipGetErrorName}};
#undef CALL
    struct gb_hold hold;
    void *handle;
    int error, version = 0;

    gb_hold_begin(&hold);
    handle = gb_driver_open(names, nodes);
    if (handle && gb_driver_bind(handle, symbols, GB_COUNT(symbols))) {
        error = hip.hipInit(0);
        if (error == hipSuccess)
            error = hip.hipRuntimeGetVersion(&version);
        if (error == hipSuccess)
            error = hip.hipGetDeviceCount(&visible);
        major = version / 10000000;
        if (error != hipSuccess) {
            visible = 0;
            gb_info("the HIP runtime finds no device: %s", hip.hipGetErrorName(error));
            hip.hipGetLastError();
        }
    }
    /* The handle is never closed: what the runtime has started cannot be stopped. */
    gb_hold_end(&hold);
}

static enum gb_status hip_count(int *n)
{
    pthread_once(&load_once, load);
    *n = visible;
    return visible > 0 ? GB_SUCCESS : GB_E_ABSENT;
}

static int attribute(int device, int which)
{
    int value = 0;

    return status_of(hip.hipDeviceGetAttribute(&value, which, device),
                     "hipDeviceGetAttribute") == GB_SUCCESS
               ? value
               : 0;
}

/* The driver's description of the node at a PCI address says gfx_target_version: 90402
 * for gfx942, 90010 for gfx90a. 0 when there is none. */
static int target_version(const char *pci)
{
    static const char root[] = "/sys/class/kfd/kfd/topology/nodes";
    unsigned domain, bus, slot, function;
    struct dirent *entry;
    int found = 0;
    DIR *dir;

    if (sscanf(pci, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
        return 0;
    dir = opendir(root);
    if (!dir)
        return 0;
    while (!found && (entry = readdir(dir)) != NULL) {
        unsigned long long value, location = ~0ull, place = ~0ull;
        char path[128], key[64];
        int version = 0;
        FILE *file;

        snprintf(path, sizeof path, "%s/%.16s/properties", root, entry->d_name);
        file = fopen(path, "re");
        if (!file)
            continue;
        while (fscanf(file, "%63s %llu", key, &value) == 2) {
            if (strcmp(key, "location_id") == 0)
                location = value;
            else if (strcmp(key, "domain") == 0)
                place = value;
            else if (strcmp(key, "gfx_target_version") == 0)
                version = (int)value;
        }
        fclose(file);
        if (place == domain && location == (bus << 8 | slot << 3 | function))
            found = version;
    }
    closedir(dir);
    return found;
}

/* gfx<major><minor><stepping>, the last two as hexadecimal digits. The attributes give
 * no stepping, which tells gfx90a from gfx906 and gfx908. */
static void describe_arch(struct gb_device_info *info, int device)
{
    int version = target_version(info->pci);
    int generation = version / 10000, minor = version / 100 % 100, step = version % 100;

    if (!version) {
        generation = attribute(device, hipDeviceAttributeComputeCapabilityMajor);
        minor = attribute(device, hipDeviceAttributeComputeCapabilityMinor);
        if (generation == 9 && minor == 4)
            step = 2;
        else if (generation == 9 && minor == 0)
            generation = 0;
    }
    info->arch = 100 * generation + 10 * minor + step;
    if (info->arch)
        snprintf(info->arch_name, sizeof info->arch_name, "gfx%d%x%x", generation,
                 (unsigned)minor & 15, (unsigned)step & 15);
    else
        snprintf(info->arch_name, sizeof info->arch_name, "gfx90?");
}

static void describe(struct hip_device *dev, int ordinal)
{
    struct gb_device_info *info = &dev->base.info;
    char pci[32] = "";

    info->vendor = GB_AMD;
    info->ordinal = ordinal;
    if (status_of(hip.hipDeviceGetName(info->name, sizeof info->name, ordinal),
                  "hipDeviceGetName") != GB_SUCCESS)
        info->name[0] = '\0';
    info->multiprocessors = attribute(ordinal, hipDeviceAttributeMultiprocessorCount);
    info->smem_per_block =
        (size_t)attribute(ordinal, hipDeviceAttributeMaxSharedMemoryPerBlock);
    info->l2 = (size_t)attribute(ordinal, hipDeviceAttributeL2CacheSize);
    info->clock_khz = attribute(ordinal, hipDeviceAttributeClockRate);
    if (status_of(hip.hipDeviceTotalMem(&info->mem_total, ordinal),
                  "hipDeviceTotalMem") != GB_SUCCESS)
        info->mem_total = 0;
    if (status_of(hip.hipDriverGetVersion(&info->driver), "hipDriverGetVersion") !=
        GB_SUCCESS)
        info->driver = 0;
    if (status_of(hip.hipDeviceGetPCIBusId(pci, sizeof pci, ordinal),
                  "hipDeviceGetPCIBusId") != GB_SUCCESS)
        pci[0] = '\0';
    gb_driver_pci(info, pci);
    describe_arch(info, ordinal);
    dev->max_pitch = (size_t)attribute(ordinal, hipDeviceAttributeMaxPitch);
}

static enum gb_status hip_open(int ordinal, struct gb_device **out)
{
    struct hip_device *dev;
    struct gb_hold hold;
    enum gb_status status;
    size_t free_bytes, total;
    int n, before = 0;

    status = hip_count(&n);
    if (status != GB_SUCCESS)
        return status;
    if (ordinal < 0 || ordinal >= n)
        return GB_E_ABSENT;
    dev = calloc(1, sizeof *dev);
    if (!dev)
        return GB_E_NOMEM;
    dev->base.ops = &gb_hip_ops;

    gb_hold_begin(&hold);
    status = status_of(hip.hipGetDevice(&before), "hipGetDevice");
    if (status == GB_SUCCESS)
        status = status_of(hip.hipSetDevice(ordinal), "hipSetDevice");
    if (status == GB_SUCCESS) {
        /* The first call that needs the device starts it and its threads. */
        status = status_of(hip.hipMemGetInfo(&free_bytes, &total), "hipMemGetInfo");
        if (status == GB_SUCCESS)
            describe(dev, ordinal);
        status_of(hip.hipSetDevice(before), "hipSetDevice");
    }
    gb_hold_end(&hold);
    if (status != GB_SUCCESS) {
        free(dev);
        return status;
    }
    *out = &dev->base;
    return GB_SUCCESS;
}

static void hip_close(struct gb_device *dev)
{
    free(hip_device(dev)); /* the runtime keeps its own device open */
}

static enum gb_status hip_enter(struct gb_device *dev, struct gb_guest *guest)
{
    int before, mode = hipStreamCaptureModeRelaxed;
    enum gb_status status;

    gb_guest_save(guest);
    if (atomic_load_explicit(&hip_device(dev)->lost, memory_order_relaxed))
        return GB_E_DEVICE;
    status = HIP(dev, hipGetDevice, &before);
    if (status != GB_SUCCESS)
        goto restore_guest;
    status = HIP(dev, hipSetDevice, dev->info.ordinal);
    if (status != GB_SUCCESS)
        goto restore_guest;
    status = HIP(dev, hipThreadExchangeStreamCaptureMode, &mode);
    if (status != GB_SUCCESS)
        goto restore_device;
    guest->saved[0] = (uintptr_t)mode;
    guest->saved[1] = (uintptr_t)before;
    return GB_SUCCESS;

restore_device:
    status_of(hip.hipSetDevice(before), "hipSetDevice");
restore_guest:
    gb_guest_restore(guest);
    return status;
}

static void hip_leave(struct gb_device *dev, struct gb_guest *guest)
{
    int mode = (int)guest->saved[0];

    HIP(dev, hipThreadExchangeStreamCaptureMode, &mode);
    HIP(dev, hipSetDevice, (int)guest->saved[1]);
    gb_guest_restore(guest);
}

static enum gb_status hip_mem_info(struct gb_device *dev, size_t *free_bytes,
                                   size_t *total)
{
    size_t now_free, all;
    enum gb_status status = HIP(dev, hipMemGetInfo, &now_free, &all);

    if (status == GB_SUCCESS) {
        *free_bytes = now_free;
        *total = all;
    }
    return status;
}

static void *pointer_of(gb_devptr ptr)
{
    return (void *)(uintptr_t)ptr;
}

static enum gb_status hip_mem_alloc(struct gb_device *dev, size_t bytes, gb_devptr *ptr)
{
    void *memory;
    enum gb_status status = HIP(dev, hipMalloc, &memory, bytes);

    if (status == GB_SUCCESS)
        *ptr = (gb_devptr)(uintptr_t)memory;
    return status;
}

static bool alive(struct gb_device *dev)
{
    return !atomic_load_explicit(&hip_device(dev)->lost, memory_order_relaxed);
}

static void hip_mem_free(struct gb_device *dev, gb_devptr ptr)
{
    if (ptr && alive(dev))
        HIP(dev, hipFree, pointer_of(ptr));
}

static enum gb_status hip_host_alloc(struct gb_device *dev, size_t bytes, void **ptr)
{
    void *memory; /* the runtime writes a zero when it refuses */
    enum gb_status status =
        HIP(dev, hipHostMalloc, &memory, bytes, hipHostMallocPortable);

    if (status == GB_SUCCESS)
        *ptr = memory;
    return status;
}

static void hip_host_free(struct gb_device *dev, void *ptr)
{
    if (ptr && alive(dev))
        HIP(dev, hipHostFree, ptr);
}

static enum gb_mem_kind hip_mem_kind(struct gb_device *dev, const void *ptr)
{
    struct hip_pointer at = {.type = -1};
    /* ROCm 5: host 0, device 1, array 2. Since 6: unregistered 0, host 1, device 2. */
    int host = major < 6 ? 0 : 1;

    if (hip.hipPointerGetAttributes(&at, ptr) != hipSuccess) {
        hip.hipGetLastError(); /* to HIP, memory that it does not know is an error */
        return GB_MEM_PAGEABLE;
    }
    if (at.is_managed)
        return GB_MEM_MANAGED;
    if (at.type == host)
        return GB_MEM_PINNED;
    if (at.type == host + 1)
        return at.device == dev->info.ordinal ? GB_MEM_DEVICE : GB_MEM_FOREIGN;
    return GB_MEM_PAGEABLE;
}

static enum gb_status event_make(struct gb_device *dev, struct ihipEvent_t **event)
{
    return HIP(dev, hipEventCreateWithFlags, event,
               hipEventBlockingSync | hipEventDisableTiming);
}

static enum gb_status hip_stream_create(struct gb_device *dev, struct gb_stream **out)
{
    struct gb_stream *s = calloc(1, sizeof *s);
    enum gb_status status;

    if (!s)
        return GB_E_NOMEM;
    status = HIP(dev, hipStreamCreateWithFlags, &s->handle, hipStreamNonBlocking);
    if (status != GB_SUCCESS)
        goto free_stream;
    status = event_make(dev, &s->drained);
    if (status != GB_SUCCESS)
        goto destroy_stream;
    *out = s;
    return GB_SUCCESS;

destroy_stream:
    HIP(dev, hipStreamDestroy, s->handle);
free_stream:
    free(s);
    return status;
}

static void hip_stream_destroy(struct gb_device *dev, struct gb_stream *s)
{
    if (!s)
        return;
    if (alive(dev)) {
        HIP(dev, hipEventDestroy, s->drained);
        HIP(dev, hipStreamDestroy, s->handle);
    }
    free(s);
}

static struct ihipEvent_t *event_of(struct gb_event *e)
{
    return (struct ihipEvent_t *)e;
}

static enum gb_status hip_event_create(struct gb_device *dev, struct gb_event **out)
{
    struct ihipEvent_t *event;
    enum gb_status status = event_make(dev, &event);

    if (status == GB_SUCCESS)
        *out = (struct gb_event *)event;
    return status;
}

static void hip_event_destroy(struct gb_device *dev, struct gb_event *e)
{
    if (e && alive(dev))
        HIP(dev, hipEventDestroy, event_of(e));
}

static enum gb_status hip_event_record(struct gb_device *dev, struct gb_event *e,
                                       struct gb_stream *s)
{
    return HIP(dev, hipEventRecord, event_of(e), s->handle);
}

static enum gb_status hip_event_wait(struct gb_device *dev, struct gb_event *e,
                                     struct gb_stream *s)
{
    return HIP(dev, hipStreamWaitEvent, s->handle, event_of(e), 0);
}

static enum gb_status hip_event_sync(struct gb_device *dev, struct gb_event *e)
{
    return HIP(dev, hipEventSynchronize, event_of(e));
}

static enum gb_status hip_event_query(struct gb_device *dev, struct gb_event *e,
                                      bool *done)
{
    int error = hip.hipEventQuery(event_of(e));
    enum gb_status status = GB_SUCCESS;

    if (error == hipErrorNotReady)
        hip.hipGetLastError();
    else
        status = check(dev, error, "hipEventQuery");
    if (status == GB_SUCCESS)
        *done = error == hipSuccess;
    return status;
}

static enum gb_status hip_stream_sync(struct gb_device *dev, struct gb_stream *s)
{
    enum gb_status status = HIP(dev, hipEventRecord, s->drained, s->handle);

    return status == GB_SUCCESS ? HIP(dev, hipEventSynchronize, s->drained) : status;
}

/* Both directions: HIP's copies take plain pointers and a kind. */
static enum gb_status copy(struct gb_device *dev, struct gb_stream *s, int kind,
                           void *dst, size_t dst_pitch, const void *src,
                           size_t src_pitch, size_t width, size_t height)
{
    size_t max_pitch = hip_device(dev)->max_pitch;
    enum gb_status status = GB_SUCCESS;

    if (gb_rows_fold(dst_pitch, src_pitch, &width, &height))
        return HIP(dev, hipMemcpyAsync, dst, src, width, kind, s->handle);
    if (dst_pitch <= max_pitch && src_pitch <= max_pitch)
        return HIP(dev, hipMemcpy2DAsync, dst, dst_pitch, src, src_pitch, width, height,
                   kind, s->handle);
    for (size_t i = 0; i < height && status == GB_SUCCESS; i++)
        status = HIP(dev, hipMemcpyAsync, (char *)dst + i * dst_pitch,
                     (const char *)src + i * src_pitch, width, kind, s->handle);
    return status;
}

static enum gb_status hip_copy_in(struct gb_device *dev, struct gb_stream *s,
                                  gb_devptr dst, size_t dst_pitch, const void *src,
                                  size_t src_pitch, size_t width, size_t height)
{
    return copy(dev, s, hipMemcpyHostToDevice, pointer_of(dst), dst_pitch, src,
                src_pitch, width, height);
}

static enum gb_status hip_copy_out(struct gb_device *dev, struct gb_stream *s,
                                   void *dst, size_t dst_pitch, gb_devptr src,
                                   size_t src_pitch, size_t width, size_t height)
{
    return copy(dev, s, hipMemcpyDeviceToHost, dst, dst_pitch, pointer_of(src),
                src_pitch, width, height);
}

static enum gb_status hip_module_load(struct gb_device *dev, const char *family,
                                      const void *image, size_t bytes,
                                      struct gb_module **m)
{
    struct ihipModule_t *module;
    struct gb_hold hold;
    enum gb_status status;

    (void)bytes; /* a code object knows its length */
    if (!image)
        return GB_E_UNSUPPORTED;
    gb_hold_begin(&hold);
    status = HIP(dev, hipModuleLoadData, &module, image);
    gb_hold_end(&hold);
    if (status == GB_SUCCESS)
        *m = (struct gb_module *)module;
    else
        gb_info("the image of %s does not load on %s", family, dev->info.arch_name);
    return status;
}

static void hip_module_unload(struct gb_device *dev, struct gb_module *m)
{
    if (m && alive(dev))
        HIP(dev, hipModuleUnload, (struct ihipModule_t *)m);
}

static enum gb_status hip_module_get(struct gb_device *dev, struct gb_module *m,
                                     const char *symbol, struct gb_function **f)
{
    struct ihipModuleSymbol_t *function;
    enum gb_status status =
        HIP(dev, hipModuleGetFunction, &function, (struct ihipModule_t *)m, symbol);

    if (status == GB_SUCCESS)
        *f = (struct gb_function *)function;
    return status;
}

static enum gb_status hip_launch(struct gb_device *dev, struct gb_stream *s,
                                 struct gb_function *f, uint32_t grid, uint32_t block,
                                 uint32_t smem_bytes, const void *args,
                                 size_t args_bytes)
{
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, (void *)args,
                     HIP_LAUNCH_PARAM_BUFFER_SIZE, &args_bytes, HIP_LAUNCH_PARAM_END};

    return HIP(dev, hipModuleLaunchKernel, (struct ihipModuleSymbol_t *)f, grid, 1, 1,
               block, 1, 1, smem_bytes, s->handle, NULL, extra);
}

const struct gb_device_ops gb_hip_ops = {
    .name = "hip",
    .plausible = hip_plausible,
    .count = hip_count,
    .open = hip_open,
    .close = hip_close,
    .enter = hip_enter,
    .leave = hip_leave,
    .mem_info = hip_mem_info,
    .mem_alloc = hip_mem_alloc,
    .mem_free = hip_mem_free,
    .host_alloc = hip_host_alloc,
    .host_free = hip_host_free,
    .mem_kind = hip_mem_kind,
    .stream_create = hip_stream_create,
    .stream_destroy = hip_stream_destroy,
    .stream_sync = hip_stream_sync,
    .event_create = hip_event_create,
    .event_destroy = hip_event_destroy,
    .event_record = hip_event_record,
    .event_wait = hip_event_wait,
    .event_sync = hip_event_sync,
    .event_query = hip_event_query,
    .copy_in = hip_copy_in,
    .copy_out = hip_copy_out,
    .module_load = hip_module_load,
    .module_unload = hip_module_unload,
    .module_get = hip_module_get,
    .launch = hip_launch,
};
