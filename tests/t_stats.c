/* SPDX-License-Identifier: BSD-3-Clause */
/* The trace line that tools and tests read, and the table at exit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats.h"
#include "tap.h"

static const struct gb_call call = {.symbol = "scipy_cblas_dgemm64_"};

static struct gb_problem problem(void)
{
    return (struct gb_problem){.op = GB_GEMM,
                               .type = GB_F64,
                               .type_c = GB_F64,
                               .transa = GB_T,
                               .m = 3,
                               .n = 4,
                               .k = 5,
                               .alpha = {.re = 1},
                               .lda = 5,
                               .ldb = 5,
                               .ldc = 3};
}

static void test_line(void)
{
    struct gb_problem p = problem();
    struct gb_record record = {.kernel = "gemm_x",
                               .splits = 2,
                               .chosen = "tuned",
                               .panels = 1,
                               .bytes_up = 64};
    char line[640], tight[40];

    gb_trace_line(line, sizeof line, &p, "dgemm", &call, GB_OK, &record);
    ok(strstr(
           line,
           "routine=scipy_cblas_dgemm64_ name=dgemm transa=T transb=N m=3 n=4 k=5 ") &&
           strstr(line, " route=gpu why=ok kernel=gemm_x splits=2 panels=1 up=64 ") &&
           strstr(line, " chosen=tuned\n"),
       "a call on the device");
    gb_trace_line(line, sizeof line, &p, "dgemm", &call, GB_WHY_SMALL, &record);
    ok(strstr(line, " route=cpu why=small\n") && !strstr(line, "kernel="),
       "and on the CPU");
    gb_trace_line(line, sizeof line, &p, "dgemm", &call, GB_WHY_LOST, &record);
    ok(strstr(line, " route=gpu why=lost kernel=gemm_x") != NULL, "and half way");
    is_int((long long)strlen(line),
           gb_trace_line(line, sizeof line, &p, "dgemm", &call, GB_WHY_LOST, &record),
           "its length");
    gb_trace_line(tight, sizeof tight, &p, "dgemm", &call, GB_OK, &record);
    ok(strlen(tight) < sizeof tight && tight[strlen(tight) - 1] == '\n',
       "a line that does not fit is cut, and still a line");
}

static void child(const char *path)
{
    struct gb_problem p = problem(), q = problem();
    struct gb_record record = {.bytes_up = 1000000, .nanoseconds = 250000000};

    setenv("GEMMBLAS_STATS", path, 1);
    unsetenv("GEMMBLAS_TRACE");
    gb_stats_init();
    gb_stats_record(&p, "dgemm", &call, GB_OK, &record);
    gb_stats_record(&p, "dgemm", &call, GB_OK, &record);
    gb_stats_record(&p, "sgemm", &call, GB_WHY_BADARG, &(struct gb_record){0});
    gb_stats_record(&p, "dgemm", &call, GB_WHY_NESTED, &(struct gb_record){0});
    for (q.m = 1; strstr(path, ".json") && q.m <= 2000; q.m++)
        gb_stats_record(&q, "zgemm", &call, GB_WHY_SMALL, &(struct gb_record){0});
    exit(0);
}

/* What a child with GEMMBLAS_STATS=path writes there. */
static const char *told(const char *path)
{
    static char text[1 << 18];
    int status = -1;
    FILE *f;
    pid_t pid;
    size_t n;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        fclose(stdout); /* this process's TAP is not the child's to print */
        child(path);
    }
    waitpid(pid, &status, 0);
    f = fopen(path, "r");
    n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = '\0';
    if (f)
        fclose(f);
    unlink(path);
    return text;
}

static void test_table(void)
{
    char path[] = "/tmp/gemmblas-stats-XXXXXX";
    int fd = mkstemp(path);
    const char *text;

    if (fd < 0)
        bail("cannot make %s", path);
    close(fd);
    text = told(path);
    ok(strstr(text, "dgemm      gpu   ok                    2") != NULL,
       "two calls in one row of the table at exit");
    ok(strstr(text, "2.000        0.000      0.500") != NULL,
       "with their bytes and seconds");
    ok(strstr(text, "sgemm      cpu   badarg                1        0.000") != NULL,
       "the sizes of an illegal call count for nothing");
}

static long occurrences(const char *text, const char *what)
{
    long n = 0;

    while ((text = strstr(text, what)) != NULL) {
        n++;
        text++;
    }
    return n;
}

/* A file for other programs, with the shapes that `gemmblas tune --from` reads. */
static void test_json(void)
{
    char path[] = "/tmp/gemmblas-stats-XXXXXX.json";
    int fd = mkstemps(path, 5);
    const char *text;
    long shapes;

    if (fd < 0)
        bail("cannot make %s", path);
    close(fd);
    text = told(path);
    ok(strstr(text, "{\"gemmblas_stats\": 1, \"pid\": ") == text &&
           strcmp(text + strlen(text) - 2, "}\n") == 0,
       "a file that ends in .json is one document");
    ok(strstr(text, "{\"routine\": \"dgemm\", \"route\": \"gpu\", \"why\": \"ok\", "
                    "\"calls\": 2, \"flop\": 240, \"bytes_up\": 2000000, "
                    "\"bytes_down\": 0, \"ns\": 500000000}") != NULL,
       "with the rows of the table");
    ok(strstr(text,
              "{\"routine\": \"dgemm\", \"type\": \"f64\", \"type_c\": \"f64\", "
              "\"transa\": \"T\", \"transb\": \"N\", \"m\": 3, \"n\": 4, \"k\": 5, "
              "\"calls\": 2, \"gpu\": 2, \"ns\": 500000000}") != NULL,
       "and shapes, each with its calls, those handed back to us not counted");
    shapes = occurrences(text, "\"type\": ");
    ok(shapes == 1024 && strstr(text, "\"calls_of_other_shapes\": 977}") != NULL,
       "a fixed number of shapes (%ld); the calls of others are counted together",
       shapes);
}

int main(void)
{
    plan_lazy();
    test_line();
    test_table();
    test_json();
    return 0;
}
