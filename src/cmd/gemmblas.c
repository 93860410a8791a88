/* SPDX-License-Identifier: BSD-3-Clause */
/* The command's front: a table of verbs. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cmd.h"
#include "util.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

static const struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *doc;
} verbs[] = {
    {"info", cmd_info,
     "devices, link, kernels, the BLAS behind us, knobs and their sources"},
    {"explain", cmd_explain,
     "route and kernel of one call, with every term of the model"},
    {"tune", cmd_tune,
     "measure which kernels are the quickest here, for later processes"},
};

int cmd_refuse(const char *format, ...)
{
    va_list args;

    fputs("gemmblas: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return CMD_USAGE;
}

double cmd_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void usage(FILE *out)
{
    fputs("usage: gemmblas VERB [ARGUMENTS]\n\n", out);
    for (size_t i = 0; i < GB_COUNT(verbs); i++)
        fprintf(out, "  %-9s %s\n", verbs[i].name, verbs[i].doc);
    fputs("\n`gemmblas VERB --help` describes a verb. To use the library itself:\n"
          "  LD_PRELOAD=libgemmblas.so.0 program\n",
          out);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return cmd_refuse("no verb given; try `gemmblas --help`");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        usage(stdout);
        return CMD_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("gemmblas %s\n", PACKAGE_VERSION);
        return CMD_OK;
    }
    for (size_t i = 0; i < GB_COUNT(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    }
    return cmd_refuse("unknown verb \"%s\"; `gemmblas --help` lists them", argv[1]);
}
