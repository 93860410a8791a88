/* SPDX-License-Identifier: BSD-3-Clause */
/* Fibers: the threads of one block, each on its own stack, all on one OS thread. A fiber runs
 * until it meets the block's barrier or ends; when every fiber has, the next round begins.
 * Between two barriers the threads of a warp may meet by themselves any number of times.
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
constexpr uint32_t MAX_BLOCK = 1024;
constexpr int MAX_IDLE = 4; /* crews kept for the next run */
constexpr size_t MAX_STATIC = 48
                              << 10; /* of static shared memory, as on every device */
constexpr size_t MAX_DYNAMIC = 227 << 10; /* as on the largest device */
constexpr unsigned char GUARD_BYTE = 0xa5;
#if FIBER_ASAN
constexpr size_t GUARD = 0; /* the sanitizer's own zones see more */
#else
constexpr size_t GUARD = 64; /* bytes after an area of shared memory */
#endif

enum State { READY, WAITING, MEETING, DONE, REFUSED, NO_MEMORY };

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
        return base + room - bytes;
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
    uint32_t thread;
    int line; /* of the barrier, or the warp's meeting, that it waits at */
    State state;
    void *mine; /* what it brought to the meeting */
    void (*all)(void *const *lanes);
    Copy *copies; /* under way, in the order of their groups */
    uint32_t copy_count, copy_room;
    uint32_t groups; /* committed */
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
    uint32_t block, grid;
    Area fixed, dynamic;
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

/* All bits set is a NaN in every type, and no count or index that a kernel could like. */
void area_poison(Area *a)
{
    memset(a->at(), 0xff, a->bytes);
}

bool area_intact(const Area *a)
{
    for (size_t i = 0; i < GUARD; i++)
        if (a->base[a->room + i] != GUARD_BYTE)
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
    for (uint32_t i = 0; i < crew->threads; i++)
        free(crew->fibers[i].copies);
    free(crew->fixed.base);
    free(crew->fibers);
    free(crew);
}

/* The lowest page of each stack is out of bounds. */
Crew *crew_new(uint32_t threads)
{
    Crew *crew = static_cast<Crew *>(calloc(1, sizeof *crew));
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (!crew)
        return nullptr;
    crew->threads = threads;
    crew->fibers = static_cast<Fiber *>(calloc(threads, sizeof *crew->fibers));
    if (!crew->fibers)
        goto free_crew;
    if (!area_open(&crew->fixed, MAX_STATIC))
        goto free_fibers;
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
        f->thread = i;
    }
    for (uint32_t i = 0; i < threads; i++)
        context_init(&crew->fibers[i].context, crew->stacks + i * STACK);
    return crew;

unmap:
    munmap(crew->stacks, threads * STACK);
free_area:
    free(crew->fixed.base);
free_fibers:
    free(crew->fibers);
free_crew:
    free(crew);
    return nullptr;
}

Crew *crew_take(uint32_t threads)
{
    Crew **link, *crew = nullptr;

    pthread_mutex_lock(&idle_lock);
    for (link = &idle; *link; link = &(*link)->next) {
        if ((*link)->threads == threads) {
            crew = *link;
            *link = crew->next;
            idle_count--;
            break;
        }
    }
    pthread_mutex_unlock(&idle_lock);
    return crew ? crew : crew_new(threads);
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

/* ---- one block ---- */

/* The lanes of a warp once, forwards, backwards or rotated. */
void run_lanes(Crew *crew, uint32_t first, uint32_t lanes, uint32_t *seed)
{
    const uint32_t turn = draw(seed) % lanes;
    const bool back = draw(seed) & 1;

    for (uint32_t l = 0; l < lanes; l++) {
        const uint32_t lane = l + turn < lanes ? l + turn : l + turn - lanes;

        crew->current = &crew->fibers[first + (back ? lanes - 1 - lane : lane)];
        crew->current->state = READY;
        switch_to(&crew->main, &crew->current->context);
    }
}

/* If all lanes of a whole warp have come to one meeting, hold it. */
bool meet(Crew *crew, uint32_t first, uint32_t lanes)
{
    const Fiber *f = &crew->fibers[first];
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
    return true;
}

/* Every fiber until it meets the block's barrier or ends, warps shuffled. */
void run_round(Crew *crew, uint32_t *seed)
{
    uint16_t order[MAX_BLOCK / WARP];
    const uint32_t warps = (crew->threads + WARP - 1) / WARP;

    shuffle(order, warps, seed);
    for (uint32_t w = 0; w < warps; w++) {
        const uint32_t first = order[w] * WARP;
        const uint32_t lanes =
            crew->threads - first < WARP ? crew->threads - first : WARP;

        do {
            run_lanes(crew, first, lanes, seed);
        } while (meet(crew, first, lanes));
    }
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

int run_block(Crew *crew, const char *symbol, uint32_t *seed, const Message &m)
{
    for (;;) {
        const Fiber *waiting = nullptr, *done = nullptr;

        run_round(crew, seed);
        for (uint32_t i = 0; i < crew->threads; i++) {
            const Fiber *f = &crew->fibers[i];

            if (f->state == NO_MEMORY)
                return no_memory(m, symbol, crew->threads);
            if (f->state == REFUSED)
                return wrong(m,
                             "block %u: too much shared memory, or two objects of it",
                             crew->block);
            if (f->state == MEETING)
                return wrong(m,
                             "block %u: not all of its warp come to thread %u at line "
                             "%d",
                             crew->block, f->thread, f->line);
            if (f->state == DONE)
                done = f;
            else if (waiting && waiting->line != f->line)
                return wrong(
                    m,
                    "block %u: thread %u waits at the barrier of line %d, thread %u at "
                    "that of line %d",
                    crew->block, waiting->thread, waiting->line, f->thread, f->line);
            else
                waiting = f;
        }
        if (waiting && done)
            return wrong(m,
                         "block %u: thread %u waits at the barrier of line %d, thread "
                         "%u has ended",
                         crew->block, waiting->thread, waiting->line, done->thread);
        if (!area_intact(&crew->fixed) || !area_intact(&crew->dynamic))
            return wrong(m, "block %u: a write outside the shared memory", crew->block);
        if (!waiting)
            return 0;
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
    return now->block;
}

uint32_t gb_fiber_grid(void)
{
    return now->grid;
}

void gb_fiber_sync(int line)
{
    Fiber *self = now->current;

    self->line = line;
    self->state = WAITING;
    switch_to(&self->context, &self->crew->main);
}

void gb_fiber_warp(int line, void *mine, void (*all)(void *const *lanes))
{
    Fiber *self = now->current;

    self->line = line;
    self->mine = mine;
    self->all = all;
    self->state = MEETING;
    switch_to(&self->context, &self->crew->main);
}

/* The kernel's one static object; the first thread that comes sets its size. */
void *gb_fiber_shared(size_t bytes)
{
    Crew *crew = now;

    if (crew->fixed.bytes == 0 && bytes <= MAX_STATIC) {
        crew->fixed.bytes = bytes;
        area_poison(&crew->fixed);
    }
    if (crew->fixed.bytes != bytes)
        stop(crew->current, REFUSED);
    return crew->fixed.at();
}

void *gb_fiber_shared_dynamic(void)
{
    return now->dynamic.at();
}

void gb_fiber_copy(void *to, const void *from, uint32_t bytes, uint32_t valid)
{
    Fiber *self = now->current;

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
                 uint32_t smem_bytes, const void *args, size_t args_bytes,
                 uint32_t seed, char *error, size_t error_bytes)
{
    const Message message = {error, error_bytes};
    Crew *crew, *const outer = now;
    void *copy;
    Order order;
    int status = 0;

    if (grid == 0 || block == 0 || block > MAX_BLOCK || smem_bytes > MAX_DYNAMIC)
        return wrong(message, "%s: illegal launch: grid %u, block %u, %u bytes shared",
                     k->symbol, grid, block, smem_bytes);
    crew = crew_take(block);
    copy = malloc(args_bytes ? args_bytes : 1);
    if (!crew || !copy || !area_open(&crew->dynamic, smem_bytes)) {
        free(copy);
        if (crew)
            crew_give(crew, true);
        return no_memory(message, k->symbol, block);
    }
    memcpy(copy, args, args_bytes);
    crew->body = k->body;
    crew->args = copy;
    crew->grid = grid;
    crew->fixed.bytes = 0;
    crew->dynamic.bytes = smem_bytes;
    seed = seed * 2654435761u | 1;
    order = order_of_blocks(grid, &seed);
    now = crew;
    for (uint64_t i = 0; i < grid && status == 0; i++) {
        crew->block = (uint32_t)((order.first + i * order.step) % grid);
        area_poison(&crew->fixed);
        area_poison(&crew->dynamic);
        status = run_block(crew, k->symbol, &seed, message);
    }
    now = outer;
    free(crew->dynamic.base);
    free(copy);
    crew_give(crew, status == 0);
    return status;
}

} // extern "C"
