/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines on stderr (never stdout), one write(2) each, errno kept. Silent unless
 * GEMMBLAS_LOG asks. Levels go by volume: an error happens once per process, a warning once
 * per cause, info once per device or file, debug per call. */
#ifndef GB_LOG_H
#define GB_LOG_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum gb_log_level { GB_LOG_NONE, GB_LOG_ERROR, GB_LOG_WARN, GB_LOG_INFO, GB_LOG_DEBUG };

/* Default GB_LOG_WARN: a warning is something the user can mend (an unknown knob). */
extern enum gb_log_level gb_log_level;

void gb_log_write(enum gb_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));

/* Write len bytes to fd (stderr or a statistics file), whole, errno kept, EINTR retried. */
void gb_log_emit(int fd, const char *text, unsigned long len);

#define gb_log(level, ...)                                                             \
    do {                                                                               \
        if (__builtin_expect((level) <= gb_log_level, 0))                              \
            gb_log_write((level), __VA_ARGS__);                                        \
    } while (0)
#define gb_error(...) gb_log(GB_LOG_ERROR, __VA_ARGS__)
#define gb_warn(...) gb_log(GB_LOG_WARN, __VA_ARGS__)
#define gb_info(...) gb_log(GB_LOG_INFO, __VA_ARGS__)
#define gb_debug(...) gb_log(GB_LOG_DEBUG, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
