/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters by (routine, reason): fixed tables of relaxed atomics, so that a call takes no
 * lock and no memory. */
#include "stats.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fpstate.h"
#include "knobs.h"
#include "log.h"

enum { ROUTINES = 64 };

struct counters {
    _Atomic uint64_t calls, flops, bytes_up, bytes_down, nanoseconds;
};

static const char
    *_Atomic routine_name[ROUTINES]; /* filled from the front, never emptied */
static struct counters table[ROUTINES][GB_WHYS];
static struct timespec started;
static pid_t counted; /* the process whose calls the table holds */
static int trace_fd = -1;
static struct stat trace_file; /* what trace_fd was opened for */
static bool stats_on;

/* Open what a knob names: "1" is stderr, anything else a file to append to, in which %p
 * stands for the process id so that the ranks of a job do not mix. */
static int open_target(const char *knob, const char *value)
{
    char path[512];
    const char *percent = strstr(value, "%p");
    int fd;

    if (strcmp(value, "1") == 0)
        return STDERR_FILENO;
    if (percent)
        snprintf(path, sizeof path, "%.*s%ld%s", (int)(percent - value), value,
                 (long)getpid(), percent + 2);
    else
        snprintf(path, sizeof path, "%s", value);
    /* Not waiting for the reader of a pipe; not on a number that the program thinks is its
     * stdin, stdout or stderr. */
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
              0600);
    if (fd >= 0 && fd <= STDERR_FILENO) {
        int low = fd;

        fd = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        close(low);
    }
    if (fd < 0)
        gb_warn("cannot open %s (%s): %s", path, knob, strerror(errno));
    return fd;
}

static bool asked(const char *value)
{
    return *value && strcmp(value, "0") != 0;
}

static double flops_of(const struct gb_problem *p)
{
    return (gb_is_complex(p->type) ? 8.0 : 2.0) * (double)p->m * (double)p->n *
           (double)p->k;
}

static uint64_t get(const _Atomic uint64_t *x)
{
    return atomic_load_explicit(x, memory_order_relaxed);
}

static void add(_Atomic uint64_t *x, uint64_t y)
{
    atomic_fetch_add_explicit(x, y, memory_order_relaxed);
}

static void print_table(void)
{
    static char text[8192]; /* exit may run on a small stack */
    size_t used = 0;
    struct timespec now;
    int fd;

    if (counted != getpid())
        return; /* a child with no call of its own; its parent's are its parent's to tell */
    fd = open_target("GEMMBLAS_STATS", gb_knobs()->stats);
    if (fd < 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    used += (size_t)snprintf(
        text, sizeof text,
        "gemmblas: statistics of process %ld, %.3f s since its first BLAS call\n"
        "gemmblas: %-10s %-5s %-12s %10s %12s %12s %12s %10s\n",
        (long)getpid(),
        (double)(now.tv_sec - started.tv_sec) +
            1e-9 * (double)(now.tv_nsec - started.tv_nsec),
        "routine", "route", "reason", "calls", "gflop", "sent MB", "fetched MB",
        "seconds");
    for (int r = 0; r < ROUTINES && routine_name[r]; r++) {
        for (int w = 0; w < GB_WHYS; w++) {
            const struct counters *c = &table[r][w];

            if (get(&c->calls) == 0 || used > sizeof text - 160)
                continue;
            used += (size_t)snprintf(
                text + used, sizeof text - used,
                "gemmblas: %-10s %-5s %-12s %10llu %12.3f %12.3f %12.3f %10.3f\n",
                routine_name[r], gb_why_final((enum gb_why)w) ? "gpu" : "cpu",
                gb_why_name((enum gb_why)w), (unsigned long long)get(&c->calls),
                1e-9 * (double)get(&c->flops), 1e-6 * (double)get(&c->bytes_up),
                1e-6 * (double)get(&c->bytes_down),
                1e-9 * (double)get(&c->nanoseconds));
        }
    }
    gb_log_emit(fd, text, used);
    if (fd != STDERR_FILENO)
        close(fd);
}

void gb_stats_init(void)
{
    if (asked(gb_knobs()->trace))
        trace_fd = open_target("GEMMBLAS_TRACE", gb_knobs()->trace);
    if (trace_fd >= 0 && fstat(trace_fd, &trace_file) != 0)
        trace_fd = -1;
    stats_on = asked(gb_knobs()->stats);
    if (stats_on) {
        counted = getpid();
        clock_gettime(CLOCK_MONOTONIC, &started);
        atexit(print_table);
    }
}

bool gb_stats_wanted(void)
{
    return stats_on || trace_fd >= 0;
}

/* The row of a routine; claims a free one for a name not seen before. */
static struct counters *row_of(const char *routine)
{
    for (int r = 0; r < ROUTINES; r++) {
        const char *name = atomic_load_explicit(&routine_name[r], memory_order_acquire);

        if (!name) {
            if (atomic_compare_exchange_strong(&routine_name[r], &name, routine))
                return table[r];
        }
        if (name == routine || strcmp(name, routine) == 0)
            return table[r];
    }
    return NULL;
}

int gb_trace_line(char *buf, unsigned long len, const struct gb_problem *p,
                  const char *routine, const struct gb_call *call, enum gb_why why,
                  const struct gb_record *record)
{
    bool gpu = gb_why_final(why);
    int n = snprintf(
        buf, len,
        "gemmblas: call pid=%ld tid=%ld routine=%s name=%s transa=%s transb=%s "
        "m=%lld n=%lld k=%lld lda=%lld ldb=%lld ldc=%lld alpha=%g%+gi "
        "beta=%g%+gi route=%s why=%s",
        (long)getpid(), (long)syscall(SYS_gettid), call->symbol, routine,
        gb_trans_name(p->transa), gb_trans_name(p->transb), (long long)p->m,
        (long long)p->n, (long long)p->k, (long long)p->lda, (long long)p->ldb,
        (long long)p->ldc, p->alpha.re, p->alpha.im, p->beta.re, p->beta.im,
        gpu ? "gpu" : "cpu", gb_why_name(why));

    if (gpu && n > 0 && (unsigned long)n < len)
        n += snprintf(
            buf + n, len - (unsigned long)n,
            " kernel=%s splits=%d panels=%lld up=%llu down=%llu us=%.1f chosen=%s",
            record->kernel ? record->kernel : "-", record->splits,
            (long long)record->panels, (unsigned long long)record->bytes_up,
            (unsigned long long)record->bytes_down, 1e-3 * (double)record->nanoseconds,
            record->chosen ? record->chosen : "-");
    if ((unsigned long)n > len - 2)
        n = (int)len - 2;
    buf[n++] = '\n';
    buf[n] = '\0';
    return n;
}

/* Is the descriptor still ours? A daemon closes all it does not know and opens its own. */
static bool trace_open(void)
{
    struct stat now;

    if (trace_fd <= STDERR_FILENO)
        return trace_fd == STDERR_FILENO; /* wherever the program points it */
    return fstat(trace_fd, &now) == 0 && now.st_dev == trace_file.st_dev &&
           now.st_ino == trace_file.st_ino;
}

static void count(struct counters *c, const struct gb_problem *p, enum gb_why why,
                  const struct gb_record *record)
{
    add(&c->calls, 1);
    if (why == GB_WHY_BADARG)
        return; /* its sizes mean nothing */
    add(&c->flops, (uint64_t)flops_of(p));
    add(&c->bytes_up, record->bytes_up);
    add(&c->bytes_down, record->bytes_down);
    add(&c->nanoseconds, record->nanoseconds);
}

void gb_stats_record(const struct gb_problem *p, const char *routine,
                     const struct gb_call *call, enum gb_why why,
                     const struct gb_record *record)
{
    uint64_t fp = gb_fp_enter();

    if (trace_open()) {
        char line[640];
        int n = gb_trace_line(line, sizeof line, p, routine, call, why, record);

        gb_log_emit(trace_fd, line, (unsigned long)n);
    }
    if (stats_on) {
        struct counters *row = row_of(routine);

        if (counted != getpid()) {
            memset(table, 0, sizeof table);
            counted = getpid();
        }
        if (row)
            count(&row[why], p, why, record);
    }
    gb_fp_leave(fp);
}
