/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding the real BLAS. No lock is held while the dynamic linker is asked: it has
 * locks of its own, and a constructor that calls BLAS inside another thread's dlopen
 * would close the circle. So threads may look for the same name at once, and publish
 * equal answers. */
#include "real.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config.h"
#include "elfsym.h"
#include "hold.h"
#include "knobs.h"
#include "log.h"
#include "util.h"

/* What resolving a name answers. */
struct answer {
    void *fn;
    enum gb_int_width width;
    bool conj;    /* see struct gb_provider */
    bool fixed;   /* for good, and for every caller */
    bool several; /* other callers may get another provider */
};

enum {
    MEMO_WIDE = 1,
    MEMO_FIXED = 2,
    MEMO_SEVERAL = 4,
    MEMO_FULL = 8,
    MEMO_CONJ = 16,
};

static uintptr_t address(const void *p)
{
    return (uintptr_t)p;
}

/* ---- memory of answers ----------------------------------------------------------- */

static bool recall(struct gb_memo *memo, struct answer *a, const void *caller,
                   uint64_t *generation)
{
    unsigned seq = atomic_load_explicit(&memo->seq, memory_order_acquire);
    unsigned flags = atomic_load_explicit(&memo->flags, memory_order_relaxed);
    uintptr_t from = atomic_load_explicit(&memo->caller, memory_order_relaxed);

    a->fn = atomic_load_explicit(&memo->fn, memory_order_relaxed);
    *generation = atomic_load_explicit(&memo->generation, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (seq & 1 || seq != atomic_load_explicit(&memo->seq, memory_order_relaxed))
        return false;
    a->width = flags & MEMO_WIDE ? GB_INT64 : GB_INT32;
    a->conj = flags & MEMO_CONJ;
    a->fixed = flags & MEMO_FIXED;
    a->several = flags & MEMO_SEVERAL;
    return flags & MEMO_FULL && from == address(caller);
}

/* Not remembered when somebody else is writing: the next call asks again. */
static void remember(struct gb_memo *memo, const struct answer *a, const void *caller,
                     uint64_t generation)
{
    unsigned seq = atomic_load_explicit(&memo->seq, memory_order_relaxed);
    unsigned flags = MEMO_FULL | (a->width == GB_INT64 ? MEMO_WIDE : 0) |
                     (a->fixed ? MEMO_FIXED : 0) | (a->several ? MEMO_SEVERAL : 0) |
                     (a->conj ? MEMO_CONJ : 0);

    if (seq & 1 || !atomic_compare_exchange_strong_explicit(&memo->seq, &seq, seq + 1,
                                                            memory_order_acquire,
                                                            memory_order_relaxed))
        return;
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&memo->flags, flags, memory_order_relaxed);
    atomic_store_explicit(&memo->fn, a->fn, memory_order_relaxed);
    atomic_store_explicit(&memo->caller, address(caller), memory_order_relaxed);
    atomic_store_explicit(&memo->generation, generation, memory_order_relaxed);
    atomic_store_explicit(&memo->seq, seq + 2, memory_order_release);
}

static struct gb_memo *memo_of(struct gb_memo *memo, const void *caller)
{
    return &memo[1 + (address(caller) >> 2) % (GB_MEMOS - 1)];
}

/* ---- objects --------------------------------------------------------------------- */

static struct link_map *object_of(const void *addr)
{
    struct link_map *map = NULL;
    Dl_info info;

    return dladdr1(addr, &info, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

/* The linker's name for an object's own dynamic section: nobody need be asked. */
static bool is_ours(const struct link_map *map)
{
    return map->l_ld == _DYNAMIC;
}

static bool defines(const struct link_map *map, const char *name)
{
    return gb_elf_function(map->l_addr, map->l_ld, name) != NULL;
}

/* May this object provide the name? Another copy of gemmblas may not: the two would
 * send each other every call. Takes no lock: see scan_object. */
static bool provides(Elf64_Addr base, const Elf64_Dyn *ld, const struct gb_real *real)
{
    return ld != _DYNAMIC && gb_elf_function(base, ld, real->symbol) &&
           (!real->also || gb_elf_function(base, ld, real->also)) &&
           !gb_elf_function(base, ld, "gemmblas_version");
}

/* Opened once more so that a dlclose elsewhere does not unmap it; the caller closes
 * it. */
static void *reopen(const struct link_map *map)
{
    return dlopen(map->l_name[0] ? map->l_name : NULL, RTLD_NOLOAD | RTLD_LAZY);
}

/* A library that we forward to stays. */
static void hold(const void *fn)
{
    static const void *_Atomic held[64];
    const struct link_map *map = object_of(fn);
    const void *none;
    void *handle;

    if (!map)
        return;
    for (size_t i = 0; i < GB_COUNT(held); i++)
        if (atomic_load(&held[i]) == map)
            return;
    handle = reopen(map);
    for (size_t i = 0; handle && i < GB_COUNT(held); i++) {
        none = NULL;
        if (atomic_compare_exchange_strong(&held[i], &none, map))
            return;
    }
}

/* dlsym, or NULL where the answer is no provider of the name. */
static void *checked(void *handle, const struct gb_real *real)
{
    void *fn = dlsym(handle, real->symbol);
    const struct link_map *map = fn ? object_of(fn) : NULL;

    return map && provides(map->l_addr, map->l_ld, real) ? fn : NULL;
}

static void *function_in(const struct link_map *map, const char *name)
{
    const Elf64_Sym *s = gb_elf_function(map->l_addr, map->l_ld, name);
    void *handle, *fn;

    if (!s)
        return NULL;
    if (ELF64_ST_TYPE(s->st_info) == STT_FUNC)
        /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
        return (void *)(map->l_addr + s->st_value);
    handle = reopen(map);
    if (!handle)
        return NULL;
    fn = dlsym(handle, name); /* runs the indirect function's resolver */
    dlclose(handle);
    return fn;
}

/* The provider that an object reaches. Where that is us (it is linked with -lgemmblas,
 * or is a libblas.so.3 that leads to us), the library behind is the one that has
 * isamax. */
static void *reached(void *handle, const struct gb_real *real)
{
    void *fn = checked(handle, real), *sibling;
    const struct link_map *map;

    if (fn)
        return fn;
    sibling = dlsym(handle, real->sibling);
    map = sibling ? object_of(sibling) : NULL;
    return map && provides(map->l_addr, map->l_ld, real)
               ? function_in(map, real->symbol)
               : NULL;
}

/* ---- the list of loaded objects -------------------------------------------------- */

static int add_generation(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    *(uint64_t *)arg = info->dlpi_adds + info->dlpi_subs + 1;
    return 1;
}

/* fork copies the dynamic linker's locks as they are: a child made while another thread of
 * ours is in there would wait for them for ever. So fork waits until nobody is; not for long,
 * since a thread that a handler took away never says so. */
static atomic_int linking;
static atomic_bool forking;
static __thread int linking_depth;
static pthread_mutex_t one_at_a_time = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static void before_fork(void)
{
    atomic_store(&forking, true);
    for (int i = 0; i < 2000 && atomic_load(&linking) > 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static void after_fork(void)
{
    atomic_store(&forking, false);
}

/* In a child, the threads that were in there or held the lock are gone. */
static void after_fork_in_child(void)
{
    atomic_store(&linking, 0);
    linking_depth = 0;
    atomic_store(&forking, false);
    one_at_a_time = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

static void register_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

static void watch_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, register_forks);
}

static void enter_linker(void)
{
    watch_forks();
    atomic_fetch_add(&linking, 1);
    while (linking_depth == 0 && atomic_load(&forking)) {
        atomic_fetch_sub(&linking, 1);
        sched_yield();
        atomic_fetch_add(&linking, 1);
    }
    linking_depth++;
}

static void leave_linker(void)
{
    linking_depth--;
    atomic_fetch_sub(&linking, 1);
}

static void list_objects(int (*f)(struct dl_phdr_info *, size_t, void *), void *arg)
{
    enter_linker();
    dl_iterate_phdr(f, arg);
    leave_linker();
}

/* Changes, and never returns to an old value, when an object is loaded or unloaded. */
static uint64_t generation(void)
{
    uint64_t g = 0;

    list_objects(add_generation, &g);
    return g;
}

struct scan {
    const struct gb_real *real;
    int wanted, found;
    const void *dynamic; /* of the wanted provider: an address in it */
    char *name;          /* and room for PATH_MAX bytes of its name */
};

/* The dynamic linker holds the lock that dlopen takes after its other ones: nothing here
 * may ask it anything. */
static int scan_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    size_t len = strlen(info->dlpi_name) + 1;
    struct scan *s = arg;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *ph = &info->dlpi_phdr[i];
        /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
        const Elf64_Dyn *ld = (const Elf64_Dyn *)(info->dlpi_addr + ph->p_vaddr);

        if (ph->p_type == PT_DYNAMIC && provides(info->dlpi_addr, ld, s->real) &&
            s->found++ == s->wanted && len <= PATH_MAX) {
            s->dynamic = ld;
            memcpy(s->name, info->dlpi_name, len);
        }
    }
    return 0;
}

static const struct link_map *object_behind(void *handle)
{
    const struct link_map *map = NULL;

    return dlinfo(handle, RTLD_DI_LINKMAP, (void *)&map) == 0 ? map : NULL;
}

static void let_go(void *handle)
{
    if (handle)
        dlclose(handle);
}

/* The i-th loaded provider in load order, and how many there are. On the list there are also
 * libraries that another thread has not finished opening, and any of them may be closed
 * now: to open it once more waits for the former, and prevents the latter until the caller
 * lets *handle go. */
static void *loaded_provider(const struct gb_real *real, int i, int *count,
                             void **handle)
{
    struct scan s = {.real = real, .wanted = i, .name = malloc(PATH_MAX)};
    const struct link_map *map = NULL;

    *handle = NULL;
    *count = 0;
    if (!s.name)
        return NULL;
    list_objects(scan_object, &s);
    *count = s.found;
    if (s.dynamic) {
        *handle = dlopen(s.name[0] ? s.name : NULL, RTLD_NOLOAD | RTLD_LAZY);
        map = *handle ? object_behind(*handle) : object_of(s.dynamic);
    }
    free(s.name);
    /* Gone meanwhile: another library has the name, or the place. */
    if (!map || map->l_ld != s.dynamic)
        return NULL;
    return function_in(map, real->symbol);
}

/* ---- what a provider is like ----------------------------------------------------- */

/* Length 3 to whom reads 32 bits, negative to whom reads 64: nothing to search, answer
 * 0. */
static enum gb_int_width probe_isamax(void *fn, bool by_value)
{
    static const float x[] = {1, 2, 3};
    const int64_t n = (int64_t)0xffffffff00000003u, one = 1;
    int64_t at;

    if (by_value)
        at = ((int64_t(*)(int64_t, const float *, int64_t))fn)(n, x, one);
    else
        at = ((int64_t(*)(const int64_t *, const float *, const int64_t *))fn)(&n, x,
                                                                               &one);
    return (int32_t)at == 0 ? GB_INT64 : GB_INT32;
}

static enum gb_int_width width_of(const struct gb_real *real, const void *fn)
{
    const struct link_map *map = object_of(fn);
    void *handle = map ? reopen(map) : NULL, *probe;
    enum gb_int_width width = GB_INT32;

    if (!handle)
        return GB_INT32;
    if ((probe = dlsym(handle, real->sibling)))
        width = probe_isamax(probe, strncmp(real->sibling, "cblas_", 6) == 0);
    else if ((probe = dlsym(handle, "isamax_")))
        width = probe_isamax(probe, false);
    else if ((probe = dlsym(handle, "openblas_get_config")) &&
             strstr(((const char *(*)(void))probe)(), "USE64BITINT"))
        width = GB_INT64;
    dlclose(handle);
    return width;
}

/* OpenBLAS, by any of its names, is the BLAS with a fourth form of transpose. */
static bool conj_of(const void *fn)
{
    static const char *const name[] = {"openblas_get_config", "openblas_get_config64_",
                                       "scipy_openblas_get_config",
                                       "scipy_openblas_get_config64_"};
    const struct link_map *map = object_of(fn);
    void *handle = map ? reopen(map) : NULL;
    bool found = false;

    if (!handle)
        return false;
    for (size_t i = 0; !found && i < GB_COUNT(name); i++)
        found = dlsym(handle, name[i]) != NULL;
    dlclose(handle);
    return found;
}

/* ---- the choices, in order ------------------------------------------------------- */

/* Opened once; *tried says that a NULL is final. No DEEPBIND: it breaks sanitizers and
 * malloc replacements. */
static void *open_once(const char *path, void *_Atomic *slot, atomic_bool *tried)
{
    void *handle = atomic_load(slot);

    if (handle || atomic_load(tried))
        return handle;
    handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    atomic_store(slot, handle);
    atomic_store(tried, true);
    return handle;
}

static void *from_user(struct gb_real *real)
{
    static void *_Atomic slot;
    static atomic_bool tried, told, useful;
    const char *path = gb_knobs()->library;
    void *handle, *fn;

    if (!path[0])
        return NULL;
    handle = open_once(path, &slot, &tried);
    fn = handle ? reached(handle, real) : NULL;
    if (!handle && !atomic_exchange(&told, true))
        gb_warn("GEMMBLAS_LIBRARY=%s cannot be opened; the next choice is used", path);
    if (fn)
        atomic_store(&useful, true);
    if (handle && !fn && !real->loaded_only &&
        !atomic_exchange(&real->reported, true)) {
        /* Each name that a BLAS lacks is news; that something is no BLAS is said once. */
        if (atomic_load(&useful) || !atomic_exchange(&told, true))
            gb_warn("GEMMBLAS_LIBRARY=%s has no %s of its own; the next choice is used",
                    path, real->symbol);
    }
    return fn;
}

static void *from_fallback(const struct gb_real *real)
{
    static const char *const path[] = {GB_OPENBLAS_SONAME, "libopenblas.so.0",
                                       "libblas.so.3"};
    static void *_Atomic slot[GB_COUNT(path)];
    static atomic_bool tried[GB_COUNT(path)];

    for (size_t i = 0; i < GB_COUNT(path); i++) {
        void *handle = open_once(path[i], &slot[i], &tried[i]);
        void *sibling = handle ? dlsym(handle, "isamax_") : NULL;

        /* The first that is a BLAS: opening a second one for a name that the first
         * lacks would only add threads. */
        if (sibling)
            return reached(handle, real);
    }
    return NULL;
}

/* Are we in the scope that everybody searches first? Then what follows us there is what
 * any caller would have got. */
static bool in_global_scope(const struct gb_real *real)
{
    void *program = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD), *fn;
    const struct link_map *map;

    if (!program)
        return false;
    fn = dlsym(program, real->symbol);
    dlclose(program);
    map = fn ? object_of(fn) : NULL;
    return map && is_ours(map);
}

static void *of_caller(const struct gb_real *real, const void *caller)
{
    /* The byte before: a call may be the last instruction of its function. */
    const struct link_map *map = caller ? object_of((const char *)caller - 1) : NULL;
    void *handle = map ? reopen(map) : NULL, *fn;

    if (!handle)
        return NULL;
    fn = reached(handle, real);
    dlclose(handle);
    return fn;
}

/* Several have the name, and the caller's own libraries do not say which: 32-bit
 * integers are what a plain name promises. */
static void *first_narrow(const struct gb_real *real, int count, void **handle)
{
    for (int i = 0; i < count; i++) {
        int n;
        void *fn = loaded_provider(real, i, &n, handle);

        if (fn && width_of(real, fn) == GB_INT32)
            return fn;
        let_go(*handle);
    }
    return loaded_provider(real, 0, &count, handle);
}

static struct answer resolve(struct gb_real *real, const void *caller)
{
    struct answer a = {.width = real->width};
    void *handle = NULL;
    int count;

    if ((a.fn = from_user(real))) {
        a.fixed = true;
    } else if ((a.fn = checked(RTLD_NEXT, real)) &&
               (!real->plain || in_global_scope(real))) {
        a.fixed = true;
    } else if ((a.fn = loaded_provider(real, 0, &count, &handle))) {
        a.fixed = !real->plain;
        a.several = real->plain && count > 1;
        if (a.several) {
            void *fn = of_caller(real, caller);

            if (!fn) {
                let_go(handle);
                fn = first_narrow(real, count, &handle);
            }
            a.fn = fn;
        }
    }
    if (!a.fn && !real->loaded_only && (a.fn = from_fallback(real)))
        a.fixed = !real->plain;
    if (a.fn) {
        hold(a.fn);
        a.conj = conj_of(a.fn);
        if (real->plain)
            a.width = width_of(real, a.fn);
    }
    let_go(handle);
    dlerror();
    return a;
}

static struct answer find(struct gb_real *real, const void *caller)
{
    struct gb_memo *mine = memo_of(real->memo, caller);
    uint64_t now, then;
    struct gb_hold guard;
    struct answer a;

    if (recall(&real->memo[0], &a, NULL, &then) && a.fixed)
        return a;
    now = generation();
    if (recall(&real->memo[0], &a, NULL, &then) && then == now &&
        (!a.several || (recall(mine, &a, caller, &then) && then == now)))
        return a;
    /* A handler that jumps out of dlopen leaves a library half loaded. */
    gb_hold_begin(&guard);
    enter_linker();
    a = resolve(real, caller);
    leave_linker();
    remember(&real->memo[0], &a, NULL, now);
    if (a.several)
        remember(mine, &a, caller, now);
    gb_hold_end(&guard);
    /* Without a slow path there is no entry that jumps. */
    if (a.fixed && real->slow && !gb_knobs()->serialize_cpu)
        atomic_store_explicit(&real->fast, a.fn, memory_order_release);
    return a;
}

struct gb_provider gb_real_find(struct gb_real *real, const void *caller)
{
    struct answer a = find(real, caller);

    if (!a.fn && real->alias)
        return gb_real_find(real->alias, caller);
    if (!a.fn && !atomic_exchange(&real->reported, true))
        gb_info("no BLAS here has %s: the portable routine serves", real->symbol);
    return (struct gb_provider){a.fn, a.width, a.conj};
}

void *gb_real_foreign(struct gb_real *real, struct gb_memo *memo, const void *caller,
                      bool *fixed)
{
    /* Of any kind: the name alone. */
    const struct gb_real anybody = {.symbol = real->symbol, .sibling = real->sibling};
    struct gb_memo *mine = memo_of(memo, caller);
    uint64_t now = generation(), then;
    struct answer a = {0};
    struct gb_hold guard;

    *fixed = false;
    if (recall(mine, &a, caller, &then) && then == now)
        return a.fn;
    gb_hold_begin(&guard);
    enter_linker();
    a = (struct answer){.fn = checked(RTLD_NEXT, &anybody)};
    *fixed = a.fn && in_global_scope(&anybody);
    if (*fixed)
        hold(a.fn);
    else
        a.fn = of_caller(&anybody, caller);
    if (a.fn) {
        const struct link_map *map = object_of(a.fn);

        if (map && defines(map, real->also))
            a.fn = NULL;
    }
    if (!*fixed)
        remember(mine, &a, caller, now);
    dlerror();
    leave_linker();
    gb_hold_end(&guard);
    return a.fn;
}

/* ---- for our own work ------------------------------------------------------------ */

struct gb_provider gb_real_any(const char *base, const char **symbol)
{
#define LOADED(name, isamax, bits, is_plain)                                           \
    {                                                                                  \
        .symbol = name, .sibling = isamax, .width = bits, .plain = is_plain,           \
        .loaded_only = true                                                            \
    }
#define ANY(t)                                                                         \
    {                                                                                  \
        t "gemm",                                                                      \
        {                                                                              \
            LOADED(t "gemm_", "isamax_", GB_INT32, true),                              \
                LOADED(t "gemm_64_", "isamax_64_", GB_INT64, false),                   \
                LOADED("scipy_" t "gemm_", "scipy_isamax_", GB_INT32, false),          \
                LOADED("scipy_" t "gemm_64_", "scipy_isamax_64_", GB_INT64, false),    \
            {                                                                          \
                .symbol = t "gemm_", .sibling = "isamax_", .width = GB_INT32,          \
                .plain = true                                                          \
            }                                                                          \
        }                                                                              \
    }
    static struct {
        const char *base;
        struct gb_real real[5];
    } any[] = {ANY("s"), ANY("d"), ANY("c"), ANY("z")};
#undef ANY
#undef LOADED

    for (size_t i = 0; i < GB_COUNT(any); i++) {
        if (strcmp(any[i].base, base) != 0)
            continue;
        for (size_t j = 0; j < GB_COUNT(any[i].real); j++) {
            struct answer a = find(&any[i].real[j], NULL);

            if (!a.fn)
                continue;
            if (symbol)
                *symbol = any[i].real[j].symbol;
            return (struct gb_provider){a.fn, a.width, a.conj};
        }
    }
    return (struct gb_provider){0};
}

/* While the lock is held, no handler may jump away with it, nor a cancellation. The real BLAS
 * may call back: the lock is recursive, and the outermost call holds off. Floating-point
 * state and errno are the real BLAS's to change. */
static __thread struct gb_hold locked;
static __thread int lock_depth;

bool gb_real_lock(void)
{
    if (!gb_knobs()->serialize_cpu)
        return false;
    watch_forks();
    if (lock_depth++ == 0) {
        gb_hold_begin(&locked);
        gb_fp_leave(locked.fp);
    }
    pthread_mutex_lock(&one_at_a_time);
    return true;
}

void gb_real_unlock(void)
{
    pthread_mutex_unlock(&one_at_a_time);
    if (--lock_depth > 0)
        return;
    locked.error = errno;
    locked.fp = gb_fp_enter();
    gb_hold_end(&locked);
}

static void *handler(const char *name)
{
    void *fn = dlsym(RTLD_DEFAULT, name);
    const struct link_map *map = fn ? object_of(fn) : NULL;

    dlerror();
    if (!map || is_ours(map) || !defines(map, name) || defines(map, "dgemm_") ||
        defines(map, "cblas_dgemm") || defines(map, "dgetrf_"))
        return NULL;
    return fn;
}

void *gb_real_xerbla(void)
{
    return handler("xerbla_");
}

void *gb_real_cblas_xerbla(void)
{
    return handler("cblas_xerbla");
}

const char *gb_real_path(const void *addr)
{
    Dl_info info;

    return addr && dladdr(addr, &info) && info.dli_fname ? info.dli_fname : "";
}
