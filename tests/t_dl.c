/* SPDX-License-Identifier: BSD-3-Clause */
/* Loading and unloading: this program is linked with neither gemmblas nor a BLAS, and
 * meets them by dlopen, by preload and through plug-ins. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "tap.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

typedef void (*fortran_gemm)(const char *, const char *, const int *, const int *,
                             const int *, const double *, const double *, const int *,
                             const double *, const int *, const double *, double *,
                             const int *, size_t, size_t);

static const char *library(void)
{
    static char path[4096];
    const char *top = getenv("top_builddir");

    snprintf(path, sizeof path, "%s/.libs/libgemmblas.so.0", top ? top : ".");
    return path;
}

static const char *object(const char *name)
{
    static char path[4096];
    const char *top = getenv("top_builddir");

    snprintf(path, sizeof path, "%s/tests/%s", top ? top : ".", name);
    return path;
}

/* A product that no summation order can change; n decides what is worth a device. */
static bool product(fortran_gemm dgemm, int n)
{
    size_t count = (size_t)n * (size_t)n;
    double *a = calloc(3 * count, sizeof *a), *b, *c;
    const double alpha = 1, beta = 0;
    bool right = true;

    if (!a || !dgemm) {
        free(a);
        return false;
    }
    b = a + count;
    c = b + count;
    for (size_t i = 0; i < count; i++) {
        a[i] = (double)(i % 7) - 3;
        b[i] = i % (size_t)(n + 1) == 0 ? 2 : 0; /* twice the identity */
        c[i] = 99;
    }
    dgemm("N", "N", &n, &n, &n, &alpha, a, &n, b, &n, &beta, c, &n, 1, 1);
    for (size_t i = 0; i < count; i++)
        right = right && c[i] == 2 * a[i];
    free(a);
    return right;
}

static fortran_gemm lookup(void *handle, const char *name)
{
    return (fortran_gemm)dlsym(handle, name);
}

static void *open_blas(int flags)
{
    void *handle = dlopen("libopenblas.so.0", flags);

    return handle ? handle : dlopen("libblas.so.3", flags);
}

/* Loaded into a process that uses another BLAS already. */
static int mode_b65(void)
{
    void *blas = open_blas(RTLD_NOW | RTLD_GLOBAL), *ours;
    bool right;

    if (!blas)
        return 77;
    right = product(lookup(blas, "dgemm_"), 100);
    ours = dlopen(library(), RTLD_NOW | RTLD_GLOBAL);
    if (!ours) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    right = right && product(lookup(blas, "dgemm_"), 100);
    right = right && product(lookup(RTLD_DEFAULT, "dgemm_"), 100);
    right = right && product(lookup(ours, "dgemm_"), 100);
    right = right && product(lookup(ours, "scipy_dgemm_"), 30);
    return !right;
}

static void *call_in_thread(void *arg)
{
    void **handle = arg;
    bool right = product(lookup(*handle, "dgemm_"), 100);

    dlclose(*handle);
    *handle = right ? *handle : NULL;
    return NULL; /* the thread's own data is destroyed after the library is gone */
}

/* Opened, used in a thread, closed, over and over. */
static int mode_b67(void)
{
    for (int i = 0; i < 10; i++) {
        void *handle = dlopen(library(), (i % 2 ? RTLD_NOW : RTLD_LAZY) | RTLD_LOCAL);
        pthread_t thread;

        if (!handle) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        if (pthread_create(&thread, NULL, call_in_thread, &handle) != 0)
            return 1;
        pthread_join(thread, NULL);
        if (!handle)
            return 1;
    }
    return 0;
}

/* The BLAS that a plug-in brought is closed by the program while ours still forwards to
 * it. */
static int mode_b67_fallback(void)
{
    void *blas = open_blas(RTLD_NOW | RTLD_LOCAL);
    void *ours = dlopen(library(), RTLD_NOW | RTLD_LOCAL);
    bool right;

    if (!blas)
        return 77;
    right = ours && product(lookup(ours, "dgemm_"), 20);
    dlclose(blas);
    return !(right && product(lookup(ours, "dgemm_"), 20) &&
             product(lookup(ours, "dgemm_64_") ? lookup(ours, "dgemm_") : NULL, 30));
}

static int plugin(int flags)
{
    void *handle = dlopen(object("plugin.so"), flags);
    int (*run)(void) = handle ? (int (*)(void))dlsym(handle, "plugin_product") : NULL;

    if (!run) {
        fprintf(stderr, "%s\n", dlerror());
        return 77;
    }
    return !run();
}

static int mode_plugin(void)
{
    return plugin(RTLD_NOW | RTLD_LOCAL);
}

static int mode_plugin_deepbind(void)
{
    return plugin(RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
}

/* Whatever dgemm_ is in the global scope, through a dlsym that may be wrapped. */
static int mode_default(void)
{
    return !(product(lookup(RTLD_DEFAULT, "dgemm_"), 100) &&
             product(lookup(RTLD_DEFAULT, "dgemm_"), 3));
}

/* LU of a reference LAPACK: its inner products are visible. */
static int mode_b76(void)
{
    static const char *const path[] = {
        "/usr/lib/x86_64-linux-gnu/lapack/liblapack.so.3",
        "/usr/lib/aarch64-linux-gnu/lapack/liblapack.so.3",
        "/usr/lib64/liblapack.so.3"};
    int n = 300, info = -1, pivots[300];
    double *a = malloc((size_t)(n * n) * sizeof *a);
    void *lapack = NULL;
    void (*dgetrf)(const int *, const int *, double *, const int *, int *, int *);

    for (int i = 0; !lapack && i < COUNT(path); i++)
        lapack = dlopen(path[i], RTLD_NOW | RTLD_LOCAL);
    dgetrf = lapack ? (void (*)(const int *, const int *, double *, const int *, int *,
                                int *))dlsym(lapack, "dgetrf_")
                    : NULL;
    if (!dgetrf || !a) {
        free(a);
        return 77;
    }
    for (int i = 0; i < n * n; i++)
        a[i] = i % (n + 1) == 0 ? n : 1.0 / (1 + i % 97);
    dgetrf(&n, &n, a, &n, pivots, &info);
    free(a);
    return info;
}

/* Lines of a trace file that match, by two substrings. */
static int traced(const char *path, const char *one, const char *two)
{
    char line[1024];
    FILE *file = fopen(path, "r");
    int n = 0;

    while (file && fgets(line, sizeof line, file))
        n += strstr(line, one) && strstr(line, two);
    if (file)
        fclose(file);
    return n;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {
        {"b65", mode_b65},
        {"b67", mode_b67},
        {"b67_fallback", mode_b67_fallback},
        {"plugin", mode_plugin},
        {"plugin_deepbind", mode_plugin_deepbind},
        {"default", mode_default},
        {"b76", mode_b76},
    };
    char preload[8300], trace[] = "/tmp/gemmblas-dl-XXXXXX", trace_setting[64];
    const char *route[] = {"GEMMBLAS_ROUTE=gpu", NULL};
    const char *loud[] = {"GEMMBLAS_ROUTE=gpu", preload, trace_setting, NULL};
    const char *watched[] = {preload, "INTERPOSER_WATCH=1", "GEMMBLAS_ROUTE=gpu", NULL};
    struct child c;

    for (int i = 0; argc > 1 && i < COUNT(modes); i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            return modes[i].run();
    if (access(library(), R_OK) != 0)
        skip_all("%s is missing", library());
    plan_lazy();
    close(mkstemp(trace));
    snprintf(trace_setting, sizeof trace_setting, "GEMMBLAS_TRACE=%s", trace);

    child_run(&c, "b65", NULL, 60);
    if (c.status == 77)
        skip("B65 no other BLAS here");
    else
        ok(child_passed(&c) && !*c.out && !*c.err,
           "B65 loaded late, all calls right, silent");
    child_run(&c, "b65", route, 60);
    if (c.status == 77)
        skip("B65 no other BLAS here");
    else
        ok(child_passed(&c) && !*c.out && !*c.err,
           "B65 loaded late, on the device, silent");

    child_run(&c, "b67", route, 60);
    ok(child_passed(&c), "B67 dlclose while a thread that called lives on");
    child_run(&c, "b67", NULL, 60);
    ok(child_passed(&c), "B67 the same on the CPU");
    child_run(&c, "b67_fallback", NULL, 60);
    if (c.status == 77)
        skip("B67 no other BLAS here");
    else
        ok(child_passed(&c), "B67 the BLAS behind is closed by the program");

    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library());
    child_run(&c, "plugin", loud, 60);
    if (c.status == 77) {
        skip("B73 no plug-in here: %s", c.err);
    } else {
        ok(child_passed(&c), "B73 a plug-in with local scope");
        is_int(1, traced(trace, "routine=dgemm_ ", "route=gpu"),
               "B73 its product runs on the device");
        child_run(&c, "plugin_deepbind", loud, 60);
        ok(child_passed(&c), "B73 a plug-in with DEEPBIND is not broken");
        is_int(1, traced(trace, "routine=", ""), "B73 and not intercepted");
    }

    for (int after = 0; after < 2; after++) {
        char ours[4096];

        snprintf(ours, sizeof ours, "%s", library());
        snprintf(preload, sizeof preload, "LD_PRELOAD=%s:%s",
                 after ? ours : object("interposer.so"),
                 after ? object("interposer.so") : ours);
        child_run(&c, "default", watched, 60);
        ok(child_passed(&c), "B74 with malloc, dlsym and dlopen wrapped %s ours",
           after ? "after" : "before");
        ok(!strstr(c.err, "DEEPBIND"), "B73 we open nothing with DEEPBIND");
        child_run(&c, "plugin", watched, 60);
        if (c.status == 77)
            skip("B74 no plug-in here");
        else
            ok(child_passed(&c), "B74 a plug-in with all wrapped %s ours",
               after ? "after" : "before");
    }

    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library());
    if (truncate(trace, 0) != 0)
        bail("truncate");
    child_run(&c, "b76", loud, 60);
    if (c.status == 77) {
        skip("B76 no reference LAPACK here");
    } else {
        ok(child_passed(&c), "B76 LU by the reference LAPACK");
        ok(traced(trace, "routine=dgemm_ ", "route=gpu") > 0,
           "B76 its inner products run on the device");
    }
    unlink(trace);
    return 0;
}
