/* SPDX-License-Identifier: BSD-3-Clause */
/* The search for the real BLAS from the inside: who answers for which caller, with
 * which integers, and that he stays when his owner closes him. t_providers.sh has the same
 * from the outside. This program links no BLAS. */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "real.h"
#include "tap.h"

/* As in entry.c: a name never changes its provider while its object is loaded. */
#define PLAIN(name, isamax)                                                            \
    {                                                                                  \
        .symbol = name, .sibling = isamax, .width = GB_INT32, .plain = true            \
    }
static struct gb_real fortran = PLAIN("dgemm_", "isamax_");
static struct gb_real cblas = PLAIN("cblas_dgemm", "cblas_isamax");
static struct gb_real absent = {
    .symbol = "dgemm_77_", .sibling = "isamax_77_", .width = GB_INT64};

static char *fixture(const char *name)
{
    static char path[PATH_MAX];
    const char *top = getenv("top_builddir");

    snprintf(path, sizeof path, "%s/tests/fixtures/%s", top ? top : ".", name);
    return path;
}

static void *load(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!handle)
        bail("%s", dlerror());
    return handle;
}

/* An address that a call from inside that function might return to. */
static const void *inside(void *handle, const char *function)
{
    const char *at = dlsym(handle, function);

    if (!at)
        bail("no %s", function);
    return at + 1;
}

static void is_provider(struct gb_real *real, void *plugin, enum gb_int_width width,
                        const char *what)
{
    struct gb_provider p = gb_real_find(real, inside(plugin, "plugin_fortran"));

    ok(p.fn && p.fn == dlsym(plugin, real->symbol), "%s: own %s", what, real->symbol);
    is_int(width, p.width, "%s: width of %s", what, real->symbol);
    ok(!p.conj, "%s: %s is not taken for OpenBLAS's", what, real->symbol);
}

struct asker {
    void *wanted[2];
    long wrong;
};

static void *ask(void *arg)
{
    struct asker *a = arg;

    for (int i = 0; i < 20000; i++) {
        int who = i / 3 % 2;
        struct gb_provider p = gb_real_find(&fortran, (const char *)a->wanted[who] + 1);

        a->wrong += p.fn != a->wanted[who] || p.width != (who ? GB_INT64 : GB_INT32);
    }
    return NULL;
}

static void threads(void *narrow, void *wide)
{
    struct asker a[4];
    pthread_t t[4];

    for (int i = 0; i < 4; i++) {
        a[i] =
            (struct asker){.wanted = {dlsym(narrow, "dgemm_"), dlsym(wide, "dgemm_")}};
        if (pthread_create(&t[i], NULL, ask, &a[i]))
            bail("no thread");
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        is_int(0, a[i].wrong, "thread %d always gets the caller's own", i);
    }
}

static void everyday(const char *path, enum gb_int_width width)
{
    struct gb_real real = PLAIN("cgemm_", "isamax_");
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    struct gb_provider p;

    if (!handle) {
        skip("%s is not here", path);
        return;
    }
    p = gb_real_find(&real, inside(handle, "dgetrf_"));
    ok(p.fn == dlsym(handle, "cgemm_") && p.width == width,
       "%s has integers of %d bits", path, width == GB_INT64 ? 64 : 32);
    ok(p.conj, "%s takes the letter R", path);
}

int main(void)
{
    struct gb_real alias = {.symbol = "dgemm_88_",
                            .sibling = "isamax_88_",
                            .width = GB_INT32,
                            .alias = &fortran};
    void *narrow, *wide, *was;
    const char *symbol = NULL;

    plan_lazy();
    narrow = load(fixture("plugin32.so"));
    is_provider(&fortran, narrow, GB_INT32, "alone");
    is_provider(&cblas, narrow, GB_INT32, "alone");
    ok(gb_real_find(&fortran, NULL).fn == dlsym(narrow, "dgemm_"), "alone: for anyone");
    wide = load(fixture("plugin64.so"));
    for (int i = 0; i < 2; i++) {
        is_provider(&fortran, narrow, GB_INT32, "two");
        is_provider(&fortran, wide, GB_INT64, "two");
        is_provider(&cblas, wide, GB_INT64, "two");
        is_provider(&cblas, narrow, GB_INT32, "two");
    }
    is_int(GB_INT32, gb_real_find(&fortran, NULL).width,
           "a caller without BLAS of its own gets 32 bits");
    threads(narrow, wide);
    ok(!fortran.fast && !cblas.fast, "no entry jumps while there are several");

    ok(!gb_real_find(&absent, NULL).fn, "a name that nobody has");
    is_int(GB_INT64, gb_real_find(&absent, NULL).width, "keeps its own width");
    ok(gb_real_find(&alias, inside(wide, "plugin_fortran")).fn == dlsym(wide, "dgemm_"),
       "a name that nobody has is asked for by its other spelling");

    ok(gb_real_any("dgemm", &symbol).fn != NULL, "some dgemm for our own use");
    is_string("dgemm_", symbol ? symbol : "", "by this name");
    ok(!gb_real_any("dgemm3m", NULL).fn, "but no unknown routine");

    was = gb_real_find(&fortran, inside(narrow, "plugin_fortran")).fn;
    ok(strstr(gb_real_path(was), "plugin32.so") != NULL, "path of a provider");
    dlclose(narrow);
    ok(strstr(gb_real_path(was), "plugin32.so") != NULL,
       "which stays when it is closed");
    is_provider(&fortran, wide, GB_INT64, "the other closed");

    everyday("libopenblas.so.0", GB_INT32);
    everyday("libopenblas64.so.0", GB_INT64);
    ok(!gb_real_xerbla() && !gb_real_cblas_xerbla(), "this program has no handlers");
    return 0;
}
