/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of `gemmblas tune` share: the shapes to tune, and writing what was found. */
#ifndef GB_TUNE_H
#define GB_TUNE_H

#include <stdbool.h>
#include <stddef.h>

#include "gb.h"
#include "tuned.h"

struct tune_shape {
    struct gb_problem p; /* without operands; with leading dimensions */
    bool of_class;       /* stands for its class */
};

struct tune_shapes {
    struct tune_shape *of; /* malloc'ed */
    size_t n, room;
};

/* ---- tune_shapes.c: they answer CMD_OK, or what cmd_refuse() answers ---- */

/* As the library brings such a call to the device. */
int tune_add_call(struct tune_shapes *s, const struct gb_problem *p, bool of_class);
/* What is tuned when nothing is asked for: classes of shapes, the most wanted first. */
int tune_add_default(struct tune_shapes *s);
/* The shapes files of the bench: 13 fields a line. */
int tune_add_tsv(struct tune_shapes *s, const char *path);
/* The shapes whose calls ran on the device, of what GEMMBLAS_STATS=FILE.json wrote; those that
 * took the most time first. */
int tune_add_stats(struct tune_shapes *s, const char *path);
/* Keeps those of the types in a list such as "f16,bf16:f32". */
int tune_keep_types(struct tune_shapes *s, const char *list);

/* ---- tune_write.c ---- */

/* The whole text, or the file as it was: written beside it and renamed. Makes the directory
 * above it where there is none. CMD_OK, or what cmd_refuse() answers. */
int tune_write(const char *path, const char *text);
/* Rows as a table to ship, malloc'ed; NULL for want of memory. */
char *tune_def(const struct gb_device_info *info, const struct gb_tuned_row *rows,
               size_t n);

#endif
