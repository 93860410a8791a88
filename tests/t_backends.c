/* SPDX-License-Identifier: BSD-3-Clause */
/* The CUDA and HIP back ends against driver libraries of our own: which calls they
 * make, in which order, with which arguments, and what they make of errors. */
#include <dlfcn.h>
#include <errno.h>
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "child.h"
#include "device.h"
#include "log.h"
#include "tap.h"
#include "util.h"

static const char *(*fake_calls)(void);
static void (*fake_fail)(const char *name, int error);
static void (*fake_set)(const char *what, long value);
static void *library;

static void *symbol(const char *name)
{
    void *found = dlsym(library, name);

    if (!found)
        bail("the test's driver lacks %s", name);
    return found;
}

/* The name for the loader is in the file; the back end finds it loaded. */
static void load_fake(const char *file)
{
    const char *build = getenv("top_builddir");
    char path[512];

    snprintf(path, sizeof path, "%s/tests/fakes/%s", build ? build : ".", file);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        bail("%s", dlerror());
    fake_calls = (const char *(*)(void))symbol("fake_calls");
    fake_fail = (void (*)(const char *, int))symbol("fake_fail");
    fake_set = (void (*)(const char *, long))symbol("fake_set");
}

#define IS_CALLS(wanted, ...) is_string(wanted, fake_calls(), __VA_ARGS__)

/* What is spelt otherwise by the two. */
struct words {
    const struct gb_device_ops *ops;
    const char *file, *init, *open, *enter, *leave, *allocs, *streams, *waits, *frees,
        *timers;
    const char *flat, *rows, *one_by_one, *module, *launch, *shaped, *bare;
    const char *load, *launch_name, *alloc_name, *host_alloc_name, *query, *record,
        *push;
    const char *queued_name, *pool, *queued, *where;
    int no_image[4], not_ready, out_of_memory, broken, not_started;
    const char *arch;
};

static const struct words cuda = {
    .ops = &gb_cuda_ops,
    .file = "libcuda.so.1",
    .init = "cuInit 0 held\ncuDeviceGetCount \n",
    .open = "cuDevicePrimaryCtxRetain 0 held\n",
    .enter = "cuCtxPushCurrent_v2 1000\ncuThreadExchangeStreamCaptureMode 2\n",
    .leave = "cuThreadExchangeStreamCaptureMode 0\ncuCtxPopCurrent_v2 \n",
    .allocs = "cuMemAlloc_v2 4000\ncuMemHostAlloc 4000 1\ncuMemGetInfo_v2 \n",
    .streams = "cuStreamCreate 1\ncuEventCreate 3\ncuEventCreate 3\n",
    .waits = "cuEventRecord 3 1\ncuStreamWaitEvent 1 3 0\ncuEventSynchronize 3\n"
             "cuEventRecord 2 1\ncuEventSynchronize 2\n",
    .timers = "cuEventCreate 1\ncuEventCreate 1\n",
    .frees = "cuEventDestroy_v2 3\ncuEventDestroy_v2 2\ncuStreamDestroy_v2 1\n"
             "cuMemFree_v2 d0\ncuMemFreeHost h1\n",
    .flat = "cuMemcpyHtoDAsync_v2 d0 h1 50 1\ncuMemcpyHtoDAsync_v2 d0+8 h1+16 70 1\n"
            "cuMemcpyDtoHAsync_v2 h1 d0 50 1\ncuMemcpyDtoHAsync_v2 h1+16 d0+8 70 1\n",
    .rows = "cuMemcpy2DAsync_v2 d0 16 h1 12 10 7 1\n"
            "cuMemcpy2DAsync_v2 h1 12 d0 16 10 7 1\n",
    .one_by_one =
        "cuMemcpyHtoDAsync_v2 d0 h1 10 1\ncuMemcpyHtoDAsync_v2 d0+16 h1+2000 10 1\n"
        "cuMemcpyDtoHAsync_v2 h1 d0 10 1\ncuMemcpyDtoHAsync_v2 h1+16 d0+2000 10 1\n",
    .module = "cuModuleLoadData image held\ncuModuleGetFunction 4 kernel\n"
              "cuFuncGetAttribute 1 5\ncuFuncSetAttribute 5 8 231424\n",
    .launch = "cuLaunchKernel 5 70000.1.1 256.1.1 98304 1 params 12345678\n",
    .shaped = "cuLaunchKernelEx 5 96.1.1 384.1.1 200000 1 params 12345678 4:4 6:1\n",
    .bare = "cuLaunchKernelEx 5 7.1.1 256.1.1 0 1 params 12345678\n",
    .load = "cuModuleLoadData",
    .launch_name = "cuLaunchKernel",
    .alloc_name = "cuMemAlloc_v2",
    .host_alloc_name = "cuMemHostAlloc",
    .query = "cuEventQuery",
    .record = "cuEventRecord",
    .push = "cuCtxPushCurrent_v2",
    .queued_name = "cuMemAllocFromPoolAsync",
    .pool = "cuMemPoolCreate 1 0 1 0 0\ncuMemPoolSetAttribute 6 4 10000000\n"
            "cuMemAllocFromPoolAsync 500 6 99\n",
    .queued = "cuMemAllocFromPoolAsync 500 6 99\ncuMemFreeAsync d2 99\n",
    .no_image = {200, 209, 218, 222},
    .not_ready = 600,
    .out_of_memory = 2,
    .broken = 719,
    .where = "cuPointerGetAttributes",
    .not_started = 3,
    .arch = "sm_90",
};

static const struct words hip = {
    .ops = &gb_hip_ops,
    .file = "libamdhip64.so.6",
    .init = "hipInit 0 held\nhipGetDeviceCount \n",
    .open = "hipGetDevice \nhipSetDevice 0\nhipMemGetInfo 0 held\nhipSetDevice 1\n",
    .enter = "hipGetDevice \nhipSetDevice 0\nhipThreadExchangeStreamCaptureMode 2\n",
    .leave = "hipThreadExchangeStreamCaptureMode 0\nhipSetDevice 1\n",
    .allocs = "hipMalloc 4000\nhipHostMalloc 4000 1\nhipMemGetInfo 0 open\n",
    .streams = "hipStreamCreateWithFlags 1\nhipEventCreateWithFlags 3\n"
               "hipEventCreateWithFlags 3\n",
    .waits = "hipEventRecord 3 1\nhipStreamWaitEvent 1 3 0\nhipEventSynchronize 3\n"
             "hipEventRecord 2 1\nhipEventSynchronize 2\n",
    .timers = "hipEventCreateWithFlags 1\nhipEventCreateWithFlags 1\n",
    .frees = "hipEventDestroy 3\nhipEventDestroy 2\nhipStreamDestroy 1\n"
             "hipFree d0\nhipHostFree h1\n",
    .flat = "hipMemcpyAsync d0 h1 50 1 1\nhipMemcpyAsync d0+8 h1+16 70 1 1\n"
            "hipMemcpyAsync h1 d0 50 2 1\nhipMemcpyAsync h1+16 d0+8 70 2 1\n",
    .rows = "hipMemcpy2DAsync d0 16 h1 12 10 7 1 1\nhipMemcpy2DAsync h1 12 d0 16 10 7 "
            "2 1\n",
    .one_by_one = "hipMemcpyAsync d0 h1 10 1 1\nhipMemcpyAsync d0+16 h1+2000 10 1 1\n"
                  "hipMemcpyAsync h1 d0 10 2 1\nhipMemcpyAsync h1+16 d0+2000 10 2 1\n",
    .module = "hipModuleLoadData image held\nhipModuleGetFunction 4 kernel\n",
    .launch = "hipModuleLaunchKernel 5 70000.1.1 256.1.1 98304 1 packed 12345678\n",
    .load = "hipModuleLoadData",
    .launch_name = "hipModuleLaunchKernel",
    .alloc_name = "hipMalloc",
    .host_alloc_name = "hipHostMalloc",
    .query = "hipEventQuery",
    .record = "hipEventRecord",
    .push = "hipSetDevice",
    .queued_name = "hipMallocFromPoolAsync",
    .pool = "hipMemPoolCreate 1 0 1 0 0\nhipMemPoolSetAttribute 6 4 10000000\n"
            "hipMallocFromPoolAsync 500 6 99\n",
    .queued = "hipMallocFromPoolAsync 500 6 99\nhipFreeAsync d2 99\n",
    .no_image = {200, 209, 218, 500},
    .not_ready = 600,
    .out_of_memory = 2,
    .broken = 719,
    .where = "hipPointerGetAttributes",
    .not_started = 3,
    .arch = "gfx942",
};

/* The program's own state: context or device, capture mode, pending error. */
static void set_program(const struct words *w)
{
    if (w == &hip)
        ((int (*)(int))symbol("hipSetDevice"))(1);
    else
        ((int (*)(void *))symbol("cuCtxPushCurrent_v2"))((void *)99);
    fake_calls();
}

static bool program_unchanged(const struct words *w)
{
    void *context = NULL;
    int device = -1, mode = 0;
    bool same;

    if (w == &hip) {
        ((int (*)(int *))symbol("hipGetDevice"))(&device);
        ((int (*)(int *))symbol("hipThreadExchangeStreamCaptureMode"))(&mode);
        same = device == 1 && mode == 0 &&
               ((int (*)(void))symbol("hipGetLastError"))() == 0;
    } else {
        ((int (*)(void **))symbol("cuCtxGetCurrent"))(&context);
        ((int (*)(int *))symbol("cuThreadExchangeStreamCaptureMode"))(&mode);
        same = context == (void *)99 && mode == 0;
    }
    fake_calls();
    return same;
}

struct rig {
    struct gb_device *dev;
    struct gb_guest guest;
    struct gb_stream *s;
    struct gb_event *e;
    struct gb_module *m;
    struct gb_function *f;
    gb_devptr mem;
    char *host;
};

static void test_open(const struct words *w, struct rig *r)
{
    int n = 0;

    is_int(GB_SUCCESS, w->ops->count(&n), "%s: counts", w->ops->name);
    is_int(2, n, "%s: two devices", w->ops->name);
    w->ops->count(&n);
    IS_CALLS(w->init, "%s: starts the driver once, signals held", w->ops->name);
    set_program(w);
    is_int(GB_E_ABSENT, w->ops->open(2, &r->dev), "%s: no third", w->ops->name);
    is_int(GB_SUCCESS, w->ops->open(0, &r->dev), "%s: opens", w->ops->name);
    IS_CALLS(w->open, "%s: with signals held", w->ops->name);
    is_string(w->arch, r->dev->info.arch_name, "%s: architecture", w->ops->name);
    ok(r->dev->info.multiprocessors > 0 && r->dev->info.l2 > 0 &&
           r->dev->info.mem_total > 0 && r->dev->info.smem_per_block >= 65536 &&
           r->dev->info.clock_khz > 0 && r->dev->info.driver > 0 &&
           strncmp(r->dev->info.name, "Fake", 4) == 0,
       "%s: describes it", w->ops->name);
    ok(strncmp(r->dev->info.pci, "ffff:", 5) == 0 && r->dev->info.numa_node == -1,
       "%s: place on the bus in lower case, its node unknown", w->ops->name);
    ok(program_unchanged(w), "%s: the program's state is as before", w->ops->name);
    errno = ENOTTY;
    is_int(GB_SUCCESS, w->ops->enter(r->dev, &r->guest), "%s: enter", w->ops->name);
    IS_CALLS(w->enter, "%s: takes the place of the program", w->ops->name);
    w->ops->leave(r->dev, &r->guest);
    IS_CALLS(w->leave, "%s: gives it back", w->ops->name);
    is_int(ENOTTY, errno, "%s: errno as well", w->ops->name);
    ok(program_unchanged(w), "%s: all is as before", w->ops->name);
    w->ops->enter(r->dev, &r->guest);
    fake_calls();
}

static void test_memory(const struct words *w, struct rig *r)
{
    size_t left = 0, total = 0;
    char local;

    ok(w->ops->mem_alloc(r->dev, 4000, &r->mem) == GB_SUCCESS &&
           w->ops->host_alloc(r->dev, 4000, (void **)&r->host) == GB_SUCCESS &&
           w->ops->mem_info(r->dev, &left, &total) == GB_SUCCESS,
       "%s: memory", w->ops->name);
    IS_CALLS(w->allocs, "%s: pinned memory is portable", w->ops->name);
    ok(left == 1000 && total == 2000, "%s: what is free", w->ops->name);
    is_int(GB_MEM_DEVICE, w->ops->mem_kind(r->dev, (void *)(uintptr_t)(r->mem + 5)),
           "%s: device memory", w->ops->name);
    is_int(GB_MEM_PINNED, w->ops->mem_kind(r->dev, r->host + 5), "%s: pinned memory",
           w->ops->name);
    is_int(GB_MEM_PAGEABLE, w->ops->mem_kind(r->dev, &local), "%s: a variable",
           w->ops->name);
    is_int(GB_MEM_MANAGED, w->ops->mem_kind(r->dev, (void *)1), "%s: managed",
           w->ops->name);
    is_int(GB_MEM_FOREIGN, w->ops->mem_kind(r->dev, (void *)2), "%s: of another device",
           w->ops->name);
    ok(w->ops->loaded() &&
           w->ops->mem_where((void *)(uintptr_t)(r->mem + 5)) == GB_MEM_DEVICE &&
           w->ops->mem_where((void *)2) == GB_MEM_DEVICE &&
           w->ops->mem_where((void *)1) == GB_MEM_MANAGED &&
           w->ops->mem_where(r->host) == GB_MEM_PINNED &&
           w->ops->mem_where(&local) == GB_MEM_PAGEABLE,
       "%s: the same without a device", w->ops->name);
    is_int(GB_MEM_MANAGED, gb_device_where("none", (void *)1),
           "%s: though none is to be used", w->ops->name);
    fake_fail(w->where, w->not_started);
    is_int(GB_MEM_PAGEABLE, w->ops->mem_where(&local),
           "%s: no answer: the CPU reads it", w->ops->name);
    fake_fail(w->where, w->not_started);
    is_int(GB_MEM_DEVICE, w->ops->mem_where((void *)64), "%s: or does not",
           w->ops->name);
    if (w == &hip)
        is_int(0, ((int (*)(void))symbol("hipGetLastError"))(),
               "hip: unknown memory leaves no error behind");
    fake_calls();
}

static void test_streams(const struct words *w, struct rig *r)
{
    bool done = false;

    ok(w->ops->stream_create(r->dev, &r->s) == GB_SUCCESS &&
           w->ops->event_create(r->dev, &r->e) == GB_SUCCESS,
       "%s: a stream and an event", w->ops->name);
    IS_CALLS(w->streams, "%s: not blocked by the default stream; waits sleep",
             w->ops->name);
    ok(w->ops->event_record(r->dev, r->e, r->s) == GB_SUCCESS &&
           w->ops->event_wait(r->dev, r->e, r->s) == GB_SUCCESS &&
           w->ops->event_sync(r->dev, r->e) == GB_SUCCESS &&
           w->ops->stream_sync(r->dev, r->s) == GB_SUCCESS,
       "%s: waits", w->ops->name);
    IS_CALLS(w->waits, "%s: a stream is waited for through an event that sleeps",
             w->ops->name);
    fake_fail(w->query, w->not_ready);
    done = true;
    is_int(GB_SUCCESS, w->ops->event_query(r->dev, r->e, &done),
           "%s: not ready is no error", w->ops->name);
    ok(!done, "%s: but not done", w->ops->name);
    is_int(GB_SUCCESS, w->ops->event_query(r->dev, r->e, &done), "%s: ready",
           w->ops->name);
    ok(done, "%s: is done", w->ops->name);
    fake_calls();
}

/* Events that carry time are made without the flag that forbids it. */
static void test_timers(const struct words *w)
{
    struct gb_guest guest;
    struct gb_device *dev;
    struct gb_event *start = NULL, *stop = NULL;
    struct gb_stream *s;
    double us = 0;

    w->ops->open(0, &dev);
    w->ops->enter(dev, &guest);
    w->ops->stream_create(dev, &s);
    fake_calls();
    ok(w->ops->timer_create(dev, &start) == GB_SUCCESS &&
           w->ops->timer_create(dev, &stop) == GB_SUCCESS,
       "%s: two timers", w->ops->name);
    IS_CALLS(w->timers, "%s: with time, and waits that sleep", w->ops->name);
    ok(w->ops->event_record(dev, start, s) == GB_SUCCESS &&
           w->ops->event_record(dev, stop, s) == GB_SUCCESS &&
           w->ops->event_sync(dev, stop) == GB_SUCCESS &&
           w->ops->timer_elapsed(dev, start, stop, &us) == GB_SUCCESS,
       "%s: used as events", w->ops->name);
    is_int(2500, (long long)us, "%s: milliseconds become microseconds", w->ops->name);
    w->ops->event_destroy(dev, start);
    w->ops->event_destroy(dev, stop);
    w->ops->stream_destroy(dev, s);
    w->ops->leave(dev, &guest);
    w->ops->close(dev);
    fake_calls();
}

static void test_copies(const struct words *w, struct rig *r)
{
    int wrong = 0, gaps = 0;

    w->ops->copy_in(r->dev, r->s, r->mem, 0, r->host, 0, 50, 1);
    w->ops->copy_in(r->dev, r->s, r->mem + 8, 10, r->host + 16, 10, 10, 7);
    w->ops->copy_out(r->dev, r->s, r->host, 0, r->mem, 0, 50, 1);
    w->ops->copy_out(r->dev, r->s, r->host + 16, 10, r->mem + 8, 10, 10, 7);
    IS_CALLS(w->flat, "%s: rows that touch are one", w->ops->name);

    for (int i = 0; i < 84; i++)
        r->host[i] = (char)i;
    w->ops->copy_in(r->dev, r->s, r->mem, 16, r->host, 12, 10, 7);
    memset(r->host, -1, 84);
    w->ops->copy_out(r->dev, r->s, r->host, 12, r->mem, 16, 10, 7);
    IS_CALLS(w->rows, "%s: rows apart are one pitched copy", w->ops->name);
    for (int i = 0; i < 84; i++) {
        wrong += i % 12 < 10 && r->host[i] != (char)i;
        gaps += i % 12 >= 10 && r->host[i] != -1;
    }
    is_int(0, wrong, "%s: they arrive", w->ops->name);
    is_int(0, gaps, "%s: and nothing else", w->ops->name);

    /* The fake's limit is 1000, read when the device was opened. */
    w->ops->copy_in(r->dev, r->s, r->mem, 16, r->host, 2000, 10, 2);
    w->ops->copy_out(r->dev, r->s, r->host, 16, r->mem, 2000, 10, 2);
    IS_CALLS(w->one_by_one, "%s: beyond the largest pitch row by row", w->ops->name);
}

static void test_kernels(const struct words *w, struct rig *r)
{
    gb_devptr memory = 7;
    void *pinned = &memory;

    ok(w->ops->module_load(r->dev, "family", "image", 6, &r->m) == GB_SUCCESS &&
           w->ops->module_get(r->dev, r->m, "kernel", &r->f) == GB_SUCCESS,
       "%s: a kernel", w->ops->name);
    IS_CALLS(w->module, "%s: may have all shared memory", w->ops->name);
    is_int(GB_SUCCESS,
           w->ops->launch(r->dev, r->s, r->f, 70000, 256, 98304, "12345678", 8),
           "%s: launch", w->ops->name);
    IS_CALLS(w->launch, "%s: the arguments, grid along x", w->ops->name);
    if (w->ops->launch_shaped) {
        const struct gb_launch_shape shape = {96, 384, 200000, 4, true};
        const struct gb_launch_shape bare = {.grid = 7, .block = 256};

        is_int(GB_SUCCESS,
               w->ops->launch_shaped(r->dev, r->s, r->f, &shape, "12345678", 8),
               "%s: launch of a shape", w->ops->name);
        IS_CALLS(w->shaped, "%s: its clusters of four, started early", w->ops->name);
        is_int(GB_SUCCESS,
               w->ops->launch_shaped(r->dev, r->s, r->f, &bare, "12345678", 8),
               "%s: a shape that asks for nothing", w->ops->name);
        IS_CALLS(w->bare, "%s: gets nothing", w->ops->name);
    }
    is_int(GB_E_UNSUPPORTED, w->ops->module_get(r->dev, r->m, "absent", &r->f),
           "%s: no such kernel", w->ops->name);
    is_int(GB_E_UNSUPPORTED, w->ops->module_load(r->dev, "family", NULL, 0, &r->m),
           "%s: no image", w->ops->name);
    for (size_t i = 0; i < GB_COUNT(w->no_image); i++) {
        struct gb_module *m;

        fake_fail(w->load, w->no_image[i]);
        is_int(GB_E_UNSUPPORTED, w->ops->module_load(r->dev, "family", "image", 6, &m),
               "%s: error %d: no code for this device", w->ops->name, w->no_image[i]);
    }
    fake_fail(w->alloc_name, w->out_of_memory);
    is_int(GB_E_NOMEM, w->ops->mem_alloc(r->dev, 100, &memory), "%s: out of memory",
           w->ops->name);
    is_int(7, (long long)memory, "%s: outputs are written on success only",
           w->ops->name);
    fake_fail(w->host_alloc_name, w->out_of_memory);
    is_int(GB_E_NOMEM, w->ops->host_alloc(r->dev, 100, &pinned),
           "%s: nor pinned memory", w->ops->name);
    ok(pinned == &memory, "%s: nothing written either", w->ops->name);
    fake_calls();
    is_int(GB_SUCCESS, w->ops->launch(r->dev, r->s, r->f, 1, 1, 0, "", 0),
           "%s: none of them loses the device", w->ops->name);
    w->ops->module_unload(r->dev, r->m);
    fake_calls();
}

static void test_release(const struct words *w, struct rig *r)
{
    w->ops->event_destroy(r->dev, r->e);
    w->ops->stream_destroy(r->dev, r->s);
    w->ops->mem_free(r->dev, r->mem);
    w->ops->host_free(r->dev, r->host);
    IS_CALLS(w->frees, "%s: all given back", w->ops->name);
    w->ops->mem_free(r->dev, 0);
    w->ops->host_free(r->dev, NULL);
    w->ops->event_destroy(r->dev, NULL);
    w->ops->stream_destroy(r->dev, NULL);
    w->ops->module_unload(r->dev, NULL);
    IS_CALLS("", "%s: nothing is nothing", w->ops->name);
    w->ops->leave(r->dev, &r->guest);
    ok(program_unchanged(w), "%s: the program finds all as before", w->ops->name);
    w->ops->close(r->dev);
    fake_calls();
}

static void test_loss(const struct words *w)
{
    struct gb_guest guest;
    struct gb_device *dev;
    struct gb_stream *s;
    struct gb_event *e;
    gb_devptr mem;

    w->ops->open(0, &dev);
    w->ops->enter(dev, &guest);
    w->ops->stream_create(dev, &s);
    w->ops->event_create(dev, &e);
    w->ops->mem_alloc(dev, 100, &mem);
    fake_fail(w->record, w->broken);
    is_int(GB_E_DEVICE, w->ops->event_record(dev, e, s), "%s: the device breaks",
           w->ops->name);
    fake_calls();
    w->ops->event_destroy(dev, e);
    w->ops->stream_destroy(dev, s);
    w->ops->mem_free(dev, mem);
    IS_CALLS("", "%s: what it held is not touched", w->ops->name);
    w->ops->leave(dev, &guest);
    ok(program_unchanged(w), "%s: the program goes on as before", w->ops->name);
    fesetround(FE_UPWARD);
    is_int(GB_E_DEVICE, w->ops->enter(dev, &guest), "%s: nobody enters again",
           w->ops->name);
    is_int(FE_UPWARD, fegetround(), "%s: and the program rounds as before",
           w->ops->name);
    fesetround(FE_TONEAREST);
    IS_CALLS("", "%s: nor asks the driver", w->ops->name);
    w->ops->close(dev);

    w->ops->open(0, &dev);
    fake_fail(w->push, w->broken);
    is_int(GB_E_DEVICE, w->ops->enter(dev, &guest), "%s: it cannot be entered",
           w->ops->name);
    ok(program_unchanged(w), "%s: and that leaves no trace", w->ops->name);
    w->ops->close(dev);
    fake_calls();
}

static void test_reset(void)
{
    struct gb_guest guest;
    struct gb_device *dev;

    gb_cuda_ops.open(0, &dev);
    fake_set("context_id", 78);
    fake_calls();
    is_int(GB_E_DEVICE, gb_cuda_ops.enter(dev, &guest), "the program reset the device");
    gb_cuda_ops.close(dev);
    IS_CALLS("", "what it destroyed is not released again");
    is_int(GB_SUCCESS, gb_cuda_ops.open(0, &dev), "it opens again");
    is_int(GB_SUCCESS, gb_cuda_ops.enter(dev, &guest), "and works");
    gb_cuda_ops.leave(dev, &guest);
    fake_calls();
    gb_cuda_ops.close(dev);
    IS_CALLS("cuDevicePrimaryCtxRelease_v2 0\n", "and is released when closed");
}

/* Kinds of memory as ROCm 5 numbers them, and an architecture it cannot name. */
static int rocm5(void)
{
    struct gb_guest guest;
    struct gb_device *dev;
    gb_devptr mem;
    void *host;

    load_fake(hip.file);
    fake_set("version", 50221153);
    fake_set("minor", 0);
    if (gb_hip_ops.open(1, &dev) != GB_SUCCESS || gb_hip_ops.enter(dev, &guest) != 0)
        return 2;
    if (gb_hip_ops.mem_alloc(dev, 8, &mem) || gb_hip_ops.host_alloc(dev, 8, &host))
        return 3;
    if (gb_hip_ops.mem_kind(dev, host) != GB_MEM_PINNED ||
        gb_hip_ops.mem_kind(dev, (void *)(uintptr_t)mem) != GB_MEM_FOREIGN ||
        gb_hip_ops.mem_kind(dev, (void *)2) != GB_MEM_DEVICE ||
        gb_hip_ops.mem_kind(dev, &dev) != GB_MEM_PAGEABLE)
        return 4;
    gb_hip_ops.mem_free(dev, mem);
    gb_hip_ops.host_free(dev, host);
    gb_hip_ops.leave(dev, &guest);
    if (dev->info.arch != 0 || strcmp(dev->info.arch_name, "gfx90?") != 0)
        return 5;
    gb_hip_ops.close(dev);
    return 0;
}

/* The list puts NVIDIA's devices before AMD's. */
static int print_list(const char *knob)
{
    struct gb_device_ref refs[16];
    int n;

    load_fake(cuda.file);
    load_fake(hip.file);
    n = gb_device_list(knob, refs, 16);
    for (int i = 0; i < n; i++)
        printf("%s%s%d", i ? " " : "", refs[i].ops->name, refs[i].ordinal);
    return 0;
}

static void test_list(void)
{
    static const struct {
        const char *knob, *rank, *wanted, *complaint;
    } cases[] = {
        {"auto", "SLURM_LOCALID", "cuda0 cuda1 hip0 hip1", ""},
        {"0,2", "SLURM_LOCALID", "cuda0 hip0", ""},
        {"3,1", "SLURM_LOCALID", "hip1 cuda1", ""},
        {"1,1", "SLURM_LOCALID", "cuda1", ""},
        {"1,4,2", "SLURM_LOCALID", "cuda1 hip0", "no device 4, 4 visible"},
        {"two", "SLURM_LOCALID", "cuda0 cuda1 hip0 hip1", "using auto"},
        {"none", "SLURM_LOCALID", "", ""},
        {"auto", "SLURM_LOCALID=0", "cuda0", ""},
        {"auto", "SLURM_LOCALID=3", "hip1", ""},
        {"auto", "SLURM_LOCALID=5", "cuda1", ""},
        {"0,1", "SLURM_LOCALID=1", "cuda0 cuda1", ""},
    };

    for (size_t i = 0; i < GB_COUNT(cases); i++) {
        const char *const changes[] = {cases[i].rank,
                                       "OMPI_COMM_WORLD_LOCAL_RANK",
                                       "MV2_COMM_WORLD_LOCAL_RANK",
                                       "MPI_LOCALRANKID",
                                       "PMI_LOCAL_RANK",
                                       "PALS_LOCAL_RANKID",
                                       "FLUX_TASK_LOCAL_ID",
                                       NULL};
        struct child c;
        char mode[64];

        snprintf(mode, sizeof mode, "list:%s", cases[i].knob);
        child_run(&c, mode, changes, 30);
        is_string(cases[i].wanted, c.out, "GEMMBLAS_DEVICE=%s with %s", cases[i].knob,
                  cases[i].rank);
        ok(*cases[i].complaint ? strstr(c.err, cases[i].complaint) != NULL : !*c.err,
           "said: %s", c.err);
    }
}

/* The program's stream, and memory in its order: a pool of our own, made once, that keeps what
 * it has. */
static void test_queued(const struct words *w, struct rig *r)
{
    struct gb_stream *theirs;
    gb_devptr memory = 7;

    fake_calls();
    is_int(GB_SUCCESS, w->ops->stream_borrow(r->dev, (void *)99, &theirs),
           "%s: the program's stream", w->ops->name);
    fake_fail(w->queued_name, w->out_of_memory);
    is_int(GB_E_NOMEM, w->ops->alloc_queued(r->dev, theirs, 500, &memory),
           "%s: no memory", w->ops->name);
    is_int(7, (long long)memory, "%s: outputs are written on success only",
           w->ops->name);
    IS_CALLS(w->pool, "%s: one pool", w->ops->name);
    is_int(GB_SUCCESS, w->ops->alloc_queued(r->dev, theirs, 500, &memory),
           "%s: memory in its order", w->ops->name);
    w->ops->free_queued(r->dev, theirs, memory);
    w->ops->free_queued(r->dev, theirs, 0);
    w->ops->stream_return(r->dev, theirs);
    IS_CALLS(w->queued, "%s: in that stream, which stays", w->ops->name);
}

/* What the program did to its stream is no failure of the device, which goes on. */
static void test_their_mistakes(const struct words *w, struct rig *r)
{
    static const struct {
        int error;
        enum gb_status status;
    } mistakes[] = {{1, GB_E_ARGUMENT},   {400, GB_E_ARGUMENT},
                    {709, GB_E_ARGUMENT}, {801, GB_E_UNSUPPORTED},
                    {900, GB_E_ARGUMENT}, {908, GB_E_ARGUMENT}};
    const struct gb_launch_shape shape = {.grid = 7, .block = 256};
    struct gb_stream *theirs;
    gb_devptr memory;

    w->ops->stream_borrow(r->dev, (void *)99, &theirs);
    for (size_t i = 0; i < GB_COUNT(mistakes); i++) {
        int error = mistakes[i].error;

        fake_fail(w->queued_name, error);
        is_int(mistakes[i].status, w->ops->alloc_queued(r->dev, theirs, 500, &memory),
               "%s: error %d of memory in a borrowed stream", w->ops->name, error);
        fake_fail(w->launch_name, error);
        is_int(mistakes[i].status,
               w->ops->launch(r->dev, theirs, r->f, 1, 1, 0, "12345678", 8),
               "%s: error %d of a launch there", w->ops->name, error);
        if (!w->ops->launch_shaped)
            continue;
        fake_fail("cuLaunchKernelEx", error);
        is_int(mistakes[i].status,
               w->ops->launch_shaped(r->dev, theirs, r->f, &shape, "12345678", 8),
               "%s: error %d of a launch with a shape", w->ops->name, error);
    }
    is_int(GB_SUCCESS, w->ops->launch(r->dev, theirs, r->f, 1, 1, 0, "12345678", 8),
           "%s: the device is still good", w->ops->name);
    w->ops->stream_return(r->dev, theirs);
    fake_calls();
}

/* All of one back end; alone in a process, because a driver is loaded once. */
static void test_back_end(const struct words *w)
{
    struct rig r;

    load_fake(w->file);
    fake_set("max_pitch", 1000);
    test_open(w, &r);
    test_memory(w, &r);
    test_streams(w, &r);
    test_copies(w, &r);
    test_kernels(w, &r);
    test_queued(w, &r);
    test_their_mistakes(w, &r);
    test_release(w, &r);
    test_timers(w);
    test_loss(w);
}

int main(int argc, char **argv)
{
    struct child c;

    if (argc > 1 && strcmp(argv[1], "rocm5") == 0)
        return rocm5();
    if (argc > 1 && strncmp(argv[1], "list:", 5) == 0)
        return print_list(argv[1] + 5);
    plan_lazy();
    gb_log_level = GB_LOG_NONE; /* the failures below are on purpose */
    test_back_end(&cuda);
    test_reset();
    test_back_end(&hip);
    child_run(&c, "rocm5", NULL, 30);
    ok(child_passed(&c), "ROCm 5's numbers are understood");
    test_list();
    return 0;
}
