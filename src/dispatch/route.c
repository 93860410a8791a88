/* SPDX-License-Identifier: BSD-3-Clause */
/* The routing rules, cheapest first. */
#include "route.h"

#include "util.h"

/* A stored matrix as bytes: `cols` runs of `run` bytes, `pitch` apart. */
struct runs {
    intptr_t start;
    int64_t run, pitch, cols;
};

static struct runs runs_of(const void *base, int64_t rows, int64_t cols, int64_t ld,
                           enum gb_type type)
{
    int64_t size = (int64_t)gb_type_size(type);

    return (struct runs){
        .start = (intptr_t)base, .run = rows * size, .pitch = ld * size, .cols = cols};
}

static intptr_t runs_end(const struct runs *r)
{
    return r->start + (r->cols - 1) * r->pitch + r->run;
}

/* Does the byte interval [lo, hi) meet a run of x? The first run that ends after lo is the
 * only candidate that matters: it meets the interval when it starts before hi. */
static bool meets(const struct runs *x, intptr_t lo, intptr_t hi)
{
    int64_t j = gb_floor_div(lo - x->start - x->run, x->pitch) + 1;

    if (j < 0)
        j = 0;
    return j < x->cols && x->start + j * x->pitch < hi;
}

static bool share(const struct runs *x, const struct runs *y)
{
    if (x->start >= runs_end(y) || y->start >= runs_end(x))
        return false;
    if (x->pitch == y->pitch) {
        /* One lattice: run j of x lies d bytes after run j of y, the same d for every j. So
         * only the shifts q and q+1 (in runs) can bring two runs together. */
        int64_t d = (int64_t)(x->start - y->start);
        int64_t q = gb_floor_div(d, x->pitch), r = d - q * x->pitch;
        bool same = r < y->run && q < y->cols && -q < x->cols;
        bool next = r + x->run > x->pitch && q + 1 < y->cols && -(q + 1) < x->cols;

        return same || next;
    }
    for (int64_t j = 0; j < y->cols; j++) {
        intptr_t lo = y->start + j * y->pitch;

        if (meets(x, lo, lo + y->run))
            return true;
    }
    return false;
}

bool gb_route_shares(const struct gb_stored *x, const struct gb_stored *y)
{
    struct runs a = runs_of(x->at, x->rows, x->cols, x->ld, x->type);
    struct runs b = runs_of(y->at, y->rows, y->cols, y->ld, y->type);

    return share(&a, &b);
}

void gb_route_tighten(struct gb_problem *p)
{
    if ((gb_transposed(p->transa) ? p->m : p->k) == 1)
        p->lda = gb_max(1, gb_transposed(p->transa) ? p->k : p->m);
    if ((gb_transposed(p->transb) ? p->k : p->n) == 1)
        p->ldb = gb_max(1, gb_transposed(p->transb) ? p->n : p->k);
    if (p->n == 1)
        p->ldc = gb_max(1, p->m);
}

bool gb_route_overlap(const struct gb_problem *p)
{
    bool ta = gb_transposed(p->transa), tb = gb_transposed(p->transb);
    struct runs a = runs_of(p->a, ta ? p->k : p->m, ta ? p->m : p->k, p->lda, p->type);
    struct runs b = runs_of(p->b, tb ? p->n : p->k, tb ? p->k : p->n, p->ldb, p->type);
    struct runs c = runs_of(p->c, p->m, p->n, p->ldc, p->type_c);

    return share(&a, &c) || share(&b, &c);
}

uint64_t gb_route_floor(const struct gb_rates *rates)
{
    double best = 0;

    for (int t = 0; t < GB_TYPES; t++) {
        double flops_per_madd = gb_is_complex((enum gb_type)t) ? 8 : 2;
        double slowest =
            rates->cpu_core[t] / flops_per_madd / 4; /* short of its rate */

        if (best == 0 || slowest < best)
            best = slowest;
    }
    /* No call that the CPU ends within the latency of a device can gain. */
    return (uint64_t)(best * rates->latency);
}

enum gb_why gb_route(const struct gb_problem *p, const struct gb_route_in *in,
                     struct gb_route_out *out)
{
    out->choice.kernel = NULL;
    out->cost = (struct gb_cost){0};
    if (in->disabled)
        return GB_WHY_DISABLED;
    if (in->route == GB_ROUTE_CPU)
        return GB_WHY_CPU;
    if (p->m == 0 || p->n == 0 || p->k == 0 || (p->alpha.re == 0 && p->alpha.im == 0))
        return GB_WHY_TRIVIAL;
    if (in->route == GB_ROUTE_AUTO &&
        (double)p->m * (double)p->n * (double)p->k < (double)gb_route_floor(in->rates))
        return GB_WHY_SMALL;
    if (!gb_plan_staged(p, in->info, &out->choice))
        return GB_WHY_UNSUPPORTED;
    out->cost = gb_model_cost(p, in->rates, out->choice.seconds);
    if (in->route == GB_ROUTE_AUTO && out->cost.gpu >= out->cost.cpu)
        return GB_WHY_MODEL;
    if (gb_route_overlap(p))
        return GB_WHY_OVERLAP;
    return GB_OK;
}
