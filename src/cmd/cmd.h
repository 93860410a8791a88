/* SPDX-License-Identifier: BSD-3-Clause */
/* The `gemmblas` command: one file per verb. A verb answers the exit status: 0, or 2 after one
 * line on stderr that names what is wrong and how to mend it. */
#ifndef GB_CMD_H
#define GB_CMD_H

#include <stdbool.h>
#include <stdint.h>

#include "args.h"
#include "gb.h"

enum { CMD_OK = 0, CMD_USAGE = 2 };

/* argv[0] is the verb. */
int cmd_info(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_tune(int argc, char **argv);

/* Print "gemmblas: ..." on stderr and answer CMD_USAGE. */
int cmd_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Seconds of a clock that never goes back. */
double cmd_now(void);

/* ---- words.c ---- */

const struct gb_routine *cmd_routine(const char *name); /* NULL when there is none */
bool cmd_trans(const char *text, enum gb_trans *out);
bool cmd_size(const char *text, int64_t *out);

/* ROUTINE TRANSA TRANSB M N K of a verb: what it names but for operands, alpha 1 and beta 0;
 * CMD_OK, or what cmd_refuse() answers. */
int cmd_call(const char *verb, char **argv, const struct gb_routine **routine,
             struct gb_problem *p);

#endif
