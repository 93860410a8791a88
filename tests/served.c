/* SPDX-License-Identifier: BSD-3-Clause */
/* Who has served a call: what the trace says, and which BLAS is behind an exported name. */
#include "served.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"

/* ---- route and trace ------------------------------------------------------------- */

/* Of the calls, see verify_route(). */
static FILE *trace;
static char trace_path[64];
static pid_t trace_owner;

static void drop_trace(void)
{
    if (getpid() == trace_owner)
        unlink(trace_path);
}

bool verify_route(const char *route)
{
    const char *device;
    int fd;

    setenv("GEMMBLAS_ROUTE", route, 0);
    setenv("GEMMBLAS_DEVICE", "emu", 0);
    snprintf(trace_path, sizeof trace_path, "/tmp/gemmblas-trace-XXXXXX");
    fd = mkstemp(trace_path);
    if (fd < 0 || !(trace = fdopen(fd, "r")))
        bail("no file for the trace");
    trace_owner = getpid();
    atexit(drop_trace);
    setenv("GEMMBLAS_TRACE", trace_path, 1);
    device = getenv("GEMMBLAS_DEVICE");
    route = getenv("GEMMBLAS_ROUTE");
    return route && device && strcmp(route, "gpu") == 0 && strcmp(device, "none") != 0;
}

bool verify_on_hardware(void)
{
    const char *device = getenv("GEMMBLAS_DEVICE");

    return device && strncmp(device, "emu", 3) != 0 && strcmp(device, "none") != 0;
}

/* The text after " key=" in a trace line, up to a blank, into buf. */
static bool field(const char *line, const char *key, char *buf, size_t len)
{
    char pattern[32];
    const char *at;
    size_t n;

    snprintf(pattern, sizeof pattern, " %s=", key);
    at = strstr(line, pattern);
    if (!at)
        return false;
    at += strlen(pattern);
    n = strcspn(at, " \n");
    if (n >= len)
        n = len - 1;
    memcpy(buf, at, n);
    buf[n] = '\0';
    return true;
}

static long long number(const char *line, const char *key)
{
    char text[32];

    return field(line, key, text, sizeof text) ? atoll(text) : -1;
}

struct verify_trace verify_trace_read(void)
{
    struct verify_trace t = {.calls = 0};
    char line[1024], route[8];

    clearerr(trace); /* past the end of file of the last reading */
    while (fgets(line, sizeof line, trace)) {
        if (!field(line, "route", route, sizeof route))
            continue;
        /* A BLAS whose cblas_dgemm calls dgemm_, which is ours: one call. */
        if (field(line, "why", t.why, sizeof t.why) && strcmp(t.why, "nested") == 0)
            continue;
        t.calls++;
        t.on_gpu = strcmp(route, "gpu") == 0;
        if (t.on_gpu)
            t.gpu++;
        else
            t.cpu++;
        t.kernel[0] = t.routine[0] = '\0';
        field(line, "routine", t.routine, sizeof t.routine);
        field(line, "kernel", t.kernel, sizeof t.kernel);
        t.m = number(line, "m");
        t.n = number(line, "n");
        t.k = number(line, "k");
        t.panels = number(line, "panels");
        t.splits = number(line, "splits");
    }
    return t;
}

void verify_gemm_untraced(const struct verify_gemm *g)
{
    struct stat traced = {.st_size = 0};

    if (trace && stat(trace_path, &traced) != 0)
        bail("no trace");
    verify_gemm_call(g);
    if (trace && truncate(trace_path, traced.st_size) != 0)
        bail("no trace");
}

/* ---- the BLAS behind ------------------------------------------------------------- */

enum { OBJECTS = 256 };

struct objects {
    char *name[OBJECTS];
    int count;
};

/* The names only: nothing may be asked from in here. */
static int collect(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct objects *o = arg;

    (void)size;
    if (!info->dlpi_name[0])
        return 0;
    if (o->count < OBJECTS)
        o->name[o->count] = strdup(info->dlpi_name);
    o->count++;
    return 0;
}

static const struct link_map *object_of(const void *addr)
{
    struct link_map *map = NULL;
    Dl_info info;

    return addr && dladdr1(addr, &info, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

/* That object's own definition of the name, if it is no gemmblas and not what the test
 * calls. */
static void *defined_by(const char *object, const char *name)
{
    void *handle = object ? dlopen(object, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *fn = handle ? dlsym(handle, name) : NULL;
    const struct link_map *map = object_of(fn), *wanted = NULL;

    if (!handle)
        return NULL;
    dlinfo(handle, RTLD_DI_LINKMAP, (void *)&wanted);
    if (map != wanted || map == object_of(dlsym(RTLD_DEFAULT, name)) ||
        object_of(dlsym(handle, "gemmblas_version")) == map)
        fn = NULL;
    dlclose(handle);
    return fn;
}

static void *defined_by_any(const char *name)
{
    void *fn = defined_by(getenv("GEMMBLAS_LIBRARY"), name);
    struct objects o = {.count = 0};

    dl_iterate_phdr(collect, &o);
    if (o.count > OBJECTS)
        bail("more than %d objects are loaded", OBJECTS);
    for (int i = 0; i < o.count; i++) {
        if (!fn)
            fn = defined_by(o.name[i], name);
        free(o.name[i]);
    }
    return fn;
}

bool verify_direct(const struct verify_flavour *f, struct verify_flavour *direct)
{
    void *fn = defined_by_any(f->symbol);
    size_t len = strlen(f->symbol);
    char spelt[64];

    /* "dgemm", which hardly any BLAS has, is "dgemm_" by another name. */
    if (!fn && f->interface == VERIFY_FORTRAN && f->symbol[len - 1] != '_') {
        snprintf(spelt, sizeof spelt, "%s_", f->symbol);
        fn = defined_by_any(spelt);
    }
    *direct = *f;
    direct->fn = (void (*)(void))fn;
    return fn != NULL;
}

/* An empty call, so that the BLAS behind the name is known. */
static void touch(const struct verify_flavour *f)
{
    char none[16] = {0};

    verify_call(f, 102, "N", "N", 0, 0, 0, verify_real(1), none, 1, none, 1,
                verify_real(1), none, 1);
    if (trace)
        verify_trace_read();
}

bool verify_takes_conj(const struct verify_flavour *f)
{
    static const char *const marks[] = {"openblas_get_config", "openblas_get_config64_",
                                        "scipy_openblas_get_config",
                                        "scipy_openblas_get_config64_"};
    static signed char *known; /* 1: yes, -1: no */
    signed char *answer;
    struct verify_flavour direct;
    const struct link_map *map;
    void *handle;

    if (!known && !(known = calloc((size_t)verify_flavour_count, sizeof *known)))
        bail("no memory");
    answer = &known[f - verify_flavours];
    if (*answer)
        return *answer > 0;
    touch(f);
    *answer = 1;
    if (!verify_direct(f, &direct))
        return true;
    map = object_of((void *)direct.fn);
    handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
    *answer = -1;
    for (int i = 0; handle && i < 4; i++)
        if (dlsym(handle, marks[i]))
            *answer = 1;
    if (*answer < 0)
        diag("%s: the BLAS behind is no OpenBLAS, so the letter R is not tried",
             f->symbol);
    return *answer > 0;
}

void verify_say_provider(void)
{
    const struct verify_flavour *f = verify_flavour("dgemm_");
    struct verify_flavour direct;

    touch(f);
    if (verify_direct(f, &direct))
        diag("the BLAS behind dgemm_: %s", object_of((void *)direct.fn)->l_name);
    else
        diag("there is no BLAS behind dgemm_");
}
