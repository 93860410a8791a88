/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel by tuned rows, else by waves of tiles; the panels by memory. */
#include "plan.h"

#include "emulated.h"
#include "launch.h"
#include "model.h"
#include "residue_args.h"
#include "tuned.h"
#include "util.h"

enum {
    LEAST_SPLIT = 256, /* k per split: below, the reduction costs more than it gives */
    PANEL_GRAIN = 128, /* panels are whole tiles of every row, whatever its size */
    PANELS = 8,        /* enough that upload, kernels and download overlap */
    SLOT_BYTES = 4 << 20,
};

/* A panel under this is all latency. */
static const double least_panel_bytes = 4e6;
/* No panel computes longer than about this, so that a signal is answered. */
static const double most_panel_seconds = 0.5;
/* What memory delivers; and a line of it, to a multiprocessor, one after the other. */
static const double memory_rate = 4.0e12, line_seconds = 1.3e-9;
/* What one costs that begins and ends inside a line: two, of which a neighbour wants one too. */
static const double crossed_lines = 1.85;
/* A second kernel, for the partial sums of the first. */
static const double reduce_latency = 5.5e-6;
/* What a copy has of that which turns an operand over on the way. */
static const double repack_rate = 3.0e12;
/* A launch ahead of the product's own. */
static const double repair_latency = 3e-6;
/* A kernel behind the product's, that finds nothing to do. */
static const double rest_latency = 3e-6;
/* Where a cluster sums its splits: barriers, and reading each other's sums. Clusters of more
 * than two wait for places. */
static const double pair_latency = 2.2e-6, together_latency = 7e-6,
                    together_rate = 20e9;
/* Rows on tensor cores: until the first product, and from a tile's last product to the next
 * tile's first, beside its stores at a multiprocessor's share. Fitted to sweeps of the tiles on
 * an H200, of 512 to 8192 and of short k, whose rows were not kept. */
static const double tma_start = 2.4e-6, tma_tile = 0.3e-6, tma_store = 40e9;
/* Until all blocks of a cluster that shares loads are there, and again at its end. */
static const double cluster_start = 1.2e-6;
/* Those without TMA fill their buffers anew for each tile. */
static const double mma_start = 3e-6, mma_tile = 1e-6;
/* What a block takes longer when all the others that have room beside it are missing. */
static const double alone = 0.65;
/* Those with GB_K_WHOLE: a longer end, and what of memory's rate they reach, by whether the long
 * operand lies along k. */
static const double thin_start = 4.5e-6, thin_along = 0.85, thin_across = 0.65;
/* From a request to memory until its data are there, when all ask. */
static const double memory_latency = 3e-6;

/* fp64 from residues: how many moduli ordinary numbers want; what an element of an operand takes,
 * read twice and written once for each of them, and one of C, as bytes of memory in that time (more
 * than they are: remainders are what takes long; 19 and 24 ps on an H200); what a tile's sums take
 * to be reduced, and the launches. */
static const int residue_moduli = GB_MODULI_LEAST + 1;
static const double residue_operand = 76, residue_c = 96, residue_tile = 1.5e-6,
                    residue_latency = 15e-6;

static int64_t round_to(int64_t x, int64_t grain)
{
    return gb_max(grain, x / grain * grain);
}

static double larger(double x, double y)
{
    return x > y ? x : y;
}

/* What a row on tensor cores may count on of memory's rate. */
static double share_of_memory(const struct gb_problem *p, const struct gb_kernel *k)
{
    bool along =
        k->tile_m > k->tile_n ? gb_transposed(p->transa) : !gb_transposed(p->transb);

    if (!(k->flags & GB_K_WHOLE) || (k->flags & GB_K_INTEGER))
        return memory_rate;
    return memory_rate * (along ? thin_along : thin_across);
}

/* Clusters lie inside groups of multiprocessors. */
static int64_t usable(int64_t cores, int64_t splits)
{
    return splits > 2 ? gb_max(cores * 10 / 11, 1) : cores;
}

static double together_seconds(const struct gb_kernel *k, int splits)
{
    return (splits == 2 ? pair_latency : together_latency) +
           4.0 * k->tile_m * k->tile_n / together_rate;
}

/* What the last, not full turn of `tiles` takes, where clusters share out each of them and none
 * needs a second turn: c->tail is set to the best, if that is less than `whole`, a turn in which
 * tiles multiply and store for `work` seconds. */
static double tail_seconds(struct gb_choice *c, int64_t cores, int blocks,
                           int64_t tiles, int64_t deep, double work, double whole)
{
    const struct gb_kernel *k = c->kernel;
    int cluster = gb_kernel_cluster(k);
    int64_t room = gb_max(cores * blocks / cluster, 1) * cluster;
    struct gb_gemm_args g = {
        .k = deep, .k_end = deep, .splits = 1, .flags = GB_G_EPILOGUE};
    double best = whole;

    for (g.tail = 2; g.tail <= GB_SPLITS_TOGETHER; g.tail *= 2) {
        int64_t rest = gb_launch_tail(k, &g, tiles, room);
        double seconds = work / g.tail + tma_tile + together_seconds(k, g.tail);

        if (rest > 0 && gb_launch_split_length(k, deep, g.tail) >= LEAST_SPLIT &&
            rest * g.tail <= usable(cores, g.tail) * blocks && seconds < best) {
            best = seconds;
            c->tail = g.tail;
        }
    }
    return best;
}

/* What a prediction is told beside the problem. */
struct given {
    /* enum gb_repaired: columns that do not begin with a line, and are read so */
    unsigned crossed;
    uint32_t without; /* GB_PLAN_... */
};

/* Lines of memory that row k asks for in a step of k, one for a row of an operand's tile. */
static double lines(const struct gb_problem *p, const struct gb_kernel *k,
                    unsigned crossed)
{
    /* TMA fills what is not there as slowly as it moves what is; A along m, at least 64 wide */
    bool wide = (k->flags & GB_K_TMA) && !gb_transposed(p->transa) && k->tile_m < 64;
    double step = (double)k->tile_k * (double)gb_type_size(k->type) / GB_PLAN_LINE;
    double a = (wide ? 64.0 : k->tile_m) / gb_kernel_cluster(k), b = k->tile_n;

    return step * (a * (crossed & GB_REPAIR_A ? crossed_lines : 1) +
                   b * (crossed & GB_REPAIR_B ? crossed_lines : 1));
}

/* What a row that copies ahead takes for `units` pieces of `len` of k, each of which multiplies
 * for `unit` seconds. */
static double ahead_seconds(const struct gb_problem *p, const struct given *given,
                            struct gb_choice *c, int64_t cores, int blocks,
                            int64_t units, int64_t len, double unit)
{
    const struct gb_kernel *k = c->kernel;
    struct gb_terms *terms = &c->terms;
    bool tma = k->flags & GB_K_TMA, whole = k->flags & GB_K_WHOLE;
    double size = (double)gb_type_size(p->type),
           size_c = (double)gb_type_size(p->type_c);
    double m = (double)p->m, n = (double)p->n, deep = (double)p->k;
    /* of a cluster that has no second tile one block has nothing to load for itself */
    double busy = (double)gb_min(units, cores) *
                  (p->n <= k->tile_n ? 1.0 / gb_kernel_cluster(k) : 1.0);
    double reads = lines(p, k, given->crossed) * (double)len / k->tile_k * line_seconds;
    double store = k->tile_m * k->tile_n * size_c / tma_store;
    double bytes =
        (double)gb_max(p->batch, 1) * ((m + n) * deep * size + m * n * size_c);
    double seconds, most;

    unit = larger(unit, reads);
    terms->start = tma ? tma_start : whole ? thin_start : mma_start;
    if (gb_kernel_cluster(k) > 1)
        terms->start += cluster_start;
    terms->turns = (double)gb_ceil_div(units, cores * blocks);
    /* several blocks of a multiprocessor hide each other's pauses, and no more */
    terms->tile = blocks * (unit + store) + (tma ? tma_tile : mma_tile);
    if (tma && c->splits == 1 && !(given->without & GB_PLAN_TAILS))
        terms->turns += tail_seconds(c, cores, blocks, units, len,
                                     blocks * (unit + store), terms->tile) /
                            terms->tile -
                        1;
    seconds = terms->turns * terms->tile;
    /* no more arrives than is under way, and a multiprocessor gets no more than its share */
    most = (double)(gb_min(k->tile_m, p->m) + gb_min(k->tile_n, p->n)) * k->tile_k *
           size * k->stages * blocks * busy / memory_latency;
    terms->memory = larger(bytes / most, bytes / share_of_memory(p, k) * terms->turns *
                                             blocks * (double)cores / (double)units);
    /* what takes longer hides the most of the other */
    return terms->start + 0.9 * larger(seconds, terms->memory) +
           0.1 * (seconds + terms->memory);
}

static bool of_residues(const struct gb_kernel *k)
{
    return (k->flags & GB_K_EMULATED) && k->type == GB_F64;
}

/* The products of residues, each of which takes a tile `unit`, and C from them. */
static double residue_seconds(const struct gb_problem *p, struct gb_choice *c,
                              int64_t cores, double unit)
{
    struct gb_terms *terms = &c->terms;

    terms->start = residue_latency;
    terms->turns = (double)gb_ceil_div(c->tiles * residue_moduli, cores);
    terms->tile = unit + residue_tile;
    terms->sums = residue_c * (double)p->m * (double)p->n *
                  (double)gb_max(p->batch, 1) / memory_rate;
    return terms->start + terms->turns * terms->tile + terms->sums;
}

/* Can k be cut into so many parts of `len`? Rounding may leave the last ones empty. */
static bool divides(const struct gb_problem *p, const struct gb_kernel *k, int splits,
                    int64_t len)
{
    return splits == 1 ||
           ((k->flags & GB_K_SPLITK) && gb_ceil_div(p->k, len) == splits);
}

/* The prediction for so many parts of `len`. */
static void predict(const struct gb_problem *p, const struct gb_device_info *info,
                    const struct given *given, struct gb_choice *c, int splits,
                    int64_t len)
{
    const struct gb_kernel *k = c->kernel;
    int64_t cores = info->multiprocessors > 0 ? info->multiprocessors : 1;
    double rate = gb_model_peak(info, k) * 1e-3 * k->efficiency / (double)cores;
    double unit = (gb_is_complex(k->type) ? 8 : 2) * (double)k->tile_m * k->tile_n *
                  (double)len / rate;
    bool together = gb_launch_together(k, splits);
    int64_t units = c->tiles * splits;

    c->splits = splits;
    c->split_len = splits == 1 ? gb_max(p->k, 1) : len;
    c->waves = (double)units / (double)cores;
    c->terms = (struct gb_terms){.tile = unit};
    c->tail = 0;
    if (of_residues(k)) {
        c->seconds = residue_seconds(p, c, cores, unit);
        return;
    }
    if (k->smem > 0 || (k->flags & GB_K_TENSOR)) { /* copies ahead of its products */
        int64_t room = gb_kernel_blocks(k, info), blocks = room;

        if (!(k->flags & GB_K_TMA))
            blocks = gb_max(gb_min(room, gb_ceil_div(units, cores)), 1);
        unit *= 1 + alone * (double)(room - blocks) / (double)room;
        c->seconds =
            ahead_seconds(p, given, c, together ? usable(cores, splits) : cores,
                          (int)blocks, units, len, unit);
    } else {
        c->terms.turns = (double)gb_ceil_div(units, cores);
        /* one block hides little */
        c->terms.tile = unit * (c->terms.turns < 2 ? 1.5 : 1.0);
        c->seconds = c->terms.turns * c->terms.tile;
    }
    if (together)
        c->terms.sums = together_seconds(k, splits);
    else if (splits > 1)
        c->terms.sums = reduce_latency + 2.0 * splits * (double)p->m * (double)p->n *
                                             (double)gb_max(p->batch, 1) *
                                             (double)gb_type_size(k->type_acc) /
                                             memory_rate;
    if (together) /* not a persistent grid: every turn starts anew */
        c->terms.sums += (c->terms.turns - 1) * tma_start;
    c->seconds += c->terms.sums;
}

/* Is it worth a look to cut k so often? */
static bool promising(const struct gb_choice *c, const struct gb_device_info *info,
                      int splits, int64_t len)
{
    return splits == 1 ||
           (len >= LEAST_SPLIT && (double)c->tiles * (splits - 1) <
                                      GB_PLAN_WAVES * (double)info->multiprocessors);
}

/* Where C is most of what memory moves, its columns are best written from top to bottom. */
static int group_of(const struct gb_problem *p)
{
    double operands = ((double)p->m + (double)p->n) * (double)p->k *
                      (double)gb_type_size(p->type),
           c = (double)p->m * (double)p->n * (double)gb_type_size(p->type_c);

    return c > 4 * operands ? GB_PLAN_GROUP_TALL : GB_PLAN_GROUP_M;
}

/* What L2 need not keep: an operand that a single row or column of tiles reads once. The other,
 * which all of them read, it should. */
static uint32_t hints_of(const struct gb_problem *p, const struct gb_kernel *k)
{
    bool once_a = p->n <= (int64_t)k->tile_n * gb_kernel_cluster(k),
         once_b = p->m <= k->tile_m;

    if (!(k->flags & GB_K_TMA) || once_a == once_b || p->batch > 1)
        return 0; /* (one operand may serve a whole batch) */
    return once_a ? GB_G_STREAM_A | GB_G_KEEP_B : GB_G_KEEP_A | GB_G_STREAM_B;
}

/* Is p one for rows that compute from parts of numbers? */
static bool may_emulate(const struct gb_problem *p)
{
    const bool f64 = p->type == GB_F64;

    return p->math == GB_MATH_EMULATED && (f64 || p->type == GB_F32) &&
           p->uplo == GB_FULL && p->k >= (f64 ? GB_RESIDUE_LEAST_K : GB_EMUL_LEAST_K) &&
           p->k <= (f64 ? GB_RESIDUE_MOST_K : GB_EMUL_MOST_K);
}

/* Is p one for rows that multiply fp32 as tf32? */
static bool may_be_fast(const struct gb_problem *p)
{
    return p->math == GB_MATH_FAST && p->type == GB_F32 && p->uplo == GB_FULL;
}

static bool score(const struct gb_problem *p, const struct gb_device_info *info,
                  const struct gb_kernel *k, const struct given *given, int splits,
                  struct gb_choice *choice)
{
    struct gb_choice best = {
        .kernel = k, .group_m = group_of(p), .hints = hints_of(p, k)};

    if (k->type != p->type || k->type_c != p->type_c || !gb_kernel_runs(k, info))
        return false;
    if ((p->uplo != GB_FULL && !(k->flags & GB_K_UPLO)) ||
        (p->extra && (k->flags & GB_K_PLAIN)))
        return false;
    if ((k->flags & GB_K_WHOLE) && p->k > INT32_MAX)
        return false;
    if ((k->flags & GB_K_EMULATED) &&
        (!may_emulate(p) || p->k < gb_emulated_least_k(k) || splits > 1))
        return false;
    if ((k->flags & GB_K_FAST) && !may_be_fast(p))
        return false;
    if ((k->flags & GB_K_TMA) && gb_max(gb_max(p->m, p->n), p->k) > GB_TMA_MOST)
        return false; /* whatever the panels: they need not cut the long side */
    best.tiles = gb_ceil_div(p->m, k->tile_m) *
                 gb_round_up(gb_ceil_div(p->n, k->tile_n), gb_kernel_cluster(k)) *
                 gb_max(p->batch, 1);
    if (splits > 0) {
        int64_t len = gb_launch_split_length(k, p->k, splits);

        if (splits > GB_PLAN_SPLITS || !divides(p, k, splits, len))
            return false;
        predict(p, info, given, &best, splits, len);
        *choice = best;
        return true;
    }
    for (splits = 1; splits <= GB_PLAN_SPLITS; splits++) {
        int64_t len = gb_launch_split_length(k, p->k, splits);
        struct gb_choice c = best;

        if (!promising(&best, info, splits, len))
            break;
        if (!divides(p, k, splits, len))
            continue;
        predict(p, info, given, &c, splits, len);
        if (splits == 1 || c.seconds < best.seconds)
            best = c;
    }
    *choice = best;
    return true;
}

/* Operands that are copied ahead of row k, enum gb_repaired. */
static unsigned copied(const struct gb_problem *p, const struct gb_kernel *k,
                       uint32_t align_a, uint32_t align_b)
{
    unsigned which =
        gb_launch_repaired(k, gb_transposed(p->transa) ? 't' : 'n',
                           gb_transposed(p->transb) ? 't' : 'n', align_a, align_b);

    /* the kernel multiplies signed ones */
    if ((k->flags & GB_K_INTEGER) && p->offsets.b_unsigned)
        which |= GB_REPAIR_B;
    return which;
}

bool gb_plan_row(const struct gb_problem *p, const struct gb_device_info *info,
                 const struct gb_kernel *k, uint32_t align_a, uint32_t align_b,
                 uint32_t without, int splits, struct gb_choice *choice)
{
    double size =
        (of_residues(k) ? residue_operand : 2 * (double)gb_type_size(p->type)) *
        (double)gb_max(p->batch, 1);
    bool emulated = k->flags & GB_K_EMULATED;
    double rate;
    unsigned repair = copied(p, k, align_a, align_b);
    unsigned crossed = (align_a < GB_PLAN_LINE ? GB_REPAIR_A : 0u) |
                       (align_b < GB_PLAN_LINE ? GB_REPAIR_B : 0u);
    const struct given given = {crossed & ~repair, without};

    if ((k->flags & without) || ((without & GB_PLAN_COPIES) && repair != 0) ||
        !score(p, info, k, &given, splits, choice))
        return false;
    choice->repair = repair;
    if (repair == 0)
        return true;
    if (!emulated && !(k->flags & GB_K_INTEGER) && !gb_launch_can_repair(k, info))
        return false;
    rate = k->flags & GB_K_FAST ? repack_rate : memory_rate;
    choice->terms.copies = repair_latency + (emulated ? rest_latency : 0);
    if (choice->repair & GB_REPAIR_A)
        choice->terms.copies += size * (double)p->m * (double)p->k / rate;
    if (choice->repair & GB_REPAIR_B)
        choice->terms.copies += size * (double)p->k * (double)p->n / rate;
    choice->seconds += choice->terms.copies;
    return true;
}

bool gb_plan_model(const struct gb_problem *p, const struct gb_device_info *info,
                   uint32_t align_a, uint32_t align_b, uint32_t without,
                   struct gb_choice *choice)
{
    bool found = false;

    for (int i = 0; i < gb_kernel_count; i++) {
        struct gb_choice c;

        if (gb_plan_row(p, info, &gb_kernels[i], align_a, align_b, without, 0, &c) &&
            (!found || c.seconds < choice->seconds)) {
            *choice = c;
            found = true;
        }
    }
    return found;
}

/* What a tuned row asks for, if this problem on this device can have it. */
static bool tuned_choice(const struct gb_problem *p, const struct gb_device_info *info,
                         uint32_t align_a, uint32_t align_b, uint32_t without,
                         const struct gb_tuned_hit *hit, struct gb_choice *choice)
{
    const struct gb_kernel *k = gb_kernel_find(hit->row->kernel);
    struct gb_choice c;

    if (!k || !gb_plan_row(p, info, k, align_a, align_b, without, hit->row->splits, &c))
        return false;
    c.group_m = hit->row->group_m;
    c.hints = hit->row->hints;
    c.chosen = hit->by;
    *choice = c;
    return true;
}

bool gb_plan_without(const struct gb_problem *p, const struct gb_device_info *info,
                     uint32_t align_a, uint32_t align_b, uint32_t without,
                     struct gb_choice *choice)
{
    struct gb_tuned_hit hits[GB_TUNED_HITS];
    /* (what was tuned was native) */
    int n = (may_emulate(p) && !(without & GB_K_EMULATED)) ||
                    (may_be_fast(p) && !(without & GB_K_FAST))
                ? 0
                : gb_tuned_find(p, info, align_a, align_b, hits);

    for (int i = 0; i < n; i++)
        if (tuned_choice(p, info, align_a, align_b, without, &hits[i], choice))
            return true;
    return gb_plan_model(p, info, align_a, align_b, without, choice);
}

bool gb_plan_kernel(const struct gb_problem *p, const struct gb_device_info *info,
                    uint32_t align_a, uint32_t align_b, struct gb_choice *choice)
{
    return gb_plan_without(p, info, align_a, align_b, 0, choice);
}

int gb_plan_by_seconds(const void *x, const void *y)
{
    const struct gb_choice *a = x, *b = y;

    return (a->seconds > b->seconds) - (a->seconds < b->seconds);
}

static bool conjugated(const struct gb_problem *p, enum gb_trans trans)
{
    return gb_is_complex(p->type) && (trans == GB_C || trans == GB_CONJ);
}

struct gb_gemm_args gb_plan_args(const struct gb_problem *p,
                                 const struct gb_choice *choice)
{
    bool ta = gb_transposed(p->transa), tb = gb_transposed(p->transb);
    struct gb_gemm_args g = {
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .k_end = p->k,
        .a_m = ta ? p->lda : 1,
        .a_k = ta ? 1 : p->lda,
        .b_k = tb ? p->ldb : 1,
        .b_n = tb ? 1 : p->ldb,
        .ldc = p->ldc,
        .split_len = choice->split_len,
        .alpha = {p->alpha.re, p->alpha.im},
        .beta = {p->beta.re, p->beta.im},
        .splits = choice->splits,
        .split_count = choice->splits,
        .batch = (int32_t)gb_max(p->batch, 1),
        .group_m = choice->group_m,
        .tail = choice->tail,
        .flags = choice->hints | (conjugated(p, p->transa) ? GB_G_CONJ_A : 0u) |
                 (conjugated(p, p->transb) ? GB_G_CONJ_B : 0u),
    };

    if (p->beta.re == 0 && p->beta.im == 0)
        g.flags |= GB_G_BETA_ZERO;
    if (p->extra) {
        g.flags |= GB_G_FUSED;
        g.fused = gb_fused_of(p->extra);
    }
    if (g.splits == 1 || gb_launch_sums_splits(choice->kernel, &g))
        g.flags |= GB_G_EPILOGUE;
    return g;
}

/* Panels for a problem that fits: one operand stays, the other streams past it, so the short
 * side of C is never cut. */
static void panels_that_stream(struct gb_plan *plan, double seconds)
{
    const struct gb_problem *p = &plan->p;
    bool cut_n = p->n >= p->m;
    int64_t whole = cut_n ? p->n : p->m;
    double bytes = ((double)p->k * (double)gb_type_size(p->type) +
                    (double)(cut_n ? p->m : p->n) * (double)gb_type_size(p->type_c)) *
                   (double)whole;
    double count = PANELS;
    int64_t width;

    if (bytes / least_panel_bytes < count)
        count = bytes / least_panel_bytes;
    if (seconds / most_panel_seconds > count)
        count = seconds / most_panel_seconds;
    if (count > (double)gb_ceil_div(whole, PANEL_GRAIN))
        count = (double)gb_ceil_div(whole, PANEL_GRAIN);
    if (count < 1)
        count = 1;
    width = gb_min(gb_round_up((int64_t)((double)whole / count), PANEL_GRAIN), whole);
    plan->panel_m = cut_n ? p->m : width;
    plan->panel_n = cut_n ? width : p->n;
    plan->panel_k = p->k;
    plan->rows_first = !cut_n;
}

/* Panels for a problem that does not fit: the largest square of C whose operand chunks fit,
 * since what a square re-reads falls with its side. `whole`: chunks of all of k. */
static bool panels_that_fit(struct gb_plan *plan, size_t budget, bool whole)
{
    const struct gb_problem *p = &plan->p;
    int64_t most = gb_max(p->m, p->n);

    for (int64_t side = gb_round_up(most, PANEL_GRAIN); side >= PANEL_GRAIN;
         side = round_to(side * 3 / 4, PANEL_GRAIN)) {
        int64_t deep = whole ? p->k : 4096;

        do {
            plan->panel_m = gb_min(side, p->m);
            plan->panel_n = gb_min(side, p->n);
            plan->panel_k = gb_min(deep, p->k);
            plan->rows_first = p->m > p->n;
            if (gb_plan_bytes(plan) <= budget)
                return true;
            deep /= 2;
        } while (!whole && deep >= 256);
        if (side == PANEL_GRAIN)
            break;
    }
    return false;
}

bool gb_plan_staged(const struct gb_problem *p, const struct gb_device_info *info,
                    struct gb_choice *choice)
{
    /* of parts of numbers no sum can be carried from one launch to the next, and of integers
     * none need be */
    uint32_t without = may_emulate(p) || p->type == GB_I8
                           ? GB_PLAN_STAGED & ~(uint32_t)GB_K_WHOLE
                           : (uint32_t)GB_PLAN_STAGED;

    return gb_plan_without(p, info, GB_PLAN_LINE, GB_PLAN_LINE, without, choice);
}

/* The panels of a choice. */
static enum gb_why make(const struct gb_problem *p, const struct gb_choice *choice,
                        size_t budget, struct gb_plan *plan)
{
    bool whole = choice->kernel->flags & GB_K_WHOLE;
    size_t size_c = gb_type_size(p->type_c);

    *plan = (struct gb_plan){
        .p = *p,
        .kernel = choice->kernel,
        .splits = choice->splits,
        .split_len = choice->split_len,
        .group_m = choice->group_m,
        .hints = choice->hints,
        .chosen = choice->chosen,
        .slot_bytes = SLOT_BYTES,
    };
    panels_that_stream(plan, choice->seconds);
    if (gb_plan_bytes(plan) > budget && !panels_that_fit(plan, budget, whole))
        return GB_WHY_OOM;
    plan->piece_rows = gb_min(plan->panel_m, (int64_t)(SLOT_BYTES / size_c));
    plan->piece_cols = gb_min(
        plan->panel_n, gb_max(1, (int64_t)(SLOT_BYTES / size_c) / plan->piece_rows));
    return GB_OK;
}

enum gb_why gb_plan_make(const struct gb_problem *p, const struct gb_device_info *info,
                         size_t budget, struct gb_plan *plan)
{
    struct gb_choice choice;
    enum gb_why why;

    if (!gb_plan_staged(p, info, &choice))
        return GB_WHY_UNSUPPORTED;
    why = make(p, &choice, budget, plan);
    if (why == GB_OK || !(choice.kernel->flags & (GB_K_EMULATED | GB_K_FAST)))
        return why;
    if (!gb_plan_without(p, info, GB_PLAN_LINE, GB_PLAN_LINE,
                         GB_PLAN_STAGED | GB_K_EMULATED | GB_K_FAST, &choice))
        return GB_WHY_UNSUPPORTED;
    return make(p, &choice, budget, plan);
}
