/* SPDX-License-Identifier: BSD-3-Clause */
/* May a product be computed? Sizes, strides, pointers and types; and whether C shares elements
 * with itself or with what is read. No device is needed for it. */
#include <stdlib.h>

#include "kernels.h"
#include "route.h"
#include "strided.h"
#include "util.h"

/* Columns that are copied are no further apart than so many elements more than they have. */
enum { PADDING = 256 };

/* The memory of matrix z. */
const char *gb_matrix_at(const struct gb_matrix *x, int64_t z, enum gb_type type)
{
    if (x->list)
        return x->list[z];
    return z == 0 ? x->at : x->at + z * x->batch * (int64_t)gb_type_size(type);
}

/* A list whose addresses lie at one distance is no list. */
struct gb_matrix gb_product_unlisted(const struct gb_product *p, struct gb_matrix x,
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
    return x->list ||
           (x->at && (uintptr_t)x->at % gb_type_size(gb_type_part(type)) == 0);
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
        o->at[z] = gb_matrix_at(&p->c, z, p->type_c);
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
        if (order_meets_one(o, a, &s, gb_matrix_at(&a->x, z, a->type)))
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

    return !__builtin_add_overflow(x->rows, PADDING, &count) &&
           !__builtin_mul_overflow(count, x->cols, &count) &&
           !__builtin_mul_overflow(count, x->x.list || x->x.batch ? x->batch : 1,
                                   &count) &&
           count < FAR / 16 - PADDING;
}

/* C's parties to come: A and B, if they are read, and vectors. How many. */
static int parties_of(const struct gb_product *p, struct party *to)
{
    const enum gb_type acc = gb_type_acc(p->type), part = gb_type_part(acc);
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

    if (gb_product_reads_ab(p)) {
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
    if (gb_product_reads_ab(&p)) {
        if (!is_there(&p.a, p.type) || !list_is_there(&p, &p.a, p.type) ||
            !is_there(&p.b, p.type) || !list_is_there(&p, &p.b, p.type))
            return GB_ANSWER_ARGUMENT;
        p.a = gb_product_unlisted(&p, p.a, p.type);
        p.b = gb_product_unlisted(&p, p.b, p.type);
    }
    p.c = gb_product_unlisted(&p, p.c, p.type_c);
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
    enum gb_type acc = gb_type_acc(p->type), part = gb_type_part(acc);

    if (p->m < 0 || p->n < 0 || p->k < 0 || p->batch < 0 || p->batch > INT32_MAX)
        return GB_ANSWER_ARGUMENT;
    if (!is_pair(p->type, p->type_c) || (complex && p->activation != GB_ACT_NONE))
        return GB_ANSWER_TYPE;
    if (p->type == GB_I8 &&
        (p->activation != GB_ACT_NONE || p->row_scale.at || p->col_scale.at))
        return GB_ANSWER_TYPE;
    if (!vector_is_legal(&p->bias, p->bias_wide ? acc : p->type_c) ||
        !vector_is_legal(&p->row_scale, part) || !vector_is_legal(&p->col_scale, part))
        return GB_ANSWER_ARGUMENT;
    if (p->m == 0 || p->n == 0 || p->batch == 0)
        return GB_ANSWER_OK;
    return check_matrices(p);
}
