/* SPDX-License-Identifier: BSD-3-Clause */
/* One line, one write: lines of several threads and processes do not mix. */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum gb_log_level gb_log_level = GB_LOG_WARN;

void gb_log_emit(int fd, const char *text, unsigned long len)
{
    int saved = errno;

    while (len > 0) {
        ssize_t done = write(fd, text, len);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            break; /* nowhere to complain to */
        text += done;
        len -= (unsigned long)done;
    }
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
