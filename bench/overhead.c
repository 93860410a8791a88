/* SPDX-License-Identifier: BSD-3-Clause */
/* What the interposer adds to a call that it declines: dgemm_ and cblas_dgemm of ours
 * against the real BLAS behind them, in one process, in blocks of random order, on the
 * thread's own clock. The real BLAS is measured twice: the difference of the two is the
 * floor of what can be told. */
#include <dlfcn.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "peers.h"
#include "util.h"

enum { SIDES = 3, BLOCK_NS = 40000, LARGEST = 32 };

static const char usage[] =
    "Usage: overhead [OPTION]...\n"
    "Prints the nanoseconds that gemmblas adds to tiny calls which it declines.\n"
    "\n"
    "  --ours FILE     libgemmblas.so.0; default: as built\n"
    "  --blas FILE     the real BLAS (libopenblas.so.0)\n"
    "  --rounds N      blocks of each side (1000)\n"
    "  --seed N        of the order\n"
    "  --append FILE, --note TEXT, --commit NAME   as gemmblas-bench\n";

typedef void (*dgemm_fn)(const char *, const char *, const int *, const int *,
                         const int *, const double *, const double *, const int *,
                         const double *, const int *, const double *, double *,
                         const int *, size_t, size_t);
typedef void (*cblas_dgemm_fn)(int, int, int, int, int, int, double, const double *,
                               int, const double *, int, double, double *, int);

struct side {
    dgemm_fn dgemm;
    cblas_dgemm_fn cblas;
};

/* Two times the real BLAS, then ours. */
struct overhead {
    struct side side[SIDES];
    const char *peer;
    int rounds;
    uint64_t random;
    double *ns[SIDES];
    double *delta; /* of one round's two blocks */
};

static double thread_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double a_matrix[LARGEST * LARGEST], b_matrix[LARGEST * LARGEST];
static double c_matrix[LARGEST * LARGEST];

static double block_ns(const struct side *s, bool cblas, int n, int calls)
{
    const double one = 1;
    const double zero = 0;
    double start = thread_ns();
    int i;

    if (cblas) {
        for (i = 0; i < calls; i++)
            s->cblas(102, 111, 111, n, n, n, one, a_matrix, n, b_matrix, n, zero,
                     c_matrix, n);
    } else {
        for (i = 0; i < calls; i++)
            s->dgemm("N", "N", &n, &n, &n, &one, a_matrix, &n, b_matrix, &n, &zero,
                     c_matrix, &n, 1, 1);
    }
    return (thread_ns() - start) / calls;
}

/* Median over rounds of what side y took more than side x in the same round. */
static double added(struct overhead *o, int x, int y)
{
    int r;

    for (r = 0; r < o->rounds; r++)
        o->delta[r] = o->ns[y][r] - o->ns[x][r];
    return bench_median(o->delta, (size_t)o->rounds);
}

static void measure(struct overhead *o, const struct bench_run *run, bool cblas, int n)
{
    struct bench_shape s = {.routine = "gemm",
                            .type = GB_F64,
                            .type_c = GB_F64,
                            .m = n,
                            .n = n,
                            .k = n,
                            .lda = n,
                            .ldb = n,
                            .ldc = n,
                            .batch = 1};
    struct bench_row row = {
        .shape = &s, .place = BENCH_HOST_REPEAT, .kernel = "declined", .peer = o->peer};
    const char *name = cblas ? "cblas_dgemm" : "dgemm_";
    double most;
    double floor_ns;
    double ours_ns;
    char note[96];
    int order[SIDES];
    int calls;
    int r;
    int i;

    for (i = 0; i < SIDES; i++)
        block_ns(&o->side[i], cblas, n, 200);
    most = block_ns(&o->side[0], cblas, n, 200);
    calls = 1 + (int)(BLOCK_NS / (most + 1));
    for (r = 0; r < o->rounds; r++) {
        bench_shuffle(order, SIDES, &o->random);
        for (i = 0; i < SIDES; i++)
            o->ns[order[i]][r] = block_ns(&o->side[order[i]], cblas, n, calls);
    }
    floor_ns = added(o, 0, 1);
    ours_ns = added(o, 0, 2);
    row.spread = bench_spread(o->ns[2], (size_t)o->rounds);
    row.ours_us = bench_median(o->ns[2], (size_t)o->rounds) * 1e-3;
    row.peer_us = bench_median(o->ns[0], (size_t)o->rounds) * 1e-3;
    printf("%-12s %2dx%dx%d  real %8.2f ns (least %8.2f)  ours %8.2f ns (least %8.2f)  "
           "adds %6.2f ns, floor %5.2f ns\n",
           name, n, n, n, row.peer_us * 1e3, o->ns[0][0], row.ours_us * 1e3,
           o->ns[2][0], ours_ns, floor_ns);
    snprintf(note, sizeof(note), "%s adds %.2f ns, floor %.2f ns", name, ours_ns,
             floor_ns);
    row.remark = note;
    bench_row_append(run, &row);
}

static struct side side_of(void *library, const char *path)
{
    struct side s = {NULL, NULL};

    *(void **)&s.dgemm = dlsym(library, "dgemm_");
    *(void **)&s.cblas = dlsym(library, "cblas_dgemm");
    if (!s.dgemm || !s.cblas)
        bench_die("%s: no dgemm_ and cblas_dgemm in it; name another with --blas FILE",
                  path);
    return s;
}

static void open_sides(struct overhead *o, const struct bench_options *options,
                       struct bench_peer *peer)
{
    const char *path = options->blas ? options->blas : "libopenblas.so.0";
    struct bench_peer ours;

    /* The library of ours must forward to the very routine that it is compared with. */
    setenv("GEMMBLAS_LIBRARY", path, 1);
    bench_peer_open(peer, path, options);
    bench_ours_open(&ours, options);
    o->peer = peer->label;
    o->side[0] = o->side[1] = side_of(peer->library, path);
    o->side[2] = side_of(ours.library, "libgemmblas.so.0");
}

static void parse(struct bench_options *o, int *rounds, int argc, char **argv)
{
    static const struct option options[] = {
        {"append", required_argument, NULL, 'a'},
        {"blas", required_argument, NULL, 'b'},
        {"commit", required_argument, NULL, 'c'},
        {"help", no_argument, NULL, 'h'},
        {"note", required_argument, NULL, 'n'},
        {"ours", required_argument, NULL, 'o'},
        {"rounds", required_argument, NULL, 'r'},
        {"seed", required_argument, NULL, 's'},
        {NULL, 0, NULL, 0},
    };
    int id;

    opterr = 0;
    while ((id = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (id) {
        case 'a':
            o->append = optarg;
            break;
        case 'b':
            o->blas = optarg;
            break;
        case 'c':
            o->commit = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        case 'n':
            o->note = optarg;
            break;
        case 'o':
            o->ours = optarg;
            break;
        case 'r':
            *rounds = (int)bench_integer("--rounds", optarg, 1, 1000000);
            break;
        case 's':
            o->seed = (uint64_t)bench_integer("--seed", optarg, 1, INT64_MAX);
            break;
        default:
            bench_die("%s: unknown option or value missing; see overhead --help",
                      argv[optind - 1]);
        }
    }
    if (optind < argc)
        bench_die("'%s': not an option; see overhead --help", argv[optind]);
}

int main(int argc, char **argv)
{
    static const int size[] = {4, 8, 16, 32};
    struct bench_options options = {.program = "overhead", .seed = 20250101};
    struct overhead o = {.rounds = 1000};
    struct bench_peer peer;
    struct bench_run run;
    size_t i;

    bench_name(options.program);
    parse(&options, &o.rounds, argc, argv);
    o.random = options.seed;
    bench_run_init(&run, "none", 0, &options);
    open_sides(&o, &options, &peer);
    for (i = 0; i <= SIDES; i++) {
        double *room = calloc((size_t)o.rounds, sizeof(double));

        if (!room)
            bench_die("out of memory; ask for fewer --rounds");
        if (i < SIDES)
            o.ns[i] = room;
        else
            o.delta = room;
    }
    bench_fill(GB_F64, a_matrix, GB_COUNT(a_matrix), &o.random);
    bench_fill(GB_F64, b_matrix, GB_COUNT(b_matrix), &o.random);
    for (i = 0; i < 2 * GB_COUNT(size); i++)
        measure(&o, &run, i >= GB_COUNT(size), size[i % GB_COUNT(size)]);
    for (i = 0; i < SIDES; i++)
        free(o.ns[i]);
    free(o.delta);
    return 0;
}
