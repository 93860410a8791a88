/* SPDX-License-Identifier: BSD-3-Clause */
/* Configuration: parsed once, constant afterwards. */
#ifndef GB_KNOBS_H
#define GB_KNOBS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum gb_knob_route { GB_ROUTE_AUTO, GB_ROUTE_GPU, GB_ROUTE_CPU };
enum gb_knob_source { GB_FROM_DEFAULT, GB_FROM_FILE, GB_FROM_ENV };

struct gb_knobs {
#define GB_KNOB_TEXT const char *
#define GB_KNOB_FLAG bool
#define GB_KNOB_COUNT int64_t
#define GB_KNOB_BYTES int64_t
#define GB_KNOB_ROUTE                                                                  \
    const char * /* unparsed list; gb_knobs_route() answers per routine */
#define GB_KNOB_LEVEL int
#define GB_KNOB_MATH int /* enum gb_math */
#define KNOB(field, env, kind, text, doc) GB_KNOB_##kind field;
#include "knobs.def"
#undef KNOB
};

/* Reads environment and file on the first call (any thread); never fails: a value that does
 * not parse is reported once and the next source is used. */
const struct gb_knobs *gb_knobs(void);

/* The route that the user asked for, for a routine such as "dgemm" (no prefix, no suffix). */
enum gb_knob_route gb_knobs_route(const char *routine);
bool gb_knobs_disabled(const char *routine);

/* For `gemmblas info`: call f for every knob with its value as text and its source. */
void gb_knobs_each(void (*f)(const char *env, const char *value,
                             enum gb_knob_source source, const char *doc, void *arg),
                   void *arg);

/* Pure, for tests: "64M" to bytes; false and *out untouched when text is not a size. */
bool gb_parse_bytes(const char *text, int64_t *out);

#ifdef __cplusplus
}
#endif
#endif
