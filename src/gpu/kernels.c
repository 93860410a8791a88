/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel registry: kernels.def as a table, the names that a row implies, and the images
 * that hold the code. */
#include "kernels.h"

#include <stdio.h>
#include <string.h>

#include "images.h"
#include "util.h"

const struct gb_kernel gb_kernels[] = {
#define KERNEL(name_, family_, type_, type_c_, type_acc_, arch_min_, arch_max_,        \
               tile_m_, tile_n_, tile_k_, stages_, align_, threads_, smem_, flags_,    \
               efficiency_)                                                            \
    {                                                                                  \
        .name = #name_,                                                                \
        .family = #family_,                                                            \
        .type = GB_##type_,                                                            \
        .type_c = GB_##type_c_,                                                        \
        .type_acc = GB_##type_acc_,                                                    \
        .arch_min = arch_min_,                                                         \
        .arch_max = arch_max_,                                                         \
        .tile_m = tile_m_,                                                             \
        .tile_n = tile_n_,                                                             \
        .tile_k = tile_k_,                                                             \
        .stages = stages_,                                                             \
        .align = align_,                                                               \
        .threads = threads_,                                                           \
        .smem = smem_,                                                                 \
        .flags = flags_,                                                               \
        .efficiency = efficiency_,                                                     \
    },
#include "kernels.def"
#undef KERNEL
};

const int gb_kernel_count = GB_COUNT(gb_kernels);

/* What every row must keep, checked where the row is read. */
enum {
    SIZE_F16 = 2,
    SIZE_BF16 = 2,
    SIZE_F32 = 4,
    SIZE_F64 = 8,
    SIZE_C32 = 8,
    SIZE_C64 = 16
};
enum { SIZE_I8 = 1, SIZE_I32 = 4 };
#define KERNEL(name, family, type, type_c, type_acc, arch_min, arch_max, tile_m,       \
               tile_n, tile_k, stages, align, threads, smem, flags, efficiency)        \
    _Static_assert((tile_k) >= ((SIZE_##type) == 2 ? 16 : 1), #name ": tile_k");       \
    _Static_assert((stages) >= 1, #name ": stages");                                   \
    _Static_assert((tile_m) > 0 && (tile_n) > 0, #name ": tile");                      \
    _Static_assert((threads) % 32 == 0 && (threads) <= 1024, #name ": threads");       \
    _Static_assert((tile_m) * (SIZE_##type) % 16 == 0, #name ": row of A");            \
    _Static_assert((tile_n) * (SIZE_##type) % 16 == 0, #name ": row of B");            \
    /* a complex element need not be more aligned than its parts */                    \
    _Static_assert((align)*2 % (SIZE_##type) == 0, #name ": align");                   \
    _Static_assert((arch_min) <= (arch_max), #name ": architectures");                 \
    _Static_assert((efficiency) > 0 && (efficiency) <= 1000, #name ": efficiency");
#include "kernels.def"
#undef KERNEL

const struct gb_kernel *gb_kernel_find(const char *name)
{
    for (int i = 0; i < gb_kernel_count; i++)
        if (strcmp(gb_kernels[i].name, name) == 0)
            return &gb_kernels[i];
    return NULL;
}

bool gb_kernel_runs(const struct gb_kernel *k, const struct gb_device_info *info)
{
    switch (info->vendor) {
    case GB_NVIDIA:
        return info->arch >= k->arch_min && info->arch <= k->arch_max &&
               k->smem + (k->smem ? GB_KERNEL_STATIC : 0u) <= info->smem_per_block &&
               (!(k->flags & GB_K_TMA) || gb_image_find(k->family, info));
    case GB_AMD:
        return k->arch_max == 0;
    case GB_EMU:
        return !(k->flags & GB_K_TMA) || (k->flags & GB_K_INTEGER);
    }
    return false;
}

void gb_kernel_symbol(const struct gb_kernel *k, char a, char b, char *buf, size_t len)
{
    /* the code of such a row is that of the one whose name it has but for "_c2" */
    int tail = k->flags & GB_K_PAIRS ? 3 : 0;

    if (k->flags & GB_K_FAST) {
        a = 't';
        b = 'n';
    }
    if (k->flags & (GB_K_EMULATED | GB_K_INTEGER))
        snprintf(buf, len, "gb_%.*s", (int)strlen(k->name) - tail, k->name);
    else
        snprintf(buf, len, "gb_%.*s_%c%c", (int)strlen(k->name) - tail, k->name, a, b);
}

void gb_kernel_reduce_symbol(const struct gb_kernel *k, char *buf, size_t len)
{
    snprintf(buf, len, "gb_reduce_%s_%s", gb_type_name(k->type_acc),
             gb_type_name(k->type_c));
}

const struct gb_image *gb_image_find(const char *family,
                                     const struct gb_device_info *info)
{
    for (int i = 0; i < gb_image_count; i++) {
        const struct gb_image *image = &gb_images[i];

        if (image->vendor == info->vendor && strcmp(image->family, family) == 0 &&
            (image->arch == 0 || image->arch == info->arch))
            return image;
    }
    return NULL;
}
