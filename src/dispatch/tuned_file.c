/* SPDX-License-Identifier: BSD-3-Clause */
/* Tuned rows as text, and whether to believe it. */
#include "tuned_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gemm_args.h"
#include "kernels.h"
#include "knobs.h"
#include "launch.h"
#include "log.h"
#include "plan.h"
#include "util.h"

enum {
    FORMAT = 1,
    LINE = 320,
    FILE_BYTES = GB_TUNED_ROWS * 256 + 1024,
    GROUP_M_MOST = 1024,
};

static const char *const scope_word[] = {
    [GB_TUNED_EXACT] = "exact", [GB_TUNED_CLASS] = "class"};
static const char *const ragged_word[] = {"-", "a", "b", "ab"};

/* ---- words ---------------------------------------------------------------------------- */

static const struct {
    const char *text;
    uint32_t hints;
} hint_words[] = {
    {"none,none", 0},
    {"none,keep", GB_G_KEEP_B},
    {"none,stream", GB_G_STREAM_B},
    {"keep,none", GB_G_KEEP_A},
    {"keep,keep", GB_G_KEEP_A | GB_G_KEEP_B},
    {"keep,stream", GB_G_KEEP_A | GB_G_STREAM_B},
    {"stream,none", GB_G_STREAM_A},
    {"stream,keep", GB_G_STREAM_A | GB_G_KEEP_B},
    {"stream,stream", GB_G_STREAM_A | GB_G_STREAM_B},
};

const char *gb_tuned_hints_text(uint32_t hints)
{
    for (size_t i = 0; i < GB_COUNT(hint_words); i++)
        if (hint_words[i].hints == hints)
            return hint_words[i].text;
    return "?";
}

bool gb_tuned_hints_parse(const char *text, uint32_t *hints)
{
    for (size_t i = 0; i < GB_COUNT(hint_words); i++)
        if (strcmp(hint_words[i].text, text) == 0) {
            *hints = hint_words[i].hints;
            return true;
        }
    return false;
}

static bool parse_word(const char *text, const char *const *words, size_t n,
                       unsigned *out)
{
    for (unsigned i = 0; i < n; i++)
        if (strcmp(words[i], text) == 0) {
            *out = i;
            return true;
        }
    return false;
}

static bool parse_type(const char *text, enum gb_type *type)
{
    for (int t = 0; t < GB_TYPES; t++)
        if (strcmp(gb_type_name((enum gb_type)t), text) == 0) {
            *type = (enum gb_type)t;
            return true;
        }
    return false;
}

static bool parse_trans(const char *text, enum gb_trans *trans)
{
    *trans = strcmp(text, "T") == 0 ? GB_T : GB_N;
    return strcmp(text, gb_trans_name(*trans)) == 0;
}

/* ---- one row -------------------------------------------------------------------------- */

static int print_row(char *line, size_t size, const struct gb_tuned_row *r)
{
    const struct gb_tuned_key *key = &r->key;

    return snprintf(line, size,
                    "row %s %s %s %s %s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
                    " ragged %s kernel %s splits %d group %d hints %s ns %" PRId64
                    " model %" PRId64 "\n",
                    gb_type_name(key->type), gb_type_name(key->type_c),
                    gb_trans_name(key->transa), gb_trans_name(key->transb),
                    scope_word[key->scope], key->m, key->n, key->k, key->batch,
                    ragged_word[key->ragged], r->kernel, r->splits, r->group_m,
                    gb_tuned_hints_text(r->hints), r->ns, r->model_ns);
}

/* A line that reads as a row, and that a row is written as, is one. */
static bool parse_row(const char *line, size_t len, struct gb_tuned_row *r)
{
    char text[LINE], again[LINE], type[8], type_c[8], transa[4], transb[4], scope[8],
        ragged[4], name[64], hints[16];
    struct gb_tuned_key *key = &r->key;
    const struct gb_kernel *k;
    unsigned word;

    *r = (struct gb_tuned_row){0};
    if (len >= sizeof text)
        return false;
    memcpy(text, line, len);
    text[len] = '\0';
    if (sscanf(text,
               "row %7s %7s %3s %3s %7s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64
               " ragged %3s kernel %63s splits %d group %d hints %15s ns %" SCNd64
               " model %" SCNd64,
               type, type_c, transa, transb, scope, &key->m, &key->n, &key->k,
               &key->batch, ragged, name, &r->splits, &r->group_m, hints, &r->ns,
               &r->model_ns) != 16)
        return false;
    if (!parse_type(type, &key->type) || !parse_type(type_c, &key->type_c) ||
        !parse_trans(transa, &key->transa) || !parse_trans(transb, &key->transb) ||
        !gb_tuned_hints_parse(hints, &r->hints) ||
        !parse_word(ragged, ragged_word, GB_COUNT(ragged_word), &key->ragged) ||
        !parse_word(scope, scope_word, GB_COUNT(scope_word), &word))
        return false;
    key->scope = (enum gb_tuned_scope)word;
    k = gb_kernel_find(name);
    if (!k || k->type != key->type || k->type_c != key->type_c || r->splits < 0 ||
        r->splits > GB_PLAN_SPLITS || r->group_m < 1 || r->group_m > GROUP_M_MOST)
        return false;
    r->kernel = k->name;
    return print_row(again, sizeof again, r) == (int)len + 1 &&
           memcmp(again, text, len) == 0;
}

/* ---- the whole ------------------------------------------------------------------------ */

/* Of what a row stands for: with other tiles under a name its time is no longer known. */
static uint64_t kernels_hash(void)
{
    uint64_t h = GB_HASH_START;

    for (int i = 0; i < gb_kernel_count; i++) {
        const struct gb_kernel *k = &gb_kernels[i];
        const uint32_t numbers[] = {k->type,     k->type_c, k->type_acc, k->arch_min,
                                    k->arch_max, k->tile_m, k->tile_n,   k->tile_k,
                                    k->stages,   k->align,  k->threads,  k->smem,
                                    k->flags};

        h = gb_hash(h, k->name, strlen(k->name) + 1);
        for (size_t j = 0; j < GB_COUNT(numbers); j++)
            h = gb_hash_number(h, numbers[j]);
    }
    return h;
}

/* CUDA counts 13000, HIP 60300000. */
static int driver_major(const struct gb_device_info *info)
{
    return info->driver / (info->vendor == GB_AMD ? 10000000 : 1000);
}

static int print_signature(char *line, size_t size, const struct gb_device_info *info)
{
    return snprintf(line, size,
                    "gemmblas-tuned %d kernels %016" PRIx64
                    " arch %s multiprocessors %d driver %d device %s\n",
                    FORMAT, kernels_hash(), info->arch_name, info->multiprocessors,
                    driver_major(info), info->name);
}

static int print_end(char *line, size_t size, const char *text, size_t len)
{
    return snprintf(line, size, "end %016" PRIx64 "\n",
                    gb_hash(GB_HASH_START, text, len));
}

char *gb_tuned_format(const struct gb_device_info *info,
                      const struct gb_tuned_row *rows, size_t n)
{
    size_t size = (n + 2) * LINE, used;
    char *text = calloc(1, size);

    if (!text)
        return NULL;
    used = (size_t)print_signature(text, size, info);
    for (size_t i = 0; i < n; i++)
        used += (size_t)print_row(text + used, size - used, &rows[i]);
    print_end(text + used, size - used, text, used);
    return text;
}

const char *gb_tuned_trust_text(enum gb_tuned_trust trust)
{
    static const char *const text[] = {
        [GB_TUNED_GOOD] = "good",
        [GB_TUNED_ABSENT] = "there is no such file",
        [GB_TUNED_UNSAFE] = "it is not owned by you or root, or others may write to it",
        [GB_TUNED_DAMAGED] = "it is damaged",
        [GB_TUNED_STRANGE] =
            "it was measured for other kernels, another device or another driver",
        [GB_TUNED_NO_MEMORY] = "out of memory",
    };

    return text[trust];
}

/* The rows between the first line and the last. */
static enum gb_tuned_trust parse_rows(const char *from, const char *end,
                                      struct gb_tuned_row *rows, size_t *n)
{
    *n = 0;
    while (from < end) {
        const char *stop = memchr(from, '\n', (size_t)(end - from));

        if (!stop || *n == GB_TUNED_ROWS ||
            !parse_row(from, (size_t)(stop - from), &rows[*n]) ||
            (*n > 0 && gb_tuned_compare(&rows[*n - 1].key, &rows[*n].key) >= 0))
            return GB_TUNED_DAMAGED;
        ++*n;
        from = stop + 1;
    }
    return GB_TUNED_GOOD;
}

enum gb_tuned_trust gb_tuned_parse(const struct gb_device_info *info, const char *text,
                                   struct gb_tuned_row **rows, size_t *n)
{
    char line[LINE];
    size_t len = strlen(text), lines = 0;
    const char *first = strchr(text, '\n'), *last = text + len;
    enum gb_tuned_trust trust;
    struct gb_tuned_row *r;

    if (!first || last[-1] != '\n')
        return GB_TUNED_DAMAGED;
    do
        last--;
    while (last > text && last[-1] != '\n');
    if (last <= first)
        return GB_TUNED_DAMAGED;
    print_end(line, sizeof line, text, (size_t)(last - text));
    if (strcmp(line, last) != 0)
        return GB_TUNED_DAMAGED;
    print_signature(line, sizeof line, info);
    if (strncmp(line, text, strlen(line)) != 0)
        return GB_TUNED_STRANGE;
    for (const char *at = first + 1; at < last; at++)
        lines += *at == '\n';
    r = calloc(lines + 1, sizeof *r);
    if (!r)
        return GB_TUNED_NO_MEMORY;
    trust =
        lines <= GB_TUNED_ROWS ? parse_rows(first + 1, last, r, n) : GB_TUNED_DAMAGED;
    if (trust == GB_TUNED_GOOD)
        *rows = r;
    else
        free(r);
    return trust;
}

static enum gb_tuned_trust read_text(int fd, char **text)
{
    struct stat st;
    ssize_t got = 1;
    size_t used = 0;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_BYTES)
        return GB_TUNED_DAMAGED;
    if ((st.st_uid != 0 && st.st_uid != geteuid()) ||
        (st.st_mode & (S_IWGRP | S_IWOTH)))
        return GB_TUNED_UNSAFE;
    *text = calloc(1, (size_t)st.st_size + 1);
    if (!*text)
        return GB_TUNED_NO_MEMORY;
    while (used < (size_t)st.st_size && got > 0) {
        got = read(fd, *text + used, (size_t)st.st_size - used);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            used += (size_t)got;
    }
    (*text)[used] = '\0';
    return GB_TUNED_GOOD;
}

enum gb_tuned_trust gb_tuned_read(const struct gb_device_info *info, const char *path,
                                  struct gb_tuned_row **rows, size_t *n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    enum gb_tuned_trust trust;
    char *text = NULL;

    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? GB_TUNED_ABSENT : GB_TUNED_UNSAFE;
    trust = read_text(fd, &text);
    close(fd);
    if (trust == GB_TUNED_GOOD)
        trust = gb_tuned_parse(info, text, rows, n);
    free(text);
    return trust;
}

/* ---- this machine's ------------------------------------------------------------------- */

/* "NVIDIA H200" as a part of a file's name. */
static void file_word(char *out, size_t size, const char *name)
{
    size_t used = 0;

    for (; *name && used + 1 < size; name++) {
        if (isalnum((unsigned char)*name))
            out[used++] = (char)tolower((unsigned char)*name);
        else if (used > 0 && out[used - 1] != '-')
            out[used++] = '-';
    }
    out[used] = '\0';
}

bool gb_tuned_path(const struct gb_device_info *info, char *path, size_t size)
{
    const char *knob = gb_knobs()->tuned;
    const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    const char *below = "";
    char word[sizeof info->name];
    int len;

    if (strcmp(knob, "off") == 0)
        return false;
    if (strcmp(knob, "auto") != 0)
        return snprintf(path, size, "%s", knob) < (int)size;
    if (!cache || *cache != '/') { /* the specification has relative ones ignored */
        cache = home;
        below = "/.cache";
    }
    if (!cache || *cache != '/')
        return false;
    file_word(word, sizeof word, info->name);
    len = snprintf(path, size, "%s%s/gemmblas/tuned-%s.txt", cache, below, word);
    return len < (int)size;
}

void gb_tuned_load(const struct gb_device_info *info)
{
    static struct gb_tuned_table table;
    static atomic_flag done = ATOMIC_FLAG_INIT;
    bool named = strcmp(gb_knobs()->tuned, "auto") != 0;
    struct gb_tuned_row *rows = NULL;
    enum gb_tuned_trust trust;
    char path[512];
    size_t n = 0;

    if (atomic_flag_test_and_set(&done) || !gb_tuned_path(info, path, sizeof path))
        return;
    if (getauxval(AT_SECURE)) {
        gb_info("tuned rows are not read in a process with raised privileges");
        return;
    }
    trust = gb_tuned_read(info, path, &rows, &n);
    if (trust == GB_TUNED_GOOD) {
        table = (struct gb_tuned_table){info->vendor, info->arch, info->multiprocessors,
                                        rows, n};
        gb_tuned_use(&table);
        gb_info("%zu tuned rows from %s", n, path);
        return;
    }
    /* A file that an upgrade has outdated is nobody's mistake, one that was asked for by name
     * is, and so is a damaged one. */
    if (named || trust == GB_TUNED_UNSAFE || trust == GB_TUNED_DAMAGED)
        gb_warn("no tuned rows from %s: %s; `gemmblas tune` writes it anew", path,
                gb_tuned_trust_text(trust));
    else if (trust != GB_TUNED_ABSENT)
        gb_info("no tuned rows from %s: %s; `gemmblas tune` writes it anew", path,
                gb_tuned_trust_text(trust));
}
