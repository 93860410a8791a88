/* SPDX-License-Identifier: BSD-3-Clause */
/* What a user types to name a call. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"

const struct gb_routine *cmd_routine(const char *name)
{
    for (size_t i = 0; i < GB_ROUTINES; i++)
        if (strcmp(name, gb_routines[i].name) == 0)
            return &gb_routines[i];
    return NULL;
}

bool cmd_trans(const char *text, enum gb_trans *out)
{
    static const char letters[] = "NTCR";
    const char *at = strchr(letters, text[0] >= 'a' ? text[0] - 'a' + 'A' : text[0]);

    if (!text[0] || text[1] || !at)
        return false;
    *out = (enum gb_trans)(at - letters);
    return true;
}

bool cmd_size(const char *text, int64_t *out)
{
    char *end;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 10);
    if (errno || *end || end == text || value < 0 || value > INT64_C(1) << 40)
        return false;
    *out = value;
    return true;
}

int cmd_call(const char *verb, char **argv, const struct gb_routine **routine,
             struct gb_problem *p)
{
    *routine = cmd_routine(argv[0]);
    if (!*routine)
        return cmd_refuse("unknown routine \"%s\"; `gemmblas %s --help` lists them",
                          argv[0], verb);
    *p = (struct gb_problem){.op = GB_GEMM,
                             .type = (*routine)->type,
                             .type_c = (*routine)->type_c,
                             .alpha = {.re = 1},
                             .offsets = {.b_unsigned = (*routine)->type == GB_I8}};
    for (int i = 1; i <= 2; i++) {
        if (!cmd_trans(argv[i], i == 1 ? &p->transa : &p->transb))
            return cmd_refuse("\"%s\" is no transpose: use N, T, C or R", argv[i]);
    }
    for (int i = 3; i <= 5; i++) {
        if (!cmd_size(argv[i], i == 3 ? &p->m : i == 4 ? &p->n : &p->k))
            return cmd_refuse("\"%s\" is no size: use a whole number from 0 to 2^40",
                              argv[i]);
    }
    return CMD_OK;
}
