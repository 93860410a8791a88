/* SPDX-License-Identifier: BSD-3-Clause */
/* The shipped tables, the table of this machine, and looking a problem up in them. */
#include "tuned.h"

#include <stdatomic.h>
#include <string.h>

#include "knobs.h"
#include "launch.h"
#include "util.h"

#define TUNED(type_, type_c_, transa_, transb_, scope_, m_, n_, k_, batch_, ragged_,   \
              kernel_, splits_, group_m_, hints_)                                      \
    {.key = {.type = GB_##type_,                                                       \
             .type_c = GB_##type_c_,                                                   \
             .transa = GB_##transa_,                                                   \
             .transb = GB_##transb_,                                                   \
             .scope = GB_TUNED_##scope_,                                               \
             .m = m_,                                                                  \
             .n = n_,                                                                  \
             .k = k_,                                                                  \
             .batch = batch_,                                                          \
             .ragged = ragged_},                                                       \
     .kernel = #kernel_,                                                               \
     .splits = splits_,                                                                \
     .group_m = group_m_,                                                              \
     .hints = hints_},
static const struct gb_tuned_row sm_80[] = {
#include "tuned/sm_80.def"
};
static const struct gb_tuned_row sm_89[] = {
#include "tuned/sm_89.def"
};
static const struct gb_tuned_row sm_90[] = {
#include "tuned/sm_90.def"
};
#undef TUNED

/* The multiprocessors of an A100, an L40S and an H200. */
const struct gb_tuned_table gb_tuned_shipped[] = {
    {GB_NVIDIA, 80, 108, sm_80, GB_COUNT(sm_80)},
    {GB_NVIDIA, 89, 142, sm_89, GB_COUNT(sm_89)},
    {GB_NVIDIA, 90, 132, sm_90, GB_COUNT(sm_90)},
};
const size_t gb_tuned_shipped_count = GB_COUNT(gb_tuned_shipped);

static const struct gb_tuned_table *_Atomic in_use;

void gb_tuned_use(const struct gb_tuned_table *table)
{
    atomic_store_explicit(&in_use, table, memory_order_release);
}

int64_t gb_tuned_class(int64_t size)
{
    uint64_t x = (uint64_t)gb_min(gb_max(size, 1), INT64_C(1) << 31);

    /* by the square, whose logarithm is whole where x is at the edge of a class */
    return (64 - __builtin_clzll(x * x)) / 2;
}

struct gb_tuned_key gb_tuned_key(const struct gb_problem *p, uint32_t align_a,
                                 uint32_t align_b, enum gb_tuned_scope scope)
{
    struct gb_tuned_key key = {
        .type = p->type,
        .type_c = p->type_c,
        .transa = gb_transposed(p->transa) ? GB_T : GB_N,
        .transb = gb_transposed(p->transb) ? GB_T : GB_N,
        .scope = scope,
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .batch = gb_max(p->batch, 1),
        .ragged = (align_a < GB_PLAN_ALIGN ? GB_REPAIR_A : 0u) |
                  (align_b < GB_PLAN_ALIGN ? GB_REPAIR_B : 0u),
    };

    if (scope == GB_TUNED_CLASS) {
        key.m = gb_tuned_class(key.m);
        key.n = gb_tuned_class(key.n);
        key.k = gb_tuned_class(key.k);
        key.batch = gb_tuned_class(key.batch);
    }
    return key;
}

int gb_tuned_compare(const struct gb_tuned_key *x, const struct gb_tuned_key *y)
{
    const int64_t a[] = {x->type,  x->type_c, x->transa, x->transb, x->ragged,
                         x->scope, x->m,      x->n,      x->k,      x->batch};
    const int64_t b[] = {y->type,  y->type_c, y->transa, y->transb, y->ragged,
                         y->scope, y->m,      y->n,      y->k,      y->batch};

    for (size_t i = 0; i < GB_COUNT(a); i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

const struct gb_tuned_row *gb_tuned_search(const struct gb_tuned_table *table,
                                           const struct gb_tuned_key *key)
{
    size_t low = 0, high = table->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = gb_tuned_compare(key, &table->rows[middle].key);

        if (order == 0)
            return &table->rows[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static bool fits(const struct gb_tuned_table *table, const struct gb_device_info *info)
{
    return table->vendor == info->vendor && table->arch == info->arch &&
           table->multiprocessors == info->multiprocessors;
}

static const struct gb_tuned_table *shipped_for(const struct gb_device_info *info)
{
    for (size_t i = 0; i < GB_COUNT(gb_tuned_shipped); i++)
        if (fits(&gb_tuned_shipped[i], info))
            return &gb_tuned_shipped[i];
    return NULL;
}

int gb_tuned_find(const struct gb_problem *p, const struct gb_device_info *info,
                  uint32_t align_a, uint32_t align_b,
                  struct gb_tuned_hit hits[GB_TUNED_HITS])
{
    const struct gb_tuned_table *own =
        atomic_load_explicit(&in_use, memory_order_acquire);
    const struct gb_tuned_table *shipped = shipped_for(info);
    int n = 0;

    if (p->uplo != GB_FULL || strcmp(gb_knobs()->tuned, "off") == 0)
        return 0;
    if (own && !fits(own, info))
        own = NULL;
    if (!own && !shipped)
        return 0;
    for (int scope = GB_TUNED_EXACT; scope <= GB_TUNED_CLASS; scope++) {
        struct gb_tuned_key key =
            gb_tuned_key(p, align_a, align_b, (enum gb_tuned_scope)scope);
        const struct gb_tuned_row *a = own ? gb_tuned_search(own, &key) : NULL;
        const struct gb_tuned_row *b = shipped ? gb_tuned_search(shipped, &key) : NULL;

        if (a)
            hits[n++] = (struct gb_tuned_hit){a, GB_BY_TUNED};
        if (b)
            hits[n++] = (struct gb_tuned_hit){b, GB_BY_SHIPPED};
    }
    return n;
}
