/* SPDX-License-Identifier: BSD-3-Clause */
/* The emulated device is unkind enough: a program with a missing wait fails on it,
 * misuse ends the process, operations fail on demand. Kernels are stand-ins here (the
 * fibers have a test of their own). */
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cost.h"
#include "device.h"
#include "emu.h"
#include "fault.h"
#include "fiber.h"
#include "gemm_args.h"
#include "log.h"
#include "tap.h"
#include "util.h"

/* ---- stand-in kernels ---- */

struct args {
    uint64_t src, dst;
    int64_t n;
};

static void twice(const void *p)
{
    const struct args *a = p;
    const double *src = (const double *)(uintptr_t)a->src;
    double *dst = (double *)(uintptr_t)a->dst;

    for (int64_t i = 0; i < a->n; i++)
        dst[i] = 2 * src[i];
}

static void inexact(const void *p)
{
    volatile double zero = 0, three = 3;

    (void)p;
    three = 1 / three + zero / zero;
    errno = EDOM;
}

static const struct gb_emu_kernel kernels[] = {
    {.symbol = "twice", .family = "test", .body = twice},
    {.symbol = "inexact", .family = "test", .body = inexact},
    {.symbol = "wrong", .family = "test", .body = NULL},
    {.symbol = "crowded", .family = "test", .body = NULL}, /* no room for its threads */
};

const struct gb_emu_kernel *gb_emu_kernel_find(const char *family, const char *symbol)
{
    for (size_t i = 0; i < GB_COUNT(kernels); i++)
        if (strcmp(kernels[i].family, family) == 0 &&
            strcmp(kernels[i].symbol, symbol) == 0)
            return &kernels[i];
    return NULL;
}

int gb_fiber_run(const struct gb_emu_kernel *k, uint32_t grid, uint32_t block,
                 uint32_t cluster, uint32_t smem_bytes, const void *args,
                 size_t args_bytes, uint32_t seed, char *error, size_t error_bytes)
{
    (void)grid, (void)block, (void)cluster, (void)smem_bytes, (void)args_bytes,
        (void)seed;
    if (strcmp(k->symbol, "crowded") == 0)
        return GB_FIBER_NOMEM;
    if (!k->body) {
        snprintf(error, error_bytes, "a barrier that half of the block reached");
        return GB_FIBER_WRONG;
    }
    k->body(args);
    return 0;
}

/* ---- a device, and what a lane has ---- */

static const struct gb_device_ops *ops;
static char logged[256];

static void keep_log(int level, const char *line)
{
    snprintf(logged, sizeof logged, "%d %s", level, line);
}

static struct gb_device *open_device(const char *fault, uint64_t seed, int ordinal)
{
    const struct gb_emu_config config = {
        .fault = fault, .seed = seed, .mem_total = 1 << 20, .log = keep_log};
    struct gb_device *dev;

    logged[0] = '\0';
    ops = gb_emu_ops(&config);
    if (ops->open(ordinal, &dev) != GB_SUCCESS)
        bail("the emulated device does not open");
    return dev;
}

enum { N = 64, ROUNDS = 6 };

struct lane {
    struct gb_stream *in, *work, *out;
    struct gb_event *uploaded, *worked, *downloaded;
    struct gb_module *module;
    struct gb_function *twice;
    gb_devptr src, dst;
    double *slot_in, *slot_out;
};

static void lane_open(struct gb_device *dev, struct lane *l)
{
    size_t bytes = N * sizeof(double);

    if (ops->stream_create(dev, &l->in) || ops->stream_create(dev, &l->work) ||
        ops->stream_create(dev, &l->out) || ops->event_create(dev, &l->uploaded) ||
        ops->event_create(dev, &l->worked) || ops->event_create(dev, &l->downloaded) ||
        ops->module_load(dev, "test", NULL, 0, &l->module) ||
        ops->module_get(dev, l->module, "twice", &l->twice) ||
        ops->mem_alloc(dev, bytes, &l->src) || ops->mem_alloc(dev, bytes, &l->dst) ||
        ops->host_alloc(dev, bytes, (void **)&l->slot_in) ||
        ops->host_alloc(dev, bytes, (void **)&l->slot_out))
        bail("a lane does not open");
}

static void lane_close(struct gb_device *dev, struct lane *l)
{
    ops->stream_destroy(dev, l->in);
    ops->stream_destroy(dev, l->work);
    ops->stream_destroy(dev, l->out);
    ops->event_destroy(dev, l->uploaded);
    ops->event_destroy(dev, l->worked);
    ops->event_destroy(dev, l->downloaded);
    ops->module_unload(dev, l->module);
    ops->mem_free(dev, l->src);
    ops->mem_free(dev, l->dst);
    ops->host_free(dev, l->slot_in);
    ops->host_free(dev, l->slot_out);
}

/* ---- order ---- */

enum bug {
    NONE,
    WORK_BEFORE_UPLOAD,   /* the kernel does not wait for its operand */
    DOWNLOAD_BEFORE_WORK, /* the download does not wait for the kernel */
    READ_BEFORE_DOWNLOAD, /* the host does not wait for the result */
    REFILL_BEFORE_UPLOAD, /* the host reuses the slot at once */
    UPLOAD_BEFORE_WORK,   /* the next upload does not wait for the last kernel */
    WORK_BEFORE_DOWNLOAD, /* the next kernel overwrites a result not yet downloaded */
    FILL_AFTER_UPLOAD,    /* the host fills the slot after the copy was queued */
    BUGS
};

static const char *const bug_name[BUGS] = {
    "no bug",
    "a kernel that does not wait for its operand",
    "a download that does not wait for the kernel",
    "a host that does not wait for the result",
    "a slot that is filled again at once",
    "an upload over an operand in use",
    "a kernel over a result not yet downloaded",
    "a slot that is filled after its copy was queued",
};

static void fill(double *slot, int round)
{
    for (int i = 0; i < N; i++)
        slot[i] = 1000 * round + i;
}

/* The pipeline that exec is made of, one slot deep. Counts wrong results. */
static int pipeline(struct gb_device *dev, struct lane *l, enum bug bug)
{
    size_t bytes = N * sizeof(double);
    struct args args = {.src = l->src, .dst = l->dst, .n = N};
    int wrong = 0;

    for (int round = 1; round <= ROUNDS; round++) {
        int lag = bug == NONE || bug == READ_BEFORE_DOWNLOAD ? 0 : 1;

        if (bug != REFILL_BEFORE_UPLOAD && ops->event_sync(dev, l->uploaded))
            return -1;
        if (bug != FILL_AFTER_UPLOAD)
            fill(l->slot_in, round);
        if (bug != UPLOAD_BEFORE_WORK && ops->event_wait(dev, l->worked, l->in))
            return -1;
        if (ops->copy_in(dev, l->in, l->src, bytes, l->slot_in, bytes, bytes, 1))
            return -1;
        if (bug == FILL_AFTER_UPLOAD)
            fill(l->slot_in, round);
        if (ops->event_record(dev, l->uploaded, l->in))
            return -1;
        if (bug != WORK_BEFORE_UPLOAD && ops->event_wait(dev, l->uploaded, l->work))
            return -1;
        if (bug != WORK_BEFORE_DOWNLOAD && ops->event_wait(dev, l->downloaded, l->work))
            return -1;
        if (ops->launch(dev, l->work, l->twice, 1, 1, 0, &args, sizeof args) ||
            ops->event_record(dev, l->worked, l->work))
            return -1;
        if (bug != DOWNLOAD_BEFORE_WORK && ops->event_wait(dev, l->worked, l->out))
            return -1;
        /* The slot for results is one deep too: it must have been read. */
        if (lag && round > 1) {
            if (ops->event_sync(dev, l->downloaded))
                return -1;
            for (int i = 0; i < N; i++)
                wrong += l->slot_out[i] != 2 * (1000 * (round - 1) + i);
        }
        if (ops->copy_out(dev, l->out, l->slot_out, bytes, l->dst, bytes, bytes, 1) ||
            ops->event_record(dev, l->downloaded, l->out))
            return -1;
        if (!lag) {
            if (bug != READ_BEFORE_DOWNLOAD && ops->event_sync(dev, l->downloaded))
                return -1;
            for (int i = 0; i < N; i++)
                wrong += l->slot_out[i] != 2 * (1000 * round + i);
        }
    }
    return ops->stream_sync(dev, l->out) ? -1 : wrong;
}

static int pipeline_once(enum bug bug, uint64_t seed)
{
    struct gb_device *dev = open_device("", seed, 0);
    struct gb_guest guest;
    struct lane lane;
    int wrong;

    if (ops->enter(dev, &guest) != GB_SUCCESS)
        bail("enter");
    lane_open(dev, &lane);
    wrong = pipeline(dev, &lane, bug);
    lane_close(dev, &lane);
    ops->leave(dev, &guest);
    ops->close(dev);
    return wrong;
}

static void test_order(void)
{
    enum { SEEDS = 32 };
    int wrong[BUGS][SEEDS];

    for (int bug = 0; bug < BUGS; bug++) {
        int seen = 0;

        for (int seed = 0; seed < SEEDS; seed++) {
            wrong[bug][seed] = pipeline_once((enum bug)bug, (uint64_t)seed);
            seen += wrong[bug][seed] != 0;
        }
        if (bug == NONE)
            is_int(0, seen, "every wait in place: right under %d seeds", SEEDS);
        else
            ok(seen > SEEDS / 4, "%s: seen under %d of %d seeds", bug_name[bug], seen,
               SEEDS);
    }
    for (int bug = 1; bug < BUGS; bug++)
        is_int(wrong[bug][7], pipeline_once((enum bug)bug, 7), "%s: the same again",
               bug_name[bug]);
}

static void test_events(void)
{
    struct gb_device *dev = open_device("", 3, 0);
    size_t bytes = N * sizeof(double);
    struct gb_guest guest;
    struct lane l;
    bool done = false;
    int asked = 0;

    ops->enter(dev, &guest);
    lane_open(dev, &l);
    is_int(GB_SUCCESS, ops->event_query(dev, l.worked, &done), "query: answers");
    ok(done, "an event never recorded is complete");
    is_int(GB_SUCCESS, ops->event_sync(dev, l.worked), "and does not block");
    is_int(GB_SUCCESS, ops->event_wait(dev, l.worked, l.in), "nor hold up a stream");
    fill(l.slot_in, 1);
    for (int i = 0; i < 8; i++)
        ops->copy_in(dev, l.in, l.src, bytes, l.slot_in, bytes, bytes, 1);
    ops->event_record(dev, l.uploaded, l.in);
    do
        ops->event_query(dev, l.uploaded, &done);
    while (!done && ++asked < 10000);
    ok(done, "asking alone gets work done at last");

    /* A wait holds for the record that was there, not for a later one. */
    ops->event_wait(dev, l.uploaded, l.out);
    ops->copy_in(dev, l.in, l.src, bytes, l.slot_in, bytes, bytes, 1);
    ops->event_record(dev, l.uploaded, l.in);
    is_int(GB_SUCCESS, ops->stream_sync(dev, l.out),
           "a later record does not deadlock");
    lane_close(dev, &l);
    ops->leave(dev, &guest);
    ops->close(dev);
}

/* Rows only: gaps on both sides keep what they had. */
static void test_pitch(void)
{
    struct gb_device *dev = open_device("", 5, 0);
    struct gb_guest guest;
    struct gb_stream *s;
    unsigned char *host;
    gb_devptr mem;
    int wrong = 0;

    ops->enter(dev, &guest);
    ops->stream_create(dev, &s);
    ops->mem_alloc(dev, 5 * 16, &mem);
    ops->host_alloc(dev, 5 * 12, (void **)&host);
    for (int i = 0; i < 5 * 12; i++)
        host[i] = (unsigned char)i;
    ops->copy_in(dev, s, mem, 16, host, 12, 7, 5);
    ops->stream_sync(dev, s);
    memset(host, 0xaa, 5 * 12);
    ops->copy_out(dev, s, host, 12, mem, 16, 9, 5);
    ops->stream_sync(dev, s);
    for (int i = 0; i < 5 * 12; i++) {
        int column = i % 12;

        wrong += host[i] != (column < 7 ? i : column < 9 ? 0xff : 0xaa);
    }
    is_int(0, wrong, "pitched copies touch their rows alone");
    is_int(GB_SUCCESS, ops->copy_in(dev, s, mem, 1, host, 1, 80 - 64, 1),
           "pitches do not matter to one row");
    is_int(GB_SUCCESS, ops->copy_in(dev, s, mem, 0, host, 0, 0, 0),
           "nothing is no copy");
    ops->stream_destroy(dev, s);
    ops->mem_free(dev, mem);
    ops->host_free(dev, host);
    ops->leave(dev, &guest);
    ops->close(dev);
}

/* Memory in the order of a stream lives until the stream has passed its release. */
static void test_queued(void)
{
    struct gb_device *dev = open_device("alloc_queued@3", 5, 0);
    struct gb_guest guest;
    struct gb_stream *s, *same, *other;
    size_t before, during, after, total;
    unsigned char *host;
    gb_devptr a, b;

    ops->enter(dev, &guest);
    ops->stream_create(dev, &other);
    ops->host_alloc(dev, 64, (void **)&host);
    is_int(GB_SUCCESS, ops->stream_borrow(dev, NULL, &s), "the default stream");
    ops->stream_borrow(dev, NULL, &same);
    ok(s == same && s != other, "is always the same");
    ops->stream_borrow(dev, other, &same);
    ok(same == other, "a stream is itself");
    ops->mem_info(dev, &before, &total);
    memset(host, 3, 64);
    ok(ops->alloc_queued(dev, s, 64, &a) == GB_SUCCESS &&
           ops->copy_in(dev, s, a, 0, host, 0, 64, 1) == GB_SUCCESS &&
           ops->copy_out(dev, s, host, 0, a, 0, 64, 1) == GB_SUCCESS,
       "memory in its order");
    ops->mem_info(dev, &during, &total);
    ops->free_queued(dev, s, a);
    is_int(GB_SUCCESS, ops->alloc_queued(dev, s, 64, &b), "and again");
    ops->free_queued(dev, s, b);
    is_int(GB_E_NOMEM, ops->alloc_queued(dev, s, 64, &b), "it can be refused");
    ops->stream_sync(dev, s);
    ops->mem_info(dev, &after, &total);
    ok(during == before - 64 && after == before, "all of it comes back");
    ops->stream_return(dev, s);
    ops->stream_destroy(dev, other);
    ops->host_free(dev, host);
    ops->leave(dev, &guest);
    ops->close(dev);
}

static void test_memory(void)
{
    struct gb_device *dev = open_device("", 1, 2);
    struct gb_device *other = open_device("", 1, 3);
    struct gb_guest guest;
    size_t free_bytes, total, after;
    gb_devptr a, b;
    double *host, local = 0;
    int nan = 0;

    is_int(2, dev->info.ordinal, "the ordinal is known");
    ok(dev->info.vendor == GB_EMU && dev->info.arch == 0 &&
           strcmp(dev->info.arch_name, "emu") == 0,
       "it says that it is emulated");
    ops->enter(other, &guest);
    ops->mem_alloc(other, 64, &b);
    ops->leave(other, &guest);

    ops->enter(dev, &guest);
    ops->mem_info(dev, &free_bytes, &total);
    is_int(1 << 20, (long long)total, "memory in all");
    is_int(GB_E_NOMEM, ops->mem_alloc(dev, free_bytes + 1, &a), "too much: refused");
    is_int(GB_E_NOMEM, ops->mem_alloc(dev, SIZE_MAX, &a), "far too much: refused");
    is_int(GB_E_NOMEM, ops->host_alloc(dev, SIZE_MAX, (void **)&host),
           "on the host too");
    is_int(GB_SUCCESS, ops->mem_alloc(dev, free_bytes, &a), "all of it: granted");
    ops->mem_info(dev, &after, &total);
    is_int(0, (long long)after, "nothing left");
    is_int(256, (long long)(a % 512), "aligned to 256 and no more");
    for (size_t i = 0; i < total / 8; i++)
        nan += ((const double *)(uintptr_t)a)[i] != ((const double *)(uintptr_t)a)[i];
    is_int((long long)total / 8, nan, "fresh memory is NaN");
    ops->mem_free(dev, a);
    ops->mem_info(dev, &after, &total);
    is_int((long long)free_bytes, (long long)after, "all back");

    ops->mem_alloc(dev, 100, &a);
    ops->host_alloc(dev, 100, (void **)&host);
    ok(host[0] != host[0] && host[11] != host[11], "pinned memory is NaN too");
    is_int(GB_MEM_PINNED, ops->mem_kind(dev, (char *)host + 99),
           "pinned memory is known");
    is_int(GB_MEM_PAGEABLE, ops->mem_kind(dev, (char *)host + 100), "to its end");
    is_int(GB_MEM_DEVICE, ops->mem_kind(dev, (void *)(uintptr_t)(a + 99)),
           "device memory");
    is_int(GB_MEM_FOREIGN, ops->mem_kind(dev, (void *)(uintptr_t)b),
           "another device's");
    is_int(GB_MEM_PAGEABLE, ops->mem_kind(dev, &local), "a variable");
    ops->mem_free(dev, a);
    ops->host_free(dev, host);
    ops->mem_free(dev, 0);
    ops->host_free(dev, NULL);
    ops->leave(dev, &guest);
    ops->close(dev);

    is_string("", logged, "nothing to say");
    ops->close(other);
    ok(strstr(logged, "closed with 1 alloc") != NULL, "a leak is reported: %s", logged);
}

/* The thread that waits runs kernels: it must not show. */
static void test_guest(void)
{
    struct gb_device *dev = open_device("", 1, 0);
    struct gb_guest guest, inner;
    struct gb_function *f;
    struct lane l;
    int kept;

    feclearexcept(FE_ALL_EXCEPT);
    errno = ENOTTY;
    ops->enter(dev, &guest);
    ops->enter(dev, &inner);
    lane_open(dev, &l);
    ops->module_get(dev, l.module, "inexact", &f);
    ops->launch(dev, l.work, f, 1, 1, 0, "", 1);
    ops->leave(dev, &inner);
    ops->stream_sync(dev, l.work);
    lane_close(dev, &l);
    ops->leave(dev, &guest);
    kept = fetestexcept(FE_ALL_EXCEPT);
    is_int(ENOTTY, errno, "errno is as before");
    is_int(0, kept, "floating-point flags are as before");
    ops->close(dev);
}

/* ---- misuse ends the process ---- */

enum misuse {
    KERNEL_PAST_END,
    KERNEL_BEFORE_START,
    KERNEL_FAILS,
    HOST_PAST_END,
    COPY_PAST_END,
    COPY_LAST_ROW,
    COPY_PAGEABLE,
    COPY_PITCH,
    FREE_UNDER_COPY,
    FREE_UNDER_KERNEL,
    HOST_FREE_UNDER_COPY,
    FREE_TWICE,
    FREE_INSIDE,
    NOT_ENTERED,
    FREE_NOT_ENTERED,
    OTHER_STREAM,
    DESTROYED_STREAM,
    BLOCK_TOO_LARGE,
    MISUSES
};

static const char *const last_words[MISUSES] = {
    "launch twice: damaged the guard zone of 512 bytes of device memory",
    "launch twice: damaged the guard zone of 512 bytes of device memory",
    "launch wrong: a barrier that half of the block reached",
    "stream_sync: damaged the guard zone of 512 bytes of pinned memory",
    "copy_in: 1 rows of 513 bytes, pitch 0: outside an allocation",
    "copy_out: 8 rows of 57 bytes, pitch 66: outside an allocation",
    "copy_in: 1 rows of 8 bytes, pitch 0: the host side is not pinned",
    "copy_in: a pitch is less than the width",
    "mem_free: a queued copy_in still uses the memory",
    "mem_free: a queued launch still uses the memory",
    "host_free: a queued copy_in still uses the memory",
    "mem_free: not the address of an allocation",
    "mem_free: not the address of an allocation",
    "mem_info: the calling thread has not entered the device",
    "mem_free: the calling thread has not entered the device",
    "event_record: not a stream of this device",
    "stream_sync: not a stream of this device",
    "launch twice: grid 1, block 1025",
};

static void misuse(struct gb_device *dev, struct gb_guest *guest, enum misuse what)
{
    size_t bytes = N * sizeof(double), left, total;
    struct gb_device *other = open_device("", 1, 1);
    struct gb_function *f;
    struct gb_guest second;
    struct lane l, theirs;
    struct args args;
    double local = 0;

    lane_open(dev, &l);
    args = (struct args){.src = l.src, .dst = l.dst, .n = N};
    fill(l.slot_in, 1);
    /* Work that is surely queued: it depends on work that nobody asks for. */
    switch (what) {
    case KERNEL_PAST_END:
        args.n = N + 1;
        ops->launch(dev, l.work, l.twice, 1, 1, 0, &args, sizeof args);
        break;
    case KERNEL_BEFORE_START:
        args.dst -= 8;
        ops->launch(dev, l.work, l.twice, 1, 1, 0, &args, sizeof args);
        break;
    case KERNEL_FAILS:
        ops->module_get(dev, l.module, "wrong", &f);
        ops->launch(dev, l.work, f, 1, 1, 0, &args, sizeof args);
        break;
    case HOST_PAST_END:
        l.slot_in[N] = 0;
        break;
    case COPY_PAST_END:
        ops->copy_in(dev, l.in, l.src, 0, l.slot_in, 0, bytes + 1, 1);
        break;
    case COPY_LAST_ROW:
        ops->copy_out(dev, l.out, l.slot_out, 57, l.dst, 66, 57, 8);
        break;
    case COPY_PAGEABLE:
        ops->copy_in(dev, l.in, l.src, 0, &local, 0, 8, 1);
        break;
    case COPY_PITCH:
        ops->copy_in(dev, l.in, l.src, 7, l.slot_in, 8, 8, 2);
        break;
    case FREE_UNDER_COPY:
    case HOST_FREE_UNDER_COPY:
        for (int i = 0; i < 64; i++)
            ops->copy_in(dev, l.in, l.src, 0, l.slot_in, 0, bytes, 1);
        if (what == FREE_UNDER_COPY)
            ops->mem_free(dev, l.src);
        else
            ops->host_free(dev, l.slot_in);
        break;
    case FREE_UNDER_KERNEL:
        for (int i = 0; i < 64; i++)
            ops->launch(dev, l.work, l.twice, 1, 1, 0, &args, sizeof args);
        ops->mem_free(dev, l.dst);
        break;
    case FREE_TWICE:
        ops->mem_free(dev, l.src);
        ops->mem_free(dev, l.src);
        break;
    case FREE_INSIDE:
        ops->mem_free(dev, l.src + 8);
        break;
    case NOT_ENTERED:
        ops->leave(dev, guest);
        ops->mem_info(dev, &left, &total);
        break;
    case FREE_NOT_ENTERED:
        ops->leave(dev, guest);
        ops->mem_free(dev, l.src);
        break;
    case OTHER_STREAM:
        ops->enter(other, &second);
        lane_open(other, &theirs);
        ops->leave(other, &second);
        ops->event_record(dev, l.worked, theirs.work);
        break;
    case DESTROYED_STREAM:
        ops->stream_destroy(dev, l.in);
        ops->stream_sync(dev, l.in);
        break;
    case BLOCK_TOO_LARGE:
        ops->launch(dev, l.work, l.twice, 1, 1025, 0, &args, sizeof args);
        break;
    case MISUSES:
        break;
    }
    ops->stream_sync(dev, l.work);
    ops->stream_sync(dev, l.in);
}

static void test_misuse(void)
{
    for (int what = 0; what < MISUSES; what++) {
        char text[512] = "";
        ssize_t len = 0, got;
        int status, words[2];
        pid_t child;

        if (pipe(words) != 0)
            bail("pipe");
        child = fork();
        if (child == 0) {
            const struct rlimit no_core = {0, 0};
            struct gb_device *dev = open_device("", 11, 0);
            struct gb_guest guest;

            setrlimit(RLIMIT_CORE, &no_core);
            dup2(words[1], STDERR_FILENO);
            ops->enter(dev, &guest);
            misuse(dev, &guest, (enum misuse)what);
            _exit(0);
        }
        close(words[1]);
        while ((got = read(words[0], text + len, sizeof text - 1 - (size_t)len)) > 0)
            len += got;
        close(words[0]);
        waitpid(child, &status, 0);
        ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
               strstr(text, last_words[what]) != NULL &&
               strchr(text, '\n') == text + len - 1,
           "ends with: %s", last_words[what]);
        if (!strstr(text, last_words[what]))
            diag("but said: %s", text);
    }
}

/* ---- faults ---- */

static void test_fault_text(void)
{
    static const char *const good[] = {"",
                                       "launch@3",
                                       "launch@3,copy_out@2",
                                       "mem_alloc@1+",
                                       "copy_in@2=late",
                                       "open@1=absent",
                                       "module_get@12+=unsupported"};
    static const char *const bad[] = {
        "launch",     "launch@",          "launch@0",     "lunch@1",
        "launch@1!",  "launch@-1",        "mem_alloc@1=", "enter@1=late",
        "launch@1+2", "launch@1=devices", "@1",           "launch@1=device,x"};
    bool late;

    for (size_t i = 0; i < GB_COUNT(good); i++)
        ok(gb_fault_set(good[i]), "understood: '%s'", good[i]);
    for (size_t i = 0; i < GB_COUNT(bad); i++)
        ok(!gb_fault_set(bad[i]), "not understood: '%s'", bad[i]);
    gb_fault_set("x,launch@2");
    gb_fault_next(GB_FAULT_launch, &late);
    is_int(GB_E_DEVICE, gb_fault_next(GB_FAULT_launch, &late), "the rest of it holds");
    gb_fault_set("mem_alloc@2+,copy_in@1=late");
    is_int(GB_SUCCESS, gb_fault_next(GB_FAULT_mem_alloc, &late), "first: passes");
    is_int(GB_E_NOMEM, gb_fault_next(GB_FAULT_mem_alloc, &late), "second: fails");
    is_int(GB_E_NOMEM, gb_fault_next(GB_FAULT_mem_alloc, &late), "third: fails");
    is_int(GB_SUCCESS, gb_fault_next(GB_FAULT_copy_in, &late), "late: passes");
    ok(late, "and is late");
    open_device("launch@x", 1, 0);
    is_string("2 GEMMBLAS_FAULT=launch@x is not understood", logged, "a warning");
}

/* Each operation that a pipeline calls fails at each of its first calls: the failure is
 * answered, and clean-up is legal. */
static void test_fault_sweep(void)
{
    static const enum gb_fault_op in_pipeline[] = {
        GB_FAULT_event_record, GB_FAULT_event_wait, GB_FAULT_event_sync,
        GB_FAULT_copy_in,      GB_FAULT_copy_out,   GB_FAULT_launch};

    for (size_t i = 0; i < GB_COUNT(in_pipeline); i++)
        for (int how = 0; how < 2; how++) {
            bool late = how == 1;
            int failed = 0, tries = 0;
            char text[64];

            if (late && in_pipeline[i] <= GB_FAULT_event_query)
                continue;
            for (int n = 1; n <= ROUNDS; n++, tries++) {
                struct gb_device *dev, *other;
                struct gb_guest guest, second;
                struct lane l;
                size_t left, total;

                snprintf(text, sizeof text, "%s@%d%s", gb_fault_op_name[in_pipeline[i]],
                         n, late ? "=late" : "");
                other = open_device("", 1, 1);
                dev = open_device(text, (uint64_t)n, 0);
                ops->enter(dev, &guest);
                lane_open(dev, &l);
                failed += pipeline(dev, &l, NONE) == -1 &&
                          ops->mem_info(dev, &left, &total) == GB_E_DEVICE &&
                          ops->stream_sync(dev, l.out) == GB_E_DEVICE;
                ops->leave(dev, &guest);
                failed -= ops->enter(dev, &guest) != GB_E_DEVICE;
                lane_close(dev, &l);
                ops->close(dev);
                failed -= ops->enter(other, &second) != GB_SUCCESS;
                ops->leave(other, &second);
                ops->close(other);
            }
            snprintf(text, sizeof text, "%s%s", gb_fault_op_name[in_pipeline[i]],
                     late ? ", late" : "");
            is_int(tries, failed, "%s: each failure loses this device alone", text);
        }
}

static void test_fault_answers(void)
{
    struct gb_device *dev =
        open_device("mem_alloc@2,host_alloc@1,module_load@1=unsupported,"
                    "stream_create@1=nomem,enter@2=nomem",
                    1, 0);
    const struct gb_emu_config closed = {.fault = "open@1", .seed = 1};
    struct gb_guest guest, inner;
    struct gb_stream *s;
    struct gb_module *m;
    gb_devptr a, b;
    void *host;

    ops->enter(dev, &guest);
    is_int(GB_E_NOMEM, ops->enter(dev, &inner), "enter can fail");
    is_int(GB_SUCCESS, ops->mem_alloc(dev, 8, &a), "an allocation passes");
    is_int(GB_E_NOMEM, ops->mem_alloc(dev, 8, &b), "the next is refused");
    is_string("3 fault: mem_alloc", logged, "and logged");
    is_int(GB_E_NOMEM, ops->host_alloc(dev, 8, &host), "pinned memory is refused");
    is_int(GB_E_UNSUPPORTED, ops->module_load(dev, "test", NULL, 0, &m), "an image is");
    is_int(GB_E_NOMEM, ops->stream_create(dev, &s), "a stream is");
    is_int(GB_SUCCESS, ops->mem_alloc(dev, 8, &b), "but the device is good");
    ops->mem_free(dev, a);
    ops->mem_free(dev, b);
    is_int(GB_SUCCESS, ops->module_load(dev, "test", NULL, 0, &m), "a family loads");
    is_int(GB_E_UNSUPPORTED,
           ops->module_get(dev, m, "thrice", (struct gb_function **)&host),
           "no such kernel");
    ops->module_unload(dev, m);
    ops->leave(dev, &guest);
    ops->close(dev);
    gb_emu_ops(&closed);
    is_int(GB_E_DEVICE, ops->open(0, &dev), "open can fail");
    is_int(GB_E_ABSENT, ops->open(GB_EMU_DEVICES, &dev),
           "there are no more than there are");
}

/* ---- threads ---- */

struct worker {
    pthread_t thread;
    struct gb_device *dev;
    int wrong;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    struct gb_guest guest;
    struct lane lane;

    if (ops->enter(w->dev, &guest) != GB_SUCCESS)
        return NULL;
    lane_open(w->dev, &lane);
    w->wrong = pipeline(w->dev, &lane, NONE);
    lane_close(w->dev, &lane);
    ops->leave(w->dev, &guest);
    return NULL;
}

/* A launch that finds no memory for its threads is no mistake: the device is lost. */
static void test_crowded(void)
{
    struct gb_device *dev = open_device("", 4, 0);
    struct args none = {.n = 0};
    struct gb_guest guest;
    struct gb_function *f;
    struct lane l;

    ops->enter(dev, &guest);
    lane_open(dev, &l);
    if (ops->module_get(dev, l.module, "crowded", &f) != GB_SUCCESS)
        bail("no such kernel");
    is_int(GB_SUCCESS, ops->stream_sync(dev, l.work), "crowded: well before");
    ops->launch(dev, l.work, f, 1, 1, 0, &none, sizeof none);
    is_int(GB_E_DEVICE, ops->stream_sync(dev, l.work), "crowded: the device is lost");
    ok(strstr(logged, "crowded: no memory") != NULL, "crowded: it says why: %s",
       logged);
    is_int(GB_E_DEVICE, ops->launch(dev, l.work, l.twice, 1, 1, 0, &none, sizeof none),
           "crowded: and stays lost");
    lane_close(dev, &l);
    ops->leave(dev, &guest);
    ops->close(dev);
}

static void test_threads(void)
{
    struct gb_device *dev = open_device("", 9, 0);
    struct worker workers[8];
    int wrong = 0;

    for (size_t i = 0; i < GB_COUNT(workers); i++) {
        workers[i] = (struct worker){.dev = dev, .wrong = 1};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            bail("pthread_create");
    }
    for (size_t i = 0; i < GB_COUNT(workers); i++) {
        pthread_join(workers[i].thread, NULL);
        wrong += workers[i].wrong;
    }
    is_int(0, wrong, "8 lanes on one device");
    ops->close(dev);
}

/* ---- the clock ---- */

static uint64_t cost_of(const char *text, const char *symbol, int32_t group_m)
{
    struct gb_gemm_args g = {.group_m = group_m};

    gb_cost_set(text);
    return gb_cost_ns(symbol, &g, sizeof g);
}

static void test_cost_text(void)
{
    static const char *const bad[] = {"x",    "=5",    "x=",    "x=a",  "x=5us",
                                      "x@=5", "x@0=5", "x@y=5", "x=5,y"};
    const char *const product = "gb_gemm_a_1x2_nt";

    for (size_t i = 0; i < GB_COUNT(bad); i++)
        ok(!gb_cost_set(bad[i]), "not understood: '%s'", bad[i]);
    ok(gb_cost_set("") && gb_cost_set(NULL) && gb_cost_set("a=5,b@16=0, *=7"),
       "understood");
    is_int(10000, (long long)cost_of("", product, 8), "10 us unless told otherwise");
    is_int(5000, (long long)cost_of("gemm_a_1x2=5", product, 8), "a kernel");
    is_int(10000, (long long)cost_of("gemm_a_1x=5", product, 8),
           "not by half its name");
    is_int(10000, (long long)cost_of("gemm_a=5", product, 8), "nor by its family's");
    is_int(7000, (long long)cost_of("b=5,*=7", product, 8), "all of them");
    is_int(4000, (long long)cost_of("gemm_a_1x2@16=3,gemm_a_1x2=4", product, 8),
           "another tile order");
    is_int(3000, (long long)cost_of("gemm_a_1x2@16=3,gemm_a_1x2=4", product, 16),
           "that one");
    is_int(6000, (long long)cost_of("reduce_f32_f32=6", "gb_reduce_f32_f32", 8),
           "a kernel without layouts");
    gb_cost_set("");
}

static void test_clock(void)
{
    const struct gb_emu_config config = {.cost = "*=25", .seed = 3};
    struct gb_event *start = NULL, *stop = NULL;
    struct gb_device *dev;
    struct gb_guest guest;
    struct args args;
    struct lane l;
    double us = -1;

    ops = gb_emu_ops(&config);
    if (ops->open(0, &dev) != GB_SUCCESS)
        bail("the emulated device does not open");
    ops->enter(dev, &guest);
    lane_open(dev, &l);
    ok(ops->timer_create(dev, &start) == GB_SUCCESS &&
           ops->timer_create(dev, &stop) == GB_SUCCESS,
       "two timers");
    args = (struct args){.src = l.src, .dst = l.dst, .n = N};
    ops->event_record(dev, start, l.work);
    for (int i = 0; i < 3; i++)
        ops->launch(dev, l.work, l.twice, 1, 1, 0, &args, sizeof args);
    ops->event_record(dev, stop, l.work);
    ops->event_sync(dev, stop);
    is_int(GB_SUCCESS, ops->timer_elapsed(dev, start, stop, &us), "elapsed");
    is_int(75, (long long)us, "three launches of 25 us");
    ops->event_destroy(dev, start);
    ops->event_destroy(dev, stop);
    lane_close(dev, &l);
    ops->leave(dev, &guest);
    ops->close(dev);
}

/* Only a device with TMA has tensor maps. */
static int empty_slots(const struct gb_device_ops *table, bool tma)
{
    void *slot[sizeof *table / sizeof(void *)];
    int empty =
        ((table->tensor_map != NULL) != tma) + ((table->launch_shaped != NULL) != tma);

    memcpy(slot, table, sizeof slot);
    for (size_t i = 0; i < GB_COUNT(slot); i++)
        empty += slot[i] == NULL;
    return empty - (table->tensor_map == NULL) - (table->launch_shaped == NULL);
}

int main(void)
{
    plan_lazy();
    ops = gb_emu_ops(&(struct gb_emu_config){.seed = 1});
    is_int(0, empty_slots(&gb_cuda_ops, true), "cuda: every operation is there");
    is_int(0, empty_slots(&gb_hip_ops, false), "hip: every operation is there");
    is_int(0, empty_slots(ops, true), "emu: every operation is there");
    test_order();
    test_events();
    test_pitch();
    test_memory();
    test_queued();
    test_guest();
    test_misuse();
    test_fault_text();
    test_cost_text();
    test_clock();
    test_fault_sweep();
    test_fault_answers();
    test_crowded();
    test_threads();
    return 0;
}
