/* SPDX-License-Identifier: BSD-3-Clause */
/* `gemmblas tune`: which kernel rows are the quickest on this machine, measured, into a file
 * that later processes choose by. */
#include "tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "device.h"
#include "knobs.h"
#include "search.h"
#include "trial.h"
#include "tuned_file.h"
#include "util.h"

enum { MEMBERS = 2, ROUTINE_ARGUMENTS = 6 };

static const double default_budget = 300, most_per_shape = 8;
/* A class may lose so much on another of its members, which is within the noise. */
static const double class_loss = 1.01;

struct tune {
    struct trial_bench bench;
    struct tune_shapes shapes;
    const char *types, *tsv, *from, *output;
    double budget;
    bool dry_run, check, classes;
    bool calls; /* of BLAS: their operands are staged */
    /* Found: rows, and the keys that were measured, with or without a row. */
    struct gb_tuned_row *rows;
    struct gb_tuned_key *seen;
    size_t n_rows, n_seen;
    int better, wrong;
};

static void help(void)
{
    puts("usage: gemmblas tune [OPTION...] [ROUTINE TRANSA TRANSB M N K]\n"
         "\n"
         "Measures which kernel, splits, tile order and hints are the quickest for "
         "shapes\n"
         "of products, and writes those that beat the model's choice by over 2 % to a\n"
         "file that the library reads. Without shapes: classes of usual ones.\n"
         "\n"
         "  --shapes FILE    shapes, 13 fields a line as in bench/shapes\n"
         "  --from FILE      the shapes that a program used, as "
         "GEMMBLAS_STATS=FILE.json\n"
         "                   wrote them\n"
         "  --type T[,T]     only shapes of such operands: f16, bf16:f32, ...\n"
         "  --class          rows for the classes of the shapes, where they hold for\n"
         "                   other members\n"
         "  --budget S       seconds for all of it (300)\n"
         "  --output FILE    in place of the file in the cache; a table to ship where "
         "it\n"
         "                   ends in .def\n"
         "  --dry-run        write nothing\n"
         "  --check          search nothing: time what would be chosen against the\n"
         "                   model's choice\n"
         "\n"
         "Example: gemmblas tune --budget 10 sgemm N N 1000 1000 1000");
}

/* ---- what is printed ------------------------------------------------------------------ */

static void print_shape(const struct gb_problem *p)
{
    printf("%s %s %s %s %lld %lld %lld", gb_type_name(p->type), gb_type_name(p->type_c),
           gb_trans_name(p->transa), gb_trans_name(p->transb), (long long)p->m,
           (long long)p->n, (long long)p->k);
    if (p->batch > 1)
        printf(" batch %lld", (long long)p->batch);
}

static void print_choice(const char *who, const struct gb_choice *c, double us)
{
    printf("%s %s split %d group %d hints %s %.2f us", who, c->kernel->name, c->splits,
           c->group_m, gb_tuned_hints_text(c->hints), us);
}

/* ---- what is found -------------------------------------------------------------------- */

static struct gb_tuned_key key_of(const struct trial *x, enum gb_tuned_scope scope)
{
    return gb_tuned_key(&x->p, x->align_a, x->align_b, scope);
}

static void see(struct tune *t, struct gb_tuned_key key)
{
    t->seen[t->n_seen++] = key;
}

/* As many parts as the model would have are the model's to choose, in a class. */
static int row_splits(const struct trial *x, const struct gb_choice *c,
                      enum gb_tuned_scope scope)
{
    struct gb_choice own;

    if (scope == GB_TUNED_CLASS &&
        gb_plan_row(&x->p, &x->bench->dev->info, c->kernel, x->align_a, x->align_b,
                    x->bench->without, 0, &own) &&
        own.splits == c->splits)
        return 0;
    return c->splits;
}

static struct gb_tuned_row row_of(const struct trial *x, const struct search_result *r,
                                  enum gb_tuned_scope scope)
{
    return (struct gb_tuned_row){
        .key = key_of(x, scope),
        .kernel = r->best.kernel->name,
        .splits = row_splits(x, &r->best, scope),
        .group_m = r->best.group_m,
        .hints = r->best.hints,
        .ns = (int64_t)(1e3 * r->best_us),
        .model_ns = (int64_t)(1e3 * r->model_us),
    };
}

/* Another size of the same class, nearer to its edge. */
static int64_t member(int64_t size, int which)
{
    int64_t other = which == 0 ? size - size / 4 : size + size * 3 / 8 - 1;

    return size >= 16 && gb_tuned_class(other) == gb_tuned_class(size) ? other : size;
}

/* Is the row as good as the model's choice for that member? */
static enum gb_status good_for(struct tune *t, const struct gb_problem *p,
                               const struct gb_tuned_row *row, double seconds,
                               bool *good)
{
    const struct gb_kernel *k = gb_kernel_find(row->kernel);
    struct gb_choice model, c;
    double us_model, us;
    struct trial x;
    enum gb_status s = trial_begin(&x, &t->bench, p);

    *good = false;
    if (s == GB_E_NOMEM) /* too large for this device: it will not be met */
        *good = true;
    if (s != GB_SUCCESS)
        return s == GB_E_NOMEM ? GB_SUCCESS : s;
    if (gb_plan_model(p, &t->bench.dev->info, x.align_a, x.align_b, x.bench->without,
                      &model) &&
        gb_plan_row(p, &t->bench.dev->info, k, x.align_a, x.align_b, x.bench->without,
                    row->splits, &c)) {
        c.group_m = row->group_m;
        c.hints = row->hints;
        s = search_compare(&x, &model, &c, seconds, &us_model, &us);
        *good = s == GB_SUCCESS && us <= class_loss * us_model;
    }
    trial_end(&x);
    return s == GB_E_NOMEM || s == GB_E_UNSUPPORTED ? GB_SUCCESS : s;
}

static enum gb_status good_for_class(struct tune *t, const struct gb_problem *centre,
                                     const struct gb_tuned_row *row, double seconds,
                                     bool *good)
{
    enum gb_status s = GB_SUCCESS;

    *good = true;
    for (int i = 0; i < MEMBERS && *good && s == GB_SUCCESS; i++) {
        struct gb_problem p = *centre;

        p.m = member(p.m, i);
        p.n = member(p.n, i);
        p.k = member(p.k, i);
        p.lda = gb_plan_ld(gb_transposed(p.transa) ? p.k : p.m, p.type);
        p.ldb = gb_plan_ld(gb_transposed(p.transb) ? p.n : p.k, p.type);
        p.ldc = gb_plan_ld(p.m, p.type_c);
        s = good_for(t, &p, row, seconds, good);
    }
    return s;
}

/* ---- one shape ------------------------------------------------------------------------ */

/* The search, and whether what it found computes what the model's choice does. */
static enum gb_status search_and_verify(struct tune *t, struct trial *x, double seconds,
                                        struct search_result *r)
{
    bool same = true;
    enum gb_status s = search_shape(x, seconds, r);

    if (s == GB_SUCCESS && r->better)
        s = trial_same(x, &r->best, &r->model, &same);
    if (s == GB_SUCCESS && !same) {
        t->wrong++;
        r->better = false;
        cmd_refuse("%s gives another result than %s; it is not taken: report it",
                   r->best.kernel->name, r->model.kernel->name);
    }
    return s;
}

static enum gb_status tune_shape(struct tune *t, const struct tune_shape *shape,
                                 double seconds)
{
    enum gb_tuned_scope scope = GB_TUNED_EXACT;
    double share = seconds;
    bool of_class;
    struct search_result r;
    struct gb_tuned_row class_row;
    bool good = false;
    struct trial x;
    enum gb_status s = trial_begin(&x, &t->bench, &shape->p);

    if (s != GB_SUCCESS)
        return s;
    /* other members are tried as the library brings them to the device */
    of_class = (shape->of_class || t->classes) && x.align_a >= GB_PLAN_ALIGN &&
               x.align_b >= GB_PLAN_ALIGN;
    if (of_class)
        share /= 2;
    s = search_and_verify(t, &x, share, &r);
    trial_end(&x);
    if (s != GB_SUCCESS)
        return s;
    class_row = row_of(&x, &r, GB_TUNED_CLASS);
    if (r.better && of_class)
        s = good_for_class(t, &shape->p, &class_row, share / MEMBERS, &good);
    if (s != GB_SUCCESS)
        return s;
    if (good)
        scope = GB_TUNED_CLASS;
    print_shape(&shape->p);
    print_choice(": model", &r.model, r.model_us);
    if (r.better) {
        print_choice(", tuned", &r.best, r.best_us);
        printf(", gain %.3f (%s)\n", r.model_us / r.best_us,
               good ? "class" : "exact shape");
        t->rows[t->n_rows++] = good ? class_row : row_of(&x, &r, scope);
        t->better++;
    } else {
        printf(", kept of %d\n", r.tried);
    }
    see(t, key_of(&x, GB_TUNED_EXACT));
    if (of_class)
        see(t, key_of(&x, GB_TUNED_CLASS));
    return s;
}

/* What would be chosen against the model's choice, both measured anew. */
static enum gb_status check_shape(struct tune *t, const struct tune_shape *shape,
                                  double seconds)
{
    const struct gb_device_info *info = &t->bench.dev->info;
    double us_model = 1, us = 1;
    struct gb_choice model, c;
    struct trial x;
    enum gb_status s = trial_begin(&x, &t->bench, &shape->p);
    bool same;

    if (s != GB_SUCCESS)
        return s;
    if (!gb_plan_model(&x.p, info, x.align_a, x.align_b, x.bench->without, &model) ||
        !gb_plan_without(&x.p, info, x.align_a, x.align_b, x.bench->without, &c))
        s = GB_E_UNSUPPORTED;
    same = s == GB_SUCCESS && c.kernel == model.kernel && c.splits == model.splits &&
           c.group_m == model.group_m && c.hints == model.hints;
    if (s == GB_SUCCESS && !same)
        s = search_compare(&x, &model, &c, seconds, &us_model, &us);
    trial_end(&x);
    if (s != GB_SUCCESS)
        return s;
    print_shape(&shape->p);
    if (same) {
        printf(": %s by %s, the model's choice, ratio 1.000\n", c.kernel->name,
               gb_plan_chosen_name(c.chosen));
    } else {
        print_choice(": model", &model, us_model);
        print_choice(", chosen", &c, us);
        printf(" by %s, ratio %.3f\n", gb_plan_chosen_name(c.chosen), us / us_model);
    }
    return s;
}

/* ---- all of them ---------------------------------------------------------------------- */

static int each_shape(struct tune *t)
{
    double end = cmd_now() + t->budget;

    for (size_t i = 0; i < t->shapes.n; i++) {
        const struct tune_shape *shape = &t->shapes.of[i];
        double left = end - cmd_now(), seconds = left / (double)(t->shapes.n - i);
        enum gb_status s;

        if (left <= 0) {
            printf("%zu shapes left: the budget of %g s is spent\n", t->shapes.n - i,
                   t->budget);
            break;
        }
        if (seconds > most_per_shape)
            seconds = most_per_shape;
        s = t->check ? check_shape(t, shape, seconds) : tune_shape(t, shape, seconds);
        if (s == GB_E_DEVICE || s == GB_E_ABSENT)
            return cmd_refuse("%s: %s; see GEMMBLAS_LOG=info and the kernel's log",
                              t->bench.dev->info.name, gb_status_text(s));
        if (s != GB_SUCCESS) {
            print_shape(&shape->p);
            printf(": skipped: %s\n", gb_status_text(s));
        }
        fflush(stdout);
    }
    return CMD_OK;
}

static int by_key(const void *x, const void *y)
{
    const struct gb_tuned_row *a = x, *b = y;

    return gb_tuned_compare(&a->key, &b->key);
}

static bool was_seen(const struct tune *t, const struct gb_tuned_key *key)
{
    for (size_t i = 0; i < t->n_seen; i++)
        if (gb_tuned_compare(&t->seen[i], key) == 0)
            return true;
    return false;
}

/* Sorted, the later of two alike gone: a shape may be asked for twice. */
static size_t sort_rows(struct gb_tuned_row *rows, size_t n)
{
    size_t kept = 0;

    if (n > 0)
        qsort(rows, n, sizeof *rows, by_key);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || gb_tuned_compare(&rows[kept - 1].key, &rows[i].key) != 0)
            rows[kept++] = rows[i];
    return kept;
}

/* The rows found and, of those that the file had, all for other shapes. */
static int write_rows(struct tune *t, const char *path)
{
    const struct gb_device_info *info = &t->bench.dev->info;
    size_t len = strlen(path), n_old = 0, n = 0;
    bool ship = len > 4 && strcmp(path + len - 4, ".def") == 0;
    struct gb_tuned_row *old = NULL, *all;
    int status = CMD_OK;
    char *text = NULL;

    if (!ship && gb_tuned_read(info, path, &old, &n_old) != GB_TUNED_GOOD)
        n_old = 0;
    all = calloc(n_old + t->n_rows + 1, sizeof *all);
    for (size_t i = 0; all && i < n_old; i++)
        if (!was_seen(t, &old[i].key))
            all[n++] = old[i];
    for (size_t i = 0; all && i < t->n_rows; i++)
        all[n++] = t->rows[i];
    n = all ? sort_rows(all, n) : 0;
    if (n > GB_TUNED_ROWS)
        n = GB_TUNED_ROWS;
    if (all)
        text = ship ? tune_def(info, all, n) : gb_tuned_format(info, all, n);
    status = text ? tune_write(path, text)
                  : cmd_refuse("out of memory; tune fewer shapes at a time");
    if (status == CMD_OK)
        printf("%zu rows in %s\n", n, path);
    free(text);
    free(all);
    free(old);
    return status;
}

/* ---- the command ---------------------------------------------------------------------- */

static int parse_budget(const char *text, double *out)
{
    char *end;

    *out = strtod(text, &end);
    if (end == text || *end || !(*out > 0 && *out <= 1e6))
        return cmd_refuse("--budget %s: give a number of seconds, up to 1e6", text);
    return CMD_OK;
}

/* Options, then at most one call; *routine is 0 where there is none. */
static int parse(struct tune *t, int argc, char **argv, int *routine)
{
    const char *budget = NULL;
    const struct {
        const char *name;
        const char **value; /* of an option that has one */
        bool *flag;
    } options[] = {
        {"--type", &t->types, NULL},  {"--shapes", &t->tsv, NULL},
        {"--from", &t->from, NULL},   {"--output", &t->output, NULL},
        {"--budget", &budget, NULL},  {"--dry-run", NULL, &t->dry_run},
        {"--check", NULL, &t->check}, {"--class", NULL, &t->classes},
    };
    int i = 1;

    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        size_t o = 0;

        while (o < GB_COUNT(options) && strcmp(argv[i], options[o].name) != 0)
            o++;
        if (o == GB_COUNT(options))
            return cmd_refuse(
                "tune takes no option \"%s\"; `gemmblas tune --help` lists them",
                argv[i]);
        if (options[o].flag) {
            *options[o].flag = true;
            continue;
        }
        if (i + 1 == argc)
            return cmd_refuse("%s needs a value; see `gemmblas tune --help`", argv[i]);
        *options[o].value = argv[++i];
    }
    *routine = i < argc ? i : 0;
    if (i < argc && argc - i != ROUTINE_ARGUMENTS)
        return cmd_refuse(
            "tune takes ROUTINE TRANSA TRANSB M N K, as in `gemmblas tune "
            "sgemm N N 1000 1000 1000`, or none of them");
    t->calls = t->from || *routine > 0;
    if ((t->tsv != NULL) + (t->from != NULL) + (*routine > 0) > 1)
        return cmd_refuse("give one of --shapes, --from and ROUTINE ...");
    return budget ? parse_budget(budget, &t->budget) : CMD_OK;
}

static int add_shapes(struct tune *t, char **call)
{
    const struct gb_routine *r;
    struct gb_problem p;
    int status;

    if (t->tsv) {
        status = tune_add_tsv(&t->shapes, t->tsv);
    } else if (t->from) {
        status = tune_add_stats(&t->shapes, t->from);
    } else if (call) {
        status = cmd_call("tune", call, &r, &p);
        if (status == CMD_OK)
            status = tune_add_call(&t->shapes, &p, false);
    } else {
        status = tune_add_default(&t->shapes);
    }
    if (status == CMD_OK && t->types)
        status = tune_keep_types(&t->shapes, t->types);
    return status;
}

/* On the open device. */
static int tune_on_device(struct tune *t)
{
    const struct gb_device_info *info = &t->bench.dev->info;
    char path[512];
    int status;

    if (t->output && strlen(t->output) >= sizeof path)
        return cmd_refuse(
            "--output: a path of more than %zu letters; use a shorter one",
            sizeof path - 1);
    if (t->output)
        snprintf(path, sizeof path, "%s", t->output);
    else if (!gb_tuned_path(info, path, sizeof path) && !t->dry_run && !t->check)
        return cmd_refuse("there is no file to write: %s; name one with --output",
                          strcmp(gb_knobs()->tuned, "off") == 0
                              ? "GEMMBLAS_TUNED is off"
                              : "neither XDG_CACHE_HOME nor HOME");
    if (t->check)
        gb_tuned_load(info); /* a search goes by the model alone */
    printf("device %s: %zu shapes, at most %g s\n", info->name, t->shapes.n, t->budget);
    status = each_shape(t);
    if (t->check || status != CMD_OK)
        return status;
    printf("%d of %zu shapes have a better choice than the model's\n", t->better,
           t->shapes.n);
    if (!t->dry_run)
        status = write_rows(t, path);
    return t->wrong ? CMD_USAGE : status;
}

int cmd_tune(int argc, char **argv)
{
    struct tune t = {.budget = default_budget};
    struct gb_device_ref ref;
    enum gb_status s;
    int routine = 0, status;

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        help();
        return CMD_OK;
    }
    status = parse(&t, argc, argv, &routine);
    if (status == CMD_OK)
        status = add_shapes(&t, routine ? argv + routine : NULL);
    if (status != CMD_OK)
        goto free_shapes;
    t.rows = calloc(t.shapes.n, sizeof *t.rows);
    t.seen = calloc(2 * t.shapes.n, sizeof *t.seen);
    if (!t.rows || !t.seen) {
        status = cmd_refuse("out of memory; tune fewer shapes");
        goto free_rows;
    }
    if (gb_device_list(gb_knobs()->device, &ref, 1) != 1) {
        status =
            cmd_refuse("no device to tune (GEMMBLAS_DEVICE=%s); `gemmblas info` says "
                       "what there is",
                       gb_knobs()->device);
        goto free_rows;
    }
    s = trial_open(&t.bench, &ref);
    if (s != GB_SUCCESS) {
        status = cmd_refuse("%s device %d: %s; `gemmblas info` says more",
                            ref.ops->name, ref.ordinal, gb_status_text(s));
        goto free_rows;
    }
    /* (of integers no row is chosen so) */
    t.bench.without = GB_K_INTEGER | (t.calls ? GB_PLAN_STAGED : 0);
    status = tune_on_device(&t);
    trial_close(&t.bench);

free_rows:
    free(t.rows);
    free(t.seen);
free_shapes:
    free(t.shapes.of);
    return status;
}
