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
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "device.h"
#include "driver.h"
#include "util.h"

enum {
    hipSuccess = 0,
    hipErrorOutOfMemory = 2,
    hipErrorNoDevice = 100,
    hipErrorInvalidDevice = 101,
    hipErrorInvalidImage = 200,
    hipErrorNoBinaryForGpu = 209,
    hipErrorInvalidKernelFile = 218,
    hipErrorNotFound = 500,

    hipDeviceAttributeClockRate = 5,
    hipDeviceAttributeL2CacheSize = 19,
    hipDeviceAttributeComputeCapabilityMajor = 23,
    hipDeviceAttributeMaxPitch = 58,
    hipDeviceAttributeComputeCapabilityMinor = 61,
    hipDeviceAttributeMultiprocessorCount = 63,
    hipDeviceAttributeMaxSharedMemoryPerBlock = 74,

    hipMemcpyHostToDevice = 1,
    hipMemcpyDeviceToHost = 2,

    hipStreamCaptureModeRelaxed = 2,
};

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

/* CALL(symbol, parameters): what only HIP has, or has in its own way. All answer a
 * hipError_t. */
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
    CALL(hipPointerGetAttributes, (struct hip_pointer * attributes, const void *ptr))  \
    CALL(hipMemcpyAsync,                                                               \
         (void *dst, const void *src, size_t bytes, int kind, void *stream))           \
    CALL(hipMemcpy2DAsync,                                                             \
         (void *dst, size_t dst_pitch, const void *src, size_t src_pitch,              \
          size_t width, size_t height, int kind, void *stream))

static struct hip_api {
#define CALL(name, params) int(*name) params;
    HIP_CALLS(CALL)
#undef CALL
    const char *(*hipGetErrorName)(int error);
} hip;

static struct gb_backend_calls calls;

static const struct gb_driver_symbol symbols[] = {
    {"hipGetErrorName", &hip.hipGetErrorName},
    {"hipMemGetInfo", &calls.mem_info},
    {"hipMalloc", &calls.mem_alloc},
    {"hipFree", &calls.mem_free},
    {"hipHostMalloc", &calls.host_alloc},
    {"hipHostFree", &calls.host_free},
    {"hipThreadExchangeStreamCaptureMode", &calls.capture_mode},
    {"hipStreamCreateWithFlags", &calls.stream_create},
    {"hipStreamDestroy", &calls.stream_destroy},
    {"hipStreamWaitEvent", &calls.stream_wait},
    {"hipMemPoolCreate", &calls.pool_create},
    {"hipMemPoolDestroy", &calls.pool_destroy},
    {"hipMemPoolSetAttribute", &calls.pool_set},
    {"hipMallocFromPoolAsync", &calls.alloc_queued},
    {"hipFreeAsync", &calls.free_queued},
    {"hipEventCreateWithFlags", &calls.event_create},
    {"hipEventDestroy", &calls.event_destroy},
    {"hipEventRecord", &calls.event_record},
    {"hipEventSynchronize", &calls.event_sync},
    {"hipEventQuery", &calls.event_query},
    {"hipEventElapsedTime", &calls.event_elapsed},
    {"hipModuleLoadData", &calls.module_load},
    {"hipModuleUnload", &calls.module_unload},
    {"hipModuleGetFunction", &calls.module_get},
    {"hipModuleLaunchKernel", &calls.launch},
#define CALL(name, params) {#name, &hip.name},
    HIP_CALLS(CALL)
#undef CALL
};

static const struct gb_backend_error errors[] = {
    {hipErrorOutOfMemory, GB_E_NOMEM},
    {hipErrorInvalidImage, GB_E_UNSUPPORTED},
    {hipErrorNoBinaryForGpu, GB_E_UNSUPPORTED},
    {hipErrorInvalidKernelFile, GB_E_UNSUPPORTED},
    {hipErrorNotFound, GB_E_UNSUPPORTED},
    {hipErrorNoDevice, GB_E_ABSENT},
    {hipErrorInvalidDevice, GB_E_ABSENT},
};

static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6",
                                    "libamdhip64.so.5", NULL};
static const char *const nodes[] = {"/dev/kfd", NULL};

static int major; /* of the runtime: 5, 6, 7 */

static int start(int *visible)
{
    int version = 0, error = hip.hipInit(0);

    if (error == hipSuccess)
        error = hip.hipRuntimeGetVersion(&version);
    if (error == hipSuccess)
        error = hip.hipGetDeviceCount(visible);
    major = version / 10000000;
    return error;
}

static const char *error_name(int error)
{
    return hip.hipGetErrorName(error);
}

static void forget(void)
{
    hip.hipGetLastError();
}

static enum gb_status hip_copy(struct gb_device *dev, void *stream,
                               const struct gb_backend_copy *copy);

static struct gb_backend backend = {
    .what = "the HIP runtime",
    .names = names,
    .nodes = nodes,
    .symbols = symbols,
    .n_symbols = GB_COUNT(symbols),
    .errors = errors,
    .n_errors = GB_COUNT(errors),
    .calls = &calls,
    .launch_end = HIP_LAUNCH_PARAM_END,
    .start = start,
    .error_name = error_name,
    .forget = forget,
    .copy = hip_copy,
    .logged = ATOMIC_FLAG_INIT,
};

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static int visible; /* devices, after load_once */

/* The status of a call of HIP's own: for anyone, and for a device. */
#define HIP(name, ...) gb_backend_status(&backend, hip.name(__VA_ARGS__), &hip.name)
#define HIP_DEV(dev, name, ...) gb_backend_check(dev, hip.name(__VA_ARGS__), &hip.name)

static bool hip_plausible(void)
{
    return gb_driver_plausible(names, nodes);
}

static bool hip_loaded(void)
{
    return gb_driver_loaded(names);
}

static void load(void)
{
    visible = gb_backend_load(&backend);
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

    return HIP(hipDeviceGetAttribute, &value, which, device) == GB_SUCCESS ? value : 0;
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

static void describe(struct gb_backend_device *dev, int ordinal)
{
    struct gb_device_info *info = &dev->base.info;
    char pci[32] = "";

    info->vendor = GB_AMD;
    info->ordinal = ordinal;
    if (HIP(hipDeviceGetName, info->name, sizeof info->name, ordinal) != GB_SUCCESS)
        info->name[0] = '\0';
    info->multiprocessors = attribute(ordinal, hipDeviceAttributeMultiprocessorCount);
    info->smem_per_block =
        (size_t)attribute(ordinal, hipDeviceAttributeMaxSharedMemoryPerBlock);
    info->l2 = (size_t)attribute(ordinal, hipDeviceAttributeL2CacheSize);
    info->clock_khz = attribute(ordinal, hipDeviceAttributeClockRate);
    if (HIP(hipDeviceTotalMem, &info->mem_total, ordinal) != GB_SUCCESS)
        info->mem_total = 0;
    if (HIP(hipDriverGetVersion, &info->driver) != GB_SUCCESS)
        info->driver = 0;
    if (HIP(hipDeviceGetPCIBusId, pci, sizeof pci, ordinal) != GB_SUCCESS)
        pci[0] = '\0';
    gb_driver_pci(info, pci);
    describe_arch(info, ordinal);
    dev->max_pitch = (size_t)attribute(ordinal, hipDeviceAttributeMaxPitch);
}

static enum gb_status hip_open(int ordinal, struct gb_device **out)
{
    struct gb_backend_device *dev;
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
    dev->backend = &backend;

    gb_hold_begin(&hold);
    status = HIP(hipGetDevice, &before);
    if (status == GB_SUCCESS)
        status = HIP(hipSetDevice, ordinal);
    if (status == GB_SUCCESS) {
        /* The first call that needs the device starts it and its threads. */
        status = gb_backend_status(&backend, calls.mem_info(&free_bytes, &total),
                                   &calls.mem_info);
        if (status == GB_SUCCESS)
            describe(dev, ordinal);
        HIP(hipSetDevice, before);
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
    gb_backend_pool_drop(dev);
    free(gb_backend_device(dev)); /* the runtime keeps its own device open */
}

static enum gb_status hip_enter(struct gb_device *dev, struct gb_guest *guest)
{
    int before, mode = hipStreamCaptureModeRelaxed;
    enum gb_status status;

    if (!gb_backend_alive(dev))
        return GB_E_DEVICE;
    gb_guest_save(guest);
    status = HIP_DEV(dev, hipGetDevice, &before);
    if (status != GB_SUCCESS)
        goto restore_guest;
    status = HIP_DEV(dev, hipSetDevice, dev->info.ordinal);
    if (status != GB_SUCCESS)
        goto restore_guest;
    status = gb_backend_check(dev, calls.capture_mode(&mode), &calls.capture_mode);
    if (status != GB_SUCCESS)
        goto restore_device;
    guest->saved[0] = (uintptr_t)mode;
    guest->saved[1] = (uintptr_t)before;
    return GB_SUCCESS;

restore_device:
    HIP(hipSetDevice, before);
restore_guest:
    gb_guest_restore(guest);
    return status;
}

static void hip_leave(struct gb_device *dev, struct gb_guest *guest)
{
    int mode = (int)guest->saved[0];

    gb_backend_check(dev, calls.capture_mode(&mode), &calls.capture_mode);
    HIP_DEV(dev, hipSetDevice, (int)guest->saved[1]);
    gb_guest_restore(guest);
}

/* `device` -1: any. False when the runtime does not answer: to HIP, memory that it does not
 * know is an error. */
static bool ask_kind(const void *ptr, int device, enum gb_mem_kind *kind)
{
    struct hip_pointer at = {.type = -1};
    /* ROCm 5: host 0, device 1, array 2. Since 6: unregistered 0, host 1, device 2. */
    int host = major < 6 ? 0 : 1;

    if (hip.hipPointerGetAttributes(&at, ptr) != hipSuccess) {
        hip.hipGetLastError();
        return false;
    }
    *kind = GB_MEM_PAGEABLE;
    if (at.is_managed)
        *kind = GB_MEM_MANAGED;
    else if (at.type == host)
        *kind = GB_MEM_PINNED;
    else if (at.type == host + 1)
        *kind = device < 0 || at.device == device ? GB_MEM_DEVICE : GB_MEM_FOREIGN;
    return true;
}

static enum gb_mem_kind hip_mem_kind(struct gb_device *dev, const void *ptr)
{
    enum gb_mem_kind kind;

    return ask_kind(ptr, dev->info.ordinal, &kind) ? kind : GB_MEM_PAGEABLE;
}

/* The runtime starts itself for any question, so that we may as well. */
static enum gb_mem_kind hip_mem_where(const void *ptr)
{
    enum gb_mem_kind kind;
    int n;

    return hip_count(&n) == GB_SUCCESS && ask_kind(ptr, -1, &kind)
               ? kind
               : gb_driver_guess(ptr);
}

static enum gb_status hip_copy(struct gb_device *dev, void *stream,
                               const struct gb_backend_copy *copy)
{
    int kind = copy->in ? hipMemcpyHostToDevice : hipMemcpyDeviceToHost;
    void *dst = (void *)(uintptr_t)copy->dst;
    const void *src = (const void *)(uintptr_t)copy->src;

    if (copy->height == 1)
        return HIP_DEV(dev, hipMemcpyAsync, dst, src, copy->width, kind, stream);
    return HIP_DEV(dev, hipMemcpy2DAsync, dst, copy->dst_pitch, src, copy->src_pitch,
                   copy->width, copy->height, kind, stream);
}

const struct gb_device_ops gb_hip_ops = {
    .name = "hip",
    .plausible = hip_plausible,
    .loaded = hip_loaded,
    .count = hip_count,
    .open = hip_open,
    .close = hip_close,
    .enter = hip_enter,
    .leave = hip_leave,
    .mem_info = gb_backend_mem_info,
    .mem_alloc = gb_backend_mem_alloc,
    .mem_free = gb_backend_mem_free,
    .host_alloc = gb_backend_host_alloc,
    .host_free = gb_backend_host_free,
    .mem_kind = hip_mem_kind,
    .mem_where = hip_mem_where,
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
    .module_get = gb_backend_module_get,
    .launch = gb_backend_launch,
};
