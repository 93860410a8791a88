/* SPDX-License-Identifier: BSD-3-Clause */
/* libcuda.so.1 for tests: two devices, contexts current per thread as a stack. Numbers
 * that fake_set() knows: "context_id", "max_pitch". */
#include "fake.h"

/* CUlaunchConfig and CUlaunchAttribute, as the driver has them. */
struct launch_config {
    unsigned grid[3], block[3], smem;
    void *stream;
    struct {
        int id, pad;
        unsigned value[16];
    } * attributes;
    unsigned count;
};

enum { NO_CONTEXT = 201, NOT_FOUND = 500 };

static long context_id = 77, max_pitch = 1 << 20;
static long next_handle;
static __thread void *stack[8];
static __thread int depth, capture_mode;

void fake_set(const char *what, long value)
{
    if (strcmp(what, "context_id") == 0)
        context_id = value;
    else if (strcmp(what, "max_pitch") == 0)
        max_pitch = value;
}

/* A call that needs a context: notes it and returns when it shall fail. */
#define CALL(...)                                                                      \
    do {                                                                               \
        int error = fake_note(__func__, __VA_ARGS__);                                  \
        if (!error && depth == 0)                                                      \
            error = NO_CONTEXT;                                                        \
        if (error)                                                                     \
            return error;                                                              \
    } while (0)

/* One that does not. */
#define CALL_ANYWHERE(...)                                                             \
    do {                                                                               \
        int error = fake_note(__func__, __VA_ARGS__);                                  \
        if (error)                                                                     \
            return error;                                                              \
    } while (0)

static void *handle(void)
{
    return (void *)(intptr_t)++next_handle;
}

EXPORT int cuInit(unsigned flags)
{
    CALL_ANYWHERE("%u %s", flags, fake_mask());
    return 0;
}

EXPORT int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

EXPORT int cuGetErrorName(int error, const char **name)
{
    *name = error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_SOME";
    return 0;
}

EXPORT int cuDeviceGetCount(int *n)
{
    CALL_ANYWHERE("%s", "");
    *n = 2;
    return 0;
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return 0;
}

EXPORT int cuDeviceGetName(char *name, int len, int device)
{
    snprintf(name, (size_t)len, "Fake GPU %d", device);
    return 0;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    switch (attribute) {
    case 11:
        *value = (int)max_pitch;
        return 0;
    case 13:
        *value = 1980000;
        return 0;
    case 16:
        *value = 132;
        return 0;
    case 38:
        *value = 50 << 20;
        return 0;
    case 75:
        *value = 9;
        return 0;
    case 76:
        *value = 0;
        return 0;
    case 97:
        *value = 232448;
        return 0;
    default:
        return 1;
    }
}

EXPORT int cuDeviceGetPCIBusId(char *pci, int len, int device)
{
    snprintf(pci, (size_t)len, "FFFF:3B:%02X.0", device);
    return 0;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = (size_t)80 << 30;
    return 0;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
    CALL_ANYWHERE("%d %s", device, fake_mask());
    *context = (void *)(intptr_t)(1000 + device);
    return 0;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
    CALL_ANYWHERE("%d", device);
    return 0;
}

EXPORT int cuCtxGetId(void *context, unsigned long long *id)
{
    (void)context;
    *id = (unsigned long long)context_id;
    return 0;
}

EXPORT int cuCtxPushCurrent_v2(void *context)
{
    CALL_ANYWHERE("%d", fake_number(context));
    if (depth == 8)
        return 1;
    stack[depth++] = context;
    return 0;
}

EXPORT int cuCtxPopCurrent_v2(void **context)
{
    CALL("%s", "");
    *context = stack[--depth];
    return 0;
}

EXPORT int cuCtxGetCurrent(void **context)
{
    *context = depth ? stack[depth - 1] : NULL;
    return 0;
}

EXPORT int cuThreadExchangeStreamCaptureMode(int *mode)
{
    int before = capture_mode;

    CALL_ANYWHERE("%d", *mode);
    capture_mode = *mode;
    *mode = before;
    return 0;
}

EXPORT int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    CALL("%s", "");
    *free_bytes = 1000;
    *total = 2000;
    return 0;
}

EXPORT int cuMemAlloc_v2(uint64_t *ptr, size_t bytes)
{
    *ptr = 0; /* as the real one does when it refuses */
    CALL("%zu", bytes);
    *ptr = (uintptr_t)fake_new(bytes, false);
    return 0;
}

EXPORT int cuMemFree_v2(uint64_t ptr)
{
    CALL("%s", fake_name((void *)(uintptr_t)ptr));
    return fake_delete((void *)(uintptr_t)ptr, false) ? 0 : 1;
}

EXPORT int cuMemHostAlloc(void **ptr, size_t bytes, unsigned flags)
{
    *ptr = 0; /* as the real one does when it refuses */
    CALL("%zu %u", bytes, flags);
    *ptr = fake_new(bytes, true);
    return 0;
}

EXPORT int cuMemFreeHost(void *ptr)
{
    CALL("%s", fake_name(ptr));
    return fake_delete(ptr, true) ? 0 : 1;
}

/* Addresses 1, 2: managed memory, and memory of device 1. */
EXPORT int cuPointerGetAttributes(unsigned n, int *attributes, void **data,
                                  uint64_t ptr)
{
    struct fake_memory *m = fake_find((void *)(uintptr_t)ptr);

    CALL_ANYWHERE("%u", n);
    for (unsigned i = 0; i < n; i++)
        switch (attributes[i]) {
        case 2:
            *(unsigned *)data[i] = m ? (m->host ? 1 : 2) : ptr <= 2 ? 2 : 0;
            break;
        case 8:
            *(unsigned *)data[i] = ptr == 1;
            break;
        case 9:
            *(int *)data[i] = ptr == 2;
            break;
        default:
            return 1;
        }
    return 0;
}

EXPORT int cuStreamCreate(void **stream, unsigned flags)
{
    CALL("%u", flags);
    *stream = handle();
    return 0;
}

EXPORT int cuStreamDestroy_v2(void *stream)
{
    CALL("%d", fake_number(stream));
    return 0;
}

/* CUmemPoolProps, from the vendor's documentation. */
struct pool_properties {
    int type, handles, place, device;
    void *security;
    size_t most;
    unsigned short usage;
    unsigned char reserved[54];
};

EXPORT int cuMemPoolCreate(void **pool, const struct pool_properties *p)
{
    CALL("%d %d %d %d %zu", p->type, p->handles, p->place, p->device, p->most);
    *pool = handle();
    return 0;
}

EXPORT int cuMemPoolDestroy(void *pool)
{
    CALL_ANYWHERE("%d", fake_number(pool));
    return 0;
}

EXPORT int cuMemPoolSetAttribute(void *pool, int attribute, uint64_t *value)
{
    CALL("%d %d %lx", fake_number(pool), attribute, (unsigned long)*value);
    return 0;
}

EXPORT int cuMemAllocFromPoolAsync(uint64_t *ptr, size_t bytes, void *pool,
                                   void *stream)
{
    CALL("%zu %d %d", bytes, fake_number(pool), fake_number(stream));
    *ptr = (uintptr_t)fake_new(bytes, false);
    return 0;
}

EXPORT int cuMemFreeAsync(uint64_t ptr, void *stream)
{
    CALL("%s %d", fake_name((void *)(uintptr_t)ptr), fake_number(stream));
    return fake_delete((void *)(uintptr_t)ptr, false) ? 0 : 1;
}

EXPORT int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    CALL("%d %d %u", fake_number(stream), fake_number(event), flags);
    return 0;
}

EXPORT int cuEventCreate(void **event, unsigned flags)
{
    CALL("%u", flags);
    *event = handle();
    return 0;
}

EXPORT int cuEventDestroy_v2(void *event)
{
    CALL("%d", fake_number(event));
    return 0;
}

EXPORT int cuEventRecord(void *event, void *stream)
{
    CALL("%d %d", fake_number(event), fake_number(stream));
    return 0;
}

EXPORT int cuEventSynchronize(void *event)
{
    CALL("%d", fake_number(event));
    return 0;
}

EXPORT int cuEventQuery(void *event)
{
    CALL("%d", fake_number(event));
    return 0;
}

EXPORT int cuEventElapsedTime(float *ms, void *start, void *stop)
{
    CALL("%d %d", fake_number(start), fake_number(stop));
    *ms = 2.5F;
    return 0;
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t bytes,
                                void *stream)
{
    void *to = (void *)(uintptr_t)dst;

    CALL("%s %s %zu %d", fake_name(to), fake_name(src), bytes, fake_number(stream));
    memcpy(to, src, bytes);
    return 0;
}

EXPORT int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t bytes, void *stream)
{
    void *from = (void *)(uintptr_t)src;

    CALL("%s %s %zu %d", fake_name(dst), fake_name(from), bytes, fake_number(stream));
    memcpy(dst, from, bytes);
    return 0;
}

/* CUDA_MEMCPY2D_v2, from the vendor's documentation. */
struct copy_2d {
    size_t src_x, src_y;
    unsigned src_type;
    const void *src_host;
    uint64_t src_device;
    void *src_array;
    size_t src_pitch, dst_x, dst_y;
    unsigned dst_type;
    void *dst_host;
    uint64_t dst_device;
    void *dst_array;
    size_t dst_pitch, width, height;
};

EXPORT int cuMemcpy2DAsync_v2(const struct copy_2d *c, void *stream)
{
    bool up = c->dst_type == 2;
    void *dst = up ? (void *)(uintptr_t)c->dst_device : c->dst_host;
    const void *src = up ? c->src_host : (const void *)(uintptr_t)c->src_device;

    CALL("%s %zu %s %zu %zu %zu %d", fake_name(dst), c->dst_pitch, fake_name(src),
         c->src_pitch, c->width, c->height, fake_number(stream));
    if (c->src_x || c->src_y || c->dst_x || c->dst_y ||
        c->src_type + c->dst_type != 3 || c->src_pitch < c->width ||
        c->dst_pitch < c->width || c->src_pitch > (size_t)max_pitch ||
        c->dst_pitch > (size_t)max_pitch)
        return 1;
    fake_copy(dst, c->dst_pitch, src, c->src_pitch, c->width, c->height);
    return 0;
}

EXPORT int cuModuleLoadData(void **module, const void *image)
{
    CALL("%s %s", (const char *)image, fake_mask());
    *module = handle();
    return 0;
}

EXPORT int cuModuleUnload(void *module)
{
    CALL("%d", fake_number(module));
    return 0;
}

EXPORT int cuModuleGetFunction(void **function, void *module, const char *name)
{
    CALL("%d %s", fake_number(module), name);
    if (strcmp(name, "absent") == 0)
        return NOT_FOUND;
    *function = handle();
    return 0;
}

EXPORT int cuFuncGetAttribute(int *value, int attribute, void *function)
{
    CALL("%d %d", attribute, fake_number(function));
    *value = 1024;
    return 0;
}

EXPORT int cuFuncSetAttribute(void *function, int attribute, int value)
{
    CALL("%d %d %d", fake_number(function), attribute, value);
    return 0;
}

EXPORT int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *at,
                                  const uint64_t *dim, const uint64_t *stride,
                                  const uint32_t *box, const uint32_t *step,
                                  int interleave, int swizzle, int promotion, int fill)
{
    CALL("%d %u %lx %lu.%lu.%lu %lu.%lu %u.%u.%u %u.%u.%u %d %d %d %d", type, rank,
         (unsigned long)at, dim[0], dim[1], dim[2], stride[0], stride[1], box[0],
         box[1], box[2], step[0], step[1], step[2], interleave, swizzle, promotion,
         fill);
    memset(map, 0x5a, 128);
    return at ? 0 : 1;
}

EXPORT int cuLaunchKernelEx(const struct launch_config *config, void *function,
                            void **params, void **extra)
{
    char attributes[64] = "";

    if (extra)
        return 1;
    for (unsigned i = 0; i < config->count; i++)
        snprintf(attributes + strlen(attributes),
                 sizeof attributes - strlen(attributes), " %d:%u",
                 config->attributes[i].id, config->attributes[i].value[0]);
    CALL("%d %u.%u.%u %u.%u.%u %u %d params %.8s%s", fake_number(function),
         config->grid[0], config->grid[1], config->grid[2], config->block[0],
         config->block[1], config->block[2], config->smem, fake_number(config->stream),
         (const char *)params[0], attributes);
    return 0;
}

EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz,
                          unsigned bx, unsigned by, unsigned bz, unsigned smem,
                          void *stream, void **params, void **extra)
{
    if (extra)
        return 1;
    CALL("%d %u.%u.%u %u.%u.%u %u %d params %.8s", fake_number(function), gx, gy, gz,
         bx, by, bz, smem, fake_number(stream), (const char *)params[0]);
    return 0;
}
