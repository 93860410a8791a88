/* SPDX-License-Identifier: BSD-3-Clause */
/* Tuned rows: classes, the order in which rows count, rows that are not legal, the shipped
 * tables, and the file, of which nothing is believed unless all of it is. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gemm_args.h"
#include "model.h"
#include "plan.h"
#include "tap.h"
#include "tuned_file.h"
#include "util.h"

#define WIDE "gemm_simt_f32_128x128x16"
#define NARROW "gemm_simt_f32_64x64x16"

static const struct gb_device_info emulated = {
    .vendor = GB_EMU,
    .name = "gemmblas emulated device",
    .arch_name = "emu",
    .multiprocessors = 16,
    .smem_per_block = 232448,
};

static struct gb_problem problem(int64_t m, int64_t n, int64_t k)
{
    return (struct gb_problem){
        .op = GB_GEMM, .type = GB_F32, .type_c = GB_F32, .m = m, .n = n, .k = k};
}

static struct gb_tuned_row row(const struct gb_problem *p, enum gb_tuned_scope scope,
                               const char *kernel, int splits, int group_m)
{
    return (struct gb_tuned_row){
        .key = gb_tuned_key(p, GB_PLAN_LINE, GB_PLAN_LINE, scope),
        .kernel = kernel,
        .splits = splits,
        .group_m = group_m,
    };
}

static int by_key(const void *x, const void *y)
{
    const struct gb_tuned_row *a = x, *b = y;

    return gb_tuned_compare(&a->key, &b->key);
}

static void use(struct gb_tuned_row *rows, size_t n)
{
    static struct gb_tuned_table table;

    qsort(rows, n, sizeof *rows, by_key);
    table = (struct gb_tuned_table){GB_EMU, 0, 16, rows, n};
    gb_tuned_use(&table);
}

/* ---- classes -------------------------------------------------------------------------- */

static void test_class(void)
{
    long wrong = 0;

    for (int64_t x = 1; x < 70000; x++)
        wrong += gb_tuned_class(x) != (int64_t)floor(log2((double)x) + 0.5);
    is_int(0, wrong, "the class is the nearest power of two, by its logarithm");
    ok(gb_tuned_class(4096) == 12 && gb_tuned_class(2897) == 12 &&
           gb_tuned_class(2896) == 11 && gb_tuned_class(5792) == 12 &&
           gb_tuned_class(5793) == 13,
       "4096 is in the middle of 2897 to 5792");
    ok(gb_tuned_class(0) == 0 && gb_tuned_class(INT64_MAX) == 31,
       "any size has a class");
}

/* ---- looking up ----------------------------------------------------------------------- */

static const char *chosen(const struct gb_problem *p, uint32_t align_a,
                          struct gb_choice *c)
{
    *c = (struct gb_choice){0};
    return gb_plan_kernel(p, &emulated, align_a, GB_PLAN_LINE, c) ? c->kernel->name
                                                                  : "none";
}

static void test_lookup(void)
{
    struct gb_problem p = problem(300, 300, 512), near = problem(310, 260, 600),
                      far = problem(600, 300, 512), q;
    struct gb_choice model, c;
    const char *other;
    struct gb_tuned_row rows[2];
    struct gb_plan plan;
    struct gb_gemm_args args;

    gb_tuned_use(NULL);
    chosen(&p, GB_PLAN_LINE, &model);
    is_int(GB_BY_MODEL, model.chosen, "without rows the model chooses");
    other = strcmp(model.kernel->name, WIDE) == 0 ? NARROW : WIDE;

    rows[0] = row(&p, GB_TUNED_CLASS, other, 0, 16);
    rows[0].hints = GB_G_KEEP_A | GB_G_STREAM_B;
    use(rows, 1);
    is_string(other, chosen(&p, GB_PLAN_LINE, &c), "a row for the class");
    ok(c.chosen == GB_BY_TUNED && c.group_m == 16 &&
           c.hints == (GB_G_KEEP_A | GB_G_STREAM_B) && c.seconds > 0 && c.splits >= 1,
       "with its tile order and hints, cut as the model has it");
    is_string(other, chosen(&near, GB_PLAN_LINE, &c), "serves its neighbours");
    is_int(GB_OK, gb_plan_make(&p, &emulated, 1 << 30, &plan), "a plan");
    gb_step_args(&plan, 0, &args);
    ok(plan.chosen == GB_BY_TUNED && args.group_m == 16 &&
           (args.flags & (GB_G_KEEP_A | GB_G_STREAM_A | GB_G_KEEP_B | GB_G_STREAM_B)) ==
               (GB_G_KEEP_A | GB_G_STREAM_B),
       "hands both to the kernel");
    chosen(&far, GB_PLAN_LINE, &c);
    is_int(GB_BY_MODEL, c.chosen, "but not another class");
    chosen(&p, 4, &c);
    is_int(GB_BY_MODEL, c.chosen, "nor operands of less alignment");
    q = p;
    q.transb = GB_T;
    chosen(&q, GB_PLAN_LINE, &c);
    is_int(GB_BY_MODEL, c.chosen, "nor another transpose");
    q = p;
    q.batch = 2;
    chosen(&q, GB_PLAN_LINE, &c);
    is_int(GB_BY_MODEL, c.chosen, "nor a batch");
    q = p;
    q.uplo = GB_UPPER;
    chosen(&q, GB_PLAN_LINE, &c);
    is_int(GB_BY_MODEL, c.chosen, "nor a triangle");
    ok(gb_plan_kernel(&p, &gb_model_typical, GB_PLAN_LINE, GB_PLAN_LINE, &c) &&
           c.chosen != GB_BY_TUNED,
       "nor another device");

    rows[0] = row(&p, GB_TUNED_CLASS, other, 0, 16);
    rows[1] = row(&p, GB_TUNED_EXACT, model.kernel->name, 2, 4);
    use(rows, 2);
    is_string(model.kernel->name, chosen(&p, GB_PLAN_LINE, &c),
              "an exact shape wins over its class");
    ok(c.splits == 2 && c.split_len == 256 && c.group_m == 4, "with its own splits");
    is_string(other, chosen(&near, GB_PLAN_LINE, &c), "which serves the others");

    rows[0] = row(&p, GB_TUNED_CLASS, other, 0, 16);
    rows[1] = row(&p, GB_TUNED_EXACT, "gemm_simt_f32_no_such", 0, 8);
    use(rows, 2);
    is_string(other, chosen(&p, GB_PLAN_LINE, &c),
              "a row of an unknown kernel does not count");
    rows[0] = row(&p, GB_TUNED_EXACT, "gemm_simt_f64_64x64x8", 0, 8);
    use(rows, 1);
    chosen(&p, GB_PLAN_LINE, &c);
    is_int(GB_BY_MODEL, c.chosen, "nor one of another type");
    q = problem(300, 300, 40);
    rows[0] = row(&q, GB_TUNED_CLASS, other, 32, 8);
    use(rows, 1);
    is_string(gb_plan_model(&q, &emulated, GB_PLAN_LINE, GB_PLAN_LINE, 0, &model)
                  ? model.kernel->name
                  : "none",
              chosen(&q, GB_PLAN_LINE, &c),
              "nor one whose splits would be empty: the model decides");
    is_int(GB_BY_MODEL, c.chosen, "by itself");
    gb_tuned_use(NULL);
}

/* ---- shipped -------------------------------------------------------------------------- */

static void test_shipped(void)
{
    for (size_t t = 0; t < gb_tuned_shipped_count; t++) {
        const struct gb_tuned_table *table = &gb_tuned_shipped[t];
        long wrong = 0;

        for (size_t i = 0; i < table->n; i++) {
            const struct gb_tuned_row *r = &table->rows[i];
            const struct gb_kernel *k = gb_kernel_find(r->kernel);
            bool bad = !k || k->type != r->key.type || k->type_c != r->key.type_c ||
                       table->arch < k->arch_min || table->arch > k->arch_max ||
                       r->splits < 0 || r->splits > GB_PLAN_SPLITS || r->group_m < 1 ||
                       (i > 0 && gb_tuned_compare(&r[-1].key, &r->key) >= 0);

            if (bad)
                diag("row %zu: %s", i, r->kernel);
            wrong += bad;
        }
        is_int(0, wrong, "sm_%d: %zu shipped rows, in order, of kernels that there are",
               table->arch, table->n);
    }
}

/* ---- the file ------------------------------------------------------------------------- */

static enum gb_tuned_trust believed(const char *text)
{
    struct gb_tuned_row *rows = NULL;
    size_t n = 0;
    enum gb_tuned_trust trust = gb_tuned_parse(&emulated, text, &rows, &n);

    if (trust == GB_TUNED_GOOD)
        free(rows);
    return trust;
}

/* A text as it would be written with the line that begins with `from` in place of it. */
static char *forged(const char *text, const char *from, const char *to)
{
    static char out[4096];
    const char *at = strstr(text, from), *end = strstr(text, "\nend ");
    size_t head = (size_t)(at - text), len;

    len = (size_t)snprintf(out, sizeof out, "%.*s%s%.*s\n", (int)head, text, to,
                           (int)(end - at - (int)strlen(from)), at + strlen(from));
    snprintf(out + len, sizeof out - len, "end %016llx\n",
             (unsigned long long)gb_hash(GB_HASH_START, out, len));
    return out;
}

static void test_text(void)
{
    struct gb_problem p = problem(300, 300, 512), q = problem(77, 1, 100000);
    struct gb_tuned_row rows[3] = {row(&p, GB_TUNED_EXACT, WIDE, 2, 1),
                                   row(&p, GB_TUNED_CLASS, NARROW, 0, 32),
                                   row(&q, GB_TUNED_EXACT, NARROW, 8, 8)};
    struct gb_tuned_row *back = NULL;
    struct gb_device_info other;
    size_t n = 0, len;
    char *text, *cut;
    long wrong = 0;

    rows[0].hints = GB_G_STREAM_A | GB_G_KEEP_B;
    rows[1].ns = 12345;
    rows[1].model_ns = 23456;
    qsort(rows, 3, sizeof rows[0], by_key);
    text = gb_tuned_format(&emulated, rows, 3);
    is_int(GB_TUNED_GOOD, gb_tuned_parse(&emulated, text, &back, &n), "read back");
    is_int(3, (long long)n, "all rows");
    for (size_t i = 0; i < n; i++)
        wrong += gb_tuned_compare(&back[i].key, &rows[i].key) != 0 ||
                 strcmp(back[i].kernel, rows[i].kernel) != 0 ||
                 back[i].splits != rows[i].splits ||
                 back[i].group_m != rows[i].group_m || back[i].hints != rows[i].hints ||
                 back[i].ns != rows[i].ns || back[i].model_ns != rows[i].model_ns;
    is_int(0, wrong, "as they were");
    free(back);

    len = strlen(text);
    cut = strdup(text);
    for (size_t i = 0; i < len; i++) {
        cut[i] = '\0';
        wrong += believed(cut) == GB_TUNED_GOOD;
        cut[i] = (char)(text[i] ^ 1);
        wrong += believed(cut) == GB_TUNED_GOOD;
        cut[i] = text[i];
    }
    is_int(0, wrong, "cut anywhere, or changed by a bit, nothing of it is believed");
    free(cut);
    is_int(GB_TUNED_GOOD, believed(forged(text, "group 32", "group 16")),
           "the checksum is no secret");
    is_int(GB_TUNED_DAMAGED, believed(forged(text, "group 32", "group 0")),
           "but what it covers has to make sense");
    is_int(GB_TUNED_DAMAGED, believed(forged(text, NARROW, "gemm_simt_f32_9x9x9")),
           "kernels exist");
    is_int(GB_TUNED_DAMAGED, believed(forged(text, "row f32", "row f64")),
           "and are of the type");
    is_int(GB_TUNED_DAMAGED, believed(forged(text, "row f32", "row  f32")),
           "one way to write a line");
    is_int(GB_TUNED_DAMAGED, believed(forged(text, "splits 2", "splits 99")),
           "splits have a limit");
    is_int(GB_TUNED_STRANGE,
           believed(forged(text, "gemmblas-tuned 1", "gemmblas-tuned 2")),
           "another format");
    is_int(GB_TUNED_STRANGE, believed(forged(text, "kernels ", "kernels 1")),
           "other kernels");
    free(text);

    other = emulated;
    other.multiprocessors = 15;
    text = gb_tuned_format(&other, rows, 3);
    is_int(GB_TUNED_STRANGE, believed(text), "another number of multiprocessors");
    free(text);
    other = emulated;
    other.driver = 13000;
    text = gb_tuned_format(&other, rows, 3);
    is_int(GB_TUNED_STRANGE, believed(text), "another driver");
    free(text);
    other = emulated;
    snprintf(other.name, sizeof other.name, "gemmblas emulated");
    text = gb_tuned_format(&other, rows, 3);
    is_int(GB_TUNED_STRANGE, believed(text), "another device");
    free(text);
    qsort(rows, 3, sizeof rows[0], by_key);
    rows[2] = rows[1];
    text = gb_tuned_format(&emulated, rows, 3);
    is_int(GB_TUNED_DAMAGED, believed(text), "a shape twice");
    free(text);
    text = gb_tuned_format(&emulated, rows, 0);
    is_int(GB_TUNED_GOOD, believed(text), "no rows are good as well");
    free(text);
    is_int(GB_TUNED_DAMAGED, believed(""), "nothing is not");
}

static void test_file(void)
{
    char path[] = "/tmp/gemmblas-tuned-XXXXXX";
    int fd = mkstemp(path);
    char *text = gb_tuned_format(&emulated, NULL, 0);
    struct gb_tuned_row *rows = NULL;
    size_t n;

    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        bail("cannot write %s", path);
    close(fd);
    free(text);
    is_int(GB_TUNED_GOOD, gb_tuned_read(&emulated, path, &rows, &n), "a file");
    free(rows);
    chmod(path, 0620);
    is_int(GB_TUNED_UNSAFE, gb_tuned_read(&emulated, path, &rows, &n),
           "that a group may write is not believed");
    chmod(path, 0602);
    is_int(GB_TUNED_UNSAFE, gb_tuned_read(&emulated, path, &rows, &n),
           "nor one that all may write");
    chmod(path, 0600);
    if (geteuid() == 0 && chown(path, 1234, 0) == 0)
        is_int(GB_TUNED_UNSAFE, gb_tuned_read(&emulated, path, &rows, &n),
               "nor another user's");
    else
        skip("another user's file: only root can make one");
    unlink(path);
    is_int(GB_TUNED_ABSENT, gb_tuned_read(&emulated, path, &rows, &n), "absent");
    is_int(GB_TUNED_DAMAGED, gb_tuned_read(&emulated, "/tmp", &rows, &n),
           "a directory is none");
}

static void test_path(void)
{
    char path[512];

    setenv("XDG_CACHE_HOME", "/cache", 1);
    setenv("HOME", "/home/x", 1);
    ok(gb_tuned_path(&gb_model_typical, path, sizeof path), "there is a path");
    is_string("/cache/gemmblas/tuned-typical.txt", path, "in the cache");
    setenv("XDG_CACHE_HOME", "cache", 1);
    gb_tuned_path(&emulated, path, sizeof path);
    is_string("/home/x/.cache/gemmblas/tuned-gemmblas-emulated-device.txt", path,
              "at home, where the cache is not an absolute path");
    unsetenv("HOME");
    ok(!gb_tuned_path(&emulated, path, sizeof path), "without a home there is none");
}

int main(void)
{
    unsetenv("GEMMBLAS_TUNED");
    plan_lazy();
    test_class();
    test_lookup();
    test_shipped();
    test_text();
    test_file();
    test_path();
    return 0;
}
