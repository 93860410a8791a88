/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters by (routine, reason), and by shape where they are wanted as JSON: fixed tables of
 * relaxed atomics, so that a call takes no lock and no memory. */
#include "stats.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
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
#include "util.h"

enum { ROUTINES = 64, SHAPES = 1024 };

struct counters {
    _Atomic uint64_t calls, flops, bytes_up, bytes_down, nanoseconds;
};

/* What the calls of one shape did. FREE -> TAKEN, by the call that fills it in, -> READY: others
 * pass by what is TAKEN, so that nobody waits, and a shape may have two entries. */
enum { FREE, TAKEN, READY };
struct shape {
    _Atomic int state;
    const char *routine;
    enum gb_type type, type_c;
    enum gb_trans transa, transb;
    int64_t m, n, k;
    _Atomic uint64_t calls, gpu, nanoseconds;
};

static const char
    *_Atomic routine_name[ROUTINES]; /* filled from the front, never emptied */
static struct counters table[ROUTINES][GB_WHYS];
static struct shape shapes[SHAPES];
static _Atomic uint64_t left_out; /* calls of shapes for which there was no room */
static struct timespec started;
static pid_t counted; /* the process whose calls the table holds */
static int trace_fd = -1;
static struct stat trace_file; /* what trace_fd was opened for */
static bool stats_on, stats_json;

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

static char text[8192]; /* exit may run on a small stack */

static void print_table(int fd)
{
    size_t used = 0;
    struct timespec now;

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
}

/* A document that is written in parts. */
struct document {
    int fd;
    size_t used;
    bool first; /* of a list */
};

__attribute__((format(printf, 2, 3))) static void say(struct document *d,
                                                      const char *format, ...)
{
    enum { LONGEST = 512 };
    va_list args;

    if (d->used > sizeof text - LONGEST) {
        gb_log_emit(d->fd, text, d->used);
        d->used = 0;
    }
    va_start(args, format);
    d->used += (size_t)vsnprintf(text + d->used, LONGEST, format, args);
    va_end(args);
}

static void begin_item(struct document *d)
{
    say(d, "%s\n  ", d->first ? "" : ",");
    d->first = false;
}

static void say_reason(struct document *d, const char *routine, enum gb_why why,
                       const struct counters *c)
{
    begin_item(d);
    say(d,
        "{\"routine\": \"%s\", \"route\": \"%s\", \"why\": \"%s\", \"calls\": %llu, "
        "\"flop\": %llu, \"bytes_up\": %llu, \"bytes_down\": %llu, \"ns\": %llu}",
        routine, gb_why_final(why) ? "gpu" : "cpu", gb_why_name(why),
        (unsigned long long)get(&c->calls), (unsigned long long)get(&c->flops),
        (unsigned long long)get(&c->bytes_up), (unsigned long long)get(&c->bytes_down),
        (unsigned long long)get(&c->nanoseconds));
}

static void say_shape(struct document *d, const struct shape *x)
{
    begin_item(d);
    say(d,
        "{\"routine\": \"%s\", \"type\": \"%s\", \"type_c\": \"%s\", \"transa\": "
        "\"%s\", \"transb\": \"%s\", \"m\": %lld, \"n\": %lld, \"k\": %lld, "
        "\"calls\": %llu, \"gpu\": %llu, \"ns\": %llu}",
        x->routine, gb_type_name(x->type), gb_type_name(x->type_c),
        gb_trans_name(x->transa), gb_trans_name(x->transb), (long long)x->m,
        (long long)x->n, (long long)x->k, (unsigned long long)get(&x->calls),
        (unsigned long long)get(&x->gpu), (unsigned long long)get(&x->nanoseconds));
}

/* Whole numbers alone, whatever the program's locale makes of a decimal point. */
static void print_json(int fd)
{
    struct document d = {.fd = fd, .first = true};

    say(&d, "{\"gemmblas_stats\": 1, \"pid\": %ld, \"routines\": [", (long)getpid());
    for (int r = 0; r < ROUTINES && routine_name[r]; r++)
        for (int w = 0; w < GB_WHYS; w++)
            if (get(&table[r][w].calls) > 0)
                say_reason(&d, routine_name[r], (enum gb_why)w, &table[r][w]);
    d.first = true;
    say(&d, "],\n \"shapes\": [");
    for (int i = 0; i < SHAPES; i++)
        if (atomic_load_explicit(&shapes[i].state, memory_order_acquire) == READY)
            say_shape(&d, &shapes[i]);
    say(&d, "],\n \"calls_of_other_shapes\": %llu}\n",
        (unsigned long long)get(&left_out));
    gb_log_emit(fd, text, d.used);
}

static void print_at_exit(void)
{
    int fd;

    if (counted != getpid())
        return; /* a child with no call of its own; its parent's are its parent's to tell */
    fd = open_target("GEMMBLAS_STATS", gb_knobs()->stats);
    if (fd < 0)
        return;
    if (stats_json)
        print_json(fd);
    else
        print_table(fd);
    if (fd != STDERR_FILENO)
        close(fd);
}

static bool ends_with(const char *x, const char *end)
{
    size_t len = strlen(x), n = strlen(end);

    return len >= n && strcmp(x + len - n, end) == 0;
}

void gb_stats_init(void)
{
    if (asked(gb_knobs()->trace))
        trace_fd = open_target("GEMMBLAS_TRACE", gb_knobs()->trace);
    if (trace_fd >= 0 && fstat(trace_fd, &trace_file) != 0)
        trace_fd = -1;
    stats_on = asked(gb_knobs()->stats);
    if (stats_on) {
        stats_json = ends_with(gb_knobs()->stats, ".json");
        counted = getpid();
        clock_gettime(CLOCK_MONOTONIC, &started);
        atexit(print_at_exit);
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

static bool is_shape(const struct shape *x, const struct gb_problem *p,
                     const char *routine)
{
    return strcmp(x->routine, routine) == 0 && x->transa == p->transa &&
           x->transb == p->transb && x->m == p->m && x->n == p->n && x->k == p->k;
}

/* The entry of a shape; claims a free one for a shape not seen before. */
static struct shape *shape_of(const struct gb_problem *p, const char *routine)
{
    const int64_t numbers[] = {p->m, p->n, p->k, p->transa, p->transb};
    uint64_t start = gb_hash(GB_HASH_START, routine, strlen(routine));

    for (size_t i = 0; i < GB_COUNT(numbers); i++)
        start = gb_hash_number(start, (uint64_t)numbers[i]);
    for (unsigned i = 0; i < SHAPES; i++) {
        struct shape *x = &shapes[(start + i) % SHAPES];
        int state = atomic_load_explicit(&x->state, memory_order_acquire);

        if (state == FREE && atomic_compare_exchange_strong(&x->state, &state, TAKEN)) {
            x->routine = routine;
            x->type = p->type;
            x->type_c = p->type_c;
            x->transa = p->transa;
            x->transb = p->transb;
            x->m = p->m;
            x->n = p->n;
            x->k = p->k;
            atomic_store_explicit(&x->state, READY, memory_order_release);
            return x;
        }
        if (state == READY && is_shape(x, p, routine))
            return x;
    }
    return NULL;
}

static void count_shape(const struct gb_problem *p, const char *routine,
                        enum gb_why why, const struct gb_record *record)
{
    struct shape *x = shape_of(p, routine);

    if (!x) {
        add(&left_out, 1);
        return;
    }
    add(&x->calls, 1);
    add(&x->gpu, gb_why_final(why));
    add(&x->nanoseconds, record->nanoseconds);
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
            memset(shapes, 0, sizeof shapes);
            atomic_store(&left_out, 0);
            counted = getpid();
        }
        if (row)
            count(&row[why], p, why, record);
        /* what the real BLAS hands back to us is counted where it came from */
        if (stats_json && why != GB_WHY_BADARG && why != GB_WHY_NESTED)
            count_shape(p, routine, why, record);
    }
    gb_fp_leave(fp);
}
