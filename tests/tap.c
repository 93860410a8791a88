/* SPDX-License-Identifier: BSD-3-Clause */
/* TAP writer. Every line is one write(2), so that forked children and threads never
 * repeat or tear one, and nothing waits in a buffer when a test crashes. */
#include "tap.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool planned;
static unsigned long count, failed;
static pid_t owner; /* the process whose tests these are */

static void emit(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, text, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            _exit(EXIT_FAILURE);
        text += n;
        len -= (size_t)n;
    }
}

/* prefix, then the message with its line ends made harmless, then a line end. */
static void emit_line(const char *prefix, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static void emit_line(const char *prefix, const char *format, va_list args)
{
    char line[1024];
    size_t used = (size_t)snprintf(line, sizeof line, "%s", prefix);
    int n = vsnprintf(line + used, sizeof line - used - 1, format, args);

    if (n > 0)
        used += (size_t)n;
    if (used > sizeof line - 2)
        used = sizeof line - 2;
    for (size_t i = 0; i < used; i++)
        if (line[i] == '\n')
            line[i] = ' ';
    line[used++] = '\n';
    emit(line, used);
}

static void emit_format(const char *prefix, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void emit_format(const char *prefix, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    emit_line(prefix, format, args);
    va_end(args);
}

/* The verdict. plan_lazy() comes first in a test, so its exit handler runs after all others
 * that the test registers. */
static void finish(void)
{
    if (getpid() != owner)
        return;
    emit_format("", "1..%lu", count);
    if (count == 0) {
        emit_format("# ", "no test has run");
        failed++;
    }
    if (failed > 0) {
        emit_format("# ", "%lu of %lu failed", failed, count);
        fflush(NULL);
        _exit(EXIT_FAILURE);
    }
}

void plan_lazy(void)
{
    if (planned)
        bail("a second plan");
    planned = true;
    owner = getpid();
    atexit(finish);
}

static void check_owner(void)
{
    if (getpid() != owner) { /* 0 without a plan */
        emit_format("# ", "a test reported without a plan, or from a forked child");
        _exit(EXIT_FAILURE);
    }
}

static int report(bool passed, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static int report(bool passed, const char *format, va_list args)
{
    char prefix[48];

    check_owner();
    pthread_mutex_lock(&lock);
    count++;
    failed += !passed;
    snprintf(prefix, sizeof prefix, "%s %lu - ", passed ? "ok" : "not ok", count);
    emit_line(prefix, format, args);
    pthread_mutex_unlock(&lock);
    return passed;
}

int ok(int cond, const char *format, ...)
{
    va_list args;
    int passed;

    va_start(args, format);
    passed = report(cond != 0, format, args);
    va_end(args);
    return passed;
}

int is_int(long long wanted, long long seen, const char *format, ...)
{
    va_list args;
    int passed;

    va_start(args, format);
    passed = report(wanted == seen, format, args);
    va_end(args);
    if (!passed)
        diag("wanted %lld, seen %lld", wanted, seen);
    return passed;
}

int is_string(const char *wanted, const char *seen, const char *format, ...)
{
    bool same = wanted && seen ? strcmp(wanted, seen) == 0 : wanted == seen;
    va_list args;
    int passed;

    va_start(args, format);
    passed = report(same, format, args);
    va_end(args);
    if (!passed)
        diag("wanted \"%s\", seen \"%s\"", wanted ? wanted : "(null)",
             seen ? seen : "(null)");
    return passed;
}

static void skip_one(const char *format, va_list args)
    __attribute__((format(printf, 1, 0)));

static void skip_one(const char *format, va_list args)
{
    char prefix[48];

    check_owner();
    pthread_mutex_lock(&lock);
    count++;
    snprintf(prefix, sizeof prefix, "ok %lu # SKIP ", count);
    emit_line(prefix, format, args);
    pthread_mutex_unlock(&lock);
}

void skip(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    skip_one(format, args);
    va_end(args);
}

void skip_block(unsigned long n, const char *format, ...)
{
    for (unsigned long i = 0; i < n; i++) {
        va_list args;

        va_start(args, format);
        skip_one(format, args);
        va_end(args);
    }
}

void skip_all(const char *format, ...)
{
    va_list args;

    if (planned)
        bail("skip_all after a plan");
    va_start(args, format);
    emit_line("1..0 # SKIP ", format, args);
    va_end(args);
    exit(EXIT_SUCCESS);
}

void diag(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    emit_line("# ", format, args);
    va_end(args);
}

void bail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    emit_line("Bail out! ", format, args);
    va_end(args);
    fflush(NULL);
    _exit(255);
}
