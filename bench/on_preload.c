/* SPDX-License-Identifier: BSD-3-Clause */
/* NVBLAS by turns with ours: client-gemm, a program that calls dgemm_, is started under
 * LD_PRELOAD of the one and of the other. Not in one process, since the memory that
 * NVBLAS pins would be pinned for ours too. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "modes.h"
#include "peers.h"
#include "shared.h"
#include "util.h"

enum { TURNS = 3, SIDES = 2 };

struct preload_bench {
    const struct bench_options *o;
    struct bench_run run;
    char client[PATH_MAX];
    char preload[SIDES][2 * PATH_MAX]; /* ours, theirs; then the CPU BLAS */
    char folder[2 * PATH_MAX]; /* of NVBLAS's own libraries and of the CPU BLAS */
    char config[PATH_MAX];     /* of NVBLAS */
    char label[96];
    int wrong;
};

struct preload_result {
    double *sample[SIDES];
    int count[SIDES];
    bool wrong[SIDES];
};

/* Files of ours that must not outlive the run, however it ends. */
static char config_path[PATH_MAX]; /* of NVBLAS */
static struct bench_trace trace = {.fd = -1};

static void remove_files(void)
{
    unlink(config_path);
    bench_trace_unlink(&trace);
}

static void find_client(char *out, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 16);
    char *slash;

    out[n > 0 ? n : 0] = '\0';
    slash = strrchr(out, '/');
    snprintf(slash ? slash + 1 : out, 16, "client-gemm");
    if (access(out, X_OK) != 0)
        bench_die("%s: %s; build it with make bench/client-gemm", out, strerror(errno));
}

/* The CPU BLAS that serves what neither takes; absolute, as NVBLAS demands. */
static void find_blas(const struct bench_options *o, char *out)
{
    static const char *const usual[] = {"/usr/lib/x86_64-linux-gnu/libopenblas.so.0",
                                        "/usr/lib/aarch64-linux-gnu/libopenblas.so.0",
                                        "/usr/lib64/libopenblas.so.0"};
    size_t i;

    if (o->blas) {
        if (!realpath(o->blas, out))
            bench_die("--blas %s: %s; name a BLAS library", o->blas, strerror(errno));
        return;
    }
    for (i = 0; i < GB_COUNT(usual); i++)
        if (realpath(usual[i], out))
            return;
    bench_die("libopenblas.so.0: not found; name a CPU BLAS with --blas FILE");
}

static void find_nvblas(struct preload_bench *b, char *out, size_t size)
{
    char cublas[PATH_MAX];
    char version[32];
    const char *base;
    void *library;

    if (b->o->nvblas) {
        if (!realpath(b->o->nvblas, out))
            bench_die("--nvblas %s: %s; name libnvblas.so.13", b->o->nvblas,
                      strerror(errno));
        bench_preload_label(out, b->label, sizeof(b->label));
        snprintf(b->folder, sizeof(b->folder), "%.*s:", (int)(strrchr(out, '/') - out),
                 out);
        return;
    }
    bench_cublas_find(b->o, cublas, sizeof(cublas));
    library = dlopen(cublas, RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        bench_die("%s: %s; name its folder with --cublas DIR", cublas, dlerror());
    bench_cublas_version(library, version, sizeof(version));
    snprintf(b->label, sizeof(b->label), "nvblas %s autopin", version);
    base = strrchr(cublas, '/');
    if (base)
        snprintf(b->folder, sizeof(b->folder), "%.*s:", (int)(base - cublas), cublas);
    snprintf(out, size, "%.*s%slibnvblas.so%s", base ? (int)(base - cublas) : 0, cublas,
             base ? "/" : "", strstr(cublas, ".so") + 3);
    if (base && access(out, R_OK) != 0)
        bench_die("%s: %s; name the library with --nvblas FILE", out, strerror(errno));
}

static void write_config(const char *blas)
{
    const char *folder = getenv("TMPDIR");
    FILE *file;
    int fd;

    snprintf(config_path, sizeof(config_path), "%s/nvblas.XXXXXX",
             folder ? folder : "/tmp");
    fd = mkstemp(config_path);
    file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file)
        bench_die("%s: %s; set TMPDIR to a folder that can be written", config_path,
                  strerror(errno));
    fprintf(file,
            "NVBLAS_LOGFILE /dev/null\nNVBLAS_CPU_BLAS_LIB %s\nNVBLAS_GPU_LIST 0\n"
            "NVBLAS_TILE_DIM 2048\nNVBLAS_AUTOPIN_MEM_ENABLED\n",
            blas);
    fclose(file);
}

/* In the child: become the client. */
static void run_client(const struct preload_bench *b, const struct bench_shape *s,
                       int side, int calls, int out)
{
    const char *loader_path = getenv("LD_LIBRARY_PATH");
    char path[3 * PATH_MAX];
    char number[9][32];
    int64_t value[6] = {s->m, s->n, s->k, s->lda, s->ldb, s->ldc};
    int i;

    for (i = 0; i < 6; i++)
        snprintf(number[i], sizeof(number[i]), "%lld", (long long)value[i]);
    snprintf(number[6], sizeof(number[6]), "%.17g", s->beta);
    snprintf(number[7], sizeof(number[7]), "%d", calls);
    snprintf(number[8], sizeof(number[8]), "%llu", (unsigned long long)b->o->seed);
    snprintf(path, sizeof(path), "%s%s%s", b->folder, loader_path ? ":" : "",
             loader_path ? loader_path : "");
    setenv("LD_LIBRARY_PATH", path, 1);
    if (side == 0 && trace.fd >= 0)
        setenv("GEMMBLAS_TRACE", trace.path, 1);
    setenv("NVBLAS_CONFIG_FILE", config_path, 1);
    setenv("LD_PRELOAD", b->preload[side], 1);
    dup2(out, STDOUT_FILENO);
    execl(b->client, b->client, gb_type_name(s->type), gb_trans_name(s->transa),
          gb_trans_name(s->transb), number[0], number[1], number[2], number[3],
          number[4], number[5], number[6], bench_place_name(b->o->place), number[7],
          number[8], (char *)NULL);
    _exit(127);
}

/* One process: its samples join the others of its side. */
static void turn(struct preload_bench *b, const struct bench_shape *s, int side,
                 int calls, struct preload_result *r)
{
    char line[64];
    char last[64] = "";
    FILE *from;
    pid_t child;
    int status;
    int ends[2];

    fflush(stdout);
    if (pipe2(ends, O_CLOEXEC) != 0 || (child = fork()) < 0)
        bench_die("%s: %s; close other programs", b->client, strerror(errno));
    if (child == 0)
        run_client(b, s, side, calls, ends[1]);
    close(ends[1]);
    from = fdopen(ends[0], "r");
    while (from && fgets(line, sizeof(line), from)) {
        snprintf(last, sizeof(last), "%s", line);
        if ((line[0] >= '0' && line[0] <= '9') && r->count[side] < TURNS * calls)
            r->sample[side][r->count[side]++] = strtod(line, NULL);
    }
    if (from)
        fclose(from);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 ||
        (strcmp(last, "right\n") != 0 && strcmp(last, "wrong\n") != 0))
        bench_die("%s under %s fails (status %d); run it by hand", b->client,
                  b->preload[side], status);
    r->wrong[side] = r->wrong[side] || strcmp(last, "wrong\n") == 0;
}

static void measure(struct preload_bench *b, const struct bench_shape *s)
{
    int calls = (b->o->repeats + TURNS - 1) / TURNS;
    struct preload_result r = {.count = {0, 0}};
    struct bench_row row = {
        .shape = s, .place = b->o->place, .math = b->o->math, .peer = b->label};
    struct bench_ran ran;
    int side;
    int t;

    if (s->type != s->type_c || gb_type_size(s->type) < 4 || s->batch != 1) {
        printf("%s %s: skipped, NVBLAS has no routine for it\n", gb_type_name(s->type),
               gb_type_name(s->type_c));
        return;
    }
    for (side = 0; side < SIDES; side++) {
        r.sample[side] = calloc((size_t)TURNS * (size_t)calls, sizeof(double));
        if (!r.sample[side])
            bench_die("out of memory; ask for fewer --repeats");
    }
    bench_trace_clear(&trace);
    for (t = 0; t < TURNS; t++)
        for (side = 0; side < SIDES; side++)
            turn(b, s, side, calls, &r);
    bench_trace_read(&trace, &ran);
    row.kernel = ran.kernel;
    row.splits = ran.splits;
    row.remark = ran.remark;
    row.ours_us = bench_median(r.sample[0], (size_t)r.count[0]);
    row.spread = bench_spread(r.sample[0], (size_t)r.count[0]);
    row.peer_us = bench_median(r.sample[1], (size_t)r.count[1]);
    row.ours_wrong = r.wrong[0];
    row.peer_wrong = r.wrong[1];
    bench_row_write(&b->run, &row);
    b->wrong += r.wrong[0];
    free(r.sample[0]);
    free(r.sample[1]);
}

int bench_on_preload(const struct bench_options *o, const struct bench_shape *shapes,
                     size_t count)
{
    struct preload_bench *b = calloc(1, sizeof(*b));
    char ours[PATH_MAX];
    char theirs[PATH_MAX];
    char blas[PATH_MAX];
    char name[64] = "none";
    int driver = 0;
    int wrong;
    size_t i;

    if (!b)
        bench_die("out of memory; close other programs");
    if (o->place == BENCH_RESIDENT)
        bench_die("--peer nvblas: it needs --place host-fresh or host-repeat");
    b->o = o;
    find_client(b->client, sizeof(b->client));
    bench_ours_find(o, ours, sizeof(ours));
    find_blas(o, blas);
    find_nvblas(b, theirs, sizeof(theirs));
    snprintf(b->folder + strlen(b->folder), PATH_MAX, "%.*s",
             (int)(strrchr(blas, '/') - blas), blas);
    snprintf(b->preload[0], sizeof(b->preload[0]), "%s:%s", ours, blas);
    snprintf(b->preload[1], sizeof(b->preload[1]), "%s:%s", theirs, blas);
    bench_device_name(o, name, sizeof(name), &driver);
    bench_run_init(&b->run, name, driver, o);
    write_config(blas);
    bench_trace_open(&trace);
    atexit(remove_files);
    for (i = 0; i < count; i++)
        measure(b, &shapes[i]);
    wrong = b->wrong;
    free(b);
    return wrong;
}
