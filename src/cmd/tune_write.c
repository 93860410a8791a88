/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing tuned rows: a file that appears whole or not at all, and tables to ship. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"
#include "gemm_args.h"
#include "tune.h"
#include "util.h"

/* Every directory above the file, for its owner alone. */
static bool make_above(const char *path)
{
    char dir[512];

    if (snprintf(dir, sizeof dir, "%s", path) >= (int)sizeof dir)
        return false;
    for (char *at = strchr(dir + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (mkdir(dir, 0700) != 0 && errno != EEXIST)
            return false;
        *at = '/';
    }
    return true;
}

static bool write_whole(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, text, len);

        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0) {
            text += n;
            len -= (size_t)n;
        }
    }
    return true;
}

int tune_write(const char *path, const char *text)
{
    char beside[544];
    bool written;
    int fd;

    snprintf(beside, sizeof beside, "%s.XXXXXX", path);
    fd = make_above(path) ? mkostemp(beside, O_CLOEXEC) : -1; /* mode 0600 */
    if (fd < 0)
        return cmd_refuse("%s: %s; name another file with --output", path,
                          strerror(errno));
    written = write_whole(fd, text, strlen(text)) && fsync(fd) == 0;
    written = close(fd) == 0 && written;
    if (written && rename(beside, path) == 0)
        return CMD_OK;
    cmd_refuse("%s: %s; nothing was written", path, strerror(errno));
    unlink(beside);
    return CMD_USAGE;
}

static void upper(char *out, size_t size, const char *name)
{
    size_t i = 0;

    for (; name[i] && i + 1 < size; i++)
        out[i] = (char)toupper((unsigned char)name[i]);
    out[i] = '\0';
}

/* The flags of hints as a table spells them. */
static void hint_flags(char *out, size_t size, uint32_t hints)
{
    static const struct {
        uint32_t flag;
        const char *name;
    } flags[] = {{GB_G_KEEP_A, "GB_G_KEEP_A"},
                 {GB_G_STREAM_A, "GB_G_STREAM_A"},
                 {GB_G_KEEP_B, "GB_G_KEEP_B"},
                 {GB_G_STREAM_B, "GB_G_STREAM_B"}};
    size_t used = 0;

    snprintf(out, size, "0");
    for (size_t i = 0; i < GB_COUNT(flags); i++)
        if (hints & flags[i].flag)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? " | " : "",
                                     flags[i].name);
}

char *tune_def(const struct gb_device_info *info, const struct gb_tuned_row *rows,
               size_t n)
{
    enum { LINE = 256 };
    size_t size = (n + 4) * LINE, used;
    char *text = malloc(size);

    if (!text)
        return NULL;
    used = (size_t)snprintf(
        text, size,
        "/* SPDX-License-Identifier: BSD-3-Clause */\n"
        "/* Shipped tuned rows for %s with %d multiprocessors: TUNED(type, type of C, "
        "transa,\n"
        " * transb, scope, m, n, k, batch, ragged, kernel, splits, group_m, hints), "
        "the "
        "fields of\n"
        " * struct gb_tuned_row. Written by `gemmblas tune --output` on an %s; what "
        "has no "
        "row was\n"
        " * not measured, or nothing was over 2 %% quicker than the model's choice. "
        "*/\n"
        "/* clang-format off */\n",
        info->arch_name, info->multiprocessors, info->name);
    for (size_t i = 0; i < n; i++) {
        const struct gb_tuned_row *r = &rows[i];
        char type[8], type_c[8], flags[64];

        upper(type, sizeof type, gb_type_name(r->key.type));
        upper(type_c, sizeof type_c, gb_type_name(r->key.type_c));
        hint_flags(flags, sizeof flags, r->hints);
        used += (size_t)snprintf(
            text + used, size - used,
            "TUNED(%s, %s, %s, %s, %s, %lld, %lld, %lld, %lld, %u, %s, %d, %d, %s)\n",
            type, type_c, gb_trans_name(r->key.transa), gb_trans_name(r->key.transb),
            r->key.scope == GB_TUNED_EXACT ? "EXACT" : "CLASS", (long long)r->key.m,
            (long long)r->key.n, (long long)r->key.k, (long long)r->key.batch,
            r->key.ragged, r->kernel, r->splits, r->group_m, flags);
    }
    snprintf(text + used, size - used, "/* clang-format on */\n");
    return text;
}
