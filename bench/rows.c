/* SPDX-License-Identifier: BSD-3-Clause */
/* Shapes files in, result rows out: the two tab-separated formats of the bench, and the
 * statistics between them. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "gemm_args.h"
#include "util.h"

#define HEADER                                                                         \
    "date\tdevice\tdriver\tcommit\tplace\tmath\troutine\ttype\ttypec\ttransa\ttransb"  \
    "\tm\t"                                                                            \
    "n\tk\tlda\tldb\tldc\tbatch\tbeta\tkernel\tours_us\tspread\ttflops\tpeer\tpeer_"   \
    "us\t"                                                                             \
    "ratio\tnote\n"

static const char *program = "bench";

void bench_name(const char *name)
{
    program = name;
}

void bench_die(const char *format, ...)
{
    va_list ap;

    fflush(stdout);
    fprintf(stderr, "%s: ", program);
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(2);
}

int64_t bench_integer(const char *option, const char *text, int64_t low, int64_t high)
{
    char *end;
    long long v;

    errno = 0;
    v = strtoll(text, &end, 10);
    if (errno || end == text || *end || v < low || v > high)
        bench_die("%s '%s': give a whole number from %lld to %lld", option, text,
                  (long long)low, (long long)high);
    return v;
}

double bench_decimal(const char *option, const char *text, double low, double high)
{
    char *end;
    double v = strtod(text, &end);

    if (end == text || *end || !(v >= low && v <= high))
        bench_die("%s '%s': give a number from %g to %g", option, text, low, high);
    return v;
}

const char *bench_place_name(enum bench_place place)
{
    static const char *const name[] = {"resident", "host-fresh", "host-repeat"};

    return name[place];
}

const char *bench_math_name(enum bench_math math)
{
    static const char *const name[] = {"native", "emulated", "fast"};

    return name[math];
}

enum gb_type bench_type(const char *text)
{
    int t;

    for (t = 0; t < GB_TYPES; t++)
        if (strcmp(text, gb_type_name((enum gb_type)t)) == 0)
            break;
    return (enum gb_type)t;
}

enum gb_trans bench_trans(const char *text, bool *ok)
{
    int t;

    *ok = true;
    for (t = GB_N; t <= GB_CONJ; t++)
        if (strcmp(text, gb_trans_name((enum gb_trans)t)) == 0)
            return (enum gb_trans)t;
    *ok = false;
    return GB_N;
}

static bool plain(enum gb_trans t)
{
    return t == GB_N || t == GB_CONJ;
}

static int64_t rows_a(const struct bench_shape *s)
{
    return plain(s->transa) ? s->m : s->k;
}

int64_t bench_cols_a(const struct bench_shape *s)
{
    return plain(s->transa) ? s->k : s->m;
}

static int64_t rows_b(const struct bench_shape *s)
{
    return plain(s->transb) ? s->k : s->n;
}

int64_t bench_cols_b(const struct bench_shape *s)
{
    return plain(s->transb) ? s->n : s->k;
}

static bool parse_count(const char *text, int64_t low, int64_t *out)
{
    char *end;
    long long v;

    errno = 0;
    v = strtoll(text, &end, 10);
    if (errno || end == text || *end || v < low || v > INT32_MAX)
        return false;
    *out = v;
    return true;
}

/* "0" is tight, "+1" tight plus one, "4097" itself. */
static bool parse_ld(const char *text, int64_t rows, int64_t *out)
{
    int64_t v;

    if (!parse_count(text, 0, &v))
        return false;
    if (*text == '+')
        v += rows;
    else if (v == 0)
        v = rows;
    *out = v;
    return v >= rows;
}

/* What a shapes line may ask for; "" when it is fine, else what is wrong with it. */
static const char *check_types(const struct bench_shape *s)
{
    if (strcmp(s->routine, "gemm") != 0)
        return "routine: only gemm is known";
    if (s->type >= GB_TYPES || s->type_c >= GB_TYPES || s->type == GB_I32)
        return "type: give f16, bf16, f32, f64, c32, c64 or i8";
    if (s->type == GB_I8 && s->type_c != GB_I32)
        return "typec: i8 has typec i32";
    if (s->type_c != s->type && s->type != GB_I8 &&
        !(s->type_c == GB_F32 && (s->type == GB_F16 || s->type == GB_BF16)))
        return "typec: give the type itself, or f32 for f16 and bf16";
    return "";
}

static const char *parse_shape(char *line, struct bench_shape *s)
{
    char *field[13];
    char *save = NULL;
    char *word;
    int count = 0;
    bool ok_a;
    bool ok_b;
    const char *wrong;

    for (word = strtok_r(line, "\t \n", &save); word;
         word = strtok_r(NULL, "\t \n", &save)) {
        if (count == 13)
            return "more than 13 fields";
        field[count++] = word;
    }
    if (count != 13)
        return "fewer than 13 fields: routine type typec transa transb m n k lda ldb "
               "ldc "
               "batch beta";
    *s = (struct bench_shape){.type = bench_type(field[1]),
                              .type_c = bench_type(field[2])};
    snprintf(s->routine, sizeof(s->routine), "%s", field[0]);
    wrong = check_types(s);
    if (*wrong)
        return wrong;
    s->transa = bench_trans(field[3], &ok_a);
    s->transb = bench_trans(field[4], &ok_b);
    if (!ok_a || !ok_b)
        return "transa, transb: give N, T, C or R";
    if (!parse_count(field[5], 1, &s->m) || !parse_count(field[6], 1, &s->n) ||
        !parse_count(field[7], 1, &s->k))
        return "m, n, k: give whole numbers from 1";
    if (!parse_ld(field[8], rows_a(s), &s->lda) ||
        !parse_ld(field[9], rows_b(s), &s->ldb) || !parse_ld(field[10], s->m, &s->ldc))
        return "lda, ldb, ldc: give 0 (tight), +1 (tight and one more) or at least the "
               "rows";
    if (!parse_count(field[11], 1, &s->batch))
        return "batch: give a whole number from 1";
    s->beta = strtod(field[12], &word);
    if (word == field[12] || *word || !isfinite(s->beta))
        return "beta: give a number";
    return "";
}

size_t bench_shapes_read(const char *path, struct bench_shape **shapes)
{
    FILE *file = fopen(path, "r");
    struct bench_shape *list = NULL;
    size_t count = 0;
    size_t room = 0;
    char line[512];
    const char *wrong;
    int number;

    if (!file)
        bench_die("%s: %s; name a shapes file such as bench/shapes/baseline.tsv", path,
                  strerror(errno));
    for (number = 1; fgets(line, sizeof(line), file); number++) {
        if (line[0] == '#' || line[0] == '\n' || strncmp(line, "routine\t", 8) == 0)
            continue;
        if (count == room) {
            room = room ? 2 * room : 64;
            list = realloc(list, room * sizeof(*list));
            if (!list)
                bench_die("%s: out of memory; name a shorter file", path);
        }
        wrong = parse_shape(line, &list[count]);
        if (*wrong)
            bench_die("%s:%d: %s", path, number, wrong);
        count++;
    }
    fclose(file);
    if (count == 0)
        bench_die("%s: no shapes in it; add a line of 13 fields", path);
    *shapes = list;
    return count;
}

struct bench_shape bench_shape_from(const char *mnk, const char *types,
                                    const char *trans)
{
    struct bench_shape s;
    char typename[8] = "f64";
    const char *typec;
    char mnk_copy[64];
    char line[256];
    char *part[3];
    char *save = NULL;
    const char *wrong;
    int count = 0;

    if (types)
        snprintf(typename, sizeof(typename), "%.*s", (int)strcspn(types, ":,"), types);
    typec =
        types && types[strcspn(types, ":,")] == ':' ? strchr(types, ':') + 1 : typename;
    if (strcmp(typename, "i8") == 0)
        typec = "i32";
    if (strlen(mnk) >= sizeof(mnk_copy) || !trans || strlen(trans) != 2)
        bench_die("--shape '%s', --trans '%s': give MxNxK or N, and two letters", mnk,
                  trans ? trans : "");
    snprintf(mnk_copy, sizeof(mnk_copy), "%s", mnk);
    part[0] = strtok_r(mnk_copy, "x", &save);
    while (count < 3 && part[count]) {
        count++;
        if (count < 3)
            part[count] = strtok_r(NULL, "x", &save);
    }
    if (count == 1)
        part[1] = part[2] = part[0];
    else if (count != 3 || (save && *save))
        bench_die("--shape '%s': give MxNxK or N", mnk);
    snprintf(line, sizeof(line), "gemm %s %.*s %c %c %s %s %s 0 0 0 1 0", typename,
             (int)strcspn(typec, ","), typec, trans[0], trans[1], part[0], part[1],
             part[2]);
    wrong = parse_shape(line, &s);
    if (*wrong)
        bench_die("--shape '%s': %s", mnk, wrong);
    return s;
}

/* Is `type:typec` in the list? An item without a colon takes every typec. */
static bool type_listed(const struct bench_shape *s, const char *list)
{
    char both[24];
    const char *type = gb_type_name(s->type);
    size_t len;

    snprintf(both, sizeof(both), "%s:%s", type, gb_type_name(s->type_c));
    for (; *list; list += len + (list[len] == ',')) {
        len = strcspn(list, ",");
        if ((strlen(type) == len && strncmp(list, type, len) == 0) ||
            (strlen(both) == len && strncmp(list, both, len) == 0))
            return true;
    }
    return false;
}

bool bench_shape_wanted(const struct bench_shape *s, const struct bench_options *o)
{
    if (o->routine && strcmp(o->routine, s->routine) != 0)
        return false;
    return !o->types || type_listed(s, o->types);
}

/* The card's short name: what remains of "NVIDIA H100 80GB HBM3" or "NVIDIA
 * A100-SXM4-80GB" once vendor, family and memory are dropped. */
static void short_name(const char *full, char *out, size_t size)
{
    static const char *const drop[] = {"NVIDIA ", "GeForce ",  "Tesla ",
                                       "AMD ",    "Instinct ", "Radeon "};
    size_t i;
    size_t len;

    for (i = 0; i < GB_COUNT(drop); i++)
        if (strncmp(full, drop[i], strlen(drop[i])) == 0)
            full += strlen(drop[i]);
    len = strncmp(full, "RTX ", 4) == 0 ? strlen(full) : strcspn(full, " -");
    snprintf(out, size, "%.*s", (int)len, *full ? full : "unknown");
}

static bool first_line(FILE *file, char *out, size_t size)
{
    bool got = file && fgets(out, (int)size, file) && out[0] != '\n';

    if (got)
        out[strcspn(out, "\n")] = '\0';
    return got;
}

/* The driver's release where the kernel module tells it, else the API version. */
static void driver_name(const char *device, int driver, char *out, size_t size)
{
    FILE *file;

    if (driver == 0 || strcmp(device, "emu") == 0) {
        snprintf(out, size, "-");
        return;
    }
    file = fopen("/sys/module/nvidia/version", "r");
    if (!first_line(file, out, size))
        snprintf(out, size, "cuda %d.%d", driver / 1000, driver % 1000 / 10);
    if (file)
        fclose(file);
}

/* A machine that only measures has no history: then --commit or BENCH_COMMIT says. */
static void commit_name(const char *given, char *out, size_t size)
{
    FILE *pipe;

    if (!given || !*given)
        given = getenv("BENCH_COMMIT");
    if (given && *given) {
        snprintf(out, size, "%s", given);
        return;
    }
    pipe = popen("git describe --always --dirty --exclude '*' 2>/dev/null", "r");
    if (!first_line(pipe, out, size))
        snprintf(out, size, "unknown");
    if (pipe)
        pclose(pipe);
}

/* Opens a results file and makes sure that it is one; dies before anything is measured.
 */
static void check_append(const char *path)
{
    char line[sizeof(HEADER) + 1] = "";
    FILE *file = fopen(path, "a+");

    if (!file)
        bench_die("%s: %s; name a file that can be written", path, strerror(errno));
    rewind(file);
    if (!fgets(line, sizeof(line), file)) {
        rewind(file);
        if (fputs(HEADER, file) == EOF || fflush(file) == EOF)
            bench_die("%s: %s; free some space", path, strerror(errno));
    } else if (strcmp(line, HEADER) != 0) {
        bench_die(
            "%s: its first line is not the header of bench rows; name another file",
            path);
    }
    fclose(file);
}

void bench_run_init(struct bench_run *run, const char *device_name, int driver,
                    const struct bench_options *o)
{
    *run = (struct bench_run){.note = o->note ? o->note : "", .append = o->append};
    if (run->note[strcspn(run->note, "\t\n")] != '\0')
        bench_die("--note: leave tabs and line ends out of it");
    short_name(device_name, run->device, sizeof(run->device));
    driver_name(run->device, driver, run->driver, sizeof(run->driver));
    commit_name(o->commit, run->commit, sizeof(run->commit));
    if (run->append)
        check_append(run->append);
}

static double flops_of(const struct bench_shape *s)
{
    double per = gb_is_complex(s->type) ? 8 : 2;

    return per * (double)s->m * (double)s->n * (double)s->k * (double)s->batch;
}

/* Dense peaks from the data sheets, TFLOP/s (i8: TOP/s): matrix units where the type
 * has them. */
struct peak {
    const char *device;
    double half, tf32, f32, f64, i8;
};

/* clang-format off */
static const struct peak peaks[] = {
    /* device  f16     tf32   f32    f64    i8 */
    {"H200",   989.4,  494.7, 66.9,  66.9,  1978.9},
    {"H100",   989.4,  494.7, 66.9,  66.9,  1978.9},
    {"A100",   312.0,  156.0, 19.5,  19.5,  624.0},
    {"L40S",   362.0,  183.0, 91.6,  1.43,  733.0},
};
/* clang-format on */

/* TFLOP/s that the device's arithmetic of that type reaches on paper; 0 unknown. */
static double peak_of(const char *device, enum gb_type type, enum bench_math math)
{
    size_t i;

    for (i = 0; i < GB_COUNT(peaks); i++)
        if (strcmp(peaks[i].device, device) == 0)
            break;
    if (i == GB_COUNT(peaks))
        return 0;
    switch (type) {
    case GB_F16:
    case GB_BF16:
        return peaks[i].half;
    case GB_F32:
    case GB_C32:
        return math == BENCH_FAST                         ? peaks[i].tf32
               : math == BENCH_EMULATED && type == GB_F32 ? peaks[i].half / 3
                                                          : peaks[i].f32;
    case GB_F64:
    case GB_C64:
        return peaks[i].f64;
    case GB_I8:
        return peaks[i].i8;
    case GB_I32:
    case GB_TYPES:
        break;
    }
    return 0;
}

static void add_note(char *note, size_t size, const char *text)
{
    size_t used = strlen(note);

    if (text && *text)
        snprintf(note + used, size - used, "%s%s", used ? "; " : "", text);
}

static void make_note(const struct bench_run *run, const struct bench_row *row,
                      char *note, size_t size)
{
    *note = '\0';
    add_note(note, size, run->note);
    add_note(note, size, row->remark);
    add_note(note, size, row->ours_wrong ? "ours wrong" : NULL);
    add_note(note, size, row->peer_wrong ? "peer wrong" : NULL);
}

static double tflops_of(const struct bench_row *row)
{
    return flops_of(row->shape) / row->ours_us * 1e-6;
}

/* A line for people on stdout, with the share of the peak. */
static void print_row(const struct bench_run *run, const struct bench_row *row)
{
    const struct bench_shape *s = row->shape;
    double peak = peak_of(run->device, s->type, row->math);
    double tflops = tflops_of(row);
    char note[256];
    char size[64];

    make_note(run, row, note, sizeof(note));
    snprintf(size, sizeof(size), "%lldx%lldx%lld", (long long)s->m, (long long)s->n,
             (long long)s->k);
    printf("%-4s %-4s %s%s %-17s ld %lld,%lld,%lld", gb_type_name(s->type),
           gb_type_name(s->type_c), gb_trans_name(s->transa), gb_trans_name(s->transb),
           size, (long long)s->lda, (long long)s->ldb, (long long)s->ldc);
    if (s->batch > 1)
        printf(" batch %lld", (long long)s->batch);
    if (s->beta != 0)
        printf(" beta %g", s->beta);
    printf("  %s", row->kernel);
    if (row->splits > 1)
        printf(" in %d splits", row->splits);
    printf("  %.3f us (%.1f %%)  %.3f TFLOP/s", row->ours_us, row->spread, tflops);
    if (peak > 0)
        printf("  %.1f %% of peak", 100 * tflops / peak);
    else
        printf("  - of peak");
    if (row->peer)
        printf("  | %s %.3f us, ratio %.3f", row->peer, row->peer_us,
               row->peer_us / row->ours_us);
    printf("%s%s\n", *note ? "  " : "", note);
    fflush(stdout);
}

void bench_row_append(const struct bench_run *run, const struct bench_row *row)
{
    const struct bench_shape *s = row->shape;
    char note[256];
    char peer[96] = "-\t-\t-";
    char line[1024];
    char date[32];
    time_t now = time(NULL);
    struct tm tm;
    FILE *file;

    if (!run->append)
        return;
    make_note(run, row, note, sizeof(note));
    if (row->peer)
        snprintf(peer, sizeof(peer), "%.60s\t%.4f\t%.4f", row->peer, row->peer_us,
                 row->peer_us / row->ours_us);
    gmtime_r(&now, &tm);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &tm);
    snprintf(
        line, sizeof(line),
        "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%lld\t%lld\t%lld\t%lld\t%lld\t"
        "%lld\t%lld\t%g\t%s\t%.4f\t%.2f\t%.4f\t%s\t%s\n",
        date, run->device, run->driver, run->commit, bench_place_name(row->place),
        bench_math_name(row->math), s->routine, gb_type_name(s->type),
        gb_type_name(s->type_c), gb_trans_name(s->transa), gb_trans_name(s->transb),
        (long long)s->m, (long long)s->n, (long long)s->k, (long long)s->lda,
        (long long)s->ldb, (long long)s->ldc, (long long)s->batch, s->beta, row->kernel,
        row->ours_us, row->spread, tflops_of(row), peer, note);
    file = fopen(run->append, "a");
    if (!file || fputs(line, file) == EOF || fclose(file) == EOF)
        bench_die("%s: %s; name a file that can be written", run->append,
                  strerror(errno));
}

void bench_row_write(const struct bench_run *run, const struct bench_row *row)
{
    print_row(run, row);
    bench_row_append(run, row);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double quantile(const double *sorted, size_t n, double q)
{
    double at = q * (double)(n - 1);
    size_t i = (size_t)at;

    if (i + 1 >= n)
        return sorted[n - 1];
    return sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]);
}

double bench_median(double *x, size_t n)
{
    qsort(x, n, sizeof(*x), compare_doubles);
    return quantile(x, n, 0.5);
}

double bench_spread(double *x, size_t n)
{
    double median = bench_median(x, n);

    return 100 * (quantile(x, n, 0.75) - quantile(x, n, 0.25)) / median;
}

double bench_now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

uint64_t bench_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

void bench_shuffle(int *order, int n, uint64_t *state)
{
    int i;
    int j;
    int swap;

    for (i = 0; i < n; i++)
        order[i] = i;
    for (i = n - 1; i > 0; i--) {
        j = (int)(bench_random(state) % (uint64_t)(i + 1));
        swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

void bench_epilogue(const char *name, struct bench_shape *s)
{
    static const char *const activation[] = {
        [GB_ACT_NONE] = "",     [GB_ACT_RELU] = "relu",
        [GB_ACT_GELU] = "gelu", [GB_ACT_GELU_TANH] = "gelu_tanh",
        [GB_ACT_SILU] = "silu", [GB_ACT_TANH] = "tanh",
    };
    const char *rest = name;

    s->bias = strncmp(name, "bias", 4) == 0 && (name[4] == '_' || name[4] == '\0');
    if (s->bias)
        rest = name[4] == '_' ? name + 5 : name + 4;
    for (s->activation = 0; s->activation < GB_ACTIVATIONS; s->activation++)
        if (strcmp(rest, activation[s->activation]) == 0 && (s->bias || *rest) &&
            (*rest || name[4] == '\0'))
            return;
    bench_die("--epilogue %s: give bias, relu, gelu, gelu_tanh, silu or tanh, or bias_ "
              "and one of the others",
              name);
}

double bench_bias(int64_t i)
{
    return (double)(37 * i % 64 - 32) / 32;
}
