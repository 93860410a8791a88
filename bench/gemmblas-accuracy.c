/* SPDX-License-Identifier: BSD-3-Clause */
/* gemmblas-accuracy: how far products are from the exact ones, for each type, mode and
 * family of data, beside the error of native arithmetic; and whether each mode keeps
 * its promise. */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "emulated.h"
#include "exact.h"
#include "exec.h"
#include "gemm_args.h"
#include "plan.h"
#include "shared.h"
#include "tuned_file.h"
#include "util.h"

static const char usage[] =
    "Usage: gemmblas-accuracy [OPTION]...\n"
    "Measures the error of products against exact ones, by element and in the "
    "Frobenius\n"
    "norm, beside that of native arithmetic and of a chain of multiply-adds on the "
    "CPU.\n"
    "\n"
    "  --type LIST       f32,f64,c32,c64 (all)\n"
    "  --math LIST       native,emulated,fast (native,emulated)\n"
    "  --family LIST     families of data (all): normal, uniform, positive, spread-0 "
    "to\n"
    "                    spread-6, graded, cancels, cancels-far, large, tiny,\n"
    "                    denormal, special, integers-3, -6, -10, -20\n"
    "  --shape MxNxK     this shape instead of the suite's, of --trans XY (NN)\n"
    "  --kernel ROW      for a mode that is not native: this row of kernels.def\n"
    "  --device LIST     as GEMMBLAS_DEVICE\n"
    "  --name            print the device's name as files of rows have it, and stop\n"
    "  --threads N       of the CPU, for the exact products (as many as it has)\n"
    "  --seed N          of the data\n"
    "  --append FILE     add tab-separated rows to FILE, with a header if it is new\n"
    "  --note TEXT       last column\n"
    "  --commit NAME     of what is measured; default: BENCH_COMMIT, then git's "
    "answer\n"
    "\n"
    "Where the library would compute a small product natively whatever the mode, a row "
    "of\n"
    "the mode's own is taken that can compute it. A mode that has none is skipped and "
    "said\n"
    "to be. Exit status: 0, 1 when a mode breaks its promise, 2 for bad usage.\n";

#define HEADER                                                                         \
    "date\tdevice\tdriver\tcommit\tmath\ttype\tfamily\ttransa\ttransb\tm\tn\tk\t"      \
    "kernel\telement\tshare\tfrobenius\tnative_kernel\tnative_element\t"               \
    "native_frobenius\tchain_element\tchain_frobenius\telement_ratio\t"                \
    "frobenius_ratio\tchain_ratio\trounded\tsame\tverdict\tnote\n"

/* The suite: each k from 1 on, layouts, and sides around tiles. Few rows and columns
 * where k is long, so that the exact product is affordable. */
static const struct {
    const char *shape, *trans;
    bool all; /* of all families; others of a few */
} suite[] = {
    {"160x144x1", "NN", false},     {"160x144x2", "NN", false},
    {"160x144x17", "NT", false},    {"160x144x64", "TN", false},
    {"160x144x255", "NN", false},   {"160x144x256", "TT", true},
    {"129x127x777", "NT", true},    {"200x136x1000", "NN", false},
    {"200x136x1000", "TN", false},  {"257x65x1024", "CN", false},
    {"320x256x2048", "TN", true},   {"160x144x4096", "NN", true},
    {"96x72x16384", "NT", true},    {"64x64x131072", "TN", false},
    {"1000x520x1024", "NN", false},
};

/* The families that every shape of the suite is measured with. */
static const char few[] = "normal,uniform,positive,spread-2";

enum { MODES = 3 };

struct accuracy {
    struct bench_options o;
    const char *maths, *families;
    bool name; /* is all that is asked for */
    int threads;
    struct bench_run run;
    struct gb_engine *engine;
    const struct gb_device_info *info;
    int broken, rows;
    bool served[GB_TYPES][MODES], asked[GB_TYPES][MODES];
};

/* One C against the exact one. */
struct figures {
    const char *kernel;
    double element;   /* the worst |error| over |A||B|, in u */
    double share;     /* the worst share of the bound that is promised */
    double frobenius; /* of the error, over that of C */
    double rounded;   /* share of C that is the exact result, rounded once */
    bool special;     /* infinities and NaNs are where they belong */
};

static bool listed(const char *list, const char *name)
{
    const size_t length = strlen(name);

    for (const char *at = list; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

/* ---- options ---- */

enum option_id {
    O_APPEND = 256,
    O_COMMIT,
    O_DEVICE,
    O_FAMILY,
    O_HELP,
    O_KERNEL,
    O_MATH,
    O_NAME,
    O_NOTE,
    O_SEED,
    O_SHAPE,
    O_THREADS,
    O_TRANS,
    O_TYPE
};

static const struct option options[] = {
    {"append", required_argument, NULL, O_APPEND},
    {"commit", required_argument, NULL, O_COMMIT},
    {"device", required_argument, NULL, O_DEVICE},
    {"family", required_argument, NULL, O_FAMILY},
    {"help", no_argument, NULL, O_HELP},
    {"kernel", required_argument, NULL, O_KERNEL},
    {"math", required_argument, NULL, O_MATH},
    {"name", no_argument, NULL, O_NAME},
    {"note", required_argument, NULL, O_NOTE},
    {"seed", required_argument, NULL, O_SEED},
    {"shape", required_argument, NULL, O_SHAPE},
    {"threads", required_argument, NULL, O_THREADS},
    {"trans", required_argument, NULL, O_TRANS},
    {"type", required_argument, NULL, O_TYPE},
    {NULL, 0, NULL, 0},
};

static bool known_type(const char *word)
{
    return listed("f32,f64,c32,c64", word);
}

static bool known_math(const char *word)
{
    return listed("native,emulated,fast", word);
}

static bool known_family(const char *word)
{
    for (int i = 0; i < exact_family_count; i++)
        if (strcmp(word, exact_families[i].name) == 0)
            return true;
    return false;
}

/* Every word of the list must be known. */
static const char *checked(const char *option, const char *list,
                           bool (*known)(const char *word))
{
    const char *at = list;
    char word[24];

    do {
        size_t length = strcspn(at, ",");

        snprintf(word, sizeof(word), "%.*s", (int)length, at);
        if (!known(word))
            bench_die("%s '%s': unknown; see gemmblas-accuracy --help", option, word);
        at += length;
    } while (*at++ != '\0');
    return list;
}

static void parse(struct accuracy *x, int argc, char **argv)
{
    struct bench_options *o = &x->o;
    int id;

    opterr = 0;
    while ((id = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (id) {
        case O_HELP:
            fputs(usage, stdout);
            exit(0);
        case O_APPEND:
            o->append = optarg;
            break;
        case O_COMMIT:
            o->commit = optarg;
            break;
        case O_DEVICE:
            o->device = optarg;
            break;
        case O_FAMILY:
            x->families = checked("--family", optarg, known_family);
            break;
        case O_KERNEL:
            o->kernel = optarg;
            break;
        case O_MATH:
            x->maths = checked("--math", optarg, known_math);
            break;
        case O_NAME:
            x->name = true;
            break;
        case O_NOTE:
            o->note = optarg;
            break;
        case O_SEED:
            o->seed = (uint64_t)bench_integer("--seed", optarg, 1, INT64_MAX);
            break;
        case O_SHAPE:
            o->shape = optarg;
            break;
        case O_THREADS:
            x->threads = (int)bench_integer("--threads", optarg, 1, 1024);
            break;
        case O_TRANS:
            o->trans = optarg;
            break;
        case O_TYPE:
            o->types = checked("--type", optarg, known_type);
            break;
        default:
            bench_die(
                "%s: unknown option or value missing; see gemmblas-accuracy --help",
                argv[optind - 1]);
        }
    }
    if (optind < argc)
        bench_die("'%s': not an option; see gemmblas-accuracy --help", argv[optind]);
    if (o->kernel && !gb_kernel_find(o->kernel))
        bench_die("--kernel %s: no such row; gemmblas info --kernels lists them",
                  o->kernel);
}

/* ---- products ---- */

/* All of C by one panel. */
static void one_panel(struct gb_plan *plan, const struct gb_problem *p,
                      const struct gb_choice *choice)
{
    enum { SLOT = 4 << 20 };
    const int64_t most = SLOT / (int64_t)gb_type_size(p->type_c);

    *plan = (struct gb_plan){.p = *p,
                             .kernel = choice->kernel,
                             .splits = choice->splits,
                             .split_len = choice->split_len,
                             .hints = choice->hints,
                             .panel_m = p->m,
                             .panel_n = p->n,
                             .panel_k = p->k,
                             .group_m = choice->group_m,
                             .piece_rows = gb_min(p->m, most),
                             .slot_bytes = SLOT};
    plan->piece_cols = gb_max(1, gb_min(p->n, most / plan->piece_rows));
}

/* Would row k compute p, and not if p were native? On the emulated device no call gets
 * such rows, but it has them. */
static bool of_mode(const struct accuracy *x, const struct gb_problem *p,
                    const struct gb_kernel *k, struct gb_choice *choice)
{
    struct gb_problem native = *p;
    struct gb_choice other;

    if (x->o.kernel && strcmp(x->o.kernel, k->name) != 0)
        return false;
    if (x->info->vendor == GB_EMU && k->type == p->type && k->type_c == p->type_c &&
        (x->o.kernel || (p->math == GB_MATH_EMULATED && (k->flags & GB_K_EMULATED) &&
                         p->k >= gb_emulated_least_k(k)))) {
        *choice = (struct gb_choice){
            .kernel = k, .splits = 1, .split_len = p->k, .group_m = GB_PLAN_GROUP_M};
        return true;
    }
    native.math = GB_MATH_NATIVE;
    return gb_plan_row(p, x->info, k, GB_PLAN_LINE, GB_PLAN_LINE, GB_PLAN_TAILS, 0,
                       choice) &&
           !gb_plan_row(&native, x->info, k, GB_PLAN_LINE, GB_PLAN_LINE, GB_PLAN_TAILS,
                        0, &other);
}

/* The plan of a call of p; where that is native whatever the mode, of the quickest row
 * of the mode's own. False: there is none. */
static bool plan_of(const struct accuracy *x, const struct gb_problem *p,
                    struct gb_plan *plan)
{
    struct gb_choice best = {0}, choice;
    bool found = false;

    if (p->math == GB_MATH_NATIVE)
        return gb_plan_make(p, x->info, gb_engine_budget(x->engine), plan) == GB_OK;
    for (int i = 0; i < gb_kernel_count; i++)
        if (of_mode(x, p, &gb_kernels[i], &choice) &&
            (!found || choice.seconds < best.seconds)) {
            best = choice;
            found = true;
        }
    if (found)
        one_panel(plan, p, &best);
    return found;
}

/* ---- errors ---- */

/* The bound that the mode promises of a part of C whose |A||B| is `size`. A tf32
 * operand has lost 2^-10 of itself, and tensor cores cut off where fp32 rounds. */
static double bound(const struct exact_problem *e, enum bench_math mode, double size)
{
    const double u = exact_roundoff(e->s->type), terms = (double)e->deep + 2;

    return (mode == BENCH_FAST ? (2 * 0x1p-10 + 2 * terms * u) : terms * u) * size +
           exact_least(e->s->type);
}

static bool rounded_once(enum gb_type type, double seen, double sum, double rest)
{
    return gb_type_part(type) == GB_F64 ? seen == sum + rest
                                        : (float)seen == (float)(sum + rest);
}

/* `c`: results; NULL: of the chain. */
static struct figures compare(const struct exact_problem *e, enum bench_math mode,
                              const void *c)
{
    const struct bench_shape *s = e->s;
    const double u = exact_roundoff(s->type), least = exact_least(s->type);
    struct figures f = {.special = true};
    long double errors = 0, all = 0; /* whose range holds squares of large ones */
    int64_t rounded = 0;

    for (int64_t j = 0; j < e->cols; j++)
        for (int64_t i = 0; i < s->m; i++) {
            const int64_t at = i + j * e->rows;
            const int64_t part = (i + j / e->parts * s->ldc) * e->parts + j % e->parts;
            const double want = e->chain[at];
            const double seen = c ? exact_part(s->type, c, part) : want;
            double error, beyond;

            if (!isfinite(want)) {
                f.special &= isnan(want) ? isnan(seen) : seen == want;
                rounded++;
                continue;
            }
            f.special &= isfinite(seen);
            error = fabs(seen - e->sum[at] - e->rest[at]);
            if (!isfinite(error)) {
                f.element = f.share = INFINITY;
                errors = INFINITY;
                continue;
            }
            rounded += rounded_once(s->type, seen, e->sum[at], e->rest[at]);
            beyond = fmax(0, error - least); /* a result may be denormal itself */
            if (beyond > 0)
                f.element = fmax(f.element, beyond / (u * e->size[at]));
            f.share = fmax(f.share, error / bound(e, mode, e->size[at]));
            errors += (long double)error * error;
            all += (long double)e->sum[at] * e->sum[at];
        }
    f.frobenius = all > 0 ? (double)sqrtl(errors / all) : errors > 0 ? INFINITY : 0;
    f.rounded = (double)rounded / (double)(s->m * e->cols);
    return f;
}

static double ratio(double ours, double native)
{
    return ours == native ? 1 : ours / native; /* native 0: infinite */
}

/* What of its promise the mode breaks. Emulated arithmetic is to err no more than
 * native does, or three times that, by the family. What native arithmetic errs is told
 * by a chain of multiply-adds too: native mode has fewer in a chain where the planner
 * cuts a long k for want of tiles, which is no property of the arithmetic, so `norms`
 * is the smaller ratio. Of N random parts of C a ratio of two norms strays by
 * 1/sqrt(N), three times which is allowed. */
static const char *verdict(const struct exact_problem *e, int family,
                           enum bench_math mode, const struct figures *f, double norms)
{
    const double strays = 3 / sqrt((double)(e->s->m * e->cols));

    if (!f->special)
        return "broken: infinities or NaNs";
    if (!(f->share <= 1))
        return "broken: bound";
    if (mode == BENCH_EMULATED &&
        !(norms <= exact_families[family].most * (1 + strays)))
        return "broken: multiple of native";
    return "kept";
}

/* ---- rows ---- */

static void check_append(const char *path)
{
    char line[sizeof(HEADER)] = "";
    FILE *file = fopen(path, "a+");

    if (!file)
        bench_die("%s: %s; name a file that can be written", path, strerror(errno));
    rewind(file);
    if (!fgets(line, sizeof(line), file)) {
        rewind(file);
        fputs(HEADER, file);
    } else if (strcmp(line, HEADER) != 0)
        bench_die("%s: its header is another one; name a new file", path);
    if (fclose(file) != 0)
        bench_die("%s: %s; name a file that can be written", path, strerror(errno));
}

/* Share of C that has the very bits of the native result. */
static double same(const struct exact_problem *e, const void *x, const void *y)
{
    const struct bench_shape *s = e->s;
    const size_t size = gb_type_size(s->type_c);
    int64_t equal = 0;

    for (int64_t j = 0; j < s->n; j++)
        for (int64_t i = 0; i < s->m; i++) {
            size_t at = (size_t)(i + j * s->ldc) * size;

            equal += memcmp((const char *)x + at, (const char *)y + at, size) == 0;
        }
    return (double)equal / (double)(s->m * s->n);
}

static void write_row(struct accuracy *x, const struct exact_problem *e, int family,
                      enum bench_math mode, const struct figures *ours,
                      const struct figures *native, const struct figures *chain,
                      double same_bits)
{
    const struct bench_shape *s = e->s;
    const double norms = ratio(ours->frobenius, native->frobenius);
    const double chains = ratio(ours->frobenius, chain->frobenius);
    const char *said = verdict(e, family, mode, ours, fmin(norms, chains));
    time_t now = time(NULL);
    char date[32];
    struct tm tm;
    FILE *file;

    x->rows++;
    x->broken += strcmp(said, "kept") != 0;
    printf("%s %s %-11s %s%s %lldx%lldx%lld  %s  %.4g u, %.4f of the bound; norm %.3g,"
           " %.3f of native's, %.3f of a chain's; %s\n",
           gb_type_name(s->type), bench_math_name(mode), exact_families[family].name,
           gb_trans_name(s->transa), gb_trans_name(s->transb), (long long)s->m,
           (long long)s->n, (long long)s->k, ours->kernel, ours->element, ours->share,
           ours->frobenius, norms, chains, said);
    fflush(stdout);
    if (!x->o.append)
        return;
    gmtime_r(&now, &tm);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &tm);
    file = fopen(x->o.append, "a");
    if (!file ||
        fprintf(
            file,
            "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%lld\t%lld\t%lld\t%s\t%.4g\t%.4g\t"
            "%.4g\t%s\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t%.4f\t%.4f\t%s\t%s\n",
            date, x->run.device, x->run.driver, x->run.commit, bench_math_name(mode),
            gb_type_name(s->type), exact_families[family].name,
            gb_trans_name(s->transa), gb_trans_name(s->transb), (long long)s->m,
            (long long)s->n, (long long)s->k, ours->kernel, ours->element, ours->share,
            ours->frobenius, native->kernel, native->element, native->frobenius,
            chain->element, chain->frobenius, ratio(ours->element, native->element),
            norms, ratio(ours->frobenius, chain->frobenius), ours->rounded, same_bits,
            said, x->run.note) < 0 ||
        fclose(file) != 0)
        bench_die("%s: %s; name a file that can be written", x->o.append,
                  strerror(errno));
}

/* ---- the suite ---- */

/* False: the mode has no arithmetic of its own for the shape. */
static bool compute(struct accuracy *x, const struct bench_shape *s, int mode,
                    const void *a, const void *b, void *c, const char **kernel)
{
    const struct gb_problem p = {.op = GB_GEMM,
                                 .type = s->type,
                                 .type_c = s->type_c,
                                 .transa = s->transa,
                                 .transb = s->transb,
                                 .m = s->m,
                                 .n = s->n,
                                 .k = s->k,
                                 .alpha = {1, 0},
                                 .a = a,
                                 .b = b,
                                 .c = c,
                                 .lda = s->lda,
                                 .ldb = s->ldb,
                                 .ldc = s->ldc,
                                 .math = (enum gb_math)mode};
    struct gb_exec_stats stats = {0};
    struct gb_plan plan;
    enum gb_why why;

    if (!plan_of(x, &p, &plan))
        return false;
    memset(c, 0xff, bench_bytes_c(s)); /* NaN: nobody may read it */
    why = gb_exec(x->engine, &plan, &stats);
    if (why != GB_OK)
        bench_die("%s: %s", plan.kernel->name, gb_why_text(why));
    *kernel = plan.kernel->name;
    return true;
}

static void measure(struct accuracy *x, const struct bench_shape *s, int family)
{
    void *a = malloc(bench_bytes_a(s)), *b = malloc(bench_bytes_b(s)),
         *c = malloc(bench_bytes_c(s)), *d = malloc(bench_bytes_c(s));
    struct figures native, chain, ours;
    struct exact_problem e;
    const char *kernel;

    if (!a || !b || !c || !d)
        bench_die("out of memory; take a smaller shape");
    e = exact_make(s, family, x->o.seed, x->threads, a, b);
    chain = compare(&e, BENCH_NATIVE, NULL);
    if (!compute(x, s, GB_MATH_NATIVE, a, b, c, &kernel))
        bench_die("%s: no kernel on this device", gb_type_name(s->type));
    native = compare(&e, BENCH_NATIVE, c);
    native.kernel = kernel;
    for (int mode = BENCH_NATIVE; mode < MODES; mode++) {
        if (!listed(x->maths, bench_math_name((enum bench_math)mode)))
            continue;
        x->asked[s->type][mode] = true;
        if (mode == BENCH_NATIVE)
            memcpy(d, c, bench_bytes_c(s));
        else if (!compute(x, s, mode, a, b, d, &kernel))
            continue;
        x->served[s->type][mode] = true;
        ours = compare(&e, (enum bench_math)mode, d);
        ours.kernel = kernel;
        write_row(x, &e, family, (enum bench_math)mode, &ours, &native, &chain,
                  same(&e, c, d));
    }
    exact_drop(&e);
    free(a);
    free(b);
    free(c);
    free(d);
}

static void measure_shape(struct accuracy *x, const char *shape, const char *trans,
                          bool all)
{
    char type[8], word[8];
    struct bench_shape s;

    for (int t = 0; t < GB_TYPES; t++) {
        snprintf(word, sizeof(word), "%s", gb_type_name((enum gb_type)t));
        if (!known_type(word) || !listed(x->o.types, word))
            continue;
        snprintf(type, sizeof(type), "%s", word);
        s = bench_shape_from(shape, type, trans);
        for (int i = 0; i < exact_family_count; i++)
            if (listed(x->families, exact_families[i].name) ||
                (!x->families && (all || listed(few, exact_families[i].name))))
                measure(x, &s, i);
    }
}

static void open_device(struct accuracy *x)
{
    struct gb_device_ref ref;
    struct gb_device *dev;

    if (!bench_first_device(&x->o, &ref))
        bench_die("no device; take --device emu for the emulated one");
    if (gb_engine_open(ref, &x->engine) != GB_SUCCESS)
        bench_die("the device cannot be opened; look at dmesg");
    dev = gb_engine_device(x->engine);
    x->info = &dev->info;
    gb_tuned_load(x->info);
    x->o.append = NULL; /* these rows have a header of their own */
    bench_run_init(&x->run, bench_row_name(dev), x->info->driver, &x->o);
}

static void print_name(const struct accuracy *x)
{
    for (const char *at = x->run.device; *at; at++)
        putchar(isalnum((unsigned char)*at) ? tolower((unsigned char)*at) : '-');
    putchar('\n');
}

static void measure_all(struct accuracy *x)
{
    if (x->o.shape)
        measure_shape(x, x->o.shape, x->o.trans, true);
    for (size_t i = 0; !x->o.shape && i < GB_COUNT(suite); i++)
        measure_shape(x, suite[i].shape, suite[i].trans, suite[i].all);
    for (int t = 0; t < GB_TYPES; t++)
        for (int mode = 0; mode < MODES; mode++)
            if (x->asked[t][mode] && !x->served[t][mode])
                printf("%s %s: skipped, %s has no row of that mode\n",
                       gb_type_name((enum gb_type)t),
                       bench_math_name((enum bench_math)mode), x->run.device);
    printf("%d rows, %d broken\n", x->rows, x->broken);
}

int main(int argc, char **argv)
{
    struct accuracy x = {.o = {.program = "gemmblas-accuracy",
                               .types = "f32,f64,c32,c64",
                               .trans = "NN",
                               .seed = 20250101},
                         .maths = "native,emulated",
                         .threads = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    const char *append;

    bench_name(x.o.program);
    parse(&x, argc, argv);
    append = x.o.append;
    if (append)
        check_append(append);
    open_device(&x);
    x.o.append = append;
    if (x.name)
        print_name(&x);
    else
        measure_all(&x);
    gb_engine_close(x.engine);
    return x.broken > 0;
}
