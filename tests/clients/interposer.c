/* SPDX-License-Identifier: BSD-3-Clause */
/* The traps that tracing tools set: a malloc that asks dlsym and getenv, a dlsym that
 * is wrapped and allocates, a dlopen that is watched. Preloaded before or after the
 * library. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *(*real_malloc)(size_t);
static void (*real_free)(void *);
static void *(*real_dlsym)(void *, const char *);
static __thread int depth;
static char pool[65536]; /* what is allocated before malloc is found; never reused */
static size_t used;

#if defined __x86_64__
#define FIRST_VERSION "GLIBC_2.2.5"
#else
#define FIRST_VERSION "GLIBC_2.17"
#endif

/* dlsym before there is one. What moved into libc with 2.34 kept its first version too.
 */
static void *find(const char *name)
{
    return dlvsym(RTLD_NEXT, name, FIRST_VERSION);
}

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    if (!real_malloc) {
        if (depth == 0) {
            depth++;
            /* Both now: to look for free when there is an error text to free never ends. */
            *(void **)&real_free = find("free");
            *(void **)&real_malloc = dlsym(RTLD_NEXT, "malloc");
            depth--;
        }
        if (!real_malloc) { /* dlsym itself allocates */
            char *at = pool + used;

            used += (bytes + 15) / 16 * 16;
            return used <= sizeof pool ? at : NULL;
        }
    }
    if (depth == 0 && bytes > 100000) {
        depth++;
        if (getenv("INTERPOSER_LOG") && write(STDERR_FILENO, "malloc\n", 7) < 0)
            abort();
        if (dlsym(RTLD_DEFAULT, "no_such_symbol_at_all"))
            abort();
        depth--;
    }
    return real_malloc(bytes);
}

__attribute__((visibility("default"))) void free(void *at)
{
    if ((char *)at >= pool && (char *)at < pool + sizeof pool)
        return;
    if (real_free) /* nothing else was allocated before there is one */
        real_free(at);
}

/* A wrapper cannot pass RTLD_NEXT on: it means "after the wrapper" then. */
__attribute__((visibility("default"))) void *dlsym(void *handle, const char *name)
{
    void *fn;

    if (!real_dlsym)
        *(void **)&real_dlsym = find("dlsym");
    depth++;
    free(malloc(64));
    fn = real_dlsym(handle, name);
    depth--;
    return fn;
}

__attribute__((visibility("default"))) void *dlopen(const char *path, int flags)
{
    static void *(*real)(const char *, int);
    static const char text[] = "dlopen with DEEPBIND\n";

    if (!real)
        *(void **)&real = find("dlopen");
    if (flags & RTLD_DEEPBIND && getenv("INTERPOSER_WATCH") &&
        write(STDERR_FILENO, text, sizeof text - 1) < 0)
        abort();
    return real(path, flags);
}
