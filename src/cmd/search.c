/* SPDX-License-Identifier: BSD-3-Clause */
/* Successive halving over rows and splits, then over tile orders and hints of the best. */
#include "search.h"

#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "gemm_args.h"
#include "util.h"

enum {
    ROWS = 12, /* by the model, the best first */
    FINALISTS = 4,
    WINNERS = 3,
    ROUNDS = 11,  /* of the final */
    FEWEST = 3,   /* where products are long, and less noisy */
    MOST = 160,   /* candidates at once */
    SAMPLES = 320 /* about as many does a whole search take */
};

/* Shares of the time: for rows and splits, and then for their variants. */
static const double rows_share = 0.5, variants_share = 0.25;
/* A sample is long enough to be told from another, and short enough to be repeated. */
static const double least_block_us = 300, most_block_us = 20000;

static const int groups[] = {1, 4, 8, 16, 32};
static const uint32_t hints[] = {
    0,
    GB_G_KEEP_A | GB_G_STREAM_B,
    GB_G_STREAM_A | GB_G_KEEP_B,
    GB_G_KEEP_A | GB_G_KEEP_B,
    GB_G_STREAM_A | GB_G_STREAM_B,
};

struct candidate {
    struct gb_choice c;
    int launches;
    double least_us;
};

struct field {
    struct candidate of[MOST];
    int n;
};

static int by_time(const void *x, const void *y)
{
    const struct candidate *a = x, *b = y;

    return (a->least_us > b->least_us) - (a->least_us < b->least_us);
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

static bool alike(const struct gb_choice *a, const struct gb_choice *b)
{
    return a->kernel == b->kernel && a->splits == b->splits &&
           a->group_m == b->group_m && a->hints == b->hints;
}

static void add(struct field *f, const struct gb_choice *c)
{
    for (int i = 0; i < f->n; i++)
        if (alike(&f->of[i].c, c))
            return;
    if (f->n < MOST)
        f->of[f->n++] = (struct candidate){.c = *c};
}

/* A row cut as the model has it, not at all, half as often, and more often while there is a
 * wave for it. */
static void add_splits(struct field *f, const struct trial *x,
                       const struct gb_choice *model)
{
    const struct gb_device_info *info = &x->bench->dev->info;
    const int tries[] = {model->splits, 1, model->splits / 2, 2 * model->splits,
                         4 * model->splits};

    for (size_t i = 0; i < GB_COUNT(tries); i++) {
        struct gb_choice c;

        if (tries[i] < 1 ||
            (tries[i] > model->splits &&
             model->tiles * tries[i] > GB_PLAN_WAVES * info->multiprocessors))
            continue;
        if (gb_plan_row(&x->p, info, model->kernel, x->align_a, x->align_b,
                        x->bench->without, tries[i], &c))
            add(f, &c);
    }
}

/* The best rows by the model, those whose operands must be copied included. */
static void add_rows(struct field *f, const struct trial *x)
{
    struct gb_choice *all = calloc((size_t)gb_kernel_count, sizeof *all);
    bool batched = x->p.batch > 1;
    int n = 0;

    for (int i = 0; all && i < gb_kernel_count; i++)
        n += (!batched || (gb_kernels[i].flags & GB_K_BATCH)) &&
             gb_plan_row(&x->p, &x->bench->dev->info, &gb_kernels[i], x->align_a,
                         x->align_b, x->bench->without, 0, &all[n]);
    if (n > 0)
        qsort(all, (size_t)n, sizeof *all, gb_plan_by_seconds);
    for (int i = 0; i < n && i < ROWS; i++)
        add_splits(f, x, &all[i]);
    free(all);
}

/* Other tile orders, as far as there are so many rows of tiles, and other hints where a row
 * can give them. */
static void add_variants(struct field *f, const struct trial *x,
                         const struct gb_choice *base)
{
    int64_t rows = gb_ceil_div(x->p.m, base->kernel->tile_m);

    for (size_t i = 0; i < GB_COUNT(groups); i++) {
        struct gb_choice c = *base;

        c.group_m = groups[i];
        if (gb_min(groups[i], rows) != gb_min(base->group_m, rows) &&
            (i == 0 || groups[i - 1] < rows))
            add(f, &c);
    }
    for (size_t i = 0; i < GB_COUNT(hints) && (base->kernel->flags & GB_K_TMA); i++) {
        struct gb_choice c = *base;

        c.hints = hints[i];
        add(f, &c);
    }
}

/* One more sample of a candidate. One that the device refuses for want of memory, or that the
 * row cannot do after all, is out. */
static enum gb_status sample(struct trial *x, struct candidate *k, double block_us)
{
    enum gb_status s = GB_SUCCESS;
    bool first = k->launches == 0;
    double us = 0;

    if (first)
        s = trial_calibrate(x, &k->c, block_us, &k->launches);
    if (s == GB_SUCCESS)
        s = trial_time(x, &k->c, k->launches, &us);
    if (s == GB_E_NOMEM || s == GB_E_UNSUPPORTED) {
        k->launches = -1;
        return GB_SUCCESS;
    }
    if (s == GB_SUCCESS && (first || us < k->least_us))
        k->least_us = us;
    return s;
}

static void drop_refused(struct field *f)
{
    int kept = 0;

    for (int i = 0; i < f->n; i++)
        if (f->of[i].launches >= 0)
            f->of[kept++] = f->of[i];
    f->n = kept;
}

/* Samples all, keeps the better half and samples that more often, until so many are left or it
 * is so late. */
static enum gb_status halve(struct trial *x, struct field *f, int left, double block_us,
                            double until)
{
    for (int repeats = 1;; repeats++) {
        for (int r = 0; r < repeats; r++)
            for (int i = 0; i < f->n; i++) {
                enum gb_status s = sample(x, &f->of[i], block_us);

                if (s != GB_SUCCESS)
                    return s;
            }
        drop_refused(f);
        qsort(f->of, (size_t)f->n, sizeof f->of[0], by_time);
        if (f->n <= left)
            return GB_SUCCESS;
        if (cmd_now() > until) {
            f->n = left;
            return GB_SUCCESS;
        }
        f->n = (int)gb_max(left, (f->n + 1) / 2);
    }
}

/* All in turn, in an order that changes; medians of as many rounds as there is time for. */
static enum gb_status interleave(struct trial *x, struct candidate *k, int n,
                                 double block_us, double until, double *median)
{
    double us[FINALISTS + 1][ROUNDS];
    int rounds = 0;

    for (int i = 0; i < n; i++) {
        enum gb_status s = trial_calibrate(x, &k[i].c, block_us, &k[i].launches);

        if (s != GB_SUCCESS)
            return s;
    }
    for (; rounds < ROUNDS && (rounds < FEWEST || cmd_now() < until); rounds++)
        for (int i = 0; i < n; i++) {
            int turn = (i + rounds / 2) % n, at = rounds % 2 ? n - 1 - turn : turn;
            enum gb_status s = trial_time(x, &k[at].c, k[at].launches, &us[at][rounds]);

            if (s != GB_SUCCESS)
                return s;
        }
    for (int i = 0; i < n; i++) {
        qsort(us[i], (size_t)rounds, sizeof(double), by_value);
        median[i] = us[i][rounds / 2];
    }
    return GB_SUCCESS;
}

static double block_for(double seconds, int samples)
{
    double us = 1e6 * seconds / samples;

    return us < least_block_us  ? least_block_us
           : us > most_block_us ? most_block_us
                                : us;
}

enum gb_status search_compare(struct trial *x, const struct gb_choice *c,
                              const struct gb_choice *d, double seconds, double *us_c,
                              double *us_d)
{
    struct candidate pair[] = {{.c = *c}, {.c = *d}};
    double median[2] = {0, 0};
    enum gb_status s = interleave(x, pair, 2, block_for(seconds, 2 * ROUNDS + 8),
                                  cmd_now() + seconds, median);

    *us_c = median[0];
    *us_d = median[1];
    return s;
}

/* Clocks rise. */
static enum gb_status warm_up(struct trial *x, const struct gb_choice *c)
{
    int launches;
    double us;
    enum gb_status s = trial_calibrate(x, c, most_block_us, &launches);

    return s == GB_SUCCESS ? trial_time(x, c, launches, &us) : s;
}

/* The finalists against the model's choice, and the best of them once more. */
static enum gb_status decide(struct trial *x, struct field *f, double block_us,
                             double until, struct search_result *r)
{
    struct candidate finals[WINNERS + 1] = {{.c = r->model}};
    double median[WINNERS + 1] = {0};
    int n = 1, best = 0;
    enum gb_status s;

    for (int i = 0; i < f->n && n <= WINNERS; i++)
        if (!alike(&f->of[i].c, &r->model))
            finals[n++] = f->of[i];
    s = interleave(x, finals, n, block_us, until, median);
    if (s != GB_SUCCESS)
        return s;
    r->model_us = r->best_us = median[0];
    for (int i = 1; i < n; i++)
        if (median[i] < median[best])
            best = i;
    if (median[0] <= SEARCH_GAIN * median[best])
        return GB_SUCCESS;
    /* the best of several is lucky as well as good */
    finals[1] = finals[best];
    s = interleave(x, finals, 2, block_us, until, median);
    if (s != GB_SUCCESS)
        return s;
    r->model_us = r->best_us = median[0];
    r->better = median[0] > SEARCH_GAIN * median[1];
    if (r->better) {
        r->best = finals[1].c;
        r->best_us = median[1];
    }
    return GB_SUCCESS;
}

enum gb_status search_shape(struct trial *x, double seconds, struct search_result *r)
{
    struct field *f = calloc(1, sizeof *f);
    double block_us = block_for(seconds, SAMPLES), start = cmd_now();
    enum gb_status s;
    int rows;

    *r = (struct search_result){0};
    if (!f)
        return GB_E_NOMEM;
    if (!gb_plan_model(&x->p, &x->bench->dev->info, x->align_a, x->align_b,
                       x->bench->without, &r->model)) {
        free(f);
        return GB_E_UNSUPPORTED;
    }
    r->best = r->model;
    add_rows(f, x);
    r->tried = f->n;
    s = warm_up(x, &r->model);
    if (s == GB_SUCCESS)
        s = halve(x, f, FINALISTS, block_us, start + rows_share * seconds);
    rows = f->n;
    for (int i = 0; i < rows && s == GB_SUCCESS; i++) {
        struct gb_choice base = f->of[i].c;

        add_variants(f, x, &base);
    }
    r->tried += f->n - rows;
    if (s == GB_SUCCESS)
        s = halve(x, f, WINNERS, block_us,
                  start + (rows_share + variants_share) * seconds);
    if (s == GB_SUCCESS)
        s = decide(x, f, block_us, start + seconds, r);
    free(f);
    return s;
}
