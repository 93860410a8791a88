/* SPDX-License-Identifier: BSD-3-Clause */
/* How a process comes to use the device: in `auto` the CPU serves until the modelled gains
 * have paid for opening it; small calls never do; statistics, exit and overrides. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "tap.h"

void dgemm_(const char *, const char *, const int *, const int *, const int *,
            const double *, const double *, const int *, const double *, const int *,
            const double *, double *, const int *);

/* n^3 with integers: every entry of C is n. */
static int product(int n)
{
    double *x = malloc(sizeof *x * (size_t)n * (size_t)n * 3), one = 1, zero = 0;
    double *a = x, *b = x + (size_t)n * (size_t)n, *c = b + (size_t)n * (size_t)n;
    int right = 1;

    for (size_t i = 0; i < (size_t)n * (size_t)n; i++)
        a[i] = b[i] = 1;
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    for (size_t i = 0; i < (size_t)n * (size_t)n; i++)
        right = right && c[i] == n;
    free(x);
    return right;
}

/* The last line of a trace file. */
static void last_call(const char *path, char *line, int len)
{
    FILE *f = fopen(path, "r");

    line[0] = '\0';
    while (f && fgets(line, len, f))
        ;
    if (f)
        fclose(f);
}

/* Enough gain in a few dozen calls whatever this machine's CPU; the pause lets the helper
 * thread end. */
static int scene_warm(void)
{
    const char *path = getenv("GEMMBLAS_TRACE");
    char line[640];
    int warming = 0, served = 0;

    for (int i = 0; i < 60 && served < 3; i++) {
        if (!product(640))
            return 1;
        if (i % 10 == 9)
            usleep(200000);
        last_call(path, line, sizeof line);
        if (strstr(line, " route=gpu why=ok "))
            served++;
        else if (served == 0 && strstr(line, " why=warming\n"))
            warming++;
        else
            return 1;
    }
    return warming == 0 || served < 3;
}

/* An exit without a call of its own must not tell its parent's. */
static int scene_fork(void)
{
    int right = product(16), status = -1;
    pid_t pid = fork();

    if (pid == 0)
        exit(0);
    waitpid(pid, &status, 0);
    return !right || status != 0;
}

/* errno is the program's, also where the device is looked for in vain. */
static int scene_errno(void)
{
    int right = 1;

    for (int i = 0; i < 3 && right; i++) {
        errno = 0;
        right = product(1000) && errno == 0;
    }
    return !right;
}

/* A first call reads files and writes lines: none of it may be a place to cancel. */
static void *cancelled(void *reached)
{
    pthread_cancel(pthread_self());
    *(volatile int *)reached = product(16);
    pthread_testcancel();
    return NULL;
}

static int scene_cancel(void)
{
    int reached = 0;
    pthread_t thread;
    void *result;

    pthread_create(&thread, NULL, cancelled, &reached);
    pthread_join(thread, &result);
    return !reached || result != PTHREAD_CANCELED;
}

/* stderr is a pipe that nobody reads: our warning must not end the program. */
static int scene_pipe(void)
{
    int fds[2];

    if (pipe(fds) != 0 || dup2(fds[1], STDERR_FILENO) < 0)
        return 1;
    close(fds[0]);
    close(fds[1]);
    return !product(16);
}

/* A daemon closes what it does not know, and its own file gets the number of our trace. */
static int scene_daemon(void)
{
    char path[] = "/tmp/gemmblas-own-XXXXXX";
    struct stat st;
    int fd, right = product(16);

    for (fd = 3; fd < 64; fd++)
        close(fd);
    fd = mkstemp(path);
    right = right && fd >= 0 && product(16) && product(16) && fstat(fd, &st) == 0 &&
            st.st_size == 0;
    unlink(path);
    return !right;
}

static int scene(const char *name)
{
    int right = 1;

    if (strcmp(name, "fork") == 0)
        return scene_fork();
    if (strcmp(name, "errno") == 0)
        return scene_errno();
    if (strcmp(name, "cancel") == 0)
        return scene_cancel();
    if (strcmp(name, "pipe") == 0)
        return scene_pipe();
    if (strcmp(name, "daemon") == 0)
        return scene_daemon();
    if (strcmp(name, "warm") == 0)
        return scene_warm();
    if (strcmp(name, "small") == 0) {
        for (int i = 0; i < 1000 && right; i++)
            right = product(16);
    } else if (strcmp(name, "large") == 0) {
        right = product(1900); /* half a second of one core */
    } else if (strcmp(name, "thrice") == 0) {
        for (int i = 0; i < 3 && right; i++)
            right = product(200);
    } else if (strcmp(name, "once") == 0) {
        right = product(300);
    }
    return !right;
}

int main(int argc, char **argv)
{
    static const char *const loud[] = {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_ROUTE=auto",
                                       "GEMMBLAS_TRACE=1", "OPENBLAS_NUM_THREADS=1",
                                       NULL};
    static const char *const quiet[] = {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_ROUTE=auto",
                                        "GEMMBLAS_TRACE", NULL};
    static const char *const stats[] = {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_ROUTE=auto",
                                        "GEMMBLAS_STATS=1", "GEMMBLAS_TRACE", NULL};
    static const char *const forced[] = {"GEMMBLAS_DEVICE=emu",
                                         "GEMMBLAS_ROUTE=cpu,dgemm=gpu",
                                         "GEMMBLAS_TRACE=1", NULL};
    static const char *const other[] = {"GEMMBLAS_DEVICE=emu",
                                        "GEMMBLAS_ROUTE=gpu,dgemm=cpu",
                                        "GEMMBLAS_TRACE=1", NULL};
    static const char *const disabled[] = {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_ROUTE=gpu",
                                           "GEMMBLAS_DISABLE=dgemm", "GEMMBLAS_TRACE=1",
                                           NULL};
    static const char *const none[] = {"GEMMBLAS_DEVICE=none", "GEMMBLAS_ROUTE=gpu",
                                       "GEMMBLAS_TRACE=1", NULL};
    char path[] = "/tmp/gemmblas-trace-XXXXXX", trace[64];
    const char *const traced[] = {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_ROUTE=auto", trace,
                                  "OPENBLAS_NUM_THREADS=1", NULL};
    static const char *const looked[] = {"GEMMBLAS_DEVICE", "GEMMBLAS_ROUTE=auto",
                                         "OPENBLAS_NUM_THREADS=1", NULL};
    static const char *const fault[] = {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_ROUTE=gpu",
                                        "GEMMBLAS_TRACE=1", "GEMMBLAS_FAULT=launch@2",
                                        NULL};
    static const char *const faults[] = {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_ROUTE=gpu",
                                         "GEMMBLAS_TRACE=1", "GEMMBLAS_FAULT=launch@1+",
                                         NULL};
    static const char *const noisy[] = {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_ROUTE=auto",
                                        "GEMMBLAS_NOTHING_LIKE_IT=1", NULL};
    const char *first;
    struct child c;

    if (argc > 1)
        return scene(argv[1]);
    plan_lazy();
    close(mkstemp(path));

    snprintf(trace, sizeof trace, "GEMMBLAS_TRACE=%s", path);
    child_run(&c, "warm", traced, 60);
    ok(child_passed(&c),
       "the CPU serves while the device warms up, then the device does and stays");
    unlink(path);

    child_run(&c, "large", loud, 120);
    ok(child_passed(&c) && strncmp(c.err, "gemmblas: call", 14) == 0 &&
           strstr(c.err, " route=gpu why=ok ") && !strstr(c.err, "why=warming"),
       "a call that is worth it alone opens the device and waits");

    child_run(&c, "small", quiet, 60);
    ok(child_passed(&c), "small products are right");
    is_string("", c.err, "and silent");

    child_run(&c, "small", stats, 60);
    ok(child_passed(&c) && strstr(c.err, "dgemm      cpu   small              1000"),
       "statistics see each of them");

    child_run(&c, "fork", stats, 60);
    first = strstr(c.err, "statistics of process");
    ok(child_passed(&c) && first && !strstr(first + 1, "statistics of process"),
       "each call is told once, whoever forks");

    child_run(&c, "errno", looked, 60);
    ok(child_passed(&c), "errno is kept while a device is looked for");

    child_run(&c, "thrice", fault, 60);
    ok(child_passed(&c) && strstr(c.err, " why=ok ") && !strstr(c.err, "route=cpu") &&
           !strstr(c.err, "why=lost"),
       "a device that fails once is opened again and the call goes on there");
    child_run(&c, "thrice", faults, 60);
    ok(child_passed(&c) && strstr(c.err, "error: ") &&
           strstr(c.err, " route=gpu why=lost ") &&
           strstr(c.err, " route=cpu why=nodevice\n") && !strstr(c.err, " why=ok "),
       "one that keeps failing is left, said once, and the CPU finishes");

    child_run(&c, "cancel", noisy, 60);
    ok(child_passed(&c), "a call is no place to cancel a thread");
    child_run(&c, "pipe", noisy, 60);
    ok(child_passed(&c), "a warning that nobody reads harms nobody");
    snprintf(trace, sizeof trace, "GEMMBLAS_TRACE=%s", path);
    child_run(&c, "daemon", traced, 60);
    ok(child_passed(&c), "a trace never goes to a file of the program's");
    unlink(path);
    if (mkfifo(path, 0600) != 0)
        bail("mkfifo %s", path);
    child_run(&c, "small", traced, 20);
    ok(child_passed(&c) && strstr(c.err, "cannot open"), "nor waits for a reader");
    unlink(path);

    child_run(&c, "once", forced, 60);
    ok(child_passed(&c) && strstr(c.err, " route=gpu why=ok "), "one routine forced");
    child_run(&c, "once", other, 60);
    ok(child_passed(&c) && strstr(c.err, " route=cpu why=cpu\n"), "one routine kept");
    child_run(&c, "once", disabled, 60);
    ok(child_passed(&c) && strstr(c.err, " route=cpu why=disabled\n"), "one disabled");
    child_run(&c, "once", none, 60);
    ok(child_passed(&c) && strstr(c.err, " route=cpu why=nodevice\n"), "no device");
    return 0;
}
