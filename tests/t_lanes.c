/* SPDX-License-Identifier: BSD-3-Clause */
/* Concurrent callers, signals, cancellation and fork: whoever leaves a call, and however,
 * leaves nothing behind that harms the next. */
#include <dirent.h>
#include <errno.h>
#include <fenv.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"
#include "engine.h"
#include "product.h"
#include "tap.h"
#include "util.h"

enum { THREADS = 16, CALLS = 6 };

#ifdef __SANITIZE_THREAD__
static const bool child_may_thread = false; /* the sanitizer forbids it */
#else
static const bool child_may_thread = true;
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool sanitized = true;
#else
static const bool sanitized = false;
#endif

static struct gb_engine *engine;

static void nap(long milliseconds)
{
    struct timespec t = {.tv_sec = milliseconds / 1000,
                         .tv_nsec = milliseconds % 1000 * 1000000};

    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

/* Small products are quick; long ones take a few hundred milliseconds in many panels. */
static void make(struct product *x, struct verify_random *r, enum gb_type type,
                 bool is_long)
{
    struct product_spec spec = {.type = type,
                                .type_c = type,
                                .transa = (enum gb_trans)verify_below(r, 4),
                                .transb = (enum gb_trans)verify_below(r, 4),
                                .m = is_long ? 640 : 20 + verify_below(r, 60),
                                .n = is_long ? 640 : 20 + verify_below(r, 60),
                                .k = is_long ? 64 : 20 + verify_below(r, 60),
                                .alpha = {1, 0},
                                .beta = {is_long ? 2 : (double)verify_below(r, 3), 0},
                                .extra = {1, 0, 5},
                                .fill = VERIFY_INTEGERS};

    product_make(x, &spec, r);
    if (is_long) {
        product_plan(x, 64, 64, 64, 1);
        product_pieces(x, 64, 64, 20000);
    } else {
        product_random_plan(x, r);
    }
}

static bool run(struct product *x, char *why, size_t len)
{
    struct gb_exec_stats stats;
    enum gb_why answer = gb_exec(engine, &x->plan, &stats);

    if (answer != GB_OK) {
        snprintf(why, len, "answer %s", gb_why_name(answer));
        return false;
    }
    return product_check(x, product_pieces_total(x), why, len);
}

/* Every lane and every byte is back, and a call succeeds. */
static void all_is_well(const char *what)
{
    struct verify_random r = verify_seed(50);
    char why[128] = "";
    struct product x;
    int idle = 0, lanes;

    pthread_mutex_lock(&engine->lock);
    for (struct gb_lane *lane = engine->idle; lane; lane = lane->link)
        idle++;
    lanes = engine->lanes;
    pthread_mutex_unlock(&engine->lock);
    is_int(lanes, idle, "%s: every lane is back", what);
    is_int(0, (long long)gb_pool_level(&engine->pool).used, "%s: no memory is held",
           what);
    make(&x, &r, GB_F64, false);
    ok(run(&x, why, sizeof why), "%s: the next call is exact %s", what, why);
    product_drop(&x);
}

/* ---- callers ---- */

struct caller {
    pthread_t thread;
    uint64_t seed;
    char why[160];
};

static void *call_often(void *arg)
{
    static const enum gb_type types[] = {GB_F32, GB_F64, GB_C32, GB_C64, GB_F16};
    struct caller *c = arg;
    struct verify_random r = verify_seed(c->seed);

    for (int i = 0; i < CALLS; i++) {
        struct product x;
        bool good;

        make(&x, &r, types[verify_below(&r, GB_COUNT(types))], false);
        good = run(&x, c->why, sizeof c->why);
        product_drop(&x);
        if (!good)
            return c;
    }
    return NULL;
}

static void callers(void)
{
    static struct caller caller[THREADS];
    int wrong = 0;

    for (int i = 0; i < THREADS; i++) {
        caller[i].seed = (uint64_t)i;
        if (pthread_create(&caller[i].thread, NULL, call_often, &caller[i]) != 0)
            bail("no thread");
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed;

        pthread_join(caller[i].thread, &failed);
        if (failed)
            diag("thread %d: %s", i, caller[i].why);
        wrong += failed != NULL;
    }
    is_int(0, wrong, "B53, B56: %d threads, %d calls each", THREADS, CALLS);
    ok(engine->lanes <= GB_LANES, "no more lanes than there may be");
    all_is_well("after many callers");
}

/* ---- signals ---- */

static sigjmp_buf out;
static volatile sig_atomic_t taken;

static void jump(int signal)
{
    (void)signal;
    siglongjmp(out, 1);
}

static void note(int signal)
{
    (void)signal;
    taken++;
}

static void handle(int signal, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};

    sigaction(signal, &action, NULL);
}

static void alarm_in(long milliseconds, long every)
{
    struct itimerval t = {.it_value = {.tv_usec = milliseconds * 1000},
                          .it_interval = {.tv_usec = every * 1000}};

    setitimer(ITIMER_REAL, &t, NULL);
}

/* B68: the handler jumps out for good, then all three matrices are unmapped. */
static void jump_out(void)
{
    static struct gb_exec_stats stats;
    static struct product x;
    static volatile int jumps, complete;
    struct verify_random r = verify_seed(60);

    handle(SIGALRM, jump);
    for (int i = 0; i < 4; i++) {
        make(&x, &r, GB_F64, true);
        if (sigsetjmp(out, 1) == 0) {
            alarm_in(30, 0);
            gb_exec(engine, &x.plan, &stats);
            complete++;
            alarm_in(0, 0);
        } else {
            int64_t done = stats.done;
            char why[128] = "";

            jumps++;
            if (!product_check(&x, done, why, sizeof why)) {
                diag("after the jump, %lld pieces done: %s", (long long)done, why);
                jumps = -100;
            }
        }
        product_drop(&x);
    }
    ok(jumps > 0, "B68: jumped out of %d of %d calls between panels", jumps,
       jumps + complete);
    handle(SIGALRM, SIG_DFL);
    all_is_well("after jumping out");
}

static void signal_storm(void)
{
    struct verify_random r = verify_seed(61);
    char why[128] = "";
    sigset_t before, after, usr2, pending;
    struct gb_exec_stats stats;
    struct product x;
    bool good;
    int during, differ = 0;

    handle(SIGALRM, note);
    handle(SIGUSR2, note);
    make(&x, &r, GB_F64, true);
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &usr2, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    raise(SIGUSR2);
    taken = 0;
    alarm_in(1, 1);
    good = gb_exec(engine, &x.plan, &stats) == GB_OK;
    during = taken;
    alarm_in(0, 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int s = 1; s <= SIGRTMAX; s++)
        differ += sigismember(&before, s) != sigismember(&after, s);
    ok(good && product_check(&x, product_pieces_total(&x), why, sizeof why),
       "a signal every millisecond: exact %s", why);
    ok(during > 1, "the handler ran %d times during the call", during);
    is_int(0, differ, "the mask is as before");
    sigpending(&pending);
    ok(sigismember(&pending, SIGUSR2), "what the caller had blocked is still pending");
    pthread_sigmask(SIG_UNBLOCK, &usr2, NULL);
    handle(SIGALRM, SIG_DFL);
    handle(SIGUSR2, SIG_DFL);
    product_drop(&x);
    all_is_well("after a storm of signals");
}

static __thread sigjmp_buf waiter_out;

static void waiter_jump(int signal)
{
    (void)signal;
    siglongjmp(waiter_out, 1);
}

static void *call_and_jump(void *arg)
{
    const struct product *x = arg;
    static struct gb_exec_stats stats;

    if (sigsetjmp(waiter_out, 1) != 0)
        return &stats;
    gb_exec(engine, &x->plan, &stats);
    return NULL;
}

/* A caller who waits for a lane can be jumped out of the wait. */
static void jump_out_of_wait(void)
{
    struct verify_random r = verify_seed(62);
    struct gb_lane *lanes[GB_LANES];
    struct gb_hold hold;
    struct product x;
    pthread_t thread;
    void *jumped;

    handle(SIGUSR1, waiter_jump);
    make(&x, &r, GB_F32, false);
    gb_hold_begin(&hold);
    for (int i = 0; i < GB_LANES; i++) {
        if (gb_engine_lane(engine, &hold, &lanes[i]) != GB_SUCCESS)
            bail("no lane");
    }
    gb_hold_end(&hold);
    if (pthread_create(&thread, NULL, call_and_jump, &x) != 0)
        bail("no thread");
    nap(100);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, &jumped);
    ok(jumped != NULL, "jumped out of the wait for a lane");
    ok(verify_untouched(&x.c), "C is untouched");
    for (int i = 0; i < GB_LANES; i++)
        gb_engine_lane_back(engine, lanes[i]);
    handle(SIGUSR1, SIG_DFL);
    product_drop(&x);
    all_is_well("after a jump out of the wait");
}

/* ---- cancellation ---- */

static void *call_until_cancelled(void *arg)
{
    struct product *x = arg;
    struct gb_exec_stats stats;

    for (;;) {
        gb_exec(engine, &x->plan, &stats);
        product_restore(x);
        pthread_testcancel();
    }
    return NULL;
}

static void *call_cancelled_at_once(void *arg)
{
    struct product *x = arg;
    struct gb_exec_stats stats;

    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;)
        gb_exec(engine, &x->plan, &stats);
    return NULL;
}

static void cancel(void *(*body)(void *), const char *what)
{
    struct verify_random r = verify_seed(63);
    struct product x;
    pthread_t thread;
    void *result;

    make(&x, &r, GB_F32, true);
    if (pthread_create(&thread, NULL, body, &x) != 0)
        bail("no thread");
    nap(40);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    ok(result == PTHREAD_CANCELED, "%s", what);
    product_drop(&x);
    all_is_well(what);
}

/* ---- the guest's manners ---- */

static void manners(void)
{
    struct verify_random r = verify_seed(64);
    char why[128] = "";
    struct product x;
    bool good;
    int error, raised;

    make(&x, &r, GB_F64, true);
    feclearexcept(FE_ALL_EXCEPT);
    feraiseexcept(FE_UNDERFLOW);
    errno = 77;
    good = gb_exec(engine, &x.plan, &(struct gb_exec_stats){.done = 0}) == GB_OK;
    error = errno;
    raised = fetestexcept(FE_ALL_EXCEPT);
    ok(good && product_check(&x, product_pieces_total(&x), why, sizeof why), "exact %s",
       why);
    is_int(77, error, "errno is kept");
    is_int(FE_UNDERFLOW, raised, "floating-point flags are kept");
    product_drop(&x);
}

static void read_line(const char *tid, const char *file, const char *key, char *line,
                      size_t len)
{
    char path[300];
    FILE *f;

    snprintf(path, sizeof path, "/proc/self/task/%s/%s", tid, file);
    f = fopen(path, "re");
    line[0] = '\0';
    while (f && fgets(line, (int)len, f)) {
        if (strncmp(line, key, strlen(key)) == 0)
            break;
        line[0] = '\0';
    }
    if (f)
        fclose(f);
}

static void copy_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    struct timespec before, after;
    char line[128];
    int found = 0, open_to_signals = 0;

    while (tasks && (task = readdir(tasks))) {
        unsigned long long blocked;

        read_line(task->d_name, "comm", "gemmblas-copy", line, sizeof line);
        if (!line[0])
            continue;
        found++;
        read_line(task->d_name, "status", "SigBlk:", line, sizeof line);
        blocked = strtoull(line + strlen("SigBlk:"), NULL, 16);
        for (int s = 1; s <= 31; s++) {
            bool own = s == SIGSEGV || s == SIGBUS || s == SIGFPE || s == SIGILL ||
                       s == SIGTRAP || s == SIGABRT || s == SIGSYS || s == SIGKILL ||
                       s == SIGSTOP;

            open_to_signals += !own && !(blocked >> (s - 1) & 1);
        }
    }
    if (tasks)
        closedir(tasks);
    ok(found > 0 && found <= GB_STAGE_THREADS, "%d copy threads, by name", found);
    is_int(0, open_to_signals, "they block every asynchronous signal");
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    nap(300);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    ok((after.tv_sec - before.tv_sec) * 1000 +
               (after.tv_nsec - before.tv_nsec) / 1000000 <
           60,
       "and sleep when there is nothing to do");
}

static void forked(void)
{
    struct verify_random r = verify_seed(65);
    struct gb_exec_stats stats;
    struct product x;
    int status = -1;
    pid_t child;

    make(&x, &r, GB_F32, false);
    child = fork();
    if (child == 0) {
        int wrong = gb_exec(engine, &x.plan, &stats) != GB_WHY_FORKED;

        wrong |= gb_engine_budget(engine) != 0;
        wrong |= !verify_untouched(&x.c);
        gb_engine_close(engine);
        _exit(wrong);
    }
    waitpid(child, &status, 0);
    is_int(0, status, "B59: the child of a fork is refused and ends well");
    product_drop(&x);
    all_is_well("in the parent");
}

/* ---- children of a handler ---- */

static _Atomic pid_t handler_child; /* 0: nobody has forked yet */

/* Fork once, while "another thread" holds every lock of the engine: in the child nobody will
 * ever give them back. */
static void fork_once(int signal)
{
    struct gb_engine *e = engine;
    pthread_mutex_t *const locks[] = {&e->lock, &e->module_lock, &e->pool.lock,
                                      &e->stage.lock};
    pid_t forked;

    (void)signal;
    if (handler_child)
        return;
    for (size_t i = 0; i < GB_COUNT(locks); i++)
        pthread_mutex_lock(locks[i]);
    forked = fork();
    if (forked == 0)
        return;
    handler_child = forked;
    for (size_t i = 0; i < GB_COUNT(locks); i++)
        pthread_mutex_unlock(locks[i]);
}

/* How the child ended; -1 when there is none. */
static int child_status(void)
{
    int status = -1;

    for (int i = 0; i < 500 && !handler_child; i++)
        nap(10);
    for (int i = 0; i < (sanitized ? 6000 : 2000) && handler_child > 0; i++) {
        if (waitpid(handler_child, &status, WNOHANG) != 0)
            return status;
        nap(10);
    }
    if (handler_child > 0) { /* it waits for what never comes */
        kill(handler_child, SIGKILL);
        waitpid(handler_child, &status, 0);
    }
    return status;
}

/* In the child: finish as dispatch does, and end. */
static void end_child(struct product *x, enum gb_why answer, enum gb_why expected,
                      int64_t done)
{
    int64_t total = product_pieces_total(x);
    char why[128] = "";
    int wrong = answer != expected;

    wrong |= 2 * (gb_engine_lost(engine) || gb_engine_budget(engine) != 0);
    wrong |= 4 * (gb_engine_reopen(engine) != GB_E_ABSENT);
    wrong |= 8 * !product_check(x, done, why, sizeof why);
    if (child_may_thread) { /* the BLAS starts its threads anew */
        gb_cpu_finish(&x->plan, done);
        wrong |= 16 * !product_check(x, total, why, sizeof why);
    }
    _exit(wrong);
}

/* A handler that forks between two panels: both go on from there, the child without the
 * device. */
static void fork_between_panels(void)
{
    struct verify_random r = verify_seed(66);
    struct gb_exec_stats stats;
    pid_t self = getpid();
    char why[128] = "";
    struct product x;
    enum gb_why answer = GB_OK;

    make(&x, &r, GB_F64, true);
    handler_child = 0;
    handle(SIGALRM, fork_once);
    for (int i = 0; i < 5 && !handler_child; i++) {
        product_restore(&x);
        alarm_in(30, 0);
        answer = gb_exec(engine, &x.plan, &stats);
        if (getpid() != self)
            end_child(&x, answer, stats.done > 0 ? GB_WHY_PART : GB_WHY_FORKED,
                      stats.done);
        alarm_in(0, 0);
    }
    handle(SIGALRM, SIG_DFL);
    is_int(0, child_status(),
           "the child of a handler between panels leaves the device and finishes on "
           "the CPU");
    is_int(GB_OK, answer, "the parent goes on");
    ok(product_check(&x, product_pieces_total(&x), why, sizeof why), "to the end %s",
       why);
    product_drop(&x);
    all_is_well("after a fork between panels");
}

static void *call_and_fork(void *arg)
{
    static struct gb_exec_stats stats;
    struct product *x = arg;
    pid_t self = getpid();
    enum gb_why answer = gb_exec(engine, &x->plan, &stats);

    if (getpid() != self)
        end_child(x, answer, GB_WHY_FORKED, stats.done);
    return answer == GB_OK ? &stats : NULL;
}

static void fork_in_wait(void)
{
    struct verify_random r = verify_seed(67);
    struct gb_lane *lanes[GB_LANES];
    char why[128] = "";
    struct gb_hold hold;
    struct product x;
    pthread_t thread;
    void *went_on;

    make(&x, &r, GB_F32, false);
    handler_child = 0;
    handle(SIGUSR1, fork_once);
    gb_hold_begin(&hold);
    for (int i = 0; i < GB_LANES; i++) {
        if (gb_engine_lane(engine, &hold, &lanes[i]) != GB_SUCCESS)
            bail("no lane");
    }
    gb_hold_end(&hold);
    if (pthread_create(&thread, NULL, call_and_fork, &x) != 0)
        bail("no thread");
    nap(100);
    pthread_kill(thread, SIGUSR1);
    is_int(0, child_status(),
           "the child of a handler in the wait for a lane leaves the queue and "
           "computes on the CPU");
    for (int i = 0; i < GB_LANES; i++)
        gb_engine_lane_back(engine, lanes[i]);
    pthread_join(thread, &went_on);
    ok(went_on && product_check(&x, product_pieces_total(&x), why, sizeof why),
       "the parent gets its lane %s", why);
    handle(SIGUSR1, SIG_DFL);
    product_drop(&x);
    all_is_well("after a fork in the wait");
}

int main(void)
{
    plan_lazy();
    engine = product_engine();
    callers();
    manners();
    copy_threads();
    jump_out();
    signal_storm();
    jump_out_of_wait();
    if (sanitized) {
        skip_block(8, "sanitizers do not survive the unwinding of a cancelled thread");
    } else {
        cancel(call_until_cancelled, "cancelled after a call");
        cancel(call_cancelled_at_once, "cancelled between panels");
    }
    forked();
    fork_between_panels();
    fork_in_wait();
    gb_engine_close(engine);
    return 0;
}
