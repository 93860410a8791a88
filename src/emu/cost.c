/* SPDX-License-Identifier: BSD-3-Clause */
/* What a launch takes on the emulated clock. */
#include "cost.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tensor_map.h"
#include "util.h"

enum { DEFAULT_NS = 10000 };

struct cost {
    char kernel[64]; /* "*": all */
    int32_t group_m; /* 0: any */
    uint64_t ns;
};

static struct cost costs[16];
static size_t cost_count;

/* One item of len characters. */
static bool parse(const char *item, size_t len, struct cost *c)
{
    const char *equals = memchr(item, '=', len), *stop = item + len, *at;
    size_t name;
    char *end;

    *c = (struct cost){0};
    if (!equals)
        return false;
    name = (size_t)(equals - item);
    at = memchr(item, '@', name);
    if (at) {
        c->group_m = (int32_t)strtol(at + 1, &end, 10);
        if (end != equals || c->group_m < 1)
            return false;
        name = (size_t)(at - item);
    }
    if (name == 0 || name >= sizeof c->kernel || !isdigit((unsigned char)equals[1]))
        return false;
    memcpy(c->kernel, item, name);
    c->ns = 1000 * strtoull(equals + 1, &end, 10);
    return end == stop;
}

bool gb_cost_set(const char *text)
{
    bool understood = true;

    cost_count = 0;
    while (text && *text) {
        size_t len = strcspn(text, ", ");

        if (len > 0) {
            if (cost_count < GB_COUNT(costs) && parse(text, len, &costs[cost_count]))
                cost_count++;
            else
                understood = false;
        }
        text += len + (text[len] != '\0');
    }
    return understood;
}

/* Is it the kernel, with or without a layout of two letters? */
static bool names(const char *symbol, const char *kernel)
{
    size_t len = strlen(kernel);

    if (strcmp(kernel, "*") == 0)
        return true;
    return strncmp(symbol, "gb_", 3) == 0 && strncmp(symbol + 3, kernel, len) == 0 &&
           (symbol[3 + len] == '\0' ||
            (symbol[3 + len] == '_' && isalpha(symbol[4 + len]) &&
             strlen(symbol) == len + 6));
}

/* 0 for what is no product. */
static int32_t group_of(const char *symbol, const void *args, size_t args_bytes)
{
    struct gb_gemm_args g;
    /* the argument of kernels that move tiles by TMA begins with something else */
    size_t at =
        args_bytes == sizeof(struct gb_tma_args) ? offsetof(struct gb_tma_args, g) : 0;

    if (strncmp(symbol, "gb_gemm_", 8) != 0 || args_bytes < at + sizeof g)
        return 0;
    memcpy(&g, (const char *)args + at, sizeof g);
    return g.group_m;
}

uint64_t gb_cost_ns(const char *symbol, const void *args, size_t args_bytes)
{
    int32_t group_m = group_of(symbol, args, args_bytes);

    for (size_t i = 0; i < cost_count; i++)
        if (names(symbol, costs[i].kernel) &&
            (costs[i].group_m == 0 || costs[i].group_m == group_m))
            return costs[i].ns;
    return DEFAULT_NS;
}
