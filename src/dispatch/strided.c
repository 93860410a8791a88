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

static bool reads_ab(const struct gb_product *p)
{
    return p->k > 0 && (p->alpha.re != 0 || p->alpha.im != 0);
}

static bool reads_c(const struct gb_product *p)
{
    return p->beta.re != 0 || p->beta.im != 0;
}

static enum gb_type accumulator(const struct gb_product *p)
{
    return gb_type_size(p->type) == 2 ? GB_F32 : p->type;
}

/* Of one part of an accumulator. */
static enum gb_type precision(const struct gb_product *p)
{
    enum gb_type acc = accumulator(p);

    return acc == GB_C32 ? GB_F32 : acc == GB_C64 ? GB_F64 : acc;
}

/* ---- is it legal? ----------------------------------------------------------------------- */

/* Nothing in memory is further away, and sums of a few such numbers are no overflow. */
static const int64_t FAR = INT64_C(1) << 62;

/* Bytes from the first element of a matrix that its elements lie in: [low, high). */
struct span {
    int64_t low, high;
};

/* False when it is beyond what an address can tell. */
static bool reach(struct span *s, int64_t count, int64_t stride, int64_t size)
{
    int64_t last;

    if (stride >= FAR / size || stride <= -FAR / size ||
        __builtin_mul_overflow(count - 1, stride * size, &last) ||
        __builtin_add_overflow(last < 0 ? s->low : s->high, last,
                               last < 0 ? &s->low : &s->high))
        return false;
    return s->low > -FAR && s->high < FAR;
}

static bool span_of(const struct gb_matrix *x, int64_t rows, int64_t cols,
                    int64_t batch, enum gb_type type, struct span *s)
{
    int64_t size = (int64_t)gb_type_size(type);

    *s = (struct span){0, size};
    return reach(s, rows, x->row, size) && reach(s, cols, x->col, size) &&
           (x->list || batch == 1 || reach(s, batch, x->batch, size));
}

static bool is_there(const struct gb_matrix *x, enum gb_type type)
{
    enum gb_type part = type == GB_C32 ? GB_F32 : type == GB_C64 ? GB_F64 : type;

    return x->list || (x->at && (uintptr_t)x->at % gb_type_size(part) == 0);
}

/* Addresses of the host's list may be looked at. */
static bool list_is_there(const struct gb_product *p, const struct gb_matrix *x,
                          enum gb_type type)
{
    for (int64_t z = 0; x->list && !p->lists_on_device && z < p->batch; z++) {
        const struct gb_matrix one = {.at = x->list[z]};

        if (!is_there(&one, type))
            return false;
    }
    return true;
}

static int64_t magnitude(int64_t x)
{
    return x < 0 ? -x : x;
}

static int64_t divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* Does no element of C lie on another? Of one matrix exactly; a batch must lie in order, each
 * side's stride beyond all that smaller strides reach. Lists are looked at later. */
static bool c_is_apart(const struct gb_product *p)
{
    const int64_t batch = p->c.list ? 1 : p->batch;
    int64_t count[3] = {p->m, p->n, batch};
    int64_t stride[3] = {magnitude(p->c.row), magnitude(p->c.col),
                         batch == 1 ? 0 : magnitude(p->c.batch)};
    int64_t reached = 0, gcd;

    for (int i = 0; i < 3; i++)
        for (int j = i + 1; j < 3; j++)
            if (stride[j] < stride[i]) {
                int64_t s = stride[i], c = count[i];

                stride[i] = stride[j];
                count[i] = count[j];
                stride[j] = s;
                count[j] = c;
            }
    for (int i = 0; i < 3; i++) {
        if (count[i] == 1)
            continue;
        if (stride[i] <= reached)
            break;
        reached += (count[i] - 1) * stride[i];
        count[i] = 1;
    }
    if (count[0] == 1 && count[1] == 1 && count[2] == 1)
        return true;
    if (batch > 1)
        return false;
    gcd = divisor(magnitude(p->c.row), magnitude(p->c.col));
    return gcd != 0 &&
           (magnitude(p->c.col) / gcd >= p->m || magnitude(p->c.row) / gcd >= p->n);
}

/* The memory of matrix z. */
static const char *matrix_at(const struct gb_matrix *x, int64_t z, enum gb_type type)
{
    if (x->list)
        return x->list[z];
    return z == 0 ? x->at : x->at + z * x->batch * (int64_t)gb_type_size(type);
}

/* As columns, or as rows, of unit stride; false when it is neither. */
static bool stored(const struct gb_matrix *x, int64_t rows, int64_t cols,
                   enum gb_type type, struct gb_stored *s)
{
    *s = (struct gb_stored){x->at, rows, cols, x->col, type};
    if (x->row == 1 && x->col >= rows)
        return true;
    *s = (struct gb_stored){x->at, cols, rows, x->row, type};
    return x->col == 1 && x->row >= cols;
}

/* What may share memory with C: a matrix, or a vector as one column. */
struct party {
    struct gb_matrix x;
    int64_t rows, cols, batch;
    enum gb_type type;
};

static struct party c_of(const struct gb_product *p)
{
    return (struct party){p->c, p->m, p->n, p->batch, p->type_c};
}

/* Sides of equal strides: how far apart, in strides, two elements can be along them. */
struct side {
    int64_t stride, low, high;
};

/* Is `sum` one of the sums of strides? Of the largest stride few multiples come near enough
 * for the others; where strides are in order, two. */
static bool is_sum(const struct side *sides, int n, int64_t sum)
{
    int64_t low = 0, high = 0, from, to;
    struct side s;

    if (n == 0)
        return sum == 0;
    s = sides[0];
    for (int i = 1; i < n; i++) {
        low += sides[i].stride * sides[i].low;
        high += sides[i].stride * sides[i].high;
    }
    if (s.stride == 0) /* and so are the rest */
        return sum == 0;
    from = gb_max(s.low, -gb_floor_div(high - sum, s.stride));
    to = gb_min(s.high, gb_floor_div(sum - low, s.stride));
    for (int64_t i = from; i <= to; i++)
        if (is_sum(sides + 1, n - 1, sum - i * s.stride))
            return true;
    return false;
}

static bool are_alike(const struct party *a, const struct party *c, bool batches)
{
    return gb_type_size(a->type) == gb_type_size(c->type) && a->x.row == c->x.row &&
           a->x.col == c->x.col && (!batches || a->x.batch == c->x.batch);
}

/* Of parties with the same strides, those of batches included: exactly. `apart` bytes from the
 * first element of c to that of a. */
static bool alike_meet(const struct party *a, const struct party *c, bool batches,
                       int64_t apart)
{
    const int64_t size = (int64_t)gb_type_size(c->type);
    const int64_t stride[3] = {c->x.row, c->x.col, batches ? c->x.batch : 0};
    const int64_t ours[3] = {a->rows, a->cols, batches ? a->batch : 1};
    const int64_t theirs[3] = {c->rows, c->cols, batches ? c->batch : 1};
    struct side side[3] = {{.stride = 0}};
    int64_t whole = gb_floor_div(apart, size);

    for (int i = 0; i < 3; i++) {
        struct side s = {stride[i], 1 - ours[i], theirs[i] - 1};
        int at = i;

        if (s.stride < 0)
            s = (struct side){-s.stride, -s.high, -s.low};
        for (; at > 0 && side[at - 1].stride < s.stride; at--)
            side[at] = side[at - 1];
        side[at] = s;
    }
    return is_sum(side, 3, whole) || (apart % size != 0 && is_sum(side, 3, whole + 1));
}

/* One matrix and one of C, whose ranges meet: their elements where strides are the same or
 * both lie in columns or rows. */
static bool pair_meets(const struct party *a, const char *at, const struct party *c,
                       const char *to)
{
    struct gb_matrix one = a->x, other = c->x;
    struct gb_stored x, y;

    if (are_alike(a, c, false))
        return alike_meet(a, c, false, (intptr_t)at - (intptr_t)to);
    one.at = at;
    other.at = to;
    return !stored(&one, a->rows, a->cols, a->type, &x) ||
           !stored(&other, c->rows, c->cols, c->type, &y) || gb_route_shares(&x, &y);
}

/* C's matrices in the order of their addresses. */
struct order {
    struct party c;
    struct span span; /* of each */
    const char **at;
};

static int by_address(const void *x, const void *y)
{
    uintptr_t a = (uintptr_t) * (const char *const *)x,
              b = (uintptr_t) * (const char *const *)y;

    return (a > b) - (a < b);
}

/* False when there is no memory. */
static bool order_make(struct order *o, const struct gb_product *p)
{
    bool sorted = true;

    o->c = c_of(p);
    span_of(&p->c, p->m, p->n, 1, p->type_c, &o->span);
    o->at = calloc((size_t)p->batch, sizeof *o->at);
    if (!o->at)
        return false;
    for (int64_t z = 0; z < p->batch; z++) {
        o->at[z] = matrix_at(&p->c, z, p->type_c);
        sorted = sorted && (z == 0 || (uintptr_t)o->at[z - 1] <= (uintptr_t)o->at[z]);
    }
    if (!sorted)
        qsort(o->at, (size_t)p->batch, sizeof *o->at, by_address);
    return true;
}

/* Do matrices of C's list meet? All have the same strides. */
static bool order_meets_itself(const struct order *o)
{
    const int64_t length = o->span.high - o->span.low;

    for (int64_t z = 0; z < o->c.batch; z++)
        for (int64_t y = z + 1;
             y < o->c.batch && (intptr_t)o->at[y] - (intptr_t)o->at[z] < length; y++)
            if (alike_meet(&o->c, &o->c, false,
                           (intptr_t)o->at[y] - (intptr_t)o->at[z]))
                return true;
    return false;
}

/* One matrix of another party. */
static bool order_meets_one(const struct order *o, const struct party *a,
                            const struct span *s, const char *at)
{
    const intptr_t from = (intptr_t)at + s->low - o->span.high,
                   to = (intptr_t)at + s->high - o->span.low;
    int64_t low = 0, high = o->c.batch;

    while (low < high) { /* the first that does not end before */
        int64_t middle = low + (high - low) / 2;

        if ((intptr_t)o->at[middle] > from)
            high = middle;
        else
            low = middle + 1;
    }
    for (; low < o->c.batch && (intptr_t)o->at[low] < to; low++)
        if (pair_meets(a, at, &o->c, o->at[low]))
            return true;
    return false;
}

/* Any matrix of any product, for each is read when others may be final. */
static bool order_meets(const struct order *o, const struct party *a)
{
    const int64_t batch = a->x.list || a->x.batch != 0 ? a->batch : 1;
    struct span s;

    span_of(&a->x, a->rows, a->cols, 1, a->type, &s);
    for (int64_t z = 0; z < batch; z++)
        if (order_meets_one(o, a, &s, matrix_at(&a->x, z, a->type)))
            return true;
    return false;
}

/* What the usual call ends with: the whole ranges are apart, or strides are all the same. */
static bool may_meet(const struct party *a, const struct party *c)
{
    const intptr_t from = (intptr_t)a->x.at, to = (intptr_t)c->x.at;
    struct span s, t;

    if (a->x.list || c->x.list)
        return true;
    span_of(&a->x, a->rows, a->cols, a->batch, a->type, &s);
    span_of(&c->x, c->rows, c->cols, c->batch, c->type, &t);
    if (from + s.low >= to + t.high || to + t.low >= from + s.high)
        return false;
    return !are_alike(a, c, true) || alike_meet(a, c, true, from - to);
}

/* A list whose addresses lie at one distance is no list. */
static struct gb_matrix unlisted(const struct gb_product *p, struct gb_matrix x,
                                 enum gb_type type)
{
    int64_t size = (int64_t)gb_type_size(type);
    int64_t step = p->batch > 1 && x.list && !p->lists_on_device
                       ? (const char *)x.list[1] - (const char *)x.list[0]
                       : 0;

    if (!x.list || p->lists_on_device || step % size != 0)
        return x;
    for (int64_t z = 1; z < p->batch; z++)
        if ((const char *)x.list[z] - (const char *)x.list[z - 1] != step)
            return x;
    x.at = x.list[0];
    x.list = NULL;
    x.batch = step / size;
    return x;
}

static bool is_pair(enum gb_type a, enum gb_type c)
{
    for (int i = 0; i < gb_kernel_count; i++)
        if (gb_kernels[i].type == a && gb_kernels[i].type_c == c)
            return true;
    return false;
}

/* Elements of what is copied to columns are counted in 64 bits, those included that a stride
 * of 0 repeats. */
static bool is_countable(const struct party *x)
{
    int64_t count;

    return !__builtin_add_overflow(x->rows, ALIGN_MOST, &count) &&
           !__builtin_mul_overflow(count, x->cols, &count) &&
           !__builtin_mul_overflow(count, x->x.list || x->x.batch ? x->batch : 1,
                                   &count) &&
           count < FAR / 16 - ALIGN_MOST;
}

/* C's parties to come: A and B, if they are read, and vectors. How many. */
static int parties_of(const struct gb_product *p, struct party *to)
{
    const enum gb_type acc = accumulator(p), part = precision(p);
    const struct {
        struct gb_vector v;
        int64_t count;
        enum gb_type type;
    } vector[] = {
        {p->bias, p->bias_cols ? p->n : p->m, p->bias_wide ? acc : p->type_c},
        {p->row_scale, p->m, part},
        {p->col_scale, p->n, part},
    };
    int n = 0;

    if (reads_ab(p)) {
        to[n++] = (struct party){p->a, p->m, p->k, p->batch, p->type};
        to[n++] = (struct party){p->b, p->k, p->n, p->batch, p->type};
    }
    for (size_t i = 0; i < GB_COUNT(vector); i++)
        if (vector[i].v.at)
            to[n++] = (struct party){{.at = vector[i].v.at,
                                      .row = 1,
                                      .col = vector[i].count,
                                      .batch = vector[i].v.batch},
                                     vector[i].count,
                                     1,
                                     p->batch,
                                     vector[i].type};
    return n;
}

/* Lists on the device cannot be looked at. */
static bool is_hidden(const struct gb_product *p, const struct gb_matrix *x)
{
    return x->list && p->lists_on_device;
}

static enum gb_answer check_overlap(const struct gb_product *p,
                                    const struct party *party, int n)
{
    const struct party c = c_of(p);
    bool wanted = p->c.list, overlap;
    struct order order;

    if (!c_is_apart(p))
        return GB_ANSWER_OVERLAP;
    if (is_hidden(p, &p->c))
        return GB_ANSWER_OK;
    for (int i = 0; i < n; i++)
        wanted = wanted || (!is_hidden(p, &party[i].x) && may_meet(&party[i], &c));
    if (!wanted)
        return GB_ANSWER_OK;
    if (!order_make(&order, p))
        return GB_ANSWER_MEMORY;
    overlap = p->c.list && order_meets_itself(&order);
    for (int i = 0; i < n && !overlap; i++)
        overlap = !is_hidden(p, &party[i].x) && may_meet(&party[i], &c) &&
                  order_meets(&order, &party[i]);
    free(order.at);
    return overlap ? GB_ANSWER_OVERLAP : GB_ANSWER_OK;
}

static enum gb_answer check_matrices(const struct gb_product *given)
{
    struct gb_product p = *given;
    struct party party[5];
    struct span s;
    int n;

    if (p.batch == 1) /* the strides of batches say nothing then */
        p.a.batch = p.b.batch = p.c.batch = p.bias.batch = p.row_scale.batch =
            p.col_scale.batch = 0;
    if (!is_there(&p.c, p.type_c) || !list_is_there(&p, &p.c, p.type_c) ||
        !span_of(&p.c, p.m, p.n, p.batch, p.type_c, &s))
        return GB_ANSWER_ARGUMENT;
    if (reads_ab(&p)) {
        if (!is_there(&p.a, p.type) || !list_is_there(&p, &p.a, p.type) ||
            !is_there(&p.b, p.type) || !list_is_there(&p, &p.b, p.type))
            return GB_ANSWER_ARGUMENT;
        p.a = unlisted(&p, p.a, p.type);
        p.b = unlisted(&p, p.b, p.type);
    }
    p.c = unlisted(&p, p.c, p.type_c);
    party[0] = c_of(&p);
    if (!is_countable(&party[0]))
        return GB_ANSWER_MEMORY;
    n = parties_of(&p, party);
    for (int i = 0; i < n; i++) {
        if (!span_of(&party[i].x, party[i].rows, party[i].cols, p.batch, party[i].type,
                     &s))
            return GB_ANSWER_ARGUMENT;
        if (!is_countable(&party[i]))
            return GB_ANSWER_MEMORY;
    }
    return check_overlap(&p, party, n);
}

static bool vector_is_legal(const struct gb_vector *v, enum gb_type type)
{
    return (uintptr_t)v->at % (gb_type_size(type) > 8 ? 8 : gb_type_size(type)) == 0 &&
           v->batch >= 0;
}

enum gb_answer gb_product_check(const struct gb_product *p)
{
    bool complex = gb_is_complex(p->type);
    enum gb_type acc = accumulator(p), part = precision(p);

    if (p->m < 0 || p->n < 0 || p->k < 0 || p->batch < 0 || p->batch > INT32_MAX)
        return GB_ANSWER_ARGUMENT;
    if (!is_pair(p->type, p->type_c) || (complex && p->activation != GB_ACT_NONE))
        return GB_ANSWER_TYPE;
    if (!vector_is_legal(&p->bias, p->bias_wide ? acc : p->type_c) ||
        !vector_is_legal(&p->row_scale, part) || !vector_is_legal(&p->col_scale, part))
        return GB_ANSWER_ARGUMENT;
    if (p->m == 0 || p->n == 0 || p->batch == 0)
        return GB_ANSWER_OK;
    return check_matrices(p);
}

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
    f.ld = cols > 1 ? x->col : gb_round_up(rows, 128 / size);
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
        n.ld = gb_round_up(rows, 128 / (int64_t)gb_type_size(p->type));
        n.align = 128;
    }
    return n;
}

static enum gb_trans trans_of(bool trans, bool conj)
{
    return trans ? (conj ? GB_C : GB_T) : conj ? GB_CONJ : GB_N;
}

static struct gb_problem problem_of(const struct gb_product *p, struct form a,
                                    struct form b)
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
    };

    return q;
}

/* ---- on the device ----------------------------------------------------------------------- */

/* What a choice depends on. */
struct key {
    int64_t m, n, k, batch;
    const struct gb_device_info *info;
    uint32_t type, type_c, align_a, align_b, tma;
    uint8_t transa, transb, fused, padding;
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
                            key->tma ? 0 : GB_K_TMA | GB_PLAN_COPIES, choice);
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
           p->a.batch < most && p->b.batch < most && p->c.batch < most / 2 &&
           p->c.col < most / 2;
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

static struct gb_fused fused_of(const struct gb_product *p)
{
    return (struct gb_fused){
        .bias = (uintptr_t)p->bias.at,
        .row_scale = (uintptr_t)p->row_scale.at,
        .col_scale = (uintptr_t)p->col_scale.at,
        .bias_batch = p->bias.batch,
        .row_batch = p->row_scale.batch,
        .col_batch = p->col_scale.batch,
        .activation = p->activation,
        .flags =
            (p->bias_cols ? GB_F_BIAS_COLS : 0u) | (p->bias_wide ? GB_F_BIAS_ACC : 0u),
    };
}

static struct gb_gemm_args arguments(const struct gb_product *p, struct form a,
                                     struct form b, int64_t ldc,
                                     const struct gb_choice *choice)
{
    bool complex = gb_is_complex(p->type);
    struct gb_gemm_args g = {
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .k_end = p->k,
        .a_m = a.trans ? a.ld : 1,
        .a_k = a.trans ? 1 : a.ld,
        .b_k = b.trans ? b.ld : 1,
        .b_n = b.trans ? 1 : b.ld,
        .ldc = ldc,
        .split_len = choice->split_len,
        .alpha = {p->alpha.re, p->alpha.im},
        .beta = {p->beta.re, p->beta.im},
        .splits = choice->splits,
        .split_count = choice->splits,
        .batch = (int32_t)p->batch,
        .group_m = choice->group_m,
        .flags = choice->hints | (complex && p->conj_a ? GB_G_CONJ_A : 0u) |
                 (complex && p->conj_b ? GB_G_CONJ_B : 0u) |
                 (is_fused(p) ? GB_G_FUSED : 0u) | (reads_c(p) ? 0u : GB_G_BETA_ZERO),
        .fused = fused_of(p),
    };

    if (g.splits == 1 || gb_launch_sums_splits(choice->kernel, &g))
        g.flags |= GB_G_EPILOGUE;
    return g;
}

static struct form columns_of(const struct gb_product *p, int64_t rows)
{
    return (struct form){.packed = true,
                         .ld = gb_round_up(rows, 128 / (int64_t)gb_type_size(p->type)),
                         .align = 128};
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

static struct planned plan_of(const struct gb_product *p,
                              const struct gb_device_info *info)
{
    struct planned x = {.a = form_of(p, &p->a, p->m, p->k),
                        .b = form_of(p, &p->b, p->k, p->n)};
    static const struct gb_extra
        fused;                   /* planning asks no more than whether there is one */
    uint64_t fp = gb_fp_enter(); /* planning computes in doubles */

    for (int attempt = 0; attempt < 2 && !x.choice.kernel; attempt++) {
        struct gb_problem q;
        struct key key;

        if (attempt > 0) { /* no row reads them where they are */
            x.a = columns_of(p, p->m);
            x.b = columns_of(p, p->k);
        }
        q = problem_of(p, x.a, x.b);
        q.k = gb_max(q.k, 1); /* as far as planning goes */
        q.extra = is_fused(p) ? &fused : NULL;
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
                           .fused = is_fused(p)};
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
    struct gb_onstream o = {.kernel = x->choice.kernel,
                            .a = x->a.trans ? 't' : 'n',
                            .b = x->b.trans ? 't' : 'n',
                            .repair = x->choice.repair,
                            .stream = p->stream};

    if (!o.kernel)
        return GB_ANSWER_UNSUPPORTED;
    o.g = arguments(p, x->a, x->b, ldc, &x->choice);
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
        .at = matrix_at(x, z, type), .row = x->row, .col = x->col};
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
    struct gb_product q = *p;

    q.batch = 1;
    q.a = one_of(&p->a, z, p->type);
    q.b = one_of(&p->b, z, p->type);
    q.c = one_of(&p->c, z, p->type_c);
    q.bias = entry_of(&p->bias, z, p->bias_wide ? accumulator(p) : p->type_c);
    q.row_scale = entry_of(&p->row_scale, z, precision(p));
    q.col_scale = entry_of(&p->col_scale, z, precision(p));
    return q;
}

/* Lists are for products of which the device takes many at once. Of those that fill it one by
 * one, a kernel that takes no lists is the faster. */
static bool runs_apart(const struct gb_product *p, const struct planned *together,
                       const struct gb_device_info *info)
{
    struct gb_product first;
    struct planned x;

    if ((!p->a.list && !p->b.list && !p->c.list) || p->lists_on_device ||
        !together->choice.kernel)
        return false;
    first = slice(p, 0);
    x = plan_of(&first, info);
    return x.choice.kernel &&
           x.choice.seconds * (double)p->batch < together->choice.seconds;
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

static enum gb_answer run_on_device(const struct gb_product *given,
                                    struct gb_engine *engine)
{
    const struct gb_device_info *info = &gb_engine_device(engine)->info;
    struct gb_product p = oriented(given);
    enum gb_answer answer = GB_ANSWER_OK;
    struct planned x;

    p.c = unlisted(&p, p.c, p.type_c);
    if (!reads_ab(&p))
        forget_ab(&p);
    p.a = unlisted(&p, p.a, p.type);
    p.b = unlisted(&p, p.b, p.type);
    x = plan_of(&p, info);
    if (!runs_apart(&p, &x, info))
        return queue_planned(&p, &x, engine);
    for (int64_t z = 0; z < p.batch && answer == GB_ANSWER_OK; z++) {
        struct gb_product one = slice(&p, z);

        x = plan_of(&one, info);
        answer = queue_planned(&one, &x, engine);
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

    a.packed = a.packed && reads_ab(p);
    b.packed = b.packed && reads_ab(p);
    h->a = a.packed ? columns_for(p->m, p->k, size) : NULL;
    h->b = b.packed ? columns_for(p->k, p->n, size) : NULL;
    h->c = c_packed ? columns_for(p->m, p->n, gb_type_size(p->type_c)) : NULL;
    return (h->a || !a.packed) && (h->b || !b.packed) && (h->c || !c_packed);
}

static void host_operands(const struct gb_product *p, struct on_host *h)
{
    size_t size = gb_type_size(p->type), size_c = gb_type_size(p->type_c);

    h->q.a = reads_ab(p) ? p->a.at : NULL;
    h->q.b = reads_ab(p) ? p->b.at : NULL;
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
        if (reads_c(p))
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

    if (!reads_ab(&p))
        forget_ab(&p);
    a = form_of(&p, &p.a, p.m, p.k);
    b = form_of(&p, &p.b, p.k, p.n);
    if (!host_memory(&p, a, b, c_packed, &h))
        answer = GB_ANSWER_MEMORY;
    for (int64_t z = 0; z < p.batch && answer == GB_ANSWER_OK; z++) {
        struct gb_product one = slice(&p, z);

        h.extra = (struct gb_extra){.bias = one.bias.at,
                                    .row_scale = one.row_scale.at,
                                    .col_scale = one.col_scale.at,
                                    .bias_cols = p.bias_cols,
                                    .bias_wide = p.bias_wide,
                                    .activation = p.activation};
        h.q = problem_of(&one, a, b);
        h.q.batch = 0;
        h.q.ldc = c_packed || p.n == 1 ? p.m : p.c.col;
        h.q.extra = is_fused(&p) ? &h.extra : NULL;
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

    if (reads_ab(p))
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
