/* SPDX-License-Identifier: BSD-3-Clause */
/* One queue, one lock that is held for a few instructions per part. */
#include "stage.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "util.h"

enum {
    PART_BYTES = 256 << 10, /* about 25 us of one thread */
    FAULT_BYTES = 2 << 20,  /* one huge page */
    STACK_BYTES = 256 << 10,
};

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* ---- parts ---------------------------------------------------------------------------- */

static void cut(struct gb_copy *copy, size_t bytes)
{
    size_t width = copy->width, height = copy->height;

    copy->part_width = width < bytes ? width : bytes;
    copy->across = (uint32_t)((width - 1) / copy->part_width + 1);
    copy->part_height = width < bytes ? bytes / width : 1;
    copy->parts = copy->across * (uint32_t)((height - 1) / copy->part_height + 1);
    copy->next = 0;
    copy->party = NULL;
    copy->link = NULL;
    atomic_store_explicit(&copy->left, copy->parts, memory_order_relaxed);
}

void gb_copy_make(struct gb_copy *copy, void *dst, size_t dst_pitch, const void *src,
                  size_t src_pitch, size_t width, size_t height)
{
    if (dst_pitch == width && src_pitch == width) {
        width *= height;
        height = 1;
    }
    copy->dst = dst;
    copy->src = src;
    copy->dst_pitch = dst_pitch;
    copy->src_pitch = src_pitch;
    copy->width = width;
    copy->height = height;
    cut(copy, PART_BYTES);
}

void gb_copy_make_fault(struct gb_copy *copy, void *at, size_t bytes)
{
    uintptr_t first = (uintptr_t)at / FAULT_BYTES * FAULT_BYTES;

    /* Parts end at multiples of FAULT_BYTES; the first and the last are clipped to what is
     * the caller's. */
    copy->dst = at;
    copy->src = NULL;
    copy->dst_pitch = copy->src_pitch = 0;
    copy->width = bytes + ((uintptr_t)at - first);
    copy->height = 1;
    cut(copy, FAULT_BYTES);
}

static void fault_part(const struct gb_copy *copy, uint32_t part)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t base = (uintptr_t)copy->dst / FAULT_BYTES * FAULT_BYTES;
    uintptr_t low = base + (uintptr_t)part * FAULT_BYTES, high = low + FAULT_BYTES;
    unsigned char resident;

    if (low < (uintptr_t)copy->dst)
        low = (uintptr_t)copy->dst / page * page;
    if (high > base + copy->width)
        high = (base + copy->width + page - 1) / page * page;
    /* Memory that is there already is the common case: ask about one page of it. Whatever
     * fails here fails without harm, the copy faults the pages in itself. */
    if (mincore((void *)low, page, &resident) == 0 && (resident & 1))
        return;
    madvise((void *)low, high - low, MADV_POPULATE_WRITE);
}

static void run_part(const struct gb_copy *copy, uint32_t part)
{
    size_t x = part % copy->across * copy->part_width;
    size_t y = part / copy->across * copy->part_height;
    size_t width, height;

    if (!copy->src) {
        fault_part(copy, part);
        return;
    }
    width = copy->width - x < copy->part_width ? copy->width - x : copy->part_width;
    height =
        copy->height - y < copy->part_height ? copy->height - y : copy->part_height;
    for (size_t row = y; row < y + height; row++)
        memcpy(copy->dst + row * copy->dst_pitch + x,
               copy->src + row * copy->src_pitch + x, width);
}

void gb_copy_now(struct gb_copy *copy)
{
    for (uint32_t part = 0; part < copy->parts; part++)
        run_part(copy, part);
    atomic_store_explicit(&copy->left, 0, memory_order_release);
}

/* ---- the queue ------------------------------------------------------------------------ */

static void append(struct gb_queue *queue, struct gb_copy *copy)
{
    if (queue->tail)
        queue->tail->link = copy;
    else
        queue->head = copy;
    queue->tail = copy;
}

static void unlink_copy(struct gb_queue *queue, struct gb_copy *copy)
{
    struct gb_copy *before = NULL;

    for (struct gb_copy *at = queue->head; at != copy; at = at->link)
        before = at;
    if (before)
        before->link = copy->link;
    else
        queue->head = copy->link;
    if (queue->tail == copy)
        queue->tail = before;
}

/* Take a part of the queue's head, do it and account for it; the lock is held before and
 * after. */
static void serve(struct gb_stage *stage, struct gb_queue *queue)
{
    struct gb_copy *copy = queue->head;
    struct gb_party *party = copy->party;
    uint32_t part = copy->next++;

    if (copy->next == copy->parts)
        unlink_copy(queue, copy);
    pthread_mutex_unlock(&stage->lock);
    run_part(copy, part);
    pthread_mutex_lock(&stage->lock);
    /* When it was the last part, the owner may use the copy again from here on. */
    if (atomic_fetch_sub_explicit(&copy->left, 1, memory_order_acq_rel) == 1)
        pthread_cond_broadcast(&party->cond);
}

static void *copy_thread(void *arg)
{
    struct gb_stage *stage = arg;

    pthread_mutex_lock(&stage->lock);
    while (!stage->stop) {
        if (stage->copies.head) {
            serve(stage, &stage->copies);
        } else if (stage->faults.head) {
            serve(stage, &stage->faults);
        } else {
            stage->idle++;
            pthread_cond_wait(&stage->work, &stage->lock);
            stage->idle--;
        }
    }
    pthread_mutex_unlock(&stage->lock);
    return NULL;
}

bool gb_stage_help(struct gb_stage *stage)
{
    bool found;

    pthread_mutex_lock(&stage->lock);
    found = stage->copies.head != NULL;
    if (found)
        serve(stage, &stage->copies);
    pthread_mutex_unlock(&stage->lock);
    return found;
}

void gb_stage_wait(struct gb_stage *stage, struct gb_copy *copy, int64_t nanoseconds)
{
    struct timespec until;

    if (nanoseconds >= 0) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        nanoseconds += until.tv_nsec;
        until.tv_sec += nanoseconds / 1000000000;
        until.tv_nsec = nanoseconds % 1000000000;
    }
    pthread_mutex_lock(&stage->lock);
    while (!gb_copy_done(copy)) {
        if (nanoseconds < 0)
            pthread_cond_wait(&copy->party->cond, &stage->lock);
        else if (pthread_cond_timedwait(&copy->party->cond, &stage->lock, &until) != 0)
            break;
    }
    pthread_mutex_unlock(&stage->lock);
}

void gb_stage_cancel(struct gb_stage *stage, struct gb_copy *copy)
{
    pthread_mutex_lock(&stage->lock);
    if (copy->next < copy->parts && !gb_copy_done(copy)) {
        unlink_copy(copy->src ? &stage->copies : &stage->faults, copy);
        atomic_fetch_sub_explicit(&copy->left, copy->parts - copy->next,
                                  memory_order_acq_rel);
        copy->next = copy->parts;
    }
    pthread_mutex_unlock(&stage->lock);
    gb_stage_wait(stage, copy, -1);
}

/* ---- threads -------------------------------------------------------------------------- */

static ssize_t read_text(const char *path, char *text, size_t len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got;

    if (fd < 0)
        return -1;
    got = read(fd, text, len - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got;
}

int gb_stage_quota(const char *text)
{
    char *end;
    long quota = strtol(text, &end, 10), period;

    if (end == text || quota <= 0)
        return 0;
    text = end;
    period = strtol(text, &end, 10);
    if (end == text || period <= 0)
        return 0;
    return (int)gb_min(gb_ceil_div(quota, period), 1 << 20);
}

/* Where groups have the older interface: the quota of the root that this process sees, which
 * in a container is its own. */
static int quota_v1(void)
{
    char text[64];
    ssize_t got =
        read_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", text, sizeof text / 2);

    if (got <= 0 || read_text("/sys/fs/cgroup/cpu/cpu.cfs_period_us", text + got,
                              sizeof text - (size_t)got) <= 0)
        return 0;
    return gb_stage_quota(text);
}

/* The tightest quota on the way from this process's group up to the root. */
static int quota(void)
{
    char group[160], path[256], text[64];
    int least = 0;
    char *at = NULL;
    FILE *f = fopen("/proc/self/cgroup", "re");

    while (f && !at && fgets(group, sizeof group, f)) {
        if (strncmp(group, "0::/", 4) == 0)
            at = group + 3;
    }
    if (f)
        fclose(f);
    if (!at)
        return quota_v1();
    at[strcspn(at, "\n")] = '\0';
    for (;;) {
        char *slash;

        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", at);
        if (read_text(path, text, sizeof text) > 0) {
            int allowed = gb_stage_quota(text);

            if (allowed > 0 && (least == 0 || allowed < least))
                least = allowed;
        }
        slash = strrchr(at, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

/* The calling thread may be bound to one CPU (OMP_PROC_BIND binds the first thread too), so
 * the process may use what any of its threads may use. */
static void process_cpus(cpu_set_t *cpus)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;

    CPU_ZERO(cpus);
    while (tasks && (task = readdir(tasks))) {
        cpu_set_t one;
        pid_t tid = (pid_t)atoi(task->d_name);

        if (tid > 0 && sched_getaffinity(tid, sizeof one, &one) == 0)
            CPU_OR(cpus, cpus, &one);
    }
    if (tasks)
        closedir(tasks);
}

static int count_threads(int cpus)
{
    int allowed = quota();

    if (allowed > 0 && allowed < cpus)
        cpus = allowed;
    if (cpus < 1)
        cpus = 1; /* more than 1024 CPUs, or no /proc: the kernel did not say */
    return cpus < GB_STAGE_THREADS ? cpus : GB_STAGE_THREADS;
}

int gb_stage_count(void)
{
    cpu_set_t cpus;

    process_cpus(&cpus);
    return count_threads(CPU_COUNT(&cpus));
}

/* "0-7,16-23" */
static void node_cpus(int node, cpu_set_t *cpus)
{
    char path[64], text[256], *at = text;

    CPU_ZERO(cpus);
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
    if (node < 0 || read_text(path, text, sizeof text) <= 0)
        return;
    for (;;) {
        char *end;
        long first = strtol(at, &end, 10), last = first;

        if (end == at)
            return;
        if (*end == '-') {
            at = end + 1;
            last = strtol(at, &end, 10);
        }
        for (long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            CPU_SET((size_t)cpu, cpus);
        if (*end != ',')
            return;
        at = end + 1;
    }
}

static bool start_one(struct gb_stage *stage, pthread_attr_t *attr,
                      const cpu_set_t *cpus)
{
    pthread_t *thread = &stage->thread[stage->threads];
    int failed = pthread_create(thread, attr, copy_thread, stage);

    if (failed)
        failed = pthread_create(thread, NULL, copy_thread, stage); /* much static TLS */
    if (failed)
        return false;
    pthread_setname_np(*thread, "gemmblas-copy");
    if (CPU_COUNT(cpus) > 0)
        pthread_setaffinity_np(*thread, sizeof *cpus, cpus);
    stage->threads++;
    return true;
}

/* The lock is held. */
static void start(struct gb_stage *stage)
{
    cpu_set_t cpus, near;
    pthread_attr_t attr;
    int want;

    stage->started = true;
    process_cpus(&cpus);
    want = count_threads(CPU_COUNT(&cpus));
    node_cpus(stage->numa_node, &near);
    CPU_AND(&near, &near, &cpus);
    if (CPU_COUNT(&near) >= want)
        cpus = near;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    while (stage->threads < want && start_one(stage, &attr, &cpus))
        ;
    pthread_attr_destroy(&attr);
    gb_debug("%d copy threads", stage->threads);
}

void gb_stage_submit(struct gb_stage *stage, struct gb_copy *copy,
                     struct gb_party *party)
{
    int wake;

    copy->party = party;
    pthread_mutex_lock(&stage->lock);
    if (!stage->started)
        start(stage);
    if (stage->threads) {
        append(copy->src ? &stage->copies : &stage->faults, copy);
        wake = stage->idle;
        if (wake > 1 && copy->parts > 1)
            pthread_cond_broadcast(&stage->work);
        else if (wake)
            pthread_cond_signal(&stage->work);
        copy = NULL;
    }
    pthread_mutex_unlock(&stage->lock);
    if (copy && copy->src)
        gb_copy_now(copy);
    else if (copy)
        atomic_store_explicit(&copy->left, 0, memory_order_release);
}

void gb_party_init(struct gb_party *party)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&party->cond, &attr);
    pthread_condattr_destroy(&attr);
}

void gb_party_drop(struct gb_party *party)
{
    pthread_cond_destroy(&party->cond);
}

void gb_stage_init(struct gb_stage *stage, int numa_node)
{
    *stage = (struct gb_stage){.numa_node = numa_node};
    pthread_mutex_init(&stage->lock, NULL);
    pthread_cond_init(&stage->work, NULL);
}

void gb_stage_drop(struct gb_stage *stage)
{
    pthread_mutex_lock(&stage->lock);
    stage->stop = true;
    pthread_cond_broadcast(&stage->work);
    pthread_mutex_unlock(&stage->lock);
    for (int i = 0; i < stage->threads; i++)
        pthread_join(stage->thread[i], NULL);
    pthread_cond_destroy(&stage->work);
    pthread_mutex_destroy(&stage->lock);
}
