/* SPDX-License-Identifier: BSD-3-Clause */
/* What the link allows: pinned copies, and pageable memory staged through pinned slots
 * by a number of threads; up, down, and both at once. GB/s, medians. */
#include <assert.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "device.h"
#include "knobs.h"
#include "lane.h"
#include "stage.h"
#include "util.h"

enum {
    SLOT = 1 << 20, /* of the threads' own staging */
    SLOTS = 3,      /* per thread */
    MOST_THREADS = 16,
    MOST_SLOTS = 64, /* of the library's staging, in one direction */
    MOST_REPEATS = 101,
};

enum direction { UP = 1, DOWN = 2, BOTH = 3 };

static const char usage[] =
    "Usage: link [OPTION]...\n"
    "Prints what copies between host and device reach, in GB/s (both: each way).\n"
    "\n"
    "  --device LIST   as GEMMBLAS_DEVICE\n"
    "  --mib N         of one transfer (1024)\n"
    "  --repeats N     transfers of each kind, of which the median counts (5)\n"
    "  --slot KIB      of the library's staging (4096, as in a call)\n"
    "  --slots N       of them, in one direction (8)\n"
    "  --threads LIST  counts of staging threads of our own (1,2,4,8,12,16)\n"
    "\n"
    "Exit status: 0, 1 when data arrives changed, 2 for bad usage.\n";

struct link_bench;

/* The library's staging in one direction. */
struct ring {
    struct link_bench *b;
    enum direction direction;
    char *memory; /* of its slots */
    struct gb_stream *stream;
    pthread_t thread;
    struct gb_party party;
    struct gb_copy copy[MOST_SLOTS];
    struct gb_event *event[MOST_SLOTS];
};

struct link_bench {
    struct gb_device *dev;
    const struct gb_device_ops *ops;
    size_t bytes, pinned_bytes;
    int repeats;
    char *user[2];   /* pageable: what goes up, what comes down */
    char *pinned[2]; /* the same, page-locked */
    char *slots;     /* of every thread */
    gb_devptr device[2];
    struct gb_stream *stream[2];
    struct gb_stage stage; /* the library's copy threads */
    size_t slot_bytes, ring;
    struct ring rings[2];
};

/* What one transfer shares among its threads. */
struct transfer {
    struct link_bench *b;
    atomic_size_t next[2]; /* first byte that nobody has taken, up and down */
    pthread_barrier_t start;
};

struct worker {
    struct transfer *t;
    int index;
    enum direction direction; /* one of them */
    pthread_t thread;
    double start, end; /* of its copies, microseconds */
};

static void must(enum gb_status status, const char *what)
{
    if (status != GB_SUCCESS)
        bench_die("%s: %s; take fewer --mib or look at dmesg", what,
                  gb_status_text(status));
}

static size_t piece_at(size_t at, size_t bytes, size_t piece)
{
    return bytes - at < piece ? bytes - at : piece;
}

/* ---- pinned --------------------------------------------------------------------------- */

static void queue_pinned(struct link_bench *b, int down, size_t piece)
{
    size_t at;
    size_t length;
    size_t in_pinned;

    for (at = 0; at < b->bytes; at += length) {
        in_pinned = at % b->pinned_bytes;
        length = piece_at(at, b->bytes, piece);
        length = piece_at(in_pinned, b->pinned_bytes, length);
        if (down)
            must(b->ops->copy_out(b->dev, b->stream[1], b->pinned[1] + in_pinned,
                                  length, b->device[1] + at, length, length, 1),
                 "a copy down");
        else
            must(b->ops->copy_in(b->dev, b->stream[0], b->device[0] + at, length,
                                 b->pinned[0] + in_pinned, length, length, 1),
                 "a copy up");
    }
}

static void pinned_transfer(struct link_bench *b, enum direction direction, int piece)
{
    if (direction & UP)
        queue_pinned(b, 0, (size_t)piece);
    if (direction & DOWN)
        queue_pinned(b, 1, (size_t)piece);
    must(b->ops->stream_sync(b->dev, b->stream[0]), "waiting");
    must(b->ops->stream_sync(b->dev, b->stream[1]), "waiting");
}

/* ---- staged by threads of our own ----------------------------------------------------- */

struct slot {
    char *memory;
    struct gb_event *event;
    size_t at, length; /* what it holds; length 0: nothing */
};

/* Wait for a slot's copy; what came down goes to the program. */
static void finish_slot(struct link_bench *b, struct slot *s, enum direction direction)
{
    must(b->ops->event_sync(b->dev, s->event), "waiting");
    if (direction == DOWN && s->length)
        memcpy(b->user[1] + s->at, s->memory, s->length);
    s->length = 0;
}

static void start_slot(struct link_bench *b, struct slot *s, struct gb_stream *stream,
                       enum direction direction)
{
    if (direction == UP) {
        memcpy(s->memory, b->user[0] + s->at, s->length);
        must(b->ops->copy_in(b->dev, stream, b->device[0] + s->at, s->length, s->memory,
                             s->length, s->length, 1),
             "a copy up");
    } else {
        must(b->ops->copy_out(b->dev, stream, s->memory, s->length,
                              b->device[1] + s->at, s->length, s->length, 1),
             "a copy down");
    }
    must(b->ops->event_record(b->dev, s->event, stream), "an event");
}

static void *work(void *argument)
{
    struct worker *w = argument;
    struct link_bench *b = w->t->b;
    atomic_size_t *next = &w->t->next[w->direction == DOWN];
    struct slot slot[SLOTS];
    struct gb_stream *stream;
    struct gb_guest guest;
    size_t at;
    int i;

    must(b->ops->enter(b->dev, &guest), "entering the device");
    must(b->ops->stream_create(b->dev, &stream), "a stream");
    for (i = 0; i < SLOTS; i++) {
        slot[i] =
            (struct slot){.memory = b->slots + (size_t)(w->index * SLOTS + i) * SLOT};
        must(b->ops->event_create(b->dev, &slot[i].event), "an event");
    }
    pthread_barrier_wait(&w->t->start);
    w->start = bench_now_us();
    for (i = 0; (at = atomic_fetch_add(next, SLOT)) < b->bytes; i = (i + 1) % SLOTS) {
        finish_slot(b, &slot[i], w->direction);
        slot[i].at = at;
        slot[i].length = piece_at(at, b->bytes, SLOT);
        start_slot(b, &slot[i], stream, w->direction);
    }
    for (at = 0; at < SLOTS; at++, i = (i + 1) % SLOTS)
        finish_slot(b, &slot[i], w->direction);
    w->end = bench_now_us();
    for (i = 0; i < SLOTS; i++)
        b->ops->event_destroy(b->dev, slot[i].event);
    b->ops->stream_destroy(b->dev, stream);
    b->ops->leave(b->dev, &guest);
    return NULL;
}

/* Microseconds from the first thread's start to the last one's end, by their own
 * clocks. */
static double threads_us(struct link_bench *b, enum direction direction, int threads)
{
    struct transfer t = {.b = b};
    struct worker w[MOST_THREADS];
    double start = 0;
    double end = 0;
    int i;

    pthread_barrier_init(&t.start, NULL, (unsigned)threads);
    for (i = 0; i < threads; i++) {
        w[i] = (struct worker){.t = &t, .index = i, .direction = direction};
        if (direction == BOTH)
            w[i].direction = i % 2 ? DOWN : UP;
        if (pthread_create(&w[i].thread, NULL, work, &w[i]) != 0)
            bench_die("no thread; ask for fewer --threads");
    }
    for (i = 0; i < threads; i++) {
        pthread_join(w[i].thread, NULL);
        start = i == 0 || w[i].start < start ? w[i].start : start;
        end = i == 0 || w[i].end > end ? w[i].end : end;
    }
    pthread_barrier_destroy(&t.start);
    return end - start;
}

/* ---- staged by the library ------------------------------------------------------------ */

/* Driven as a call drives it: the slots that are free are filled (or fetched) ahead, and
 * sent (or committed) in order. */

/* Where in the ring a piece lies. */
static size_t ring_index(const struct ring *r, size_t piece)
{
    assert(r->b->ring > 0);
    return piece % r->b->ring;
}

static size_t ring_length(const struct link_bench *b, size_t piece)
{
    return piece_at(piece * b->slot_bytes, b->bytes, b->slot_bytes);
}

static char *ring_slot(const struct ring *r, size_t piece)
{
    return r->memory + ring_index(r, piece) * r->b->slot_bytes;
}

/* Hand a piece to the library's copy threads: into its slot on the way up, out of it on the
 * way down. */
static void ring_submit(struct ring *r, size_t piece)
{
    struct link_bench *b = r->b;
    struct gb_copy *copy = &r->copy[ring_index(r, piece)];
    size_t length = ring_length(b, piece), at = piece * b->slot_bytes;
    char *slot = ring_slot(r, piece);

    if (r->direction == UP)
        gb_copy_make(copy, slot, length, b->user[0] + at, length, length, 1);
    else
        gb_copy_make(copy, b->user[1] + at, length, slot, length, length, 1);
    gb_stage_submit(&b->stage, copy, &r->party);
}

static void ring_send(struct ring *r, size_t piece)
{
    struct link_bench *b = r->b;
    size_t length = ring_length(b, piece), at = piece * b->slot_bytes;

    if (r->direction == UP)
        must(b->ops->copy_in(b->dev, r->stream, b->device[0] + at, length,
                             ring_slot(r, piece), length, length, 1),
             "a copy up");
    else
        must(b->ops->copy_out(b->dev, r->stream, ring_slot(r, piece), length,
                              b->device[1] + at, length, length, 1),
             "a copy down");
    must(b->ops->event_record(b->dev, r->event[ring_index(r, piece)], r->stream),
         "an event");
}

static bool ring_sent(struct ring *r, size_t piece)
{
    bool done;

    must(r->b->ops->event_query(r->b->dev, r->event[ring_index(r, piece)], &done),
         "asking");
    return done;
}

static void ring_wait_sent(struct ring *r, size_t piece)
{
    must(r->b->ops->event_sync(r->b->dev, r->event[ring_index(r, piece)]), "waiting");
}

static bool ring_copied(struct ring *r, size_t piece)
{
    return gb_copy_done(&r->copy[ring_index(r, piece)]);
}

static void ring_wait_copied(struct ring *r, size_t piece)
{
    if (!ring_copied(r, piece) && !gb_stage_help(&r->b->stage))
        gb_stage_wait(&r->b->stage, &r->copy[ring_index(r, piece)], -1);
}

static void ring_up(struct ring *r, size_t pieces)
{
    size_t ring = r->b->ring, filled = 0, sent = 0;

    while (sent < pieces) {
        bool moved = false;

        while (filled < pieces && filled - sent < ring &&
               (filled < ring || ring_sent(r, filled - ring))) {
            ring_submit(r, filled++);
            moved = true;
        }
        while (sent < filled && ring_copied(r, sent)) {
            ring_send(r, sent++);
            moved = true;
        }
        if (!moved && sent < filled)
            ring_wait_copied(r, sent);
        else if (!moved)
            ring_wait_sent(r, filled - ring);
    }
    ring_wait_sent(r, pieces - 1);
}

static void ring_down(struct ring *r, size_t pieces)
{
    size_t ring = r->b->ring, sent = 0, arrived = 0, copied = 0;

    while (copied < pieces) {
        bool moved = false;

        while (arrived < sent && ring_sent(r, arrived)) {
            ring_submit(r, arrived++);
            moved = true;
        }
        while (copied < arrived && ring_copied(r, copied)) {
            copied++;
            moved = true;
        }
        while (sent < pieces && sent - copied < ring) {
            ring_send(r, sent++);
            moved = true;
        }
        if (!moved && arrived < sent)
            ring_wait_sent(r, arrived);
        else if (!moved)
            ring_wait_copied(r, copied);
    }
}

static void *ring_work(void *argument)
{
    struct ring *r = argument;
    struct gb_guest guest;

    must(r->b->ops->enter(r->b->dev, &guest), "entering the device");
    (r->direction == UP ? ring_up
                        : ring_down)(r, (r->b->bytes - 1) / r->b->slot_bytes + 1);
    r->b->ops->leave(r->b->dev, &guest);
    return NULL;
}

/* Both directions at once: two threads, as two lanes would. */
static void ring_transfer(struct link_bench *b, enum direction direction, int unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++) {
        struct ring *r = &b->rings[i];

        if ((direction & r->direction) &&
            pthread_create(&r->thread, NULL, ring_work, r) != 0)
            bench_die("no thread; close other programs");
    }
    for (int i = 0; i < 2; i++) {
        if (direction & b->rings[i].direction)
            pthread_join(b->rings[i].thread, NULL);
    }
}

/* ---- the table ------------------------------------------------------------------------ */

typedef void (*transfer_fn)(struct link_bench *b, enum direction direction,
                            int argument);

/* GB/s each way, median of the repeats after one warm-up; fn NULL: threads of our own.
 */
static double rate(struct link_bench *b, transfer_fn fn, enum direction direction,
                   int argument)
{
    double us[MOST_REPEATS];
    double start;
    double took;
    int r;

    for (r = -1; r < b->repeats; r++) {
        start = bench_now_us();
        if (fn)
            fn(b, direction, argument);
        took = fn ? bench_now_us() - start : threads_us(b, direction, argument);
        us[r < 0 ? 0 : r] = took;
    }
    return (double)b->bytes / bench_median(us, (size_t)b->repeats) * 1e-3;
}

static void print_rate(double gbs)
{
    if (gbs > 0)
        printf(" %8.2f", gbs);
    else
        printf(" %8s", "-");
}

static void line(const char *what, double up, double down, double both)
{
    printf("%-32s", what);
    print_rate(up);
    print_rate(down);
    print_rate(both);
    putchar('\n');
    fflush(stdout);
}

static void pinned_lines(struct link_bench *b)
{
    static const int kib[] = {0, 64, 256, 1024, 4096, 16384};
    char what[64];
    int piece;
    size_t i;

    for (i = 0; i < GB_COUNT(kib); i++) {
        piece = kib[i] ? kib[i] << 10 : INT32_MAX;
        snprintf(what, sizeof(what), kib[i] ? "pinned, pieces of %d KiB" : "pinned",
                 kib[i]);
        line(what, rate(b, pinned_transfer, UP, piece),
             rate(b, pinned_transfer, DOWN, piece),
             rate(b, pinned_transfer, BOTH, piece));
    }
}

/* What went up, and comes down again, is the same? Only of the staged paths, which the
 * library depends on. */
static bool round_trip(struct link_bench *b, bool library, int threads)
{
    gb_devptr down = b->device[1];
    bool same;

    memset(b->user[1], 0, b->bytes);
    b->device[1] = b->device[0];
    if (library) {
        ring_transfer(b, UP, 0);
        ring_transfer(b, DOWN, 0);
    } else {
        threads_us(b, UP, threads);
        threads_us(b, DOWN, threads);
    }
    same = memcmp(b->user[0], b->user[1], b->bytes) == 0;
    b->device[1] = down;
    return same;
}

static int staged_lines(struct link_bench *b, const int *threads, int count)
{
    char what[64];
    int wrong = 0;
    int i;

    for (i = 0; i < count; i++) {
        snprintf(what, sizeof(what), "staged, %d thread%s", threads[i],
                 threads[i] > 1 ? "s" : "");
        line(what, rate(b, NULL, UP, threads[i]), rate(b, NULL, DOWN, threads[i]),
             threads[i] > 1 ? rate(b, NULL, BOTH, threads[i]) : 0);
        wrong += !round_trip(b, false, threads[i]);
    }
    snprintf(what, sizeof(what), "staged by the library, %d threads", gb_stage_count());
    line(what, rate(b, ring_transfer, UP, 0), rate(b, ring_transfer, DOWN, 0),
         rate(b, ring_transfer, BOTH, 0));
    wrong += !round_trip(b, true, 0);
    if (wrong)
        printf("staged data arrives changed in %d of %d rows\n", wrong, count + 1);
    return wrong;
}

static char *touched_pages(size_t bytes)
{
    char *p =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        bench_die("%zu bytes: out of memory; take fewer --mib", bytes);
    memset(p, 1, bytes);
    return p;
}

static void make_ring(struct link_bench *b, struct ring *r, enum direction direction,
                      char *memory)
{
    *r = (struct ring){.b = b, .direction = direction, .memory = memory};
    r->stream = b->stream[direction == DOWN];
    gb_party_init(&r->party);
    for (size_t i = 0; i < b->ring; i++)
        must(b->ops->event_create(b->dev, &r->event[i]), "an event");
}

static void drop_ring(struct link_bench *b, struct ring *r)
{
    for (size_t i = 0; i < b->ring; i++)
        b->ops->event_destroy(b->dev, r->event[i]);
    gb_party_drop(&r->party);
}

static void open_link(struct link_bench *b, const char *device, struct gb_guest *guest)
{
    struct gb_device_ref ref;
    uint64_t random = 1;
    size_t slots;
    int i;

    if (gb_device_list(device ? device : gb_knobs()->device, &ref, 1) != 1)
        bench_die("no device; take --device emu for the emulated one");
    b->ops = ref.ops;
    must(b->ops->open(ref.ordinal, &b->dev), "opening the device");
    must(b->ops->enter(b->dev, guest), "entering the device");
    b->pinned_bytes = b->bytes < (256u << 20) ? b->bytes : 256u << 20;
    for (i = 0; i < 2; i++) {
        b->user[i] = touched_pages(b->bytes);
        must(b->ops->host_alloc(b->dev, b->pinned_bytes, (void **)&b->pinned[i]),
             "pinned memory");
        must(b->ops->mem_alloc(b->dev, b->bytes, &b->device[i]), "device memory");
        must(b->ops->stream_create(b->dev, &b->stream[i]), "a stream");
        memset(b->pinned[i], 1, b->pinned_bytes);
    }
    slots = (size_t)MOST_THREADS * SLOTS * SLOT;
    if (slots < 2 * b->ring * b->slot_bytes)
        slots = 2 * b->ring * b->slot_bytes;
    must(b->ops->host_alloc(b->dev, slots, (void **)&b->slots), "pinned memory");
    bench_fill(GB_F64, b->user[0], b->bytes / sizeof(double), &random);
    /* The emulated device refuses to read what was never written. */
    pinned_transfer(b, UP, INT32_MAX);
    must(b->ops->copy_in(b->dev, b->stream[1], b->device[1], b->pinned_bytes,
                         b->pinned[0], b->pinned_bytes, b->pinned_bytes, 1),
         "a copy up");
    must(b->ops->stream_sync(b->dev, b->stream[1]), "waiting");
    gb_stage_init(&b->stage, b->dev->info.numa_node);
    make_ring(b, &b->rings[0], UP, b->slots);
    make_ring(b, &b->rings[1], DOWN, b->slots + b->ring * b->slot_bytes);
}

static void close_link(struct link_bench *b, struct gb_guest *guest)
{
    int i;

    gb_stage_drop(&b->stage);
    drop_ring(b, &b->rings[0]);
    drop_ring(b, &b->rings[1]);
    b->ops->host_free(b->dev, b->slots);
    for (i = 0; i < 2; i++) {
        b->ops->stream_destroy(b->dev, b->stream[i]);
        b->ops->mem_free(b->dev, b->device[i]);
        b->ops->host_free(b->dev, b->pinned[i]);
        munmap(b->user[i], b->bytes);
    }
    b->ops->leave(b->dev, guest);
    b->ops->close(b->dev);
}

static int parse_threads(char *list, int *threads)
{
    char *save = NULL;
    char *word;
    int n = 0;

    for (word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        if (n == MOST_THREADS)
            bench_die("--threads: at most %d counts; name fewer", MOST_THREADS);
        threads[n++] = (int)bench_integer("--threads", word, 1, MOST_THREADS);
    }
    if (n == 0)
        bench_die("--threads: no count; give a list such as 1,2,4,8");
    return n;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},
        {"mib", required_argument, NULL, 'm'},
        {"repeats", required_argument, NULL, 'r'},
        {"slot", required_argument, NULL, 's'},
        {"slots", required_argument, NULL, 'n'},
        {"threads", required_argument, NULL, 't'},
        {NULL, 0, NULL, 0},
    };
    static struct link_bench bench;
    struct link_bench *b = &bench;
    int threads[MOST_THREADS] = {1, 2, 4, 8, 12, 16};
    int counts = 6;
    const char *device = NULL;
    struct gb_guest guest;
    int wrong;
    int id;

    bench_name("link");
    b->bytes = (size_t)1 << 30;
    b->repeats = 5;
    b->slot_bytes = GB_BLOCK_BYTES;
    b->ring = GB_LANE_BLOCKS / 2;
    opterr = 0;
    while ((id = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (id) {
        case 'd':
            device = optarg;
            setenv("GEMMBLAS_DEVICE", optarg, 1);
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        case 'm':
            b->bytes = (size_t)bench_integer("--mib", optarg, 1, 1 << 17) << 20;
            break;
        case 'r':
            b->repeats = (int)bench_integer("--repeats", optarg, 1, MOST_REPEATS);
            break;
        case 's':
            b->slot_bytes = (size_t)bench_integer("--slot", optarg, 4, 1 << 16) << 10;
            break;
        case 'n':
            b->ring = (size_t)bench_integer("--slots", optarg, 1, MOST_SLOTS);
            break;
        case 't':
            counts = parse_threads(optarg, threads);
            break;
        default:
            bench_die("%s: unknown option or value missing; see link --help",
                      argv[optind - 1]);
        }
    }
    if (optind < argc)
        bench_die("'%s': not an option; see link --help", argv[optind]);
    open_link(b, device, &guest);
    printf("# %s, %zu MiB, median of %d, GB/s\n", b->dev->info.name, b->bytes >> 20,
           b->repeats);
    printf("%-32s %8s %8s %8s\n", "", "up", "down", "both");
    pinned_lines(b);
    wrong = staged_lines(b, threads, counts);
    close_link(b, &guest);
    return wrong > 0;
}
