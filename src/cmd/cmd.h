/* SPDX-License-Identifier: BSD-3-Clause */
/* The `gemmblas` command: one file per verb. A verb answers the exit status: 0, or 2 after one
 * line on stderr that names what is wrong and how to mend it. */
#ifndef GB_CMD_H
#define GB_CMD_H

enum { CMD_OK = 0, CMD_USAGE = 2 };

/* argv[0] is the verb. */
int cmd_info(int argc, char **argv);
int cmd_explain(int argc, char **argv);

/* Print "gemmblas: ..." on stderr and answer CMD_USAGE. */
int cmd_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
