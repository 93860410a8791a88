/* SPDX-License-Identifier: BSD-3-Clause */
/* From matrices of any strides to what kernels and the BLAS take: a C with its unit stride
 * along rows (else the transposed product is computed), A and B with one along either side
 * (else they are copied to columns). */
#include "strided.h"

#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "dispatch.h"
#include "hold.h"
#include "knobs.h"
#include "launch.h"
#include "log.h"
#include "onstream.h"
#include "plan.h"
#include "route.h"
#include "util.h"

enum { ALIGN_MOST = 256, CACHED = 8, ATTEMPTS = 4 };

/* ---- forms ------------------------------------------------------------------------------ */

static bool is_fused(const struct gb_product *p)
{
    return p->bias.at || p->row_scale.at || p->col_scale.at ||
           p->activation != GB_ACT_NONE;
}

/* Columns of unit stride that lie beside each other. */
static bool in_columns(const struct gb_matrix *x, int64_t rows, int64_t cols)
{
    return (x->row == 1 || rows == 1) && (x->col >= rows || cols == 1) && x->batch >= 0;
}

static struct gb_matrix transposed(struct gb_matrix x)
{
    int64_t row = x.row;

    x.row = x.col;
    x.col = row;
    return x;
}

/* C^T = B^T A^T, if C lies in rows: everything of rows is then of columns. */
static struct gb_product oriented(const struct gb_product *p)
{
    struct gb_product q = *p;
    struct gb_matrix c = transposed(p->c);

    if (in_columns(&p->c, p->m, p->n) || !in_columns(&c, p->n, p->m))
        return q;
    q.m = p->n;
    q.n = p->m;
    q.a = transposed(p->b);
    q.b = transposed(p->a);
    q.c = c;
    q.conj_a = p->conj_b;
    q.conj_b = p->conj_a;
    q.bias_cols = !p->bias_cols;
    q.row_scale = p->col_scale;
    q.col_scale = p->row_scale;
    return q;
}

/* An operand as op(X) of a matrix in columns. */
struct form {
    bool trans, packed;
    int64_t ld;
    uint32_t align; /* that addresses and strides are multiples of */
};

static uint32_t lowest_bit(uint64_t bits)
{
    bits |= ALIGN_MOST;
    return (uint32_t)(bits & -bits);
}

/* All bits of the addresses. */
static uint64_t bits_of(const struct gb_product *p, const struct gb_matrix *x,
                        enum gb_type type)
{
    uint64_t bits = 0;

    if (!x->list)
        return (uintptr_t)x->at;
    if (p->lists_on_device)
        return p->lists_aligned ? 16 : gb_type_size(type);
    for (int64_t z = 0; z < p->batch; z++)
        bits |= (uintptr_t)x->list[z];
    return bits;
}

/* x is rows x cols. */
static struct form form_as(const struct gb_product *p, const struct gb_matrix *x,
                           int64_t rows, int64_t cols, bool trans)
{
    int64_t size = (int64_t)gb_type_size(p->type);
    struct form f = {.trans = trans};

    /* of one column any leading dimension will do */
    f.ld = cols > 1 ? x->col : gb_round_up(rows, GB_PLAN_LINE / size);
    f.align = lowest_bit(bits_of(p, x, p->type) | (uint64_t)(f.ld * size) |
                         (uint64_t)(p->batch > 1 ? x->batch * size : 0));
    return f;
}

static struct form form_of(const struct gb_product *p, const struct gb_matrix *x,
                           int64_t rows, int64_t cols)
{
    const struct gb_matrix t = transposed(*x);
    struct form n = {.packed = true}, other = {.packed = true};

    if (in_columns(x, rows, cols))
        n = form_as(p, x, rows, cols, false);
    if (in_columns(&t, cols, rows))
        other = form_as(p, &t, cols, rows, true);
    if (!other.packed && (n.packed || other.align > n.align))
        return other;
    if (n.packed) {
        n.ld = gb_round_up(rows, GB_PLAN_LINE / (int64_t)gb_type_size(p->type));
        n.align = GB_PLAN_LINE;
    }
    return n;
}

static struct gb_extra extra_of(const struct gb_product *p)
{
    return (struct gb_extra){.bias = p->bias.at,
                             .row_scale = p->row_scale.at,
                             .col_scale = p->col_scale.at,
                             .bias_cols = p->bias_cols,
                             .bias_wide = p->bias_wide,
                             .activation = p->activation};
}

static enum gb_trans trans_of(bool trans, bool conj)
{
    return trans ? (conj ? GB_C : GB_T) : conj ? GB_CONJ : GB_N;
}

/* extra: of p; it stays where it is. */
static struct gb_problem problem_of(const struct gb_product *p, struct form a,
                                    struct form b, const struct gb_extra *extra)
{
    struct gb_problem q = {
        .op = GB_GEMM,
        .type = p->type,
        .type_c = p->type_c,
        .transa = trans_of(a.trans, p->conj_a && gb_is_complex(p->type)),
        .transb = trans_of(b.trans, p->conj_b && gb_is_complex(p->type)),
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .alpha = p->alpha,
        .beta = p->beta,
        .lda = a.ld,
        .ldb = b.ld,
        .batch = p->batch,
        .extra = is_fused(p) ? extra : NULL,
        .math = (enum gb_math)gb_knobs()->math,
    };

    return q;
}

/* ---- on the device ----------------------------------------------------------------------- */

/* What a choice depends on. */
struct key {
    int64_t m, n, k, batch;
    const struct gb_device_info *info;
    uint32_t type, type_c, align_a, align_b, tma;
    uint8_t transa, transb, fused, native;
};

/* Scoring every row takes longer than queueing a launch; programs ask for few sizes. */
static bool choose(const struct gb_problem *q, const struct key *key,
                   struct gb_choice *choice)
{
    static __thread struct {
        struct key key;
        struct gb_choice choice;
    } known[CACHED];
    static __thread unsigned next;
    bool found;

    for (int i = 0; i < CACHED; i++)
        if (memcmp(&known[i].key, key, sizeof *key) == 0) {
            *choice = known[i].choice;
            return true;
        }
    found = gb_plan_without(q, key->info, key->align_a, key->align_b,
                            (key->tma ? 0 : GB_K_TMA | GB_PLAN_COPIES) |
                                (key->native ? GB_K_EMULATED | GB_K_FAST : 0),
                            choice);
    if (found) {
        known[next % CACHED].key = *key;
        known[next++ % CACHED].choice = *choice;
    }
    return found;
}

/* May TMA count these strides? Lists are not for it: it would take a description of each
 * matrix. */
static bool suits_tma(const struct gb_product *p, struct form a, struct form b)
{
    const int64_t most = (INT64_C(1) << 40) / 2 / (int64_t)gb_type_size(p->type);

    return !p->a.list && !p->b.list && !p->c.list && a.ld < most && b.ld < most &&
           (p->batch <= 1 ||
            (p->a.batch < most && p->b.batch < most && p->c.batch < most / 2)) &&
           (p->n <= 1 || p->c.col < most / 2);
}

static struct gb_pack_args copy_of(const struct gb_product *p,
                                   const struct gb_matrix *x, int64_t rows,
                                   int64_t cols, int64_t ld)
{
    bool broadcast = !x->list && x->batch == 0;

    return (struct gb_pack_args){
        .from = x->list ? 0 : (uintptr_t)x->at,
        .from_list = x->list && p->lists_on_device ? (uintptr_t)x->list : 0,
        .rows = rows,
        .cols = cols,
        .batch = broadcast ? 1 : p->batch,
        .from_row = x->row,
        .from_col = x->col,
        .from_batch = x->list ? 0 : x->batch,
        .to_row = 1,
        .to_col = ld,
        .to_batch = ld * cols,
    };
}

/* What an operand is to the kernel: address, list and batch stride. */
static void place(const struct gb_product *p, const struct gb_matrix *x, int64_t rows,
                  int64_t cols, enum gb_type type, bool packed, int64_t ld,
                  struct gb_on_operand *o, uint64_t *at, uint64_t *list, int64_t *batch)
{
    o->size = gb_type_size(type);
    o->list = p->lists_on_device ? NULL : x->list;
    o->packed = packed;
    o->ld = ld;
    if (packed) {
        o->copy = copy_of(p, x, rows, cols, ld);
        *batch = o->copy.batch > 1 ? o->copy.to_batch : 0;
        return;
    }
    *at = bits_of(p, x, type);
    *list = x->list && p->lists_on_device ? (uintptr_t)x->list : 0;
    *batch = x->list || p->batch == 1 ? 0 : x->batch; /* of one, any stride will do */
}

static void place_vectors(const struct gb_product *p, struct gb_fused *to)
{
    to->bias = (uintptr_t)p->bias.at;
    to->row_scale = (uintptr_t)p->row_scale.at;
    to->col_scale = (uintptr_t)p->col_scale.at;
    to->bias_batch = p->bias.batch;
    to->row_batch = p->row_scale.batch;
    to->col_batch = p->col_scale.batch;
}

static struct form columns_of(const struct gb_product *p, int64_t rows)
{
    return (struct form){
        .packed = true,
        .ld = gb_round_up(rows, GB_PLAN_LINE / (int64_t)gb_type_size(p->type)),
        .align = GB_PLAN_LINE};
}

static enum gb_answer answer_to(enum gb_status s)
{
    static const enum gb_answer answer[] = {
        [GB_SUCCESS] = GB_ANSWER_OK,      [GB_E_ABSENT] = GB_ANSWER_DEVICE,
        [GB_E_NOMEM] = GB_ANSWER_MEMORY,  [GB_E_UNSUPPORTED] = GB_ANSWER_UNSUPPORTED,
        [GB_E_DEVICE] = GB_ANSWER_DEVICE, [GB_E_ARGUMENT] = GB_ANSWER_ARGUMENT,
    };

    return answer[s];
}

/* How a product is run: the forms of its operands, and the kernel. */
struct planned {
    struct form a, b;
    struct gb_choice choice; /* kernel NULL: there is none */
};

/* `native`: whatever GEMMBLAS_MATH says. */
static struct planned plan_of(const struct gb_product *p,
                              const struct gb_device_info *info, bool native)
{
    struct planned x = {.a = form_of(p, &p->a, p->m, p->k),
                        .b = form_of(p, &p->b, p->k, p->n)};
    const struct gb_extra extra = extra_of(p);
    uint64_t fp = gb_fp_enter(); /* planning computes in doubles */

    for (int attempt = 0; attempt < 2 && !x.choice.kernel; attempt++) {
        struct gb_problem q;
        struct key key;

        if (attempt > 0) { /* no row reads them where they are */
            x.a = columns_of(p, p->m);
            x.b = columns_of(p, p->k);
        }
        q = problem_of(p, x.a, x.b, &extra);
        q.k = gb_max(q.k, 1); /* as far as planning goes */
        key = (struct key){.m = p->m,
                           .n = p->n,
                           .k = p->k,
                           .batch = p->batch,
                           .info = info,
                           .type = p->type,
                           .type_c = p->type_c,
                           .transa = (uint8_t)q.transa,
                           .transb = (uint8_t)q.transb,
                           .align_a = x.a.align,
                           .align_b = x.b.align,
                           .tma = suits_tma(p, x.a, x.b),
                           .fused = is_fused(p),
                           .native = native};
        if (!choose(&q, &key, &x.choice))
            x.choice.kernel = NULL;
    }
    gb_fp_leave(fp);
    return x;
}

static enum gb_answer queue_planned(const struct gb_product *p, const struct planned *x,
                                    struct gb_engine *engine)
{
    bool c_packed = !in_columns(&p->c, p->m, p->n);
    int64_t ldc = c_packed || p->n == 1 ? gb_round_up(p->m, 16) : p->c.col;
    const struct gb_extra extra = extra_of(p);
    struct gb_problem q;
    struct gb_onstream o = {.kernel = x->choice.kernel,
                            .a = x->a.trans ? 't' : 'n',
                            .b = x->b.trans ? 't' : 'n',
                            .repair = x->choice.repair,
                            .stream = p->stream};

    if (!o.kernel)
        return GB_ANSWER_UNSUPPORTED;
    q = problem_of(p, x->a, x->b, &extra);
    q.ldc = ldc;
    o.g = gb_plan_args(&q, &x->choice);
    place_vectors(p, &o.g.fused);
    place(p, &p->a, p->m, p->k, p->type, x->a.packed, x->a.ld, &o.operand[GB_ON_A],
          &o.g.a, &o.g.a_list, &o.g.a_batch);
    place(p, &p->b, p->k, p->n, p->type, x->b.packed, x->b.ld, &o.operand[GB_ON_B],
          &o.g.b, &o.g.b_list, &o.g.b_batch);
    place(p, &p->c, p->m, p->n, p->type_c, c_packed, ldc, &o.operand[GB_ON_C], &o.g.c,
          &o.g.c_list, &o.g.c_batch);
    gb_debug("%s on its device by %s, %d splits", p->routine, o.kernel->name,
             x->choice.splits);
    return answer_to(gb_onstream_run(engine, &o));
}

static struct gb_matrix one_of(const struct gb_matrix *x, int64_t z, enum gb_type type)
{
    return (struct gb_matrix){
        .at = gb_matrix_at(x, z, type), .row = x->row, .col = x->col};
}

static struct gb_vector entry_of(const struct gb_vector *v, int64_t z,
                                 enum gb_type type)
{
    return (struct gb_vector){
        .at = v->at ? v->at + z * v->batch * (int64_t)gb_type_size(type) : NULL};
}

/* Product z of a batch. */
static struct gb_product slice(const struct gb_product *p, int64_t z)
{
    const enum gb_type acc = gb_type_acc(p->type);
    struct gb_product q = *p;

    q.batch = 1;
    q.a = one_of(&p->a, z, p->type);
    q.b = one_of(&p->b, z, p->type);
    q.c = one_of(&p->c, z, p->type_c);
    q.bias = entry_of(&p->bias, z, p->bias_wide ? acc : p->type_c);
    q.row_scale = entry_of(&p->row_scale, z, gb_type_part(acc));
    q.col_scale = entry_of(&p->col_scale, z, gb_type_part(acc));
    return q;
}

/* Lists are for products of which the device takes many at once. Of those that fill it one by
 * one, a kernel that takes no lists is the faster; and there are types of which none takes lists. */
static bool runs_apart(const struct gb_product *p, const struct planned *together,
                       const struct gb_device_info *info)
{
    struct gb_product first;
    struct planned x;

    if ((!p->a.list && !p->b.list && !p->c.list) || p->lists_on_device)
        return false;
    first = slice(p, 0);
    x = plan_of(&first, info, false);
    return x.choice.kernel &&
           (!together->choice.kernel ||
            x.choice.seconds * (double)p->batch < together->choice.seconds);
}

/* A and B that are not read may be anything, their lists too. An address is described all the
 * same. */
static void forget_ab(struct gb_product *p)
{
    p->k = 0;
    p->a = p->b = (struct gb_matrix){
        .at = p->c.at - (uintptr_t)p->c.at % ALIGN_MOST,
        .row = 1,
        .col = gb_round_up(p->m + 1, ALIGN_MOST),
    };
}

/* By x, or natively if there is no memory for the parts of its numbers, or their
 * copies. */
static enum gb_answer queue_product(const struct gb_product *p, struct planned x,
                                    struct gb_engine *engine)
{
    enum gb_answer answer = queue_planned(p, &x, engine);

    if (answer != GB_ANSWER_MEMORY || !x.choice.kernel ||
        !(x.choice.kernel->flags & (GB_K_EMULATED | GB_K_FAST)))
        return answer;
    x = plan_of(p, &gb_engine_device(engine)->info, true);
    return queue_planned(p, &x, engine);
}

static enum gb_answer run_on_device(const struct gb_product *given,
                                    struct gb_engine *engine)
{
    const struct gb_device_info *info = &gb_engine_device(engine)->info;
    struct gb_product p = oriented(given);
    enum gb_answer answer = GB_ANSWER_OK;
    struct planned x;

    p.c = gb_product_unlisted(&p, p.c, p.type_c);
    if (!gb_product_reads_ab(&p))
        forget_ab(&p);
    p.a = gb_product_unlisted(&p, p.a, p.type);
    p.b = gb_product_unlisted(&p, p.b, p.type);
    x = plan_of(&p, info, false);
    if (!runs_apart(&p, &x, info))
        return queue_product(&p, x, engine);
    for (int64_t z = 0; z < p.batch && answer == GB_ANSWER_OK; z++) {
        struct gb_product one = slice(&p, z);

        x = plan_of(&one, info, false);
        answer = queue_product(&one, x, engine);
        if (z > 0 && answer != GB_ANSWER_OK)
            answer =
                GB_ANSWER_DEVICE; /* the others say that nothing has been touched */
    }
    return answer;
}

/* ---- on the host ------------------------------------------------------------------------- */

/* Copies between any strides. */
static void copy_matrix(char *to, int64_t to_row, int64_t to_col, const char *from,
                        int64_t from_row, int64_t from_col, int64_t rows, int64_t cols,
                        size_t size)
{
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < rows; i++)
            memcpy(to + (i * to_row + j * to_col) * (int64_t)size,
                   from + (i * from_row + j * from_col) * (int64_t)size, size);
}

/* Columns for a matrix that has none, ld of them; NULL when there is no memory. */
static char *columns_for(int64_t rows, int64_t cols, size_t size)
{
    size_t bytes;

    return gb_mul3((size_t)gb_max(rows, 1), (size_t)gb_max(cols, 1), size, &bytes)
               ? malloc(bytes)
               : NULL;
}

/* What one product of a batch has on the host. */
struct on_host {
    struct gb_problem q;
    struct gb_extra extra;
    char *a, *b, *c; /* columns of our own, or NULL */
};

static void compute_on_host(const struct gb_product *p, struct on_host *h,
                            const struct gb_call *call)
{
    if (gb_dispatch(&h->q, p->routine, call, GB_OK) != GB_OK)
        gb_cpu_extra_gemm(&h->q);
}

/* Columns for what has none, once for all products of a batch. False when there is no memory. */
static bool host_memory(const struct gb_product *p, struct form a, struct form b,
                        bool c_packed, struct on_host *h)
{
    size_t size = gb_type_size(p->type);

    a.packed = a.packed && gb_product_reads_ab(p);
    b.packed = b.packed && gb_product_reads_ab(p);
    h->a = a.packed ? columns_for(p->m, p->k, size) : NULL;
    h->b = b.packed ? columns_for(p->k, p->n, size) : NULL;
    h->c = c_packed ? columns_for(p->m, p->n, gb_type_size(p->type_c)) : NULL;
    return (h->a || !a.packed) && (h->b || !b.packed) && (h->c || !c_packed);
}

static void host_operands(const struct gb_product *p, struct on_host *h)
{
    size_t size = gb_type_size(p->type), size_c = gb_type_size(p->type_c);

    h->q.a = gb_product_reads_ab(p) ? p->a.at : NULL;
    h->q.b = gb_product_reads_ab(p) ? p->b.at : NULL;
    h->q.c = (void *)(uintptr_t)p->c.at;
    if (h->a) {
        copy_matrix(h->a, 1, p->m, p->a.at, p->a.row, p->a.col, p->m, p->k, size);
        h->q.a = h->a;
        h->q.lda = p->m;
    }
    if (h->b) {
        copy_matrix(h->b, 1, p->k, p->b.at, p->b.row, p->b.col, p->k, p->n, size);
        h->q.b = h->b;
        h->q.ldb = p->k;
    }
    if (h->c) {
        if (gb_product_reads_c(p))
            copy_matrix(h->c, 1, p->m, p->c.at, p->c.row, p->c.col, p->m, p->n, size_c);
        h->q.c = h->c;
    }
}

static enum gb_answer run_on_host(const struct gb_product *given,
                                  const struct gb_call *call)
{
    struct gb_product p = oriented(given);
    bool c_packed = !in_columns(&p.c, p.m, p.n);
    enum gb_answer answer = GB_ANSWER_OK;
    struct on_host h = {.a = NULL};
    struct form a, b;

    if (!gb_product_reads_ab(&p))
        forget_ab(&p);
    a = form_of(&p, &p.a, p.m, p.k);
    b = form_of(&p, &p.b, p.k, p.n);
    if (!host_memory(&p, a, b, c_packed, &h))
        answer = GB_ANSWER_MEMORY;
    for (int64_t z = 0; z < p.batch && answer == GB_ANSWER_OK; z++) {
        struct gb_product one = slice(&p, z);

        h.extra = extra_of(&one);
        h.q = problem_of(&one, a, b, &h.extra);
        h.q.batch = 0;
        h.q.ldc = c_packed || p.n == 1 ? p.m : p.c.col;
        host_operands(&one, &h);
        compute_on_host(&p, &h, call);
        if (h.c)
            copy_matrix((char *)(uintptr_t)one.c.at, p.c.row, p.c.col, h.c, 1, p.m, p.m,
                        p.n, gb_type_size(p.type_c));
    }
    free(h.a);
    free(h.b);
    free(h.c);
    return answer;
}

/* ---- where? ------------------------------------------------------------------------------ */

/* Bit 0: in host memory; bit 1: in device memory; bit 2: of another device. Without a device
 * drivers are asked, to which one's memory is like another's. */
static unsigned place_of(struct gb_device *dev, const void *at)
{
    static const unsigned bit[] = {[GB_MEM_PAGEABLE] = 1,
                                   [GB_MEM_PINNED] = 1,
                                   [GB_MEM_DEVICE] = 2,
                                   [GB_MEM_MANAGED] = 2,
                                   [GB_MEM_FOREIGN] = 4};

    if (!at)
        return 0;
    return bit[dev ? dev->ops->mem_kind(dev, at)
                   : gb_device_where(gb_knobs()->device, at)];
}

static unsigned matrix_place(struct gb_device *dev, const struct gb_product *p,
                             const struct gb_matrix *x)
{
    unsigned places = 0;

    if (!x->list)
        return place_of(dev, x->at);
    if (p->lists_on_device)
        return place_of(dev, (const void *)x->list);
    for (int64_t z = 0; z < p->batch; z++)
        places |= place_of(dev, x->list[z]);
    return places;
}

static unsigned places_of(struct gb_device *dev, const struct gb_product *p)
{
    unsigned places = matrix_place(dev, p, &p->c) | place_of(dev, p->bias.at) |
                      place_of(dev, p->row_scale.at) | place_of(dev, p->col_scale.at);

    if (gb_product_reads_ab(p))
        places |= matrix_place(dev, p, &p->a) | matrix_place(dev, p, &p->b);
    return places;
}

static enum gb_status look(struct gb_engine *engine, const struct gb_product *p,
                           unsigned *places)
{
    struct gb_guest guest;
    struct gb_device *dev;
    struct gb_hold hold;
    enum gb_status s;

    gb_hold_begin(&hold);
    s = gb_engine_begin(engine);
    if (s == GB_SUCCESS) {
        dev = gb_engine_device(engine);
        s = dev->ops->enter(dev, &guest);
        if (s == GB_SUCCESS) {
            *places = places_of(dev, p);
            dev->ops->leave(dev, &guest);
        }
        if (s == GB_E_DEVICE)
            gb_engine_fail(engine, dev);
        gb_engine_done(engine);
    }
    gb_hold_end(&hold);
    return s;
}

/* The open device, with `open` opened if need be, and where it says that everything lies. NULL
 * when this process has none. One that fails is opened once more, or given up; other threads
 * may find it so. */
static struct gb_engine *engine_for(const struct gb_product *p, bool open,
                                    unsigned *places)
{
    for (int i = 0; i < ATTEMPTS; i++) {
        struct gb_engine *engine = gb_dispatch_engine(open);

        if (!engine || look(engine, p, places) == GB_SUCCESS)
            return engine;
    }
    return NULL;
}

static unsigned places_without(const struct gb_product *p)
{
    struct gb_hold hold;
    unsigned places;

    gb_hold_begin(&hold); /* a driver's calls are cancellation points, too */
    places = places_of(NULL, p);
    gb_hold_end(&hold);
    return places;
}

/* Matrices on the host are no reason to open a device: dispatch knows what they gain by it.
 * Those on a device are never touched by the CPU, whatever became of the device. */
enum gb_answer gb_product_run(const struct gb_product *p, const struct gb_call *call)
{
    struct gb_engine *engine;
    unsigned places;

    if (p->m == 0 || p->n == 0 || p->batch == 0)
        return GB_ANSWER_OK;
    engine = engine_for(p, false, &places);
    if (!engine) {
        places = places_without(p);
        if (places == 2)
            engine = engine_for(p, true, &places);
        if (places == 2 && !engine)
            return GB_ANSWER_DEVICE;
    }
    if (places == 2)
        return run_on_device(p, engine);
    if (places != 1)
        return GB_ANSWER_PLACE;
    if (p->lists_on_device)
        return GB_ANSWER_UNSUPPORTED;
    return run_on_host(p, call);
}
