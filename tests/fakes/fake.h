/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two driver libraries for tests share. Each is one source, built under the
 * name of the real library and loaded by the test before the back end looks for it:
 * device memory is host memory, work is done at once, and every call is noted as text.
 * A back end's arguments and order of calls are so tested where there is no device. */
#ifndef FAKE_H
#define FAKE_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Controls, found by dlsym. */

/* The calls since last asked, one to a line: "name argument argument". */
EXPORT const char *fake_calls(void);
/* The next call of `name` answers `error` and does nothing else. */
EXPORT void fake_fail(const char *name, int error);
/* A number that the driver would know: see the sources. */
EXPORT void fake_set(const char *what, long value);

static char fake_text[8192], fake_told[8192];
static char fake_failing[64];
static int fake_error;

const char *fake_calls(void)
{
    memcpy(fake_told, fake_text, sizeof fake_told);
    fake_text[0] = '\0';
    return fake_told;
}

void fake_fail(const char *name, int error)
{
    snprintf(fake_failing, sizeof fake_failing, "%s", name);
    fake_error = error;
}

/* Notes a call; the error that it shall answer, 0 for none. Like a driver, spoils
 * errno. */
__attribute__((format(printf, 2, 3))) static int fake_note(const char *name,
                                                           const char *format, ...)
{
    size_t len = strlen(fake_text);
    va_list args;

    len += (size_t)snprintf(fake_text + len, sizeof fake_text - len, "%s ", name);
    va_start(args, format);
    if (len < sizeof fake_text)
        len += (size_t)vsnprintf(fake_text + len, sizeof fake_text - len, format, args);
    va_end(args);
    if (len + 1 < sizeof fake_text)
        memcpy(fake_text + len, "\n", 2);
    errno = EPROTO;
    if (strcmp(fake_failing, name) != 0)
        return 0;
    fake_failing[0] = '\0';
    return fake_error;
}

/* Memory, device or pinned, by number in order of allocation. */
struct fake_memory {
    char *data;
    size_t bytes;
    bool host;
};
static struct fake_memory fake_memories[32];

static struct fake_memory *fake_find(const void *ptr)
{
    for (size_t i = 0; i < sizeof fake_memories / sizeof fake_memories[0]; i++) {
        struct fake_memory *m = &fake_memories[i];
        uintptr_t at = (uintptr_t)ptr - (uintptr_t)m->data;

        if (m->data && at < m->bytes)
            return m;
    }
    return NULL;
}

static void *fake_new(size_t bytes, bool host)
{
    for (size_t i = 0; i < sizeof fake_memories / sizeof fake_memories[0]; i++)
        if (!fake_memories[i].data) {
            fake_memories[i] = (struct fake_memory){
                .data = calloc(1, bytes), .bytes = bytes, .host = host};
            return fake_memories[i].data;
        }
    return NULL;
}

static bool fake_delete(void *ptr, bool host)
{
    struct fake_memory *m = fake_find(ptr);

    if (!m || m->data != ptr || m->host != host)
        return false;
    free(m->data);
    *m = (struct fake_memory){0};
    return true;
}

/* "d0+16", "h1", or "?" for memory of the program. One of four buffers in turn. */
static const char *fake_name(const void *ptr)
{
    static char names[4][32];
    static int turn;
    struct fake_memory *m = fake_find(ptr);
    char *name = names[turn++ & 3];
    size_t offset = m ? (size_t)((const char *)ptr - m->data) : 0;

    if (!m)
        return "?";
    snprintf(name, sizeof names[0], offset ? "%c%d+%zu" : "%c%d", m->host ? 'h' : 'd',
             (int)(m - fake_memories), offset);
    return name;
}

/* Handles are small numbers. */
static int fake_number(const void *handle)
{
    return (int)(intptr_t)handle;
}

/* Does the calling thread hold off the signals that a thread started now must not take?
 */
static const char *fake_mask(void)
{
    sigset_t mask;

    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    return sigismember(&mask, SIGINT) && sigismember(&mask, SIGALRM) &&
                   sigismember(&mask, SIGCHLD) && !sigismember(&mask, SIGSEGV)
               ? "held"
               : "open";
}

static void fake_copy(char *dst, size_t dst_pitch, const char *src, size_t src_pitch,
                      size_t width, size_t height)
{
    for (size_t i = 0; i < height; i++)
        memcpy(dst + i * dst_pitch, src + i * src_pitch, width);
}

#endif
