/* SPDX-License-Identifier: BSD-3-Clause */
/* gemmblas-bench: ours and other libraries on the same random data in one run, medians,
 * one row per shape and peer. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "modes.h"

static const char usage[] =
    "Usage: gemmblas-bench [OPTION]...\n"
    "Times our kernels or routines against other libraries, interleaved in one run on "
    "the\n"
    "same random data, and compares the results.\n"
    "\n"
    "What to run:\n"
    "  --shapes FILE     lines of: routine type typec transa transb m n k lda ldb ldc "
    "batch\n"
    "                    beta; a leading dimension of 0 is tight, +1 tight and one "
    "more\n"
    "  --shape MxNxK|N   one shape instead, of --type (f64) and --trans (NN)\n"
    "  --routine NAME    only this routine\n"
    "  --type LIST       only these types: f32,f64 or bf16:f32 (type and typec)\n"
    "  --trans XY        of --shape: N, T, C or R twice\n"
    "  --place PLACE     resident (default), host-fresh or host-repeat\n"
    "  --math MATH       native (default), emulated or fast\n"
    "Against what:\n"
    "  --peer LIST       resident: cublas. host-*: cublasxt, cublasxt-pin, the path of "
    "any\n"
    "                    BLAS .so; or nvblas, alone: a client program under LD_PRELOAD "
    "of\n"
    "                    ours and of NVBLAS by turns\n"
    "  --cublas DIR      folder of libcublas.so.13 and libnvblas.so.13\n"
    "  --ours FILE       libgemmblas.so.0 for the host places; default: as built\n"
    "  --blas FILE       nvblas: the CPU BLAS behind both\n"
    "  --nvblas FILE     nvblas: another library to preload in its place\n"
    "How:\n"
    "  --kernel ROW      resident: this row of kernels.def, not the planner's choice\n"
    "  --group N         resident: tile rows of a group of the L2 order\n"
    "  --splits N        with --kernel: parts of k, where they can be so many\n"
    "  --epilogue NAME   resident: fused to the product: bias, gelu, bias_gelu ...; "
    "peers\n"
    "                    are then cublas and ours, each with a kernel after it\n"
    "  --hints A,B       resident: what loads ask of L2: keep, stream or none\n"
    "  --device LIST     as GEMMBLAS_DEVICE\n"
    "  --repeats N       samples per library (21)\n"
    "  --block MS        least time of a sample that may repeat calls (10)\n"
    "  --pause MS        host-*: rest before each sample (40)\n"
    "  --seed N          of the data and of the order\n"
    "Rows:\n"
    "  --append FILE     add tab-separated rows to FILE, with a header if it is new\n"
    "  --note TEXT       last column\n"
    "  --commit NAME     of what is measured; default: BENCH_COMMIT, then git's "
    "answer\n"
    "\n"
    "The host places set GEMMBLAS_ROUTE=gpu unless it is set. Exit status: 0, 1 when "
    "a\n"
    "result of ours is wrong or missing, 2 for bad usage.\n";

enum option_id {
    O_BLAS = 256,
    O_APPEND,
    O_BLOCK,
    O_COMMIT,
    O_CUBLAS,
    O_DEVICE,
    O_EPILOGUE,
    O_HELP,
    O_GROUP,
    O_HINTS,
    O_KERNEL,
    O_MATH,
    O_NOTE,
    O_NVBLAS,
    O_OURS,
    O_PAUSE,
    O_PEER,
    O_PLACE,
    O_REPEATS,
    O_ROUTINE,
    O_SEED,
    O_SHAPE,
    O_SHAPES,
    O_SPLITS,
    O_TRANS,
    O_TYPE
};

static const struct option options[] = {
    {"append", required_argument, NULL, O_APPEND},
    {"blas", required_argument, NULL, O_BLAS},
    {"block", required_argument, NULL, O_BLOCK},
    {"commit", required_argument, NULL, O_COMMIT},
    {"cublas", required_argument, NULL, O_CUBLAS},
    {"device", required_argument, NULL, O_DEVICE},
    {"epilogue", required_argument, NULL, O_EPILOGUE},
    {"help", no_argument, NULL, O_HELP},
    {"group", required_argument, NULL, O_GROUP},
    {"hints", required_argument, NULL, O_HINTS},
    {"kernel", required_argument, NULL, O_KERNEL},
    {"math", required_argument, NULL, O_MATH},
    {"note", required_argument, NULL, O_NOTE},
    {"nvblas", required_argument, NULL, O_NVBLAS},
    {"ours", required_argument, NULL, O_OURS},
    {"pause", required_argument, NULL, O_PAUSE},
    {"peer", required_argument, NULL, O_PEER},
    {"place", required_argument, NULL, O_PLACE},
    {"repeats", required_argument, NULL, O_REPEATS},
    {"routine", required_argument, NULL, O_ROUTINE},
    {"seed", required_argument, NULL, O_SEED},
    {"shape", required_argument, NULL, O_SHAPE},
    {"shapes", required_argument, NULL, O_SHAPES},
    {"splits", required_argument, NULL, O_SPLITS},
    {"trans", required_argument, NULL, O_TRANS},
    {"type", required_argument, NULL, O_TYPE},
    {NULL, 0, NULL, 0},
};

static enum bench_place parse_place(const char *text)
{
    int p;

    for (p = BENCH_RESIDENT; p <= BENCH_HOST_REPEAT; p++)
        if (strcmp(text, bench_place_name((enum bench_place)p)) == 0)
            return (enum bench_place)p;
    bench_die("--place '%s': give resident, host-fresh or host-repeat", text);
}

static enum bench_math parse_math(const char *text)
{
    int m;

    for (m = BENCH_NATIVE; m <= BENCH_FAST; m++)
        if (strcmp(text, bench_math_name((enum bench_math)m)) == 0)
            return (enum bench_math)m;
    bench_die("--math '%s': give native, emulated or fast", text);
}

/* Every type of the list, and every typec, must be one. */
static const char *checked_types(const char *list)
{
    char word[8];
    const char *at = list;
    size_t length;

    do {
        length = strcspn(at, ",:");
        snprintf(word, sizeof(word), "%.*s", (int)length, at);
        if (bench_type(word) == GB_TYPES)
            bench_die("--type '%s': give f16, bf16, f32, f64, c32, c64 or i8", list);
        at += length;
    } while (*at++ != '\0');
    return list;
}

static void text_option(struct bench_options *o, int id, const char *value)
{
    switch (id) {
    case O_APPEND:
        o->append = value;
        return;
    case O_BLAS:
        o->blas = value;
        return;
    case O_COMMIT:
        o->commit = value;
        return;
    case O_CUBLAS:
        o->cublas = value;
        return;
    case O_DEVICE:
        o->device = value;
        return;
    case O_EPILOGUE:
        o->epilogue = value;
        return;
    case O_KERNEL:
        o->kernel = value;
        return;
    case O_NOTE:
        o->note = value;
        return;
    case O_NVBLAS:
        o->nvblas = value;
        return;
    case O_OURS:
        o->ours = value;
        return;
    case O_PEER:
        o->peers = value;
        return;
    case O_ROUTINE:
        if (strcmp(value, "gemm") != 0)
            bench_die("--routine '%s': only gemm is known", value);
        o->routine = value;
        return;
    case O_SHAPE:
        o->shape = value;
        return;
    case O_SHAPES:
        o->shapes = value;
        return;
    case O_TRANS:
        o->trans = value;
        return;
    case O_TYPE:
        o->types = checked_types(value);
        return;
    default:
        bench_die("unknown option; see gemmblas-bench --help");
    }
}

static void parse(struct bench_options *o, int argc, char **argv)
{
    int id;

    opterr = 0;
    while ((id = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (id) {
        case O_HELP:
            fputs(usage, stdout);
            exit(0);
        case O_BLOCK:
            o->block_ms = bench_decimal("--block", optarg, 0, 10000);
            break;
        case O_GROUP:
            o->group = (int)bench_integer("--group", optarg, 1, INT32_MAX);
            break;
        case O_HINTS:
            o->hints = optarg;
            break;
        case O_MATH:
            o->math = parse_math(optarg);
            break;
        case O_SPLITS:
            o->splits = (int)bench_integer("--splits", optarg, 1, 4096);
            break;
        case O_PAUSE:
            o->pause_ms = bench_decimal("--pause", optarg, 0, 10000);
            break;
        case O_PLACE:
            o->place = parse_place(optarg);
            break;
        case O_REPEATS:
            o->repeats = (int)bench_integer("--repeats", optarg, 1, 100000);
            break;
        case O_SEED:
            o->seed = (uint64_t)bench_integer("--seed", optarg, 1, INT64_MAX);
            break;
        case '?':
            bench_die("%s: unknown option or value missing; see gemmblas-bench --help",
                      argv[optind - 1]);
        default:
            text_option(o, id, optarg);
        }
    }
    if (optind < argc)
        bench_die("'%s': not an option; see gemmblas-bench --help", argv[optind]);
    if (!o->shapes == !o->shape)
        bench_die("give --shapes FILE or --shape MxNxK; see gemmblas-bench --help");
    if (o->kernel && o->place != BENCH_RESIDENT)
        bench_die("--kernel %s: it needs --place resident", o->kernel);
    if (o->group && o->place != BENCH_RESIDENT)
        bench_die("--group %d: it needs --place resident", o->group);
    if (o->splits && !o->kernel)
        bench_die("--splits %d: it needs --kernel ROW", o->splits);
    if (o->epilogue && o->place != BENCH_RESIDENT)
        bench_die("--epilogue %s: it needs --place resident", o->epilogue);
    if (o->hints && o->place != BENCH_RESIDENT)
        bench_die("--hints %s: it needs --place resident", o->hints);
}

static size_t wanted_shapes(const struct bench_options *o, struct bench_shape **shapes)
{
    size_t count = 1;
    size_t kept = 0;
    size_t i;

    if (o->shape) {
        *shapes = malloc(sizeof(**shapes));
        if (!*shapes)
            bench_die("out of memory; close other programs");
        **shapes = bench_shape_from(o->shape, o->types, o->trans);
        return 1;
    }
    count = bench_shapes_read(o->shapes, shapes);
    for (i = 0; i < count; i++)
        if (bench_shape_wanted(&(*shapes)[i], o))
            (*shapes)[kept++] = (*shapes)[i];
    if (kept == 0)
        bench_die("%s: no shape of the types asked for; change --type", o->shapes);
    return kept;
}

int main(int argc, char **argv)
{
    struct bench_options o = {.program = "gemmblas-bench",
                              .trans = "NN",
                              .peers = "",
                              .repeats = 21,
                              .block_ms = 10,
                              .pause_ms = -1,
                              .seed = 20250101};
    struct bench_shape *shapes;
    size_t count;
    int wrong;

    bench_name(o.program);
    parse(&o, argc, argv);
    count = wanted_shapes(&o, &shapes);
    for (size_t i = 0; o.epilogue && i < count; i++)
        bench_epilogue(o.epilogue, &shapes[i]);
    if (o.place != BENCH_RESIDENT)
        setenv("GEMMBLAS_ROUTE", "gpu", 0);
    if (o.device)
        setenv("GEMMBLAS_DEVICE", o.device, 1);
    if (strcmp(o.peers, "nvblas") == 0)
        wrong = bench_on_preload(&o, shapes, count);
    else if (o.place == BENCH_RESIDENT)
        wrong = bench_on_device(&o, shapes, count);
    else
        wrong = bench_on_host(&o, shapes, count);
    free(shapes);
    return wrong > 0;
}
