/* SPDX-License-Identifier: BSD-3-Clause */
/* Child processes with captured output and a time limit. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tap.h"

/* Limits are meant for an ordinary build; a sanitizer takes several times as long. */
#if defined(__SANITIZE_THREAD__)
enum { SLOWDOWN = 10 };
#elif defined(__SANITIZE_ADDRESS__)
enum { SLOWDOWN = 4 };
#else
enum { SLOWDOWN = 1 };
#endif

double child_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int exit_status(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int wait_until(int pid, double end)
{
    int status;

    for (;;) {
        pid_t got = waitpid(pid, &status, WNOHANG);

        if (got == pid)
            return exit_status(status);
        if (got < 0 && errno != EINTR)
            bail("waitpid: %s", strerror(errno));
        if (child_clock() > end)
            break;
        usleep(2000);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

int child_wait(int pid, double limit_seconds)
{
    return wait_until(pid, child_clock() + SLOWDOWN * limit_seconds);
}

static void change_environment(const char *const *changes)
{
    for (; changes && *changes; changes++) {
        const char *equals = strchr(*changes, '=');
        char name[64];

        if (!equals) {
            unsetenv(*changes);
            continue;
        }
        memcpy(name, *changes, (size_t)(equals - *changes));
        name[equals - *changes] = '\0';
        setenv(name, equals + 1, 1);
    }
}

/* Read what there is from fd into a string that stays terminated; false at its end. */
static bool drain(int fd, char *text, size_t len)
{
    size_t used = strlen(text);
    char spill[512];
    bool fits = used < len - 1;
    ssize_t n =
        read(fd, fits ? text + used : spill, fits ? len - 1 - used : sizeof spill);

    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    if (fits)
        text[used + (size_t)n] = '\0';
    return n > 0;
}

static void start(const char *mode, const char *const *changes, const int out[2],
                  const int err[2])
{
    static const char self[] = "/proc/self/exe";

    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    close(out[0]);
    close(out[1]);
    close(err[0]);
    close(err[1]);
    change_environment(changes);
    execl(self, self, mode, (char *)NULL);
    _exit(127);
}

void child_run(struct child *c, const char *mode, const char *const *changes,
               double limit_seconds)
{
    double begin = child_clock(), end = begin + SLOWDOWN * limit_seconds;
    int out[2], err[2];
    pid_t pid;

    *c = (struct child){.timed_out = false};
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
        bail("pipe: %s", strerror(errno));
    pid = fork();
    if (pid < 0)
        bail("fork: %s", strerror(errno));
    if (pid == 0)
        start(mode, changes, out, err);
    close(out[1]);
    close(err[1]);
    for (bool out_open = true, err_open = true; out_open || err_open;) {
        struct pollfd fds[2] = {{.fd = out_open ? out[0] : -1, .events = POLLIN},
                                {.fd = err_open ? err[0] : -1, .events = POLLIN}};
        double left = end - child_clock();

        if (left <= 0) {
            c->timed_out = true;
            kill(pid, SIGKILL);
            break;
        }
        if (poll(fds, 2, (int)(1000 * left) + 1) <= 0)
            continue;
        if (fds[0].revents)
            out_open = drain(out[0], c->out, sizeof c->out);
        if (fds[1].revents)
            err_open = drain(err[0], c->err, sizeof c->err);
    }
    close(out[0]);
    close(err[0]);
    c->status = wait_until(pid, c->timed_out ? child_clock() + 10 : end + 1);
    if (c->timed_out)
        c->status = -1;
    c->timed_out = c->status == -1;
    c->seconds = child_clock() - begin;
}

bool child_passed(const struct child *c)
{
    if (!c->timed_out && c->status == 0)
        return true;
    diag("%s %d after %.1f s", c->timed_out ? "timed out" : "status", c->status,
         c->seconds);
    if (*c->out)
        diag("stdout: %s", c->out);
    if (*c->err)
        diag("stderr: %s", c->err);
    return false;
}
