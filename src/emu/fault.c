/* SPDX-License-Identifier: BSD-3-Clause */
/* Which call of which operation fails, and how. */
#include "fault.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

struct fault {
    enum gb_fault_op op;
    unsigned long at;
    bool onwards, late;
    enum gb_status status;
};

static struct fault faults[16];
static size_t fault_count;
static unsigned long calls[GB_FAULT_COUNT];

const char *const gb_fault_op_name[GB_FAULT_COUNT] = {
#define OP(name) [GB_FAULT_##name] = #name,
    GB_FAULT_OPS(OP) GB_FAULT_TIMER_OPS(OP)
#undef OP
};

static bool find_op(const char *name, size_t len, enum gb_fault_op *op)
{
    for (int i = 0; i < GB_FAULT_COUNT; i++)
        if (strlen(gb_fault_op_name[i]) == len &&
            strncmp(gb_fault_op_name[i], name, len) == 0) {
            *op = (enum gb_fault_op)i;
            return true;
        }
    return false;
}

static bool queues(enum gb_fault_op op)
{
    return op == GB_FAULT_copy_in || op == GB_FAULT_copy_out || op == GB_FAULT_launch;
}

static bool parse_how(const char *how, size_t len, struct fault *f)
{
    static const struct {
        const char *name;
        enum gb_status status;
    } table[] = {
        {"nomem", GB_E_NOMEM},
        {"unsupported", GB_E_UNSUPPORTED},
        {"absent", GB_E_ABSENT},
        {"device", GB_E_DEVICE},
    };

    for (size_t i = 0; i < GB_COUNT(table); i++)
        if (strlen(table[i].name) == len && strncmp(table[i].name, how, len) == 0) {
            f->status = table[i].status;
            return true;
        }
    f->late = len == 4 && strncmp(how, "late", len) == 0 && queues(f->op);
    return f->late;
}

/* One item of len characters. */
static bool parse(const char *item, size_t len, struct fault *f)
{
    const char *at = memchr(item, '@', len);
    const char *stop = item + len;
    char *end;

    *f = (struct fault){0};
    if (!at || !find_op(item, (size_t)(at - item), &f->op) ||
        !isdigit((unsigned char)at[1]))
        return false;
    f->status = f->op == GB_FAULT_mem_alloc || f->op == GB_FAULT_alloc_queued ||
                        f->op == GB_FAULT_host_alloc
                    ? GB_E_NOMEM
                    : GB_E_DEVICE;
    f->at = strtoul(at + 1, &end, 10);
    if (f->at == 0)
        return false;
    if (end < stop && *end == '+') {
        f->onwards = true;
        end++;
    }
    if (end < stop && *end == '=')
        return parse_how(end + 1, (size_t)(stop - end - 1), f);
    return end == stop;
}

bool gb_fault_set(const char *text)
{
    bool understood = true;

    memset(calls, 0, sizeof calls);
    fault_count = 0;
    while (text && *text) {
        size_t len = strcspn(text, ", ");

        if (len > 0) {
            if (fault_count < GB_COUNT(faults) &&
                parse(text, len, &faults[fault_count]))
                fault_count++;
            else
                understood = false;
        }
        text += len + (text[len] != '\0');
    }
    return understood;
}

enum gb_status gb_fault_next(enum gb_fault_op op, bool *late)
{
    unsigned long call = ++calls[op];

    *late = false;
    for (size_t i = 0; i < fault_count; i++) {
        const struct fault *f = &faults[i];

        if (f->op != op || (f->onwards ? call < f->at : call != f->at))
            continue;
        *late = f->late;
        return f->late ? GB_SUCCESS : f->status;
    }
    return GB_SUCCESS;
}
