/* SPDX-License-Identifier: BSD-3-Clause */
/* How a process comes to use the device: in `auto` the CPU serves until the modelled gains
 * have paid for opening it; small calls never do; statistics, exit and overrides. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "tap.h"
#include "verify.h"

void dgemm_(const char *, const char *, const int *, const int *, const int *,
            const double *, const double *, const int *, const double *, const int *,
            const double *, double *, const int *);

/* n^3 with integers: every entry of C is n. */
static int product(int n)
{
    double *x = malloc(sizeof *x * (size_t)n * (size_t)n * 3), one = 1, zero = 0;
    double *a = x, *b = x + (size_t)n * (size_t)n, *c = b + (size_t)n * (size_t)n;
    int right = 1;

    for (size_t i = 0; i < (size_t)n * (size_t)n; i++)
        a[i] = b[i] = 1;
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    for (size_t i = 0; i < (size_t)n * (size_t)n; i++)
        right = right && c[i] == n;
    free(x);
    return right;
}

static int scene(const char *name)
{
    int right = 1;

    if (strcmp(name, "warm") == 0) {
        /* Enough gain in a few dozen calls whatever this machine's CPU; the pause lets the
         * helper thread end. */
        for (int i = 0; i < 60 && right; i++) {
            right = product(640);
            if (i % 10 == 9)
                usleep(200000);
        }
    } else if (strcmp(name, "small") == 0) {
        for (int i = 0; i < 1000 && right; i++)
            right = product(16);
    } else if (strcmp(name, "once") == 0) {
        right = product(300);
    }
    return !right;
}

static const char *last_call(const char *text)
{
    const char *last = text;

    for (const char *p = text; (p = strstr(p, "gemmblas: call")); p++)
        last = p;
    return last;
}

int main(int argc, char **argv)
{
    static const char *const warm[] = {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_ROUTE=auto",
                                       "GEMMBLAS_TRACE=1", "OPENBLAS_NUM_THREADS=1",
                                       NULL};
    static const char *const quiet[] = {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_ROUTE=auto",
                                        "GEMMBLAS_TRACE", NULL};
    static const char *const stats[] = {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_ROUTE=auto",
                                        "GEMMBLAS_STATS=1", "GEMMBLAS_TRACE", NULL};
    static const char *const forced[] = {"GEMMBLAS_DEVICE=emu",
                                         "GEMMBLAS_ROUTE=cpu,dgemm=gpu",
                                         "GEMMBLAS_TRACE=1", NULL};
    static const char *const other[] = {"GEMMBLAS_DEVICE=emu",
                                        "GEMMBLAS_ROUTE=gpu,dgemm=cpu",
                                        "GEMMBLAS_TRACE=1", NULL};
    static const char *const disabled[] = {"GEMMBLAS_DEVICE=emu", "GEMMBLAS_ROUTE=gpu",
                                           "GEMMBLAS_DISABLE=dgemm", "GEMMBLAS_TRACE=1",
                                           NULL};
    static const char *const none[] = {"GEMMBLAS_DEVICE=none", "GEMMBLAS_ROUTE=gpu",
                                       "GEMMBLAS_TRACE=1", NULL};
    struct child c;

    if (argc > 1)
        return scene(argv[1]);
    plan_lazy();

    child_run(&c, "warm", warm, 60);
    ok(child_passed(&c), "products are right while the device warms up");
    ok(strncmp(c.err, "gemmblas: call", 14) == 0 && strstr(c.err, " why=warming\n"),
       "the CPU serves at first");
    ok(strstr(c.err, " route=gpu why=ok ") != NULL, "then the device does");
    ok(strstr(last_call(c.err), "route=gpu") != NULL ||
           strlen(c.err) == sizeof c.err - 1,
       "and keeps doing so");

    child_run(&c, "small", quiet, 60);
    ok(child_passed(&c), "small products are right");
    is_string("", c.err, "and silent");

    child_run(&c, "small", stats, 60);
    ok(child_passed(&c) && strstr(c.err, "dgemm      cpu   small              1000"),
       "statistics see each of them");

    child_run(&c, "once", forced, 60);
    ok(child_passed(&c) && strstr(c.err, " route=gpu why=ok "), "one routine forced");
    child_run(&c, "once", other, 60);
    ok(child_passed(&c) && strstr(c.err, " route=cpu why=cpu\n"), "one routine kept");
    child_run(&c, "once", disabled, 60);
    ok(child_passed(&c) && strstr(c.err, " route=cpu why=disabled\n"), "one disabled");
    child_run(&c, "once", none, 60);
    ok(child_passed(&c) && strstr(c.err, " route=cpu why=nodevice\n"), "no device");
    return 0;
}
