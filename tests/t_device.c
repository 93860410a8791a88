/* SPDX-License-Identifier: BSD-3-Clause */
/* Which devices there are, and what a device of any back end must do: the emulated one
 * here, NVIDIA's and AMD's where there are some. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "device.h"
#include "tap.h"
#include "util.h"

/* ---- local rank ---- */

static const char *const *variables; /* "NAME=value", NULL at the end */

static const char *get(const char *name)
{
    for (const char *const *v = variables; *v; v++) {
        size_t len = strlen(name);

        if (strncmp(*v, name, len) == 0 && (*v)[len] == '=')
            return *v + len + 1;
    }
    return NULL;
}

static void test_rank(void)
{
    static const struct {
        const char *launcher;
        const char *const variables[4];
        int rank;
    } cases[] = {
        {"none", {"HOME=/root"}, -1},
        {"Open MPI", {"OMPI_COMM_WORLD_LOCAL_RANK=3"}, 3},
        {"MPICH", {"PMI_RANK=7", "MPI_LOCALRANKID=2"}, 2},
        {"Hydra", {"PMI_LOCAL_RANK=5"}, 5},
        {"MVAPICH", {"MV2_COMM_WORLD_LOCAL_RANK=1"}, 1},
        {"PALS", {"PALS_LOCAL_RANKID=4"}, 4},
        {"Flux", {"FLUX_TASK_LOCAL_ID=6"}, 6},
        {"Slurm", {"SLURM_LOCALID=0", "SLURM_PROCID=12"}, 0},
        {"Open MPI below Slurm",
         {"SLURM_LOCALID=0", "OMPI_COMM_WORLD_LOCAL_RANK=2"},
         2},
        {"an empty value", {"OMPI_COMM_WORLD_LOCAL_RANK=", "SLURM_LOCALID=1"}, 1},
        {"a value that is no rank", {"SLURM_LOCALID=1x"}, -1},
        {"a negative value", {"SLURM_LOCALID=-1"}, -1},
        {"a huge value", {"SLURM_LOCALID=99999999999999999999"}, -1},
    };

    for (size_t i = 0; i < GB_COUNT(cases); i++) {
        variables = cases[i].variables;
        is_int(cases[i].rank, gb_device_local_rank(get), "local rank: %s",
               cases[i].launcher);
    }
}

/* ---- lists ---- */

/* In a child: the list for a knob, as text on stdout. */
static int print_list(const char *knob)
{
    struct gb_device_ref refs[16];
    int n = gb_device_list(knob, refs, 16);

    for (int i = 0; i < n; i++)
        printf("%s%s%d", i ? " " : "", refs[i].ops->name, refs[i].ordinal);
    return 0;
}

static const char *const no_launcher[] = {"OMPI_COMM_WORLD_LOCAL_RANK",
                                          "MV2_COMM_WORLD_LOCAL_RANK",
                                          "MPI_LOCALRANKID",
                                          "PMI_LOCAL_RANK",
                                          "PALS_LOCAL_RANKID",
                                          "FLUX_TASK_LOCAL_ID",
                                          "SLURM_LOCALID",
                                          NULL};

static void is_list(const char *knob, const char *wanted, const char *complaint)
{
    struct child c;
    char mode[64];

    snprintf(mode, sizeof mode, "list:%s", knob);
    child_run(&c, mode, no_launcher, 30);
    is_string(wanted, c.out, "GEMMBLAS_DEVICE=%s", knob);
    if (*complaint)
        ok(strstr(c.err, complaint) && strchr(c.err, '\n') == c.err + strlen(c.err) - 1,
           "one line about %s: %s", knob, c.err);
    else
        is_string("", c.err, "silent: %s", knob);
}

static void test_list(void)
{
    static const char *const wrong[] = {"gpu", "emu:0",    "emu:9",   "emu:x", "emu:1x",
                                        "1,",  ",1",       "1,,2",    "-1",    "0x1",
                                        "1 2", "emulated", "nonesuch"};
    int nvidia, amd;

    is_list("none", "", "");
    is_list("NONE", "", "");
    is_list("emu", "emu0", "");
    is_list("Emu", "emu0", "");
    is_list("emu:1", "emu0", "");
    is_list("emu:3", "emu0 emu1 emu2", "");
    gb_cuda_ops.count(&nvidia);
    gb_hip_ops.count(&amd);
    if (nvidia + amd > 0) {
        skip_block(30, "lists without a device: this machine has %d", nvidia + amd);
        return;
    }
    is_list("auto", "", "");
    is_list("", "", "");
    is_list("0", "", "there is no device 0, 0 visible");
    for (size_t i = 0; i < GB_COUNT(wrong); i++)
        is_list(wrong[i], "", "is not understood; using auto");
}

/* ---- no device, no trace ---- */

static int print_absent(void)
{
    struct gb_device_ref refs[4];
    struct gb_device *dev;
    char line[512];
    FILE *maps;
    int n = 7, mapped = 0;

    errno = ENOTTY;
    if (gb_cuda_ops.count(&n) != GB_E_ABSENT || n != 0)
        return 2;
    n = 7;
    if (gb_hip_ops.count(&n) != GB_E_ABSENT || n != 0)
        return 3;
    if (gb_cuda_ops.open(0, &dev) != GB_E_ABSENT ||
        gb_hip_ops.open(0, &dev) != GB_E_ABSENT)
        return 4;
    if (gb_device_list("auto", refs, 4) != 0)
        return 5;
    if (errno != ENOTTY)
        return 6;
    maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return 7;
    while (fgets(line, sizeof line, maps))
        mapped += strstr(line, "libcuda") || strstr(line, "libamdhip") ||
                  strstr(line, "libhsa") || strstr(line, "gemmblas-emu");
    fclose(maps);
    return mapped ? 8 : 0;
}

static void test_absent(void)
{
    static const char *const verbose[] = {"GEMMBLAS_LOG=debug", NULL};
    struct child c;
    int nvidia, amd;

    gb_cuda_ops.count(&nvidia);
    gb_hip_ops.count(&amd);
    if (nvidia + amd > 0) {
        skip_block(2, "no device: this machine has %d", nvidia + amd);
        return;
    }
    child_run(&c, "absent", verbose, 30);
    ok(child_passed(&c),
       "without a device: none counted, nothing opened, nothing mapped");
    ok(c.out[0] == '\0' && c.err[0] == '\0', "and not a word: %s%s", c.out, c.err);
}

/* ---- what every device does ---- */

enum { ROWS = 37, WIDTH = 100, HOST_PITCH = 112, DEV_PITCH = 128 };

static unsigned char byte_at(int row, int column)
{
    return (unsigned char)(row * 31 + column * 7 + 1);
}

static void exercise_copies(const struct gb_device_ops *ops, struct gb_device *dev)
{
    const char *name = ops->name;
    struct gb_stream *up, *down;
    struct gb_event *e;
    unsigned char *host, *back;
    gb_devptr mem;
    int wrong = 0, gaps = 0;
    bool done = false;

    is_int(GB_SUCCESS, ops->stream_create(dev, &up), "%s: a stream", name);
    is_int(GB_SUCCESS, ops->stream_create(dev, &down), "%s: another", name);
    is_int(GB_SUCCESS, ops->event_create(dev, &e), "%s: an event", name);
    is_int(GB_SUCCESS, ops->event_query(dev, e, &done), "%s: never recorded", name);
    ok(done, "%s: is complete", name);
    is_int(GB_SUCCESS, ops->mem_alloc(dev, ROWS * DEV_PITCH, &mem), "%s: memory", name);
    is_int(GB_SUCCESS, ops->host_alloc(dev, ROWS * HOST_PITCH, (void **)&host),
           "%s: pinned memory", name);
    is_int(GB_SUCCESS, ops->host_alloc(dev, ROWS * HOST_PITCH, (void **)&back),
           "%s: and more", name);
    is_int(0, (long long)(mem % 256), "%s: alignment", name);

    memset(host, 0x55, ROWS * HOST_PITCH);
    memset(back, 0xaa, ROWS * HOST_PITCH);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < WIDTH; j++)
            host[i * HOST_PITCH + j] = byte_at(i, j);
    is_int(GB_SUCCESS,
           ops->copy_in(dev, up, mem, DEV_PITCH, host, HOST_PITCH, WIDTH, ROWS),
           "%s: rows up", name);
    is_int(GB_SUCCESS, ops->event_record(dev, e, up), "%s: record", name);
    is_int(GB_SUCCESS, ops->event_wait(dev, e, down), "%s: wait", name);
    is_int(GB_SUCCESS,
           ops->copy_out(dev, down, back, HOST_PITCH, mem, DEV_PITCH, WIDTH, ROWS),
           "%s: rows down", name);
    is_int(GB_SUCCESS, ops->stream_sync(dev, down), "%s: the other stream drains",
           name);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < HOST_PITCH; j++) {
            if (j < WIDTH)
                wrong += back[i * HOST_PITCH + j] != byte_at(i, j);
            else
                gaps += back[i * HOST_PITCH + j] != 0xaa;
        }
    is_int(0, wrong, "%s: what went up came down", name);
    is_int(0, gaps, "%s: gaps are as before", name);

    memset(back, 0, ROWS * WIDTH);
    ops->copy_in(dev, up, mem, 1, back, 1, ROWS * WIDTH, 1);
    ops->event_record(dev, e, up);
    is_int(GB_SUCCESS, ops->event_sync(dev, e), "%s: one long row", name);
    ops->event_query(dev, e, &done);
    ok(done, "%s: complete after a wait", name);

    is_int(GB_MEM_PINNED, ops->mem_kind(dev, host + 5), "%s: pinned memory is known",
           name);
    is_int(GB_MEM_PAGEABLE, ops->mem_kind(dev, &wrong), "%s: a variable is pageable",
           name);
    is_int(GB_MEM_DEVICE, ops->mem_kind(dev, (void *)(uintptr_t)(mem + 5)),
           "%s: device memory is known", name);
    ops->stream_destroy(dev, up);
    ops->stream_destroy(dev, down);
    ops->event_destroy(dev, e);
    ops->mem_free(dev, mem);
    ops->host_free(dev, host);
    ops->host_free(dev, back);
}

static void *elsewhere(void *arg)
{
    struct gb_device *dev = arg;
    struct gb_guest guest;
    size_t left, total;
    bool good;

    if (dev->ops->enter(dev, &guest) != GB_SUCCESS)
        return NULL;
    good = dev->ops->mem_info(dev, &left, &total) == GB_SUCCESS && left <= total &&
           total > 0;
    dev->ops->leave(dev, &guest);
    return good ? arg : NULL;
}

/* Threads that the driver starts must not take the program's signals. */
static int taking_threads(int signal)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    int taking = 0;

    if (!tasks)
        bail("no /proc/self/task");
    while ((task = readdir(tasks)) != NULL) {
        unsigned long long blocked;
        char path[64], line[128];
        FILE *status;

        if (atoi(task->d_name) == 0 || atoi(task->d_name) == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%.16s/status", task->d_name);
        status = fopen(path, "re");
        if (!status)
            continue;
        while (fgets(line, sizeof line, status))
            if (sscanf(line, "SigBlk: %llx", &blocked) == 1)
                taking += !(blocked >> (signal - 1) & 1);
        fclose(status);
    }
    closedir(tasks);
    return taking;
}

static void exercise(const struct gb_device_ops *ops)
{
    struct gb_guest outer, inner;
    struct gb_device *dev;
    gb_devptr mem = 7;
    size_t left, total;
    sigset_t mask;
    pthread_t thread;
    void *good = NULL;

    if (ops->open(0, &dev) != GB_SUCCESS) {
        ok(0, "%s: opens", ops->name);
        return;
    }
    diag("%s: %s, %s, %d multiprocessors, %zu MiB, %zu KiB shared, L2 %zu KiB, %d kHz, "
         "numa %d, driver %d, pci %s",
         ops->name, dev->info.name, dev->info.arch_name, dev->info.multiprocessors,
         dev->info.mem_total >> 20, dev->info.smem_per_block >> 10, dev->info.l2 >> 10,
         dev->info.clock_khz, dev->info.numa_node, dev->info.driver, dev->info.pci);
    ok(dev->ops == ops && dev->info.name[0] && dev->info.multiprocessors > 0 &&
           dev->info.mem_total > 0 && dev->info.smem_per_block >= 48 << 10,
       "%s: describes itself", ops->name);
    is_int(0, taking_threads(SIGINT), "%s: threads of the driver take no signals",
           ops->name);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    is_int(0, sigismember(&mask, SIGINT), "%s: the caller's mask is as before",
           ops->name);

    errno = ENOTTY;
    is_int(GB_SUCCESS, ops->enter(dev, &outer), "%s: enter", ops->name);
    is_int(GB_SUCCESS, ops->enter(dev, &inner), "%s: again", ops->name);
    ops->leave(dev, &inner);
    is_int(GB_SUCCESS, ops->mem_info(dev, &left, &total), "%s: memory", ops->name);
    ok(left > 0 && left <= total, "%s: some of it free", ops->name);
    exercise_copies(ops, dev);
    is_int(GB_E_NOMEM, ops->mem_alloc(dev, (size_t)1 << 46, &mem),
           "%s: 64 TiB: refused", ops->name);
    is_int(7, (long long)mem, "%s: nothing written", ops->name);
    is_int(GB_SUCCESS, ops->mem_alloc(dev, 8, &mem), "%s: and no harm done", ops->name);
    ops->mem_free(dev, mem);
    if (pthread_create(&thread, NULL, elsewhere, dev) == 0)
        pthread_join(thread, &good);
    ok(good == dev, "%s: from another thread", ops->name);
    ops->leave(dev, &outer);
    is_int(ENOTTY, errno, "%s: errno is as before", ops->name);
    ops->close(dev);
}

/* ---- the program's own CUDA context ---- */

static void exercise_guest_of_cuda(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*current)(void **) = (int (*)(void **))dlsym(cuda, "cuCtxGetCurrent");
    int (*set)(void *) = (int (*)(void *))dlsym(cuda, "cuCtxSetCurrent");
    int (*retain)(void **, int) =
        (int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain");
    int (*reset)(int) = (int (*)(int))dlsym(cuda, "cuDevicePrimaryCtxReset_v2");
    struct gb_device *dev;
    struct gb_stream *s;
    struct gb_guest guest;
    void *context = &dev, *mine;
    size_t left, total;

    if (gb_cuda_ops.open(0, &dev) != GB_SUCCESS)
        bail("cuda does not open again");
    current(&context);
    ok(context == NULL, "no context is made current in the program's thread");
    gb_cuda_ops.enter(dev, &guest);
    gb_cuda_ops.stream_create(dev, &s);
    gb_cuda_ops.leave(dev, &guest);
    current(&context);
    ok(context == NULL, "nor left there");
    retain(&mine, 0);
    set(mine);
    gb_cuda_ops.enter(dev, &guest);
    gb_cuda_ops.leave(dev, &guest);
    current(&context);
    ok(context == mine, "the program's own stays current");
    set(NULL);

    reset(0);
    is_int(GB_E_DEVICE, gb_cuda_ops.enter(dev, &guest),
           "a destroyed context is noticed");
    retain(&mine, 0);
    is_int(GB_E_DEVICE, gb_cuda_ops.enter(dev, &guest), "also when there is a new one");
    gb_cuda_ops.stream_destroy(dev, s);
    gb_cuda_ops.close(dev);
    is_int(GB_SUCCESS, gb_cuda_ops.open(0, &dev), "and the device opens again");
    is_int(GB_SUCCESS, gb_cuda_ops.enter(dev, &guest), "and can be entered");
    is_int(GB_SUCCESS, gb_cuda_ops.mem_info(dev, &left, &total), "and used");
    gb_cuda_ops.leave(dev, &guest);
    gb_cuda_ops.close(dev);
}

static void test_devices(void)
{
    const struct gb_device_ops *emu = gb_emu_load();
    int n;

    if (emu)
        exercise(emu);
    else
        ok(0, "the emulated device is found in the build tree");
    ok(emu == gb_emu_load(), "it is loaded once");
    gb_cuda_ops.count(&n);
    if (n > 0) {
        exercise(&gb_cuda_ops);
        exercise_guest_of_cuda();
    } else {
        skip("no NVIDIA device");
    }
    gb_hip_ops.count(&n);
    if (n > 0)
        exercise(&gb_hip_ops);
    else
        skip("no AMD device");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strncmp(argv[1], "list:", 5) == 0)
        return print_list(argv[1] + 5);
    if (argc > 1 && strcmp(argv[1], "absent") == 0)
        return print_absent();
    plan_lazy();
    test_rank();
    test_list();
    test_absent();
    test_devices();
    return 0;
}
