/* SPDX-License-Identifier: BSD-3-Clause */
/* Test Anything Protocol for C tests. A program announces plan_lazy(), calls ok() and its
 * relatives, and returns 0 from main: the plan is printed at exit, and the exit status is 1
 * when a test failed or none has run. */
#ifndef TAP_H
#define TAP_H

#ifdef __cplusplus
extern "C" {
#endif

#define TAP_FORMAT(text, first) __attribute__((format(printf, text, first)))

/* Once, before the first test: there are as many tests as will have run. */
void plan_lazy(void);

/* One test each; they answer whether it passed. Any thread may call, a forked child may
 * not (its reports would be counted by nobody, so they end the child with an error). */
int ok(int cond, const char *format, ...) TAP_FORMAT(2, 3);
int is_int(long long wanted, long long seen, const char *format, ...) TAP_FORMAT(3, 4);
int is_string(const char *wanted, const char *seen, const char *format, ...)
    TAP_FORMAT(3, 4);

/* Tests that cannot run here, with the reason. skip_all() replaces the plan and exits.
 */
void skip(const char *format, ...) TAP_FORMAT(1, 2);
void skip_block(unsigned long n, const char *format, ...) TAP_FORMAT(2, 3);
void skip_all(const char *format, ...) TAP_FORMAT(1, 2) __attribute__((noreturn));

/* A line for the reader of the log; and the end of everything. */
void diag(const char *format, ...) TAP_FORMAT(1, 2);
void bail(const char *format, ...) TAP_FORMAT(1, 2) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif
#endif
