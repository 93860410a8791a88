/* SPDX-License-Identifier: BSD-3-Clause */
/* One line, one write: lines of several threads and processes do not mix. */
#include "log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum gb_log_level gb_log_level = GB_LOG_WARN;

void gb_log_emit(int fd, const char *text, unsigned long len)
{
    sigset_t pipe_signal, mask, pending;
    int saved = errno, cancel;
    bool was_pending;

    /* A reader that is gone must not end a program that never wrote to it, nor may writing be
     * a place to cancel a thread. */
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &mask);
    sigpending(&pending);
    was_pending = sigismember(&pending, SIGPIPE) == 1;
    while (len > 0) {
        ssize_t done = write(fd, text, len);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0 && errno == EPIPE && !was_pending)
            sigtimedwait(&pipe_signal, NULL, &(struct timespec){0});
        if (done <= 0)
            break; /* nowhere to complain to */
        text += done;
        len -= (unsigned long)done;
    }
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    pthread_setcancelstate(cancel, NULL);
    errno = saved;
}

void gb_log_write(enum gb_log_level level, const char *format, ...)
{
    static const char *const word[] = {[GB_LOG_NONE] = "",
                                       [GB_LOG_ERROR] = "error",
                                       [GB_LOG_WARN] = "warning",
                                       [GB_LOG_INFO] = "info",
                                       [GB_LOG_DEBUG] = "debug"};
    char line[512];
    int saved = errno;
    int head = snprintf(line, sizeof line, "gemmblas: %s: ", word[level]);
    va_list args;
    int body;

    va_start(args, format);
    body = vsnprintf(line + head, sizeof line - (size_t)head - 1, format, args);
    va_end(args);
    if (body < 0)
        body = 0;
    head += body;
    if (head > (int)sizeof line - 2)
        head = (int)sizeof line - 2; /* cut, but keep the newline */
    line[head++] = '\n';
    errno = saved;
    gb_log_emit(STDERR_FILENO, line, (unsigned long)head);
}
