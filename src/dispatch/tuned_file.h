/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of tuned rows: text, whose first line says for which kernels and which device it
 * was measured, and whose last line is a checksum of the lines before it. It is believed as a
 * whole or not at all. Only `gemmblas tune` writes one. */
#ifndef GB_TUNED_FILE_H
#define GB_TUNED_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "device.h"
#include "tuned.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GB_TUNED_ROWS = 8192 }; /* at most, in a file */

/* Where the file of a device is: what GEMMBLAS_TUNED names, or
 * $XDG_CACHE_HOME/gemmblas/tuned-<device>.txt (~/.cache where that is not set). False: the
 * knob is off, or there is no home. */
bool gb_tuned_path(const struct gb_device_info *info, char *path, size_t size);

/* Pure. Rows in ascending order as text, malloc'ed; NULL for want of memory. */
char *gb_tuned_format(const struct gb_device_info *info,
                      const struct gb_tuned_row *rows, size_t n);

/* Why a text is not believed. */
enum gb_tuned_trust {
    GB_TUNED_GOOD,
    GB_TUNED_ABSENT,  /* there is no file */
    GB_TUNED_UNSAFE,  /* others may have written it */
    GB_TUNED_DAMAGED, /* cut short, changed, or no such file at all */
    GB_TUNED_STRANGE, /* of other kernels, another device or driver */
    GB_TUNED_NO_MEMORY
};
const char *gb_tuned_trust_text(enum gb_tuned_trust trust);

/* Pure but for malloc: the rows of a text for this device. *rows is written when it is good. */
enum gb_tuned_trust gb_tuned_parse(const struct gb_device_info *info, const char *text,
                                   struct gb_tuned_row **rows, size_t *n);

/* The same of a file. */
enum gb_tuned_trust gb_tuned_read(const struct gb_device_info *info, const char *path,
                                  struct gb_tuned_row **rows, size_t *n);

/* Let the rows of this device's file count, if there is one and it is good; else says why not
 * in the log. Once per process, before the first plan for the device. */
void gb_tuned_load(const struct gb_device_info *info);

/* What a row asks of L2 for A and B: "keep,stream"; and back. */
const char *gb_tuned_hints_text(uint32_t hints);
bool gb_tuned_hints_parse(const char *text, uint32_t *hints);

#ifdef __cplusplus
}
#endif
#endif
