/* SPDX-License-Identifier: BSD-3-Clause */
/* The device that ours uses, and what ours did there. Our library's own trace tells which
 * kernel ran, or that the call stayed on the CPU: a row must not call that a device's time.
 * It costs ours the writing of a line per call. */
#include "shared.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "knobs.h"

bool bench_first_device(const struct bench_options *o, struct gb_device_ref *ref)
{
    return gb_device_list(o->device ? o->device : gb_knobs()->device, ref, 1) == 1;
}

const char *bench_row_name(const struct gb_device *dev)
{
    return dev->info.vendor == GB_EMU ? "emu" : dev->info.name;
}

bool bench_device_name(const struct bench_options *o, char *name, size_t size,
                       int *driver)
{
    struct gb_device_ref ref;
    struct gb_device *dev;

    if (!bench_first_device(o, &ref) || ref.ops->open(ref.ordinal, &dev) != GB_SUCCESS)
        return false;
    snprintf(name, size, "%s", bench_row_name(dev));
    *driver = dev->info.driver;
    ref.ops->close(dev);
    return true;
}

void bench_trace_open(struct bench_trace *t)
{
    snprintf(t->path, sizeof(t->path), "/tmp/gemmblas-bench.XXXXXX");
    t->fd = getenv("GEMMBLAS_TRACE") ? -1 : mkstemp(t->path);
}

void bench_trace_unlink(const struct bench_trace *t)
{
    if (t->fd >= 0)
        unlink(t->path);
}

void bench_trace_clear(const struct bench_trace *t)
{
    if (t->fd >= 0 && ftruncate(t->fd, 0) != 0)
        bench_die("%s: cannot be emptied; free some space in /tmp", t->path);
}

/* The word after `key` in a trace line. */
static void word_after(const char *line, const char *key, char *out, size_t size)
{
    const char *at = strstr(line, key);

    *out = '\0';
    if (at)
        snprintf(out, size, "%.*s", (int)strcspn(at + strlen(key), " \n"),
                 at + strlen(key));
}

void bench_trace_read(const struct bench_trace *t, struct bench_ran *ran)
{
    char line[1024];
    char word[32];
    ssize_t n = t->fd >= 0 ? pread(t->fd, line, sizeof(line) - 1, 0) : 0;

    line[n > 0 ? n : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    *ran = (struct bench_ran){.kernel = "-"};
    if (strstr(line, " kernel="))
        word_after(line, " kernel=", ran->kernel, sizeof(ran->kernel));
    word_after(line, " splits=", word, sizeof(word));
    ran->splits = atoi(word);
    word_after(line, " route=", word, sizeof(word));
    if (strcmp(word, "cpu") == 0) {
        word_after(line, " why=", word, sizeof(word));
        snprintf(ran->remark, sizeof(ran->remark), "on the CPU: %s", word);
    }
}
