/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program does besides multiplying: threads, fork, exit, signals, cancellation,
 * environment. Most questions need a process of their own: the program runs itself. */
#include <dirent.h>
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "child.h"
#include "tap.h"
#include "verify.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static bool device, hardware;

/* A random integer product; what is wrong with it goes to stderr, since a child has no
 * plan. */
static bool exact(const char *symbol, enum gb_trans ta, enum gb_trans tb, int64_t m,
                  int64_t n, int64_t k, struct verify_random *r)
{
    struct verify_gemm g = {.f = verify_flavour(symbol),
                            .transa = ta,
                            .transb = tb,
                            .m = m,
                            .n = n,
                            .k = k,
                            .alpha = {.re = 1},
                            .beta = {.re = (double)verify_below(r, 3)}};
    int64_t extra[3] = {verify_below(r, 3), verify_below(r, 3), verify_below(r, 3)};
    char why[640];
    bool right;

    right = verify_gemm_integers(&g, VERIFY_INTEGERS, extra,
                                 (enum verify_place)verify_below(r, VERIFY_PLACES), r,
                                 why, sizeof why);
    if (!right)
        fprintf(stderr, "%s\n", why);
    return right;
}

static bool ordinary(uint64_t seed)
{
    struct verify_random r = verify_seed(seed);

    return exact("dgemm_", GB_N, GB_T, 90, 80, 70, &r);
}

/* ---- threads ---- */

static pthread_barrier_t together;

struct worker {
    pthread_t thread;
    int index, calls;
    bool right;
};

static void *worker_of_one_form(void *arg)
{
    struct worker *w = arg;
    struct verify_random r = verify_seed((uint64_t)w->index + 530);

    w->right = true;
    pthread_barrier_wait(&together);
    for (int i = 0; i < w->calls; i++) {
        int64_t n = 20 + verify_below(&r, 60);

        w->right =
            exact("dgemm_", (enum gb_trans)(w->index & 1),
                  (enum gb_trans)(w->index >> 1 & 1), n, n + w->index, n + 3, &r) &&
            w->right;
    }
    return NULL;
}

static void *worker_of_all_types(void *arg)
{
    static const char *const symbols[] = {
        "sgemm_",  "cblas_dgemm",          "cgemm_", "zgemm_", "hgemm_",
        "sbgemm_", "scipy_cblas_sgemm64_", "bgemm_"};
    struct worker *w = arg;
    struct verify_random r = verify_seed((uint64_t)w->index + 560);

    w->right = true;
    pthread_barrier_wait(&together);
    for (int i = 0; i < w->calls; i++)
        w->right = exact(symbols[(w->index + i) % COUNT(symbols)],
                         (enum gb_trans)verify_below(&r, 3),
                         (enum gb_trans)verify_below(&r, 3), 1 + verify_below(&r, 130),
                         1 + verify_below(&r, 130), 1 + verify_below(&r, 130), &r) &&
                   w->right;
    return NULL;
}

static void *worker_of_thin_products(void *arg)
{
    struct worker *w = arg;
    struct verify_random r = verify_seed((uint64_t)w->index + 550);

    w->right = true;
    pthread_barrier_wait(&together);
    for (int i = 0; i < w->calls; i++)
        w->right = exact("sgemm_", GB_N, GB_T, 1, 128, 3000, &r) && w->right;
    return NULL;
}

/* All at once, also for the first call of the process. */
static bool run_threads(int threads, int calls, void *(*body)(void *))
{
    struct worker *w = calloc((size_t)threads, sizeof *w);
    bool right = true;

    if (!w)
        bail("no memory");
    pthread_barrier_init(&together, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        w[i] = (struct worker){.index = i, .calls = calls};
        if (pthread_create(&w[i].thread, NULL, body, &w[i]) != 0)
            bail("no thread");
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(w[i].thread, NULL);
        right = right && w[i].right;
    }
    pthread_barrier_destroy(&together);
    free(w);
    return right;
}

static int threads_mode(const char *route, int threads, int calls,
                        void *(*body)(void *))
{
    struct verify_trace t;
    bool right;

    device = verify_route(route);
    right = run_threads(threads, calls, body);
    t = verify_trace_read();
    printf("calls=%ld gpu=%ld", t.calls, t.gpu);
    if (t.calls != (long)threads * calls || (device && t.gpu != t.calls))
        fprintf(stderr, "%ld calls traced, %ld on the device, last why %s\n", t.calls,
                t.gpu, t.why);
    return !(right && t.calls == (long)threads * calls &&
             (!device || t.gpu == t.calls));
}

static int many(int full)
{
    return verify_on_hardware() ? full : full / 10;
}

static int mode_b53(void)
{
    return threads_mode("gpu", 8, many(500), worker_of_one_form);
}

static int mode_b55(void)
{
    return threads_mode("cpu", 64, 10, worker_of_thin_products);
}

static int mode_b56(void)
{
    return threads_mode("gpu", 32, many(100), worker_of_all_types);
}

static int mode_b56_16(void)
{
    return threads_mode("gpu", 16, many(200), worker_of_all_types);
}

static int mode_b56_64(void)
{
    return threads_mode("gpu", 64, many(40), worker_of_all_types);
}

static void *one_call(void *arg)
{
    *(bool *)arg = ordinary(7);
    return NULL;
}

/* Threads that come and go, one with as little stack as is reasonable. */
static int mode_short_lived(void)
{
    pthread_attr_t attr;
    bool right = true;

    device = verify_route("gpu");
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 64 << 10);
    for (int i = 0; i < 60; i++) {
        bool this = false;
        pthread_t t;

        if (pthread_create(&t, i % 2 ? &attr : NULL, one_call, &this) != 0)
            bail("no thread");
        pthread_join(t, NULL);
        right = right && this;
    }
    return !(right && verify_trace_read().cpu == 0);
}

static void *cancelled(void *arg)
{
    atomic_int *calls = arg;

    for (uint64_t i = 0;; i++) {
        if (!ordinary(i))
            abort();
        atomic_fetch_add(calls, 1);
        pthread_testcancel();
    }
    return NULL;
}

static int mode_cancel(void)
{
    bool right = true;

    device = verify_route("gpu");
    for (int i = 0; i < 10; i++) {
        atomic_int calls = 0;
        pthread_t t;
        void *result;

        if (pthread_create(&t, NULL, cancelled, &calls) != 0)
            bail("no thread");
        while (atomic_load(&calls) < 2)
            usleep(500);
        pthread_cancel(t);
        pthread_join(t, &result);
        right = right && result == PTHREAD_CANCELED && ordinary(i);
    }
    return !(right && verify_trace_read().on_gpu == device);
}

/* ---- fork ---- */

static bool forked_child_is_right(const char *expected_why)
{
    struct verify_trace t;
    bool right;

    verify_trace_read();
    right = ordinary(590);
    t = verify_trace_read();
    if (t.on_gpu || strcmp(t.why, expected_why) != 0) {
        fprintf(stderr, "in the child: route %s why %s\n", t.on_gpu ? "gpu" : "cpu",
                t.why);
        return false;
    }
    return right;
}

static int mode_b59(void)
{
    bool right;
    pid_t pid;
    int status;

    device = verify_route("gpu");
    right = ordinary(1) && verify_trace_read().on_gpu == device;
    pid = fork();
    if (pid == 0) {
        bool good = forked_child_is_right("forked");
        pid_t grandchild = fork();

        if (grandchild == 0)
            _exit(!forked_child_is_right("forked"));
        exit(!(good && child_wait(grandchild, 20) == 0)); /* with its exit handlers */
    }
    status = child_wait(pid, 60);
    if (status != 0)
        fprintf(stderr, "child: %d\n", status);
    verify_trace_read();
    right = ordinary(2) && right;
    return !(right && status == 0 && verify_trace_read().on_gpu == device);
}

/* A child that forks before the first call may use the device: nobody has opened it. */
static int mode_fork_first(void)
{
    pid_t pid;
    bool right;

    device = verify_route("gpu");
    pid = fork();
    if (pid == 0)
        _exit(!(ordinary(3) && verify_trace_read().on_gpu == device));
    right = child_wait(pid, 60) == 0;
    verify_trace_read();
    return !(ordinary(4) && right && verify_trace_read().on_gpu == device);
}

static atomic_bool stop;

static void *busy(void *arg)
{
    uint64_t i = 0;
    struct verify_random r = verify_seed(61);

    while (!atomic_load(&stop)) {
        if (!exact("dgemm_", GB_N, GB_N, 300, 300, 300, &r))
            *(bool *)arg = false;
        i++;
    }
    return NULL;
}

/* Fork while another thread is inside a call. OpenBLAS with threads of its own (0.3.21)
 * does not survive that by itself, so it has one here: the question is what we hold. */
static int fork_while_busy(const char *route)
{
    bool right = true, good = true;
    pthread_t t;

    device = verify_route(route);
    right = ordinary(5);
    if (pthread_create(&t, NULL, busy, &good) != 0)
        bail("no thread");
    for (int i = 0; right && i < 16; i++) {
        pid_t pid;
        int status;

        usleep(5000 + 1700 * (unsigned)i);
        pid = fork();
        if (pid == 0) {
            struct verify_random r = verify_seed(611);

            _exit(!exact("dgemm_", GB_N, GB_T, 300, 300, 300, &r));
        }
        status = child_wait(pid, 10);
        if (status != 0)
            fprintf(stderr, "child %d: %d\n", i, status);
        right = right && status == 0;
    }
    atomic_store(&stop, true);
    pthread_join(t, NULL);
    return !(right && good);
}

static int mode_b61(void)
{
    return fork_while_busy("cpu");
}

static int mode_b61_gpu(void)
{
    return fork_while_busy("gpu");
}

/* ---- exit ---- */

static void late_call(void)
{
    static const char wrong[] = "a late call is wrong\n";

    if (!ordinary(8) && write(STDERR_FILENO, wrong, sizeof wrong - 1) < 0)
        _exit(2);
}

static bool call_in_destructor;

__attribute__((destructor)) static void destroy(void)
{
    if (call_in_destructor)
        late_call();
}

/* Calls after main: in a handler that was registered before ours and so runs after it,
 * in one registered later, and in a destructor. */
static int mode_late(void)
{
    atexit(late_call);
    call_in_destructor = true;
    device = verify_route("gpu");
    if (!ordinary(9) || verify_trace_read().on_gpu != device)
        return 1;
    atexit(late_call);
    return 0;
}

/* The first call of all is made while the process exits. */
static int mode_late_first(void)
{
    call_in_destructor = true;
    device = verify_route("gpu");
    atexit(late_call);
    return 0;
}

static void *endless(void *arg)
{
    (void)arg;
    for (uint64_t i = 0;; i++)
        ordinary(i);
    return NULL;
}

/* exit() while other threads are inside calls. */
static int mode_exit_busy(void)
{
    pthread_t t;

    device = verify_route("gpu");
    for (int i = 0; i < 3; i++)
        pthread_create(&t, NULL, endless, NULL);
    usleep(150000);
    return 0;
}

/* exit() while the device is being opened. */
static int mode_exit_opening(void)
{
    pthread_t t;

    device = verify_route("gpu");
    pthread_create(&t, NULL, endless, NULL);
    return 0;
}

/* ---- signals ---- */

static sigjmp_buf jump;

static void leave(int signal_number)
{
    (void)signal_number;
    siglongjmp(jump, 1);
}

static volatile sig_atomic_t seen_signals;

static void come_back(int signal_number)
{
    (void)signal_number;
    seen_signals++;
}

static void *sender(void *arg)
{
    (void)arg;
    usleep(30000);
    kill(getpid(), SIGINT);
    return NULL;
}

/* A handler jumps out of a long call for good; the operands are then unmapped at once,
 * so that anything of ours which still uses them faults. The signal must reach this
 * thread: a thread of OpenBLAS does not block it and would jump to a stack that is not
 * its own, so OpenBLAS has none here. */
static int mode_b68(void)
{
    struct sigaction act = {.sa_handler = leave};
    int rounds = 12;
    volatile int jumped = 0;
    static volatile sig_atomic_t inside, out_of_calls;
    static struct verify_gemm g;
    static const int64_t extra[3] = {1, 1, 1};
    sigset_t before, after, both;
    volatile bool right;

    device = verify_route("gpu");
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGALRM);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGALRM, &act, NULL);
    right = ordinary(10);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    for (volatile int i = 0; i < rounds; i++) {
        int64_t n = verify_on_hardware() ? 6000 : 500;
        struct itimerval when = {.it_value = {.tv_usec = 2000 + 9000 * i}};

        g = (struct verify_gemm){.f = verify_flavour("dgemm_"),
                                 .m = n,
                                 .n = n,
                                 .k = n,
                                 .alpha = {.re = 1},
                                 .beta = {.re = 1}};
        verify_matrix_make(&g.a, GB_F64, false, n, n, n + extra[0], VERIFY_HIGH);
        verify_matrix_make(&g.b, GB_F64, false, n, n, n + extra[1], VERIFY_HIGH);
        verify_matrix_make(&g.c, GB_F64, false, n, n, n + extra[2], VERIFY_HIGH);
        if (sigsetjmp(jump, 1) == 0) {
            pthread_t t;

            if (i % 4 == 3) { /* from another thread, to the process */
                pthread_sigmask(SIG_BLOCK, &both, &before);
                pthread_create(&t, NULL, sender, NULL);
                pthread_sigmask(SIG_SETMASK, &before, NULL);
            } else {
                setitimer(ITIMER_REAL, &when, NULL);
            }
            inside = 1;
            verify_gemm_call(&g);
            inside = 0;
            pause(); /* the call was quicker than the signal */
        }
        out_of_calls += inside;
        jumped++;
        verify_gemm_drop(&g);
        usleep(3000);
        right = ordinary(11 + (uint64_t)i) && right;
    }
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int s = 1; s < 32; s++)
        right = right && sigismember(&before, s) == sigismember(&after, s);
    usleep(20000);
    verify_trace_read();
    right = ordinary(99) && right;
    printf("out of calls: %d of %d", (int)out_of_calls, rounds);
    if (verify_trace_read().on_gpu != device) {
        fprintf(stderr, "the device is not used any more\n");
        return 1;
    }
    return !(right && jumped == rounds && out_of_calls > rounds / 4);
}

/* Handlers that return: C is right however many signals there are. */
static int mode_signals(void)
{
    struct sigaction act = {.sa_handler = come_back}; /* no SA_RESTART */
    struct itimerval often = {.it_interval = {.tv_usec = 700},
                              .it_value = {.tv_usec = 700}};
    struct itimerval never = {.it_value = {.tv_usec = 0}};
    bool right = true;

    device = verify_route("gpu");
    sigaction(SIGALRM, &act, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (uint64_t i = 0; i < 60; i++)
        right = ordinary(i) && right;
    setitimer(ITIMER_REAL, &never, NULL);
    printf("signals=%d", (int)seen_signals);
    return !(right && seen_signals > 0 && verify_trace_read().cpu == 0);
}

/* ---- what a caller keeps ---- */

static int mode_caller(void)
{
    static const double a[4] = {1, 2, 3, 4};
    static const struct gb_scalar one = {.re = 1};
    cpu_set_t cpus_before, cpus_after;
    sigset_t mask_before, mask_after, some;
    double c[4];

    device = verify_route("gpu");
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    sigprocmask(SIG_BLOCK, &some, NULL);
    for (int i = 0; i < 3; i++) {
        int wrong = 0;

        sched_getaffinity(0, sizeof cpus_before, &cpus_before);
        pthread_sigmask(SIG_SETMASK, NULL, &mask_before);
        feclearexcept(FE_ALL_EXCEPT);
        fesetround(i == 2 ? FE_UPWARD : FE_TONEAREST);
        errno = 77;
        verify_call(verify_flavour("dgemm_"), 102, "N", "N", 2, 2, 2, one, a, 2, a, 2,
                    verify_real(0), c, 2);
        wrong |= errno != 77 ? 1 : 0;
        wrong |= fetestexcept(FE_ALL_EXCEPT) != 0 ? 2 : 0;
        wrong |= fegetround() != (i == 2 ? FE_UPWARD : FE_TONEAREST) ? 4 : 0;
        fesetround(FE_TONEAREST);
        pthread_sigmask(SIG_SETMASK, NULL, &mask_after);
        sched_getaffinity(0, sizeof cpus_after, &cpus_after);
        for (int s = 1; s < 32; s++)
            wrong |=
                sigismember(&mask_before, s) != sigismember(&mask_after, s) ? 8 : 0;
        wrong |= !CPU_EQUAL(&cpus_before, &cpus_after) ? 16 : 0;
        wrong |= c[0] != 7 || c[3] != 22 ? 32 : 0;
        if (wrong) {
            fprintf(
                stderr,
                "call %d: errno 1, flags 2, rounding 4, mask 8, cpus 16, C 32: %d\n", i,
                wrong);
            return 1;
        }
    }
    return !(verify_trace_read().on_gpu == device);
}

/* Helper threads have every asynchronous signal blocked. */
static int mode_helpers(void)
{
    char path[300], line[256];
    struct dirent *entry;
    int wrong = 0, helpers = 0;
    DIR *dir;

    struct verify_random r = verify_seed(12);

    device = verify_route("gpu");
    if (!exact("dgemm_", GB_N, GB_N, 1500, 1500, 20, &r) ||
        !(dir = opendir("/proc/self/task")))
        return 1;
    while ((entry = readdir(dir))) {
        FILE *status;

        if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        status = fopen(path, "r");
        helpers++;
        while (status && fgets(line, sizeof line, status)) {
            unsigned long long mask;

            if (sscanf(line, "SigBlk: %llx", &mask) != 1)
                continue;
            /* HUP INT QUIT USR1 USR2 PIPE ALRM TERM CHLD */
            for (int i = 0; i < 9; i++) {
                static const int asynchronous[] = {SIGHUP,  SIGINT,  SIGQUIT,
                                                   SIGUSR1, SIGUSR2, SIGPIPE,
                                                   SIGALRM, SIGTERM, SIGCHLD};

                wrong += !(mask >> (asynchronous[i] - 1) & 1);
            }
        }
        if (status)
            fclose(status);
    }
    closedir(dir);
    printf("helpers=%d", helpers);
    /* The real BLAS starts none here, so all other threads are ours or the driver's. */
    return wrong != 0;
}

/* ---- environment ---- */

static int mode_plain(void)
{
    bool right = ordinary(13);
    struct verify_random r = verify_seed(64);

    right = exact("cblas_sgemm", GB_T, GB_N, 33, 34, 35, &r) && right;
    right = exact("zgemm_64_", GB_C, GB_N, 5, 6, 7, &r) && right;
    right = exact("hgemm_", GB_N, GB_N, 15, 16, 17, &r) && right;
    return !right;
}

static int lines(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void b64(void)
{
    static const struct {
        const char *name;
        const char *changes[6];
        int most_lines;
    } row[] = {
        {"HOME unset", {"HOME"}, 0},
        {"nothing set", {"GEMMBLAS_DEVICE", "HOME", "PATH", "LANG"}, 0},
        {"configuration that does not exist",
         {"GEMMBLAS_CONFIG=/nonexistent/gemmblas.conf"},
         1},
        {"configuration that is a directory", {"GEMMBLAS_CONFIG=/"}, 1},
        {"library that does not exist",
         {"GEMMBLAS_LIBRARY=/nonexistent/libblas.so"},
         1},
        {"library that is no library", {"GEMMBLAS_LIBRARY=/etc/passwd"}, 1},
        {"library without BLAS (a line per name)", {"GEMMBLAS_LIBRARY=libm.so.6"}, 6},
        {"values that are nonsense", {"GEMMBLAS_MEM_LIMIT=lots"}, 1},
        {"a device that does not exist", {"GEMMBLAS_DEVICE=97"}, 1},
        {"a device list that is nonsense", {"GEMMBLAS_DEVICE=,x,-1"}, 1},
        {"no device", {"GEMMBLAS_DEVICE=none"}, 0},
        {"an unknown knob", {"GEMMBLAS_ROUTES=gpu"}, 1},
        {"empty knobs", {"GEMMBLAS_ROUTE=", "GEMMBLAS_LIBRARY=", "GEMMBLAS_TRACE="}, 0},
        {"a trace that cannot be written", {"GEMMBLAS_TRACE=/nonexistent/trace"}, 1},
    };

    for (int i = 0; i < COUNT(row); i++) {
        struct child c;

        child_run(&c, "plain", row[i].changes, 60);
        ok(child_passed(&c) && *c.out == '\0', "B64 right results with %s",
           row[i].name);
        if (!ok(lines(c.err) <= row[i].most_lines, "B64 at most %d lines for %s",
                row[i].most_lines, row[i].name))
            diag("%s", c.err);
    }
}

static void b77(void)
{
    static const char *const changes[] = {
        "GEMMBLAS_LIBRARY=/nonexistent/libopenblas.so", "GEMMBLAS_ROUTE=cpu",
        "GEMMBLAS_LOG=error", NULL};
    struct child c;

    child_run(&c, "plain", changes, 60);
    ok(child_passed(&c) && *c.out == '\0' && *c.err == '\0',
       "B77 the next choice when GEMMBLAS_LIBRARY is absent");
}

static void silence(void)
{
    static const char *const loud[] = {"GEMMBLAS_LOG=debug", "GEMMBLAS_STATS=1",
                                       "GEMMBLAS_TRACE=1", "GEMMBLAS_ROUTE=gpu", NULL};
    static const char *const forced[] = {"GEMMBLAS_ROUTE=gpu", NULL};
    struct child c;

    child_run(&c, "plain", NULL, 60);
    ok(child_passed(&c) && *c.out == '\0' && *c.err == '\0', "silent by default");
    child_run(&c, "plain", forced, 60);
    ok(child_passed(&c) && *c.out == '\0' && *c.err == '\0', "silent on the device");
    child_run(&c, "plain", loud, 60);
    ok(child_passed(&c) && *c.out == '\0',
       "nothing on stdout when everything is asked for");
    ok(strstr(c.err, "routine=dgemm_") && strstr(c.err, "statistics"),
       "trace and statistics on stderr");
}

static double user_seconds(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_utime.tv_sec + 1e-6 * (double)u.ru_utime.tv_usec +
           (double)u.ru_stime.tv_sec + 1e-6 * (double)u.ru_stime.tv_usec;
}

/* While the device works, the processors do not: only the copies cost. Enough k that
 * the call computes for long. */
static int mode_b58(void)
{
    int64_t n = 16384;
    double *a, wall, cpu;
    size_t bytes = (size_t)(n * n) * sizeof *a;

    device = verify_route("gpu");
    a = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
             0);
    if (a == MAP_FAILED)
        return 1;
    for (int64_t i = 0; i < n * n; i++)
        a[i] = 1;
    memset(a + n * n, 0, bytes);
    if (!ordinary(58))
        return 1;
    wall = child_clock();
    cpu = user_seconds();
    for (int i = 0; i < 2; i++)
        verify_call(verify_flavour("dgemm_"), 102, "N", "N", n, n, n, verify_real(1), a,
                    n, a, n, verify_real(0), a + n * n, n);
    wall = child_clock() - wall;
    cpu = user_seconds() - cpu;
    printf("wall=%.2f cpu=%.2f", wall, cpu);
    /* 12 GiB copied in all: at most about 3 s of processor time on a slow host. */
    return !(verify_trace_read().on_gpu && a[n * n] == (double)n &&
             cpu < 1.5 * wall + 3);
}

static const struct {
    const char *name;
    int (*run)(void);
    const char *what;
    const char *changes[3];
    double limit;
    bool hardware_only;
} modes[] = {
    {"b53", mode_b53, "B53 8 threads, each its own transposes", {0}, 120, false},
    {"b55",
     mode_b55,
     "B55 64 threads in the real BLAS, one at a time",
     {"GEMMBLAS_SERIALIZE_CPU=1", "GEMMBLAS_ROUTE"},
     120,
     false},
    {"b55",
     mode_b55,
     "B55 64 threads in the real BLAS",
     {"GEMMBLAS_ROUTE"},
     120,
     false},
    {"b56", mode_b56, "B56 32 threads, sizes and types mixed", {0}, 120, false},
    {"b56_16", mode_b56_16, "B56 16 threads, sizes and types mixed", {0}, 120, false},
    {"b56_64",
     mode_b56_64,
     "B56 64 threads, little memory",
     {"GEMMBLAS_MEM_LIMIT=16M"},
     120,
     false},
    {"short_lived",
     mode_short_lived,
     "threads that come and go, with little stack",
     {0},
     60,
     false},
    {"cancel", mode_cancel, "threads cancelled around calls", {0}, 60, false},
    {"b58", mode_b58, "B58 no busy waiting while the device works", {0}, 300, true},
    {"b59", mode_b59, "B59 fork after the device was used", {0}, 60, false},
    {"fork_first",
     mode_fork_first,
     "B59 fork before the device was used",
     {0},
     60,
     false},
    {"b61",
     mode_b61,
     "B61 fork while another thread is in the real BLAS",
     {"OPENBLAS_NUM_THREADS=1"},
     90,
     false},
    {"b61",
     mode_b61,
     "B61 the same when calls of the real BLAS take turns",
     {"OPENBLAS_NUM_THREADS=1", "GEMMBLAS_SERIALIZE_CPU=1"},
     90,
     false},
    {"b61_gpu",
     mode_b61_gpu,
     "B61 fork while another thread is on the device",
     {0},
     90,
     false},
    {"late", mode_late, "calls from exit handlers and destructors", {0}, 60, false},
    {"late_first",
     mode_late_first,
     "a first call from an exit handler",
     {0},
     60,
     false},
    /* What threads inside calls have allocated is theirs, and the leak checker, which does
     * not survive the stacks of the emulated kernels' fibers, does not look. */
    {"exit_busy",
     mode_exit_busy,
     "exit while threads are inside calls",
     {"LSAN_OPTIONS=detect_leaks=0"},
     30,
     false},
    {"exit_opening",
     mode_exit_opening,
     "exit while the device opens",
     {"LSAN_OPTIONS=detect_leaks=0"},
     30,
     false},
    {"b68",
     mode_b68,
     "B68 a handler jumps out of calls, operands are unmapped",
     {"OPENBLAS_NUM_THREADS=1"},
     120,
     false},
    {"signals", mode_signals, "signals whose handlers return", {0}, 60, false},
    {"caller",
     mode_caller,
     "errno, floating-point state, signal mask, affinity are kept",
     {0},
     60,
     false},
    {"helpers",
     mode_helpers,
     "helper threads block asynchronous signals",
     {"OPENBLAS_NUM_THREADS=1"},
     60,
     false},
};

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "plain") == 0)
        return mode_plain();
    for (int i = 0; argc > 1 && i < COUNT(modes); i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            return modes[i].run();
    plan_lazy();
    device = verify_route("gpu");
    hardware = device && verify_on_hardware();
    unsetenv("GEMMBLAS_TRACE"); /* every child has its own */
    for (int i = 0; i < COUNT(modes); i++) {
        struct child c;

        if (modes[i].hardware_only && !hardware) {
            skip("%s: needs hardware", modes[i].what);
            continue;
        }
        child_run(&c, modes[i].name, modes[i].changes, modes[i].limit);
        ok(child_passed(&c), "%s", modes[i].what);
        if (strncmp(modes[i].name, "late", 4) == 0 && *c.err)
            ok(false, "%s: %s", modes[i].what, c.err);
    }
    unsetenv("GEMMBLAS_ROUTE");
    b64();
    b77();
    silence();
    return 0;
}
