/* SPDX-License-Identifier: BSD-3-Clause */
/* Fibers: the threads of one block, or of the blocks of a cluster, each on its own stack, all on
 * one OS thread. A fiber runs until it waits for others or ends: for all of its block, for those
 * of its warp (which may meet by themselves any number of times), of a group or the cluster, or
 * for memory to say what it should. In a round every fiber that can go on does, warps shuffled;
 * one in which none could is a mistake of the kernel.
 * So a kernel's own source runs on any machine, and what its threads must not assume about
 * each other's progress is varied by a seed. */
#include "fiber.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define FIBER_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define FIBER_TSAN 1
#endif
#if FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace
{

#if FIBER_ASAN || FIBER_TSAN
constexpr size_t STACK = 256 << 10;
#else
constexpr size_t STACK = 64 << 10;
#endif
constexpr uint32_t WARP = 32;
constexpr uint32_t MAX_BLOCK = 1024, MAX_CLUSTER = 8;
constexpr uint32_t MAX_ROUNDS = 1u << 22; /* of one block */
constexpr int MAX_IDLE = 4;               /* crews kept for the next run */
constexpr size_t MAX_STATIC = 48
                              << 10; /* of static shared memory, as on every device */
constexpr size_t MAX_DYNAMIC = 227 << 10; /* as on the largest device */
constexpr unsigned char GUARD_BYTE = 0xa5;
#if FIBER_ASAN
constexpr size_t GUARD = 0; /* the sanitizer's own zones see more */
#else
constexpr size_t GUARD = 64; /* bytes after an area of shared memory */
#endif

enum State { READY, WAITING, MEETING, AWAITING, DONE, REFUSED, ASTRAY, NO_MEMORY };

/* Where execution may be switched to and from. */
struct Context {
#if defined(__x86_64__)
    void *sp;
#else
    ucontext_t uc;
#endif
#if FIBER_ASAN
    void *fake_stack;
    const void *bottom;
    size_t size;
#endif
};

/* Shared memory: `bytes` of it at the very end of the allocation, but for the guard. */
struct Area {
    unsigned char *base;
    size_t room, bytes;

    unsigned char *at() const
    {
        return base + (room - bytes) / 16 * 16;
    }
};

struct Crew;

/* An asynchronous copy that has been asked for. */
struct Copy {
    void *to;
    const void *from;
    uint32_t bytes, valid;
    uint32_t group;
};

struct Fiber {
    Context context;
    Crew *crew;
    uint32_t thread, block; /* in its block; of the crew */
    int line;               /* where it waits */
    const char *why;        /* it went astray */
    State state;
    void *mine; /* what it brought to the meeting */
    void (*all)(void *const *lanes);
    bool (*ready)(void *what); /* what it awaits */
    void *what;
    void *local;
    bool local_used;
    Copy *copies; /* under way, in the order of their groups */
    uint32_t copy_count, copy_room;
    uint32_t groups; /* committed */
};

/* A rendezvous of some of a block's threads, or of a cluster's. */
struct Group {
    uint32_t come, held; /* who is there; meetings held so far */
    uint32_t threads;    /* of whom so many are to come */
    int line;
    void **given;
};

/* What is to be done some time. */
struct Later {
    void (*run)(const void *what);
    alignas(16) unsigned char what[GB_FIBER_LATER];
};

struct Block {
    Area fixed, dynamic;
    bool ended;
    Group groups[GB_FIBER_BARRIERS];
};

/* One run's fibers. Stacks are kept between blocks and between runs: each fiber is an endless
 * loop of "run the kernel's body, report DONE". */
struct Crew {
    Crew *next;
    uint32_t threads;
    Fiber *fibers;
    char *stacks;
    Context main;
    Fiber *current;

    void (*body)(const void *args);
    const void *args;
    uint32_t first, grid; /* block of the grid that the first one is */
    uint32_t size, count; /* threads of a block; blocks that run side by side */
    Block blocks[MAX_CLUSTER];
    Group all; /* of the cluster */
    Later *later;
    uint32_t later_count, later_room;
    bool stray;   /* the memory of a block that had ended was asked for */
    void **given; /* room for what the groups are given */
};

thread_local Crew *now;

pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
Crew *idle;
int idle_count;

} // namespace

/* ---- switching ---- */

#if defined(__x86_64__)
/* Save the callee-saved registers on this stack, publish its top in *save, continue on `to`. */
extern "C" void gb_fiber_switch(void **save, void *to)
    __attribute__((visibility("hidden")));
asm(".text\n"
    ".globl gb_fiber_switch\n"
    ".hidden gb_fiber_switch\n"
    ".type gb_fiber_switch, @function\n"
    "gb_fiber_switch:\n"
    "    push %rbp\n"
    "    push %rbx\n"
    "    push %r12\n"
    "    push %r13\n"
    "    push %r14\n"
    "    push %r15\n"
    "    mov %rsp, (%rdi)\n"
    "    mov %rsi, %rsp\n"
    "    pop %r15\n"
    "    pop %r14\n"
    "    pop %r13\n"
    "    pop %r12\n"
    "    pop %rbx\n"
    "    pop %rbp\n"
    "    ret\n"
    ".size gb_fiber_switch, .-gb_fiber_switch\n");
#endif

/* To the thread sanitizer a crew is the one thread that runs it: with a fiber of the sanitizer's
 * own for each of ours, every switch costs a comparison of clocks with all others', and tests
 * take hours. So it must not count calls where a crew may go on in another thread; the stacks
 * that it reports may be mixed up below a kernel. */
#if FIBER_TSAN
#define FIBER_UNSEEN __attribute__((no_sanitize("thread"), noinline))
#else
#define FIBER_UNSEEN
#endif

namespace
{

FIBER_UNSEEN void switch_to(Context *from, Context *to)
{
#if FIBER_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->bottom, to->size);
#endif
#if defined(__x86_64__)
    gb_fiber_switch(&from->sp, to->sp);
#else
    swapcontext(&from->uc, &to->uc);
#endif
#if FIBER_ASAN
    /* back from `to`, whose stack a fiber must learn anew: another OS thread may run the crew */
    __sanitizer_finish_switch_fiber(from->fake_stack, &to->bottom, &to->size);
#endif
}

/* The new fiber finds itself through the crew that this thread runs; after that it asks no
 * thread-local of its own, because its next run may be on another OS thread. */
[[noreturn]] FIBER_UNSEEN void fiber_main()
{
    Fiber *self = now->current;
    Crew *crew = self->crew;

#if FIBER_ASAN
    /* the first switch in tells where the main stack is */
    __sanitizer_finish_switch_fiber(nullptr, &crew->main.bottom, &crew->main.size);
#endif
    for (;;) {
        self->local_used = false;
        crew->body(crew->args);
        self->copy_count = self->groups = 0;
        self->state = DONE;
        switch_to(&self->context, &crew->main);
    }
}

/* Ends the run from within a kernel. */
[[noreturn]] void stop(Fiber *self, State state)
{
    self->state = state;
    switch_to(&self->context, &self->crew->main);
    abort(); /* a crew that stopped is not run again */
}

void context_init(Context *c, char *stack)
{
    memset(c, 0, sizeof *c);
#if defined(__x86_64__)
    /* entered by `ret`: as after a call, rsp + 8 is a multiple of 16 */
    void **top = reinterpret_cast<void **>(stack + STACK) - 2;

    *--top = nullptr;
    *--top = reinterpret_cast<void *>(fiber_main);
    for (int i = 0; i < 6; i++)
        *--top = nullptr;
    c->sp = top;
#else
    getcontext(&c->uc);
    c->uc.uc_stack.ss_sp = stack;
    c->uc.uc_stack.ss_size = STACK;
    c->uc.uc_link = nullptr;
    makecontext(&c->uc, fiber_main, 0);
#endif
#if FIBER_ASAN
    c->bottom = stack;
    c->size = STACK;
#endif
}

/* ---- shared memory ---- */

bool area_open(Area *a, size_t room)
{
    a->room = (room + 127) / 128 * 128;
    a->bytes = 0;
    a->base = static_cast<unsigned char *>(aligned_alloc(128, a->room + GUARD * 2));
    if (a->base)
        memset(a->base + a->room, GUARD_BYTE, GUARD);
    return a->base != nullptr;
}

/* All bits set is a NaN in every type, and no count or index that a kernel could like. What an odd
 * size leaves before the guard belongs to it. */
void area_poison(Area *a)
{
    unsigned char *const end = a->at() + a->bytes;

    memset(a->at(), 0xff, a->bytes);
    memset(end, GUARD_BYTE, (size_t)(a->base + a->room - end));
}

bool area_intact(const Area *a)
{
    const unsigned char *const end = a->base + a->room + GUARD;

    for (const unsigned char *x = a->at() + a->bytes; x < end; x++)
        if (*x != GUARD_BYTE)
            return false;
    return true;
}

/* ---- crews ---- */

void crew_free(Crew *crew)
{
#if FIBER_ASAN
    ASAN_UNPOISON_MEMORY_REGION(crew->stacks, crew->threads * STACK);
#endif
    munmap(crew->stacks, crew->threads * STACK);
    for (uint32_t i = 0; i < crew->threads; i++) {
        free(crew->fibers[i].copies);
        free(crew->fibers[i].local);
    }
    for (uint32_t b = 0; b < crew->count; b++)
        free(crew->blocks[b].fixed.base);
    free(crew->given);
    free(crew->later);
    free(crew->fibers);
    free(crew);
}

/* The lowest page of each stack is out of bounds. */
Crew *crew_new(uint32_t size, uint32_t count)
{
    const uint32_t threads = size * count;
    uint32_t opened = 0;

    Crew *crew = static_cast<Crew *>(calloc(1, sizeof *crew));
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (!crew)
        return nullptr;
    crew->threads = threads;
    crew->size = size;
    crew->count = count;
    crew->fibers = static_cast<Fiber *>(calloc(threads, sizeof *crew->fibers));
    crew->given = static_cast<void **>(
        calloc((size_t)(count * GB_FIBER_BARRIERS) * size, sizeof *crew->given));
    if (!crew->fibers || !crew->given)
        goto free_fibers;
    for (; opened < count; opened++) {
        Block *b = &crew->blocks[opened];

        if (!area_open(&b->fixed, MAX_STATIC))
            goto free_area;
        for (uint32_t g = 0; g < GB_FIBER_BARRIERS; g++)
            b->groups[g].given =
                crew->given + (size_t)(opened * GB_FIBER_BARRIERS + g) * size;
    }
    crew->stacks =
        static_cast<char *>(mmap(nullptr, threads * STACK, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (crew->stacks == MAP_FAILED)
        goto free_area;
    for (uint32_t i = 0; i < threads; i++) {
        Fiber *f = &crew->fibers[i];

        if (mprotect(crew->stacks + i * STACK, page, PROT_NONE) != 0)
            goto unmap;
        f->crew = crew;
        f->thread = i % size;
        f->block = i / size;
    }
    for (uint32_t i = 0; i < threads; i++)
        context_init(&crew->fibers[i].context, crew->stacks + i * STACK);
    return crew;

unmap:
    munmap(crew->stacks, threads * STACK);
free_area:
    while (opened > 0)
        free(crew->blocks[--opened].fixed.base);
free_fibers:
    free(crew->given);
    free(crew->fibers);
    free(crew);
    return nullptr;
}

Crew *crew_take(uint32_t size, uint32_t count)
{
    Crew **link, *crew = nullptr;

    pthread_mutex_lock(&idle_lock);
    for (link = &idle; *link; link = &(*link)->next) {
        if ((*link)->size == size && (*link)->count == count) {
            crew = *link;
            *link = crew->next;
            idle_count--;
            break;
        }
    }
    pthread_mutex_unlock(&idle_lock);
    return crew ? crew : crew_new(size, count);
}

/* A crew whose fibers stopped midway cannot serve again. */
void crew_give(Crew *crew, bool sound)
{
    Crew *old = nullptr;

    if (sound) {
        pthread_mutex_lock(&idle_lock);
        crew->next = idle;
        idle = crew;
        if (++idle_count > MAX_IDLE) {
            Crew **link = &idle;

            while ((*link)->next)
                link = &(*link)->next;
            old = *link;
            *link = nullptr;
            idle_count--;
        }
        pthread_mutex_unlock(&idle_lock);
        crew = old;
    }
    if (crew)
        crew_free(crew);
}

/* ---- order ---- */

uint32_t draw(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t r = a % b;

        a = b;
        b = r;
    }
    return a;
}

/* Blocks in the order (first + i * step) mod grid: a permutation without memory. */
struct Order {
    uint64_t first, step, grid;
};

Order order_of_blocks(uint32_t grid, uint32_t *seed)
{
    Order o = {draw(seed) % grid, draw(seed) % grid | 1, grid};

    while (gcd(o.step, grid) != 1)
        o.step++;
    return o;
}

void shuffle(uint16_t *order, uint32_t count, uint32_t *seed)
{
    for (uint32_t i = 0; i < count; i++)
        order[i] = (uint16_t)i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = draw(seed) % i;
        uint16_t t = order[i - 1];

        order[i - 1] = order[j];
        order[j] = t;
    }
}

/* ---- blocks that run side by side ---- */

/* The lanes of a warp that can go on, forwards, backwards or rotated. Did any? */
bool run_lanes(Crew *crew, uint32_t first, uint32_t lanes, uint32_t *seed)
{
    const uint32_t turn = draw(seed) % lanes;
    const bool back = draw(seed) & 1;
    bool any = false;

    for (uint32_t l = 0; l < lanes; l++) {
        const uint32_t lane = l + turn < lanes ? l + turn : l + turn - lanes;
        Fiber *f = &crew->fibers[first + (back ? lanes - 1 - lane : lane)];

        if (f->state != READY && !(f->state == AWAITING && f->ready(f->what)))
            continue;
        f->state = READY;
        crew->current = f;
        switch_to(&crew->main, &f->context);
        any = true;
    }
    return any;
}

/* If all lanes of a whole warp have come to one meeting, hold it. */
bool meet(Crew *crew, uint32_t first, uint32_t lanes)
{
    Fiber *f = &crew->fibers[first];
    void *given[WARP];

    if (f->state != MEETING || lanes != WARP)
        return false;
    for (uint32_t l = 0; l < WARP; l++) {
        if (f[l].state != MEETING || f[l].line != f->line || f[l].all != f->all)
            return false;
        given[l] = f[l].mine;
    }
    if (f->all)
        f->all(given);
    for (uint32_t l = 0; l < WARP; l++)
        f[l].state = READY;
    return true;
}

/* Does one of the things that wait to be done. */
bool do_later(Crew *crew, uint32_t *seed)
{
    uint32_t i;
    Later l;

    if (crew->later_count == 0)
        return false;
    i = draw(seed) % crew->later_count;
    l = crew->later[i];
    crew->later[i] = crew->later[--crew->later_count];
    l.run(l.what);
    return true;
}

/* Every fiber that can go on, until it waits or ends, warps shuffled, but for those of block
 * `skip`. Did any? */
bool run_round(Crew *crew, uint32_t skip, uint32_t *seed)
{
    uint16_t order[MAX_CLUSTER * MAX_BLOCK / WARP];
    const uint32_t warps = (crew->size + WARP - 1) / WARP;
    bool any = false;

    shuffle(order, warps * crew->count, seed);
    for (uint32_t w = 0; w < warps * crew->count; w++) {
        const uint32_t begin = order[w] % warps * WARP, block = order[w] / warps;
        const uint32_t first = block * crew->size + begin;
        const uint32_t lanes = crew->size - begin < WARP ? crew->size - begin : WARP;

        if (block == skip)
            continue;
        do {
            any |= run_lanes(crew, first, lanes, seed);
        } while (meet(crew, first, lanes));
        if (crew->later_count > 0 && draw(seed) % 2)
            any |= do_later(crew, seed);
    }
    while (!any && do_later(crew, seed))
        any = true;
    return any;
}

/* If all threads of a block have come to its barrier, let them go on. */
bool release(Crew *crew, uint32_t block)
{
    Fiber *f = &crew->fibers[block * crew->size];

    for (uint32_t i = 0; i < crew->size; i++)
        if (f[i].state != WAITING || f[i].line != f->line)
            return false;
    for (uint32_t i = 0; i < crew->size; i++)
        f[i].state = READY;
    return true;
}

struct Message {
    char *text;
    size_t bytes;
};

__attribute__((format(printf, 2, 3))) int wrong(const Message &m, const char *format,
                                                ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(m.text, m.bytes, format, args);
    va_end(args);
    return GB_FIBER_WRONG;
}

int no_memory(const Message &m, const char *symbol, uint32_t threads)
{
    snprintf(m.text, m.bytes, "%s: no memory for %u fibers", symbol, threads);
    return GB_FIBER_NOMEM;
}

bool has_ended(const Crew *crew, uint32_t block)
{
    for (uint32_t i = 0; i < crew->size; i++)
        if (crew->fibers[block * crew->size + i].state != DONE)
            return false;
    return true;
}

/* Nothing goes on: what is wrong in this block? That something never comes is said when no block
 * has another mistake, from which it may follow. */
int stuck(const Crew *crew, uint32_t block, bool any_reason, const Message &m)
{
    const Fiber *waiting = nullptr, *done = nullptr;
    const uint32_t number = crew->first + block;

    for (uint32_t i = 0; i < crew->size; i++) {
        const Fiber *f = &crew->fibers[block * crew->size + i];

        if (f->state == MEETING)
            return wrong(m,
                         "block %u: not all of its warp come to thread %u at line "
                         "%d",
                         number, f->thread, f->line);
        if (f->state == AWAITING && !any_reason)
            continue;
        if (f->state == AWAITING)
            return wrong(m, "block %u: thread %u waits at line %d for what never comes",
                         number, f->thread, f->line);
        if (f->state == DONE)
            done = f;
        else if (waiting && waiting->line != f->line)
            return wrong(
                m,
                "block %u: thread %u waits at the barrier of line %d, thread %u at "
                "that of line %d",
                number, waiting->thread, waiting->line, f->thread, f->line);
        else
            waiting = f;
    }
    if (waiting && done)
        return wrong(m,
                     "block %u: thread %u waits at the barrier of line %d, thread "
                     "%u has ended",
                     number, waiting->thread, waiting->line, done->thread);
    return 0;
}

int run_blocks(Crew *crew, const char *symbol, uint32_t *seed, const Message &m)
{
    /* one of several blocks, or none, falls far behind the others */
    const uint32_t slow =
        crew->count > 1 ? draw(seed) % (crew->count + 1) : MAX_CLUSTER;
    uint32_t rounds = 0;

    for (uint32_t i = 0; i < crew->threads; i++)
        crew->fibers[i].state = READY;
    for (uint32_t b = 0; b < crew->count; b++)
        crew->blocks[b].ended = false;
    crew->stray = false;
    crew->later_count = 0;
    for (;;) {
        bool any = slow < crew->count && draw(seed) % 16 && run_round(crew, slow, seed);
        bool ended;

        any = any || run_round(crew, MAX_CLUSTER, seed);
        ended = crew->later_count == 0;

        for (uint32_t i = 0; i < crew->threads; i++) {
            const Fiber *f = &crew->fibers[i];

            if (f->state == NO_MEMORY)
                return no_memory(m, symbol, crew->threads);
            if (f->state == REFUSED)
                return wrong(m,
                             "block %u: too much shared memory, or two objects of it",
                             crew->first + f->block);
            if (f->state == ASTRAY)
                return wrong(m, "block %u: thread %u: %s", crew->first + f->block,
                             f->thread, f->why);
            ended &= f->state == DONE;
        }
        if (++rounds == MAX_ROUNDS)
            return wrong(m, "block %u: goes on and on", crew->first);
        if (crew->stray)
            return wrong(m, "block %u or its neighbours: reached after its end",
                         crew->first);
        for (uint32_t b = 0; b < crew->count; b++) {
            if (!area_intact(&crew->blocks[b].fixed) ||
                !area_intact(&crew->blocks[b].dynamic))
                return wrong(m, "block %u: a write outside the shared memory",
                             crew->first + b);
            any |= release(crew, b);
            crew->blocks[b].ended = has_ended(crew, b);
        }
        if (ended)
            return 0;
        for (uint32_t b = 0; !any && b < 2 * crew->count; b++) {
            const int status = stuck(crew, b % crew->count, b >= crew->count, m);

            if (status != 0)
                return status;
        }
    }
}

} // namespace

/* ---- what a kernel asks (seam.h) ---- */

extern "C" {

uint32_t gb_fiber_thread(void)
{
    return now->current->thread;
}

uint32_t gb_fiber_block(void)
{
    return now->first + now->current->block;
}

void gb_fiber_refuse(const char *why)
{
    now->current->why = why;
    stop(now->current, ASTRAY);
}

uint32_t gb_fiber_cluster_size(void)
{
    return now->count;
}

uint32_t gb_fiber_rank(void)
{
    return now->current->block;
}

uint32_t gb_fiber_grid(void)
{
    return now->grid;
}

static void wait_as(Fiber *self, State state, int line)
{
    self->line = line;
    self->state = state;
    switch_to(&self->context, &self->crew->main);
}

void gb_fiber_sync(int line)
{
    wait_as(now->current, WAITING, line);
}

void gb_fiber_warp(int line, void *mine, void (*all)(void *const *lanes))
{
    Fiber *self = now->current;

    self->mine = mine;
    self->all = all;
    wait_as(self, MEETING, line);
}

void gb_fiber_await(int line, bool (*ready)(void *what), void *what)
{
    Fiber *self = now->current;

    self->ready = ready;
    self->what = what;
    wait_as(self, AWAITING, line);
}

/* Whoever comes last holds the meeting; the others await that it was held. */
struct Held {
    const Group *group;
    uint32_t before;
};

static bool held(void *what)
{
    const Held *h = static_cast<const Held *>(what);

    return h->group->held != h->before;
}

static void come(Group *g, int line, uint32_t place, uint32_t threads, void *mine,
                 void (*all)(void *const *lanes))
{
    Fiber *self = now->current;
    Held h = {g, g->held};

    if (g->given)
        g->given[place] = mine;
    if (g->come++ == 0) {
        g->line = line;
        g->threads = threads;
    } else if (g->line != line || g->threads != threads) {
        gb_fiber_refuse("threads come to one barrier from two places");
    }
    if (g->come < threads) {
        gb_fiber_await(line, held, &h);
        return;
    }
    g->come = 0;
    if (all) {
        /* in the order of threads; those that do not take part left no gift */
        void *given[MAX_BLOCK];
        uint32_t n = 0;

        for (uint32_t i = 0; i < self->crew->size; i++)
            if (g->given[i])
                given[n++] = g->given[i];
        if (n != threads)
            gb_fiber_refuse("a thread came twice to one barrier");
        all(given);
    }
    if (g->given)
        memset(g->given, 0, self->crew->size * sizeof *g->given);
    g->held++;
}

void gb_fiber_group(int line, uint32_t id, uint32_t threads, void *mine,
                    void (*all)(void *const *lanes))
{
    const Fiber *self = now->current;

    come(&now->blocks[self->block].groups[id], line, self->thread, threads, mine, all);
}

void gb_fiber_cluster(int line)
{
    come(&now->all, line, 0, now->threads, nullptr, nullptr);
}

void *gb_fiber_local(void)
{
    Fiber *self = now->current;

    if (!self->local && !(self->local = malloc(GB_FIBER_LOCAL)))
        stop(self, NO_MEMORY);
    if (!self->local_used)
        memset(self->local, 0, GB_FIBER_LOCAL);
    self->local_used = true;
    return self->local;
}

/* The kernel's one static object; the first thread that comes sets its size. */
void *gb_fiber_shared(size_t bytes)
{
    Crew *crew = now;
    Area *fixed = &crew->blocks[crew->current->block].fixed;

    if (fixed->bytes == 0 && bytes <= MAX_STATIC) {
        fixed->bytes = bytes;
        area_poison(fixed);
    }
    if (fixed->bytes != bytes)
        stop(crew->current, REFUSED);
    return fixed->at();
}

void *gb_fiber_shared_dynamic(void)
{
    return now->blocks[now->current->block].dynamic.at();
}

void *gb_fiber_shared_of(uint32_t rank)
{
    now->stray |= now->blocks[rank].ended;
    return now->blocks[rank].dynamic.at();
}

void gb_fiber_later(void (*run)(const void *what), const void *what, size_t bytes)
{
    Crew *crew = now;

    if (crew->later_count == crew->later_room) {
        const uint32_t room = crew->later_room ? 2 * crew->later_room : 16;
        void *more = realloc(crew->later, room * sizeof *crew->later);

        if (!more)
            stop(crew->current, NO_MEMORY);
        crew->later = static_cast<Later *>(more);
        crew->later_room = room;
    }
    crew->later[crew->later_count].run = run;
    memcpy(crew->later[crew->later_count++].what, what, bytes);
}

void gb_fiber_copy(void *to, const void *from, uint32_t bytes, uint32_t valid)
{
    Fiber *self = now->current;

    if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % bytes !=
        0)
        gb_fiber_refuse("a copy between addresses that its size does not divide");

    if (self->copy_count == self->copy_room) {
        const uint32_t room = self->copy_room ? 2 * self->copy_room : 16;
        void *more = realloc(self->copies, room * sizeof *self->copies);

        if (!more)
            stop(self, NO_MEMORY);
        self->copies = static_cast<Copy *>(more);
        self->copy_room = room;
    }
    memset(to, 0xff, bytes);
    self->copies[self->copy_count++] = {to, from, bytes, valid, self->groups};
}

/* Performs the first `count` copies, the last one first: the device promises no order. Whole
 * copies, which are nearly all, have a length that the compiler knows: a move each. */
static void arrive(Fiber *self, uint32_t count)
{
    for (uint32_t i = count; i-- > 0;) {
        const Copy &c = self->copies[i];

        if (c.valid == 16 && c.bytes == 16) {
            memcpy(c.to, c.from, 16);
        } else if (c.valid == 8 && c.bytes == 8) {
            memcpy(c.to, c.from, 8);
        } else if (c.valid == 4 && c.bytes == 4) {
            memcpy(c.to, c.from, 4);
        } else {
            memcpy(c.to, c.from, c.valid);
            memset(static_cast<char *>(c.to) + c.valid, 0, c.bytes - c.valid);
        }
    }
    self->copy_count -= count;
    if (self->copy_count > 0)
        memmove(self->copies, self->copies + count,
                self->copy_count * sizeof *self->copies);
}

void gb_fiber_copy_wait(void)
{
    arrive(now->current, now->current->copy_count);
}

void gb_fiber_copy_commit(void)
{
    now->current->groups++;
}

void gb_fiber_copy_wait_groups(uint32_t pending)
{
    Fiber *self = now->current;
    uint32_t count = 0;

    while (count < self->copy_count &&
           self->copies[count].group + pending < self->groups)
        count++;
    arrive(self, count);
}

/* ---- running ---- */

int gb_fiber_run(const struct gb_emu_kernel *k, uint32_t grid, uint32_t block,
                 uint32_t cluster, uint32_t smem_bytes, const void *args,
                 size_t args_bytes, uint32_t seed, char *error, size_t error_bytes)
{
    const Message message = {error, error_bytes};
    Crew *crew, *const outer = now;
    uint32_t opened = 0;
    void *copy;
    Order order;
    int status = 0;

    if (grid == 0 || block == 0 || block > MAX_BLOCK || smem_bytes > MAX_DYNAMIC ||
        cluster == 0 || cluster > MAX_CLUSTER || grid % cluster != 0)
        return wrong(message,
                     "%s: illegal launch: grid %u, block %u, cluster %u, %u bytes "
                     "shared",
                     k->symbol, grid, block, cluster, smem_bytes);
    crew = crew_take(block, cluster);
    copy = aligned_alloc(64, ((args_bytes | 1) + 63) & ~(size_t)63);
    while (crew && opened < cluster &&
           area_open(&crew->blocks[opened].dynamic, smem_bytes))
        opened++;
    if (!crew || !copy || opened < cluster) {
        while (opened > 0)
            free(crew->blocks[--opened].dynamic.base);
        free(copy);
        if (crew)
            crew_give(crew, true);
        return no_memory(message, k->symbol, block * cluster);
    }
    memcpy(copy, args, args_bytes);
    crew->body = k->body;
    crew->args = copy;
    crew->grid = grid;
    seed = seed * 2654435761u | 1;
    order = order_of_blocks(grid / cluster, &seed);
    for (uint32_t b = 0; b < cluster; b++) {
        crew->blocks[b].fixed.bytes = 0;
        crew->blocks[b].dynamic.bytes = smem_bytes;
    }
    now = crew;
    for (uint64_t i = 0; i < grid / cluster && status == 0; i++) {
        crew->first =
            (uint32_t)((order.first + i * order.step) % (grid / cluster)) * cluster;
        for (uint32_t b = 0; b < cluster; b++) {
            area_poison(&crew->blocks[b].fixed);
            area_poison(&crew->blocks[b].dynamic);
        }
        status = run_blocks(crew, k->symbol, &seed, message);
    }
    now = outer;
    for (uint32_t b = 0; b < cluster; b++)
        free(crew->blocks[b].dynamic.base);
    free(copy);
    crew_give(crew, status == 0);
    return status;
}

} // extern "C"
