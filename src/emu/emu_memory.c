/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of the emulated device, pinned memory too: guard zones and inaccessible pages
 * around every allocation. */
#include "emu_state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PAGE = 4096,
    GUARD = PAGE, /* at least, on either side */
    ALIGN = 256,  /* of memory, and no more */
};

/* Guard zones: NaN in every floating-point type, and for f64 a signalling one, which
 * arithmetic would change. */
static const unsigned char guard_bytes[2] = {0xf1, 0xff};

static struct emu_block *blocks;

bool gb_emu_guard_intact(const struct emu_block *b)
{
    const unsigned char *lo = (unsigned char *)b->map + PAGE;
    const unsigned char *hi = (unsigned char *)b->map + b->map_bytes - PAGE;
    unsigned differ = 0;

    for (const unsigned char *p = lo; p < (unsigned char *)b->data; p++)
        differ |= *p ^ guard_bytes[(p - lo) & 1];
    for (const unsigned char *p = (unsigned char *)b->data + b->bytes; p < hi; p++)
        differ |= *p ^ guard_bytes[(p - lo) & 1];
    return differ == 0;
}

void gb_emu_check_guards(const char *culprit, const char *detail)
{
    for (const struct emu_block *b = blocks; b; b = b->next)
        if (!gb_emu_guard_intact(b))
            gb_emu_die("%s%s%s: damaged the guard zone of %zu bytes of %s memory",
                       culprit, *detail ? " " : "", detail, b->bytes,
                       b->host ? "pinned" : "device");
}

struct emu_block *gb_emu_block_create(struct emu_device *dev, size_t bytes, bool host)
{
    struct emu_block *b = calloc(1, sizeof *b);
    size_t front = PAGE + GUARD + ALIGN;
    size_t total;

    if (!b)
        return NULL;
    if (__builtin_add_overflow(bytes, front + GUARD + 2 * PAGE, &total))
        goto free_block;
    b->map_bytes = total & ~(size_t)(PAGE - 1);
    b->map = mmap(NULL, b->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->map == MAP_FAILED)
        goto free_block;
    if (mprotect(b->map + PAGE, b->map_bytes - 2 * PAGE, PROT_READ | PROT_WRITE) != 0)
        goto unmap;
    b->dev = dev;
    b->data = b->map + front;
    b->bytes = bytes;
    b->host = host;
    for (size_t i = PAGE; i < b->map_bytes - PAGE; i++)
        if (i < front || i >= front + bytes)
            b->map[i] = (char)guard_bytes[i & 1];
    memset(b->data, 0xff, bytes);
    b->next = blocks;
    blocks = b;
    return b;

unmap:
    munmap(b->map, b->map_bytes);
free_block:
    free(b);
    return NULL;
}

void gb_emu_block_destroy(struct emu_block *block)
{
    struct emu_block **link = &blocks;

    while (*link != block)
        link = &(*link)->next;
    *link = block->next;
    munmap(block->map, block->map_bytes);
    free(block);
}

void gb_emu_block_free(struct emu_device *dev, struct emu_block *block,
                       const char *operation)
{
    if (!gb_emu_guard_intact(block))
        gb_emu_die("%s: the guard zone of its %zu bytes was damaged before", operation,
                   block->bytes);
    gb_emu_check_unused(block, operation);
    if (!block->host)
        dev->mem_used -= block->bytes;
    gb_emu_block_destroy(block);
}

struct emu_block *gb_emu_block_at(const void *ptr, size_t bytes)
{
    uintptr_t at = (uintptr_t)ptr;

    for (struct emu_block *b = blocks; b; b = b->next) {
        uintptr_t lo = (uintptr_t)b->data;

        if (at >= lo && at - lo < b->bytes && bytes <= b->bytes - (at - lo))
            return b;
    }
    return NULL;
}

unsigned gb_emu_blocks_drop(const struct emu_device *dev)
{
    struct emu_block *next;
    unsigned dropped = 0;

    for (struct emu_block *b = blocks; b; b = next) {
        next = b->next;
        if (b->dev == dev) {
            gb_emu_block_destroy(b);
            dropped++;
        }
    }
    return dropped;
}
