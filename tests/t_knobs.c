/* SPDX-License-Identifier: BSD-3-Clause */
/* Knobs: environment over file over default; what does not parse is reported and skipped.
 * Each scene runs in a child with its own environment, its stderr read back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gb.h"
#include "knobs.h"
#include "log.h"
#include "tap.h"

static char heard[4096]; /* what the last child wrote on stderr */

/* Run scene() in a child; its exit status, or -1. */
static int in_child(int (*scene)(void), const char *const *env)
{
    int fds[2], status = -1;
    size_t used = 0;
    ssize_t n;
    pid_t pid;

    if (pipe(fds) != 0)
        bail("pipe");
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDERR_FILENO);
        close(fds[0]);
        unsetenv("GEMMBLAS_DEVICE");
        for (; *env; env += 2)
            setenv(env[0], env[1], 1);
        _exit(scene());
    }
    close(fds[1]);
    while ((n = read(fds[0], heard + used, sizeof heard - 1 - used)) > 0)
        used += (size_t)n;
    heard[used] = '\0';
    close(fds[0]);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int scene_defaults(void)
{
    const struct gb_knobs *k = gb_knobs();

    return !(strcmp(k->route, "auto") == 0 && k->mem_limit == 0 && !k->serialize_cpu &&
             k->log == GB_LOG_WARN && strcmp(k->device, "auto") == 0);
}

static int scene_quiet(void)
{
    return gb_knobs()->log != GB_LOG_ERROR || gb_log_level != GB_LOG_ERROR;
}

static int scene_env(void)
{
    const struct gb_knobs *k = gb_knobs();

    return !(k->mem_limit == 64 << 20 && k->serialize_cpu && k->seed == 7 &&
             k->math == GB_MATH_EMULATED && gb_knobs_route("dgemm") == GB_ROUTE_GPU &&
             gb_knobs_route("zgemm") == GB_ROUTE_CPU &&
             gb_knobs_route("sgemm") == GB_ROUTE_AUTO && gb_knobs_disabled("cgemm") &&
             !gb_knobs_disabled("gemm") && !gb_knobs_disabled("dgemm"));
}

static int scene_file(void)
{
    const struct gb_knobs *k = gb_knobs();

    return !(k->mem_limit == 2048 && k->seed == 9 && strcmp(k->route, "cpu") == 0);
}

static void test_bytes(void)
{
    int64_t x = -5;

    ok(gb_parse_bytes("4096", &x) && x == 4096, "plain bytes");
    ok(gb_parse_bytes("3K", &x) && x == 3072, "K");
    ok(gb_parse_bytes("2g", &x) && x == INT64_C(2) << 30, "g");
    x = -5;
    ok(!gb_parse_bytes("", &x) && !gb_parse_bytes("M", &x) &&
           !gb_parse_bytes("1Q", &x) && !gb_parse_bytes("1MB", &x) &&
           !gb_parse_bytes("-1", &x) && !gb_parse_bytes("99999999999999999999", &x) &&
           !gb_parse_bytes("9999999999G", &x),
       "what is no size is refused");
    is_int(-5, x, "and leaves the output alone");
}

int main(void)
{
    const char *const none[] = {NULL};
    const char *const env[] = {"GEMMBLAS_MEM_LIMIT",
                               "64M",
                               "GEMMBLAS_SERIALIZE_CPU",
                               "1",
                               "GEMMBLAS_SEED",
                               "7",
                               "GEMMBLAS_MATH",
                               "emulated",
                               "GEMMBLAS_ROUTE",
                               "auto,dgemm=gpu,zgemm=cpu",
                               "GEMMBLAS_DISABLE",
                               "cgemm, hgemm",
                               NULL};
    const char *const wrong[] = {
        "GEMMBLAS_ROUTE", "gpuu", "GEMMBLAS_SERIALIZE_CPU", "yes", "GEMMBLAS_MATH",
        "quick",          NULL};
    const char *const typo[] = {"GEMMBLAS_ROTUE", "gpu", "GEMMBLAS_WHATEVER_IT_IS", "1",
                                NULL};
    const char *const quiet[] = {"GEMMBLAS_ROTUE", "gpu", "GEMMBLAS_LOG", "error",
                                 NULL};
    char path[] = "/tmp/gemmblas-knobs-XXXXXX";
    int fd = mkstemp(path);
    const char text[] =
        "# a comment\n\n  route = cpu \nmem_limit=2K\nseed = 1\nnonsense\n"
        "rout = gpu\n";
    const char *const file[] = {"GEMMBLAS_CONFIG", path, "GEMMBLAS_SEED", "9", NULL};
    const char *const missing[] = {"GEMMBLAS_CONFIG", "/nonexistent/gemmblas.conf",
                                   NULL};

    plan_lazy();
    test_bytes();
    is_int(0, in_child(scene_defaults, none), "defaults");
    is_string("", heard, "silently");
    is_int(0, in_child(scene_env, env), "environment");
    is_string("", heard, "silently");
    is_int(0, in_child(scene_defaults, wrong),
           "values that do not parse leave the default");
    ok(strstr(heard, "GEMMBLAS_ROUTE in the environment is \"gpuu\"") &&
           strstr(heard, "GEMMBLAS_SERIALIZE_CPU") &&
           strstr(heard, "GEMMBLAS_MATH in the environment is \"quick\""),
       "and are named");
    is_int(0, in_child(scene_defaults, typo), "unknown names change nothing");
    ok(strstr(heard, "did you mean GEMMBLAS_ROUTE?") && strstr(heard, "WHATEVER_IT_IS"),
       "and are named, with the nearest");
    is_int(0, in_child(scene_quiet, quiet), "the log level governs those warnings");
    is_string("", heard, "silently");

    if (fd < 0 || write(fd, text, sizeof text - 1) != (ssize_t)sizeof text - 1)
        bail("cannot write %s", path);
    close(fd);
    is_int(0, in_child(scene_file, file), "file under environment");
    ok(strstr(heard, "line 6") && strstr(heard, "did you mean GEMMBLAS_ROUTE?"),
       "what the file says wrong is named");
    chmod(path, 0666);
    is_int(
        0,
        in_child(scene_defaults, (const char *const[]){"GEMMBLAS_CONFIG", path, NULL}),
        "a file that all may write is not obeyed");
    ok(strstr(heard, "writable by all") != NULL, "and said so");
    unlink(path);
    is_int(0, in_child(scene_defaults, missing), "a missing file changes nothing");
    ok(strstr(heard, "/nonexistent/gemmblas.conf") != NULL, "and is named");
    return 0;
}
