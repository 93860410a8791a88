/* SPDX-License-Identifier: BSD-3-Clause */
/* libamdhip64.so.6 for tests: two devices, a current one per thread, the last error
 * kept as HIP keeps it. Numbers that fake_set() knows: "version" (of the runtime,
 * before it is loaded; ROCm 5 numbers the kinds of memory otherwise), "max_pitch",
 * "minor". */
#include "fake.h"

enum { INVALID_VALUE = 1, INVALID_DEVICE = 101, NOT_FOUND = 500 };

static long version = 60300000, max_pitch = 1 << 20, minor = 4;
static long next_handle;
static __thread int current, last_error, capture_mode;

void fake_set(const char *what, long value)
{
    if (strcmp(what, "version") == 0)
        version = value;
    else if (strcmp(what, "max_pitch") == 0)
        max_pitch = value;
    else if (strcmp(what, "minor") == 0)
        minor = value;
}

static int fail(int error)
{
    return last_error = error;
}

#define CALL(...)                                                                      \
    do {                                                                               \
        int error = fake_note(__func__, __VA_ARGS__);                                  \
        if (error)                                                                     \
            return fail(error);                                                        \
    } while (0)

static void *handle(void)
{
    return (void *)(intptr_t)++next_handle;
}

EXPORT int hipInit(unsigned flags)
{
    CALL("%u %s", flags, fake_mask());
    return 0;
}

EXPORT int hipDriverGetVersion(int *value)
{
    *value = (int)version;
    return 0;
}

EXPORT int hipRuntimeGetVersion(int *value)
{
    *value = (int)version;
    return 0;
}

EXPORT const char *hipGetErrorName(int error)
{
    return error == 2 ? "hipErrorOutOfMemory" : "hipErrorSome";
}

EXPORT int hipGetLastError(void)
{
    int error = last_error;

    last_error = 0;
    return error;
}

EXPORT int hipGetDeviceCount(int *n)
{
    CALL("%s", "");
    *n = 2;
    return 0;
}

EXPORT int hipGetDevice(int *device)
{
    CALL("%s", "");
    *device = current;
    return 0;
}

EXPORT int hipSetDevice(int device)
{
    CALL("%d", device);
    if (device < 0 || device > 1)
        return fail(INVALID_DEVICE);
    current = device;
    return 0;
}

EXPORT int hipDeviceGetName(char *name, int len, int device)
{
    snprintf(name, (size_t)len, "Fake AMD %d", device);
    return 0;
}

EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    switch (attribute) {
    case 5:
        *value = 2100000;
        return 0;
    case 19:
        *value = 4 << 20;
        return 0;
    case 23:
        *value = 9;
        return 0;
    case 58:
        *value = (int)max_pitch;
        return 0;
    case 61:
        *value = (int)minor;
        return 0;
    case 63:
        *value = 304;
        return 0;
    case 74:
        *value = 65536;
        return 0;
    default:
        return fail(INVALID_VALUE);
    }
}

EXPORT int hipDeviceGetPCIBusId(char *pci, int len, int device)
{
    snprintf(pci, (size_t)len, "ffff:c1:%02x.0", device);
    return 0;
}

EXPORT int hipDeviceTotalMem(size_t *bytes, int device)
{
    (void)device;
    *bytes = (size_t)192 << 30;
    return 0;
}

EXPORT int hipThreadExchangeStreamCaptureMode(int *mode)
{
    int before = capture_mode;

    CALL("%d", *mode);
    capture_mode = *mode;
    *mode = before;
    return 0;
}

EXPORT int hipMemGetInfo(size_t *free_bytes, size_t *total)
{
    CALL("%d %s", current, fake_mask());
    *free_bytes = 1000;
    *total = 2000;
    return 0;
}

EXPORT int hipMalloc(void **ptr, size_t bytes)
{
    *ptr = 0; /* as the real one does when it refuses */
    CALL("%zu", bytes);
    *ptr = fake_new(bytes, false);
    return 0;
}

EXPORT int hipFree(void *ptr)
{
    CALL("%s", fake_name(ptr));
    return fake_delete(ptr, false) ? 0 : fail(INVALID_VALUE);
}

EXPORT int hipHostMalloc(void **ptr, size_t bytes, unsigned flags)
{
    *ptr = 0; /* as the real one does when it refuses */
    CALL("%zu %u", bytes, flags);
    *ptr = fake_new(bytes, true);
    return 0;
}

EXPORT int hipHostFree(void *ptr)
{
    CALL("%s", fake_name(ptr));
    return fake_delete(ptr, true) ? 0 : fail(INVALID_VALUE);
}

struct pointer {
    int type, device;
    void *device_pointer, *host_pointer;
    int is_managed;
    unsigned flags;
};

/* Addresses 1, 2: managed memory, and memory of device 1. */
EXPORT int hipPointerGetAttributes(struct pointer *p, const void *ptr)
{
    struct fake_memory *m = fake_find(ptr);
    int host = version < 60000000 ? 0 : 1;

    CALL("%s", "");
    *p = (struct pointer){.type = host + 1};
    if (m)
        p->type = m->host ? host : host + 1;
    else if (ptr == (void *)1)
        p->is_managed = 1;
    else if (ptr == (void *)2)
        p->device = 1;
    else
        return fail(INVALID_VALUE);
    return 0;
}

EXPORT int hipStreamCreateWithFlags(void **stream, unsigned flags)
{
    CALL("%u", flags);
    *stream = handle();
    return 0;
}

EXPORT int hipStreamDestroy(void *stream)
{
    CALL("%d", fake_number(stream));
    return 0;
}

/* hipMemPoolProps, from the vendor's documentation. */
struct pool_properties {
    int type, handles, place, device;
    void *security;
    size_t most;
    unsigned char reserved[56];
};

EXPORT int hipMemPoolCreate(void **pool, const struct pool_properties *p)
{
    CALL("%d %d %d %d %zu", p->type, p->handles, p->place, p->device, p->most);
    *pool = handle();
    return 0;
}

EXPORT int hipMemPoolDestroy(void *pool)
{
    CALL("%d", fake_number(pool));
    return 0;
}

EXPORT int hipMemPoolSetAttribute(void *pool, int attribute, uint64_t *value)
{
    CALL("%d %d %lx", fake_number(pool), attribute, (unsigned long)*value);
    return 0;
}

EXPORT int hipMallocFromPoolAsync(void **ptr, size_t bytes, void *pool, void *stream)
{
    CALL("%zu %d %d", bytes, fake_number(pool), fake_number(stream));
    *ptr = fake_new(bytes, false);
    return 0;
}

EXPORT int hipFreeAsync(void *ptr, void *stream)
{
    CALL("%s %d", fake_name(ptr), fake_number(stream));
    return fake_delete(ptr, false) ? 0 : fail(INVALID_VALUE);
}

EXPORT int hipStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    CALL("%d %d %u", fake_number(stream), fake_number(event), flags);
    return 0;
}

EXPORT int hipEventCreateWithFlags(void **event, unsigned flags)
{
    CALL("%u", flags);
    *event = handle();
    return 0;
}

EXPORT int hipEventDestroy(void *event)
{
    CALL("%d", fake_number(event));
    return 0;
}

EXPORT int hipEventRecord(void *event, void *stream)
{
    CALL("%d %d", fake_number(event), fake_number(stream));
    return 0;
}

EXPORT int hipEventSynchronize(void *event)
{
    CALL("%d", fake_number(event));
    return 0;
}

EXPORT int hipEventQuery(void *event)
{
    CALL("%d", fake_number(event));
    return 0;
}

EXPORT int hipEventElapsedTime(float *ms, void *start, void *stop)
{
    CALL("%d %d", fake_number(start), fake_number(stop));
    *ms = 2.5F;
    return 0;
}

EXPORT int hipMemcpyAsync(void *dst, const void *src, size_t bytes, int kind,
                          void *stream)
{
    CALL("%s %s %zu %d %d", fake_name(dst), fake_name(src), bytes, kind,
         fake_number(stream));
    memcpy(dst, src, bytes);
    return 0;
}

EXPORT int hipMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src,
                            size_t src_pitch, size_t width, size_t height, int kind,
                            void *stream)
{
    CALL("%s %zu %s %zu %zu %zu %d %d", fake_name(dst), dst_pitch, fake_name(src),
         src_pitch, width, height, kind, fake_number(stream));
    if (dst_pitch < width || src_pitch < width || dst_pitch > (size_t)max_pitch ||
        src_pitch > (size_t)max_pitch)
        return fail(INVALID_VALUE);
    fake_copy(dst, dst_pitch, src, src_pitch, width, height);
    return 0;
}

EXPORT int hipModuleLoadData(void **module, const void *image)
{
    CALL("%s %s", (const char *)image, fake_mask());
    *module = handle();
    return 0;
}

EXPORT int hipModuleUnload(void *module)
{
    CALL("%d", fake_number(module));
    return 0;
}

EXPORT int hipModuleGetFunction(void **function, void *module, const char *name)
{
    CALL("%d %s", fake_number(module), name);
    if (strcmp(name, "absent") == 0)
        return fail(NOT_FOUND);
    *function = handle();
    return 0;
}

EXPORT int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz,
                                 unsigned bx, unsigned by, unsigned bz, unsigned smem,
                                 void *stream, void **params, void **extra)
{
    const char *args = "";
    size_t bytes = 0;

    for (; *extra != (void *)3; extra += 2) {
        if (*extra == (void *)1)
            args = extra[1];
        else if (*extra == (void *)2)
            bytes = *(size_t *)extra[1];
        else
            return fail(INVALID_VALUE);
    }
    CALL("%d %u.%u.%u %u.%u.%u %u %d %s %.*s", fake_number(function), gx, gy, gz, bx,
         by, bz, smem, fake_number(stream), params ? "params" : "packed", (int)bytes,
         args);
    return 0;
}
