/* SPDX-License-Identifier: BSD-3-Clause */
/* Which shapes to tune: a table, a shapes file, or what a program has called. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "plan.h"
#include "tune.h"
#include "util.h"

static int add(struct tune_shapes *s, const struct gb_problem *p, bool of_class)
{
    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        struct tune_shape *more = realloc(s->of, room * sizeof *more);

        if (!more)
            return cmd_refuse("out of memory; tune fewer shapes");
        s->of = more;
        s->room = room;
    }
    s->of[s->n++] = (struct tune_shape){.p = *p, .of_class = of_class};
    return CMD_OK;
}

static int64_t rows_a(const struct gb_problem *p)
{
    return gb_transposed(p->transa) ? p->k : p->m;
}

static int64_t rows_b(const struct gb_problem *p)
{
    return gb_transposed(p->transb) ? p->n : p->k;
}

int tune_add_call(struct tune_shapes *s, const struct gb_problem *call, bool of_class)
{
    struct gb_problem p = *call;

    if (p.m < 1 || p.n < 1 || p.k < 1)
        return cmd_refuse(
            "%lld x %lld x %lld is nothing to multiply; give sizes from 1",
            (long long)p.m, (long long)p.n, (long long)p.k);
    p.lda = gb_plan_ld(rows_a(&p), p.type);
    p.ldb = gb_plan_ld(rows_b(&p), p.type);
    p.ldc = gb_plan_ld(p.m, p.type_c);
    return add(s, &p, of_class);
}

/* ---- the default ---------------------------------------------------------------------- */

static const struct {
    int64_t m, n, k;
} sizes[] = {
    /* squares; few rows or columns, as of models that serve few users; short and long k */
    {4096, 4096, 4096}, {2048, 2048, 2048}, {1024, 1024, 1024}, {8192, 8192, 8192},
    {512, 512, 512},    {64, 4096, 4096},   {4096, 64, 4096},   {4096, 16, 4096},
    {4096, 4096, 64},   {128, 128, 16384},  {256, 256, 256},    {8192, 1024, 1024},
};

/* Half types in the layouts of programs; the others have few kernels, and slower ones. */
static const struct {
    const char *routine;
    enum gb_trans transa, transb;
    int64_t most; /* of a side */
} layouts[] = {
    {"hgemm", GB_N, GB_N, 16384},  {"bgemm", GB_N, GB_N, 16384},
    {"bgemm", GB_T, GB_N, 16384},  {"hgemm", GB_T, GB_N, 16384},
    {"bgemm", GB_N, GB_T, 16384},  {"hgemm", GB_N, GB_T, 16384},
    {"sbgemm", GB_N, GB_N, 16384}, {"shgemm", GB_N, GB_N, 16384},
    {"sbgemm", GB_T, GB_N, 16384}, {"shgemm", GB_T, GB_N, 16384},
    {"sgemm", GB_N, GB_N, 4096},   {"dgemm", GB_N, GB_N, 4096},
    {"cgemm", GB_N, GB_N, 2048},   {"zgemm", GB_N, GB_N, 2048},
};

int tune_add_default(struct tune_shapes *s)
{
    int status = CMD_OK;

    for (size_t i = 0; i < GB_COUNT(sizes); i++)
        for (size_t j = 0; j < GB_COUNT(layouts) && status == CMD_OK; j++) {
            const struct gb_routine *r = cmd_routine(layouts[j].routine);
            const struct gb_problem p = {.op = GB_GEMM,
                                         .type = r->type,
                                         .type_c = r->type_c,
                                         .transa = layouts[j].transa,
                                         .transb = layouts[j].transb,
                                         .m = sizes[i].m,
                                         .n = sizes[i].n,
                                         .k = sizes[i].k};

            if (gb_max(gb_max(p.m, p.n), p.k) <= layouts[j].most)
                status = tune_add_call(s, &p, true);
        }
    return status;
}

/* ---- a shapes file -------------------------------------------------------------------- */

enum { FIELDS = 13 };

static enum gb_type type_of(const char *text, size_t len)
{
    int t = 0;

    while (t < GB_TYPES && (strlen(gb_type_name((enum gb_type)t)) != len ||
                            strncmp(gb_type_name((enum gb_type)t), text, len) != 0))
        t++;
    return (enum gb_type)t;
}

/* "0" is tight, "+1" tight plus one, "4097" itself. */
static bool leading(const char *text, int64_t rows, int64_t *out)
{
    if (!cmd_size(text + (*text == '+'), out))
        return false;
    if (*text == '+')
        *out += rows;
    else if (*out == 0)
        *out = rows;
    return *out >= rows;
}

/* What is wrong with a line, NULL when nothing is. */
static const char *parse_line(char *line, struct gb_problem *p)
{
    char *field[FIELDS], *save = NULL;
    int n = 0;

    for (char *word = strtok_r(line, "\t \r\n", &save); word;
         word = strtok_r(NULL, "\t \r\n", &save)) {
        if (n == FIELDS)
            return "more than 13 fields";
        field[n++] = word;
    }
    if (n != FIELDS)
        return "not 13 fields: routine type typec transa transb m n k lda ldb ldc "
               "batch "
               "beta";
    *p = (struct gb_problem){.op = GB_GEMM,
                             .type = type_of(field[1], strlen(field[1])),
                             .type_c = type_of(field[2], strlen(field[2]))};
    if (strcmp(field[0], "gemm") != 0)
        return "the only routine is gemm";
    if (p->type == GB_TYPES || p->type_c == GB_TYPES)
        return "types are f16, bf16, f32, f64, c32 and c64";
    if (!cmd_trans(field[3], &p->transa) || !cmd_trans(field[4], &p->transb))
        return "transposes are N, T, C and R";
    if (!cmd_size(field[5], &p->m) || !cmd_size(field[6], &p->n) ||
        !cmd_size(field[7], &p->k) || !cmd_size(field[11], &p->batch) || p->m < 1 ||
        p->n < 1 || p->k < 1 || p->batch < 1 || p->batch > INT32_MAX)
        return "m, n, k and the batch are whole numbers from 1";
    if (!leading(field[8], rows_a(p), &p->lda) ||
        !leading(field[9], rows_b(p), &p->ldb) || !leading(field[10], p->m, &p->ldc))
        return "lda, ldb, ldc are 0 (tight), +1 (one more) or at least the rows";
    return NULL;
}

int tune_add_tsv(struct tune_shapes *s, const char *path)
{
    FILE *f = fopen(path, "re");
    int status = CMD_OK, number = 0;
    size_t before = s->n;
    char line[512];

    if (!f)
        return cmd_refuse("%s: %s; name a file of shapes, 13 fields a line", path,
                          strerror(errno));
    while (status == CMD_OK && fgets(line, sizeof line, f)) {
        const char *wrong;
        struct gb_problem p;

        number++;
        if (*line == '#' || *line == '\n' || strncmp(line, "routine\t", 8) == 0)
            continue;
        wrong = parse_line(line, &p);
        status = wrong ? cmd_refuse("%s line %d: %s", path, number, wrong)
                       : add(s, &p, false);
    }
    fclose(f);
    if (status == CMD_OK && s->n == before)
        status = cmd_refuse("%s has no shapes; give 13 fields a line", path);
    return status;
}

/* ---- statistics of a program ---------------------------------------------------------- */

enum { DEPTH = 16 };

/* A cursor in a text of JSON; strings are taken as they stand, escapes and all. */
static void skip_space(const char **at)
{
    while (isspace((unsigned char)**at))
        ++*at;
}

static bool take(const char **at, char c)
{
    skip_space(at);
    if (**at != c)
        return false;
    ++*at;
    return true;
}

static bool take_string(const char **at, char *out, size_t size)
{
    size_t used = 0;

    if (!take(at, '"'))
        return false;
    for (; **at && **at != '"'; ++*at) {
        if (**at == '\\' && (*at)[1])
            ++*at;
        if (used + 1 < size)
            out[used++] = **at;
    }
    out[used] = '\0';
    return take(at, '"');
}

/* A string, or a number or word as text. */
static bool take_scalar(const char **at, char *out, size_t size)
{
    size_t len;

    skip_space(at);
    if (**at == '"')
        return take_string(at, out, size);
    len = strcspn(*at, ",]} \t\r\n");
    snprintf(out, size, "%.*s", (int)len, *at);
    *at += len;
    return len > 0;
}

static bool skip_value(const char **at, int depth)
{
    char word[64];
    bool object;

    skip_space(at);
    if (**at != '{' && **at != '[')
        return take_scalar(at, word, sizeof word);
    object = **at == '{';
    ++*at;
    if (depth == DEPTH)
        return false;
    if (take(at, object ? '}' : ']'))
        return true;
    do
        if ((object && (!take_string(at, word, sizeof word) || !take(at, ':'))) ||
            !skip_value(at, depth + 1))
            return false;
    while (take(at, ','));
    return take(at, object ? '}' : ']');
}

struct called {
    struct gb_problem p;
    int64_t gpu, ns;
};

/* One object of "shapes"; false when it is none. */
static bool take_shape(const char **at, struct called *c)
{
    char name[64], value[64], *end;
    const struct gb_routine *r = NULL;
    bool right = true;

    *c = (struct called){.p = {.op = GB_GEMM}};
    if (!take(at, '{'))
        return false;
    do {
        if (!take_string(at, name, sizeof name) || !take(at, ':') ||
            !take_scalar(at, value, sizeof value))
            return false;
        if (strcmp(name, "routine") == 0)
            r = cmd_routine(value);
        else if (strcmp(name, "transa") == 0)
            right = right && cmd_trans(value, &c->p.transa);
        else if (strcmp(name, "transb") == 0)
            right = right && cmd_trans(value, &c->p.transb);
        else if (strcmp(name, "m") == 0)
            right = right && cmd_size(value, &c->p.m);
        else if (strcmp(name, "n") == 0)
            right = right && cmd_size(value, &c->p.n);
        else if (strcmp(name, "k") == 0)
            right = right && cmd_size(value, &c->p.k);
        else if (strcmp(name, "gpu") == 0)
            c->gpu = strtoll(value, &end, 10);
        else if (strcmp(name, "ns") == 0)
            c->ns = strtoll(value, &end, 10);
    } while (take(at, ','));
    if (!right || !r || !take(at, '}'))
        return false;
    c->p.type = r->type;
    c->p.type_c = r->type_c;
    return true;
}

/* All of one document; files hold one for each process that has ended. */
static bool take_document(const char **at, struct called *calls, size_t most, size_t *n)
{
    char name[64];

    if (!take(at, '{'))
        return false;
    do {
        if (!take_string(at, name, sizeof name) || !take(at, ':'))
            return false;
        if (strcmp(name, "shapes") != 0) {
            if (!skip_value(at, 0))
                return false;
            continue;
        }
        if (!take(at, '['))
            return false;
        if (take(at, ']'))
            continue;
        do
            if (*n == most || !take_shape(at, &calls[(*n)++]))
                return false;
        while (take(at, ','));
        if (!take(at, ']'))
            return false;
    } while (take(at, ','));
    return take(at, '}');
}

static char *read_all(const char *path)
{
    FILE *f = fopen(path, "re");
    char *text = NULL;
    size_t used = 0, room = 0, got;

    do {
        if (used == room) {
            char *more = f ? realloc(text, (room = 2 * room + 65536) + 1) : NULL;

            if (!more)
                break;
            text = more;
        }
        got = fread(text + used, 1, room - used, f);
        used += got;
    } while (got > 0);
    if (f)
        fclose(f);
    if (text)
        text[used] = '\0';
    return text;
}

static int by_weight(const void *x, const void *y)
{
    const struct called *a = x, *b = y;

    return (a->ns < b->ns) - (a->ns > b->ns);
}

static bool same_shape(const struct gb_problem *p, const struct gb_problem *q)
{
    struct gb_tuned_key a = gb_tuned_key(p, GB_PLAN_LINE, GB_PLAN_LINE, GB_TUNED_EXACT),
                        b = gb_tuned_key(q, GB_PLAN_LINE, GB_PLAN_LINE, GB_TUNED_EXACT);

    return gb_tuned_compare(&a, &b) == 0;
}

/* Calls of one shape, by other names or in other processes, become one. */
static void merge(struct called *calls, size_t *n)
{
    size_t kept = 0;

    for (size_t i = 0; i < *n; i++) {
        size_t j = 0;

        if (calls[i].gpu == 0)
            continue;
        while (j < kept && !same_shape(&calls[j].p, &calls[i].p))
            j++;
        if (j == kept)
            calls[kept++] = calls[i];
        else
            calls[j].ns += calls[i].ns;
    }
    *n = kept;
}

int tune_add_stats(struct tune_shapes *s, const char *path)
{
    char *text = read_all(path);
    const char *at = text;
    struct called *calls = NULL;
    size_t n = 0, most;
    int status = CMD_OK;

    if (!text)
        return cmd_refuse("%s: %s; name a file that GEMMBLAS_STATS=FILE.json wrote",
                          path, strerror(errno));
    most = strlen(text) / 16 + 1; /* no shape is shorter */
    calls = calloc(most, sizeof *calls);
    if (!calls)
        status = cmd_refuse("%s: out of memory; name a shorter file", path);
    do
        if (status == CMD_OK && !take_document(&at, calls, most, &n))
            status =
                cmd_refuse("%s is not what GEMMBLAS_STATS=FILE.json writes; it goes "
                           "wrong at byte %td",
                           path, at - text);
    while (status == CMD_OK && (skip_space(&at), *at));
    if (status == CMD_OK)
        merge(calls, &n);
    if (status == CMD_OK && n == 0)
        status = cmd_refuse("%s: no call ran on the device; run the program with "
                            "GEMMBLAS_ROUTE=gpu",
                            path);
    if (n > 0)
        qsort(calls, n, sizeof *calls, by_weight);
    for (size_t i = 0; i < n && status == CMD_OK; i++)
        status = tune_add_call(s, &calls[i].p, false);
    free(calls);
    free(text);
    return status;
}

/* ---- types ---------------------------------------------------------------------------- */

/* Does "f16" (whatever C is) or "bf16:f32" stand in the list for the shape? */
static bool listed(const struct gb_problem *p, const char *list)
{
    for (const char *at = list; *at;) {
        size_t len = strcspn(at, ","), first = strcspn(at, ",:");

        if (type_of(at, first) == p->type &&
            (first == len || type_of(at + first + 1, len - first - 1) == p->type_c))
            return true;
        at += len + (at[len] == ',');
    }
    return false;
}

int tune_keep_types(struct tune_shapes *s, const char *list)
{
    size_t kept = 0;

    for (const char *at = list; *at;) {
        size_t len = strcspn(at, ","), first = strcspn(at, ",:");

        if (type_of(at, first) == GB_TYPES ||
            (first < len && type_of(at + first + 1, len - first - 1) == GB_TYPES))
            return cmd_refuse("--type %s: give types such as f16, bf16:f32, f64", list);
        at += len + (at[len] == ',');
    }
    for (size_t i = 0; i < s->n; i++)
        if (listed(&s->of[i].p, list))
            s->of[kept++] = s->of[i];
    s->n = kept;
    return kept ? CMD_OK : cmd_refuse("--type %s: no shape is of such a type", list);
}
