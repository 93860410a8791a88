/* SPDX-License-Identifier: BSD-3-Clause */
/* Which devices to use: the knob, the launcher, and the emulated device's library. */
#include "device.h"

#include <ctype.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "hold.h"
#include "knobs.h"
#include "log.h"
#include "util.h"

#define EMU_LIBRARY "libgemmblas-emu.so"

static pthread_once_t emu_once = PTHREAD_ONCE_INIT;
static const struct gb_device_ops *emu_ops;

static void emu_log(int level, const char *line)
{
    gb_log((enum gb_log_level)level, "%s", line);
}

/* The directory of the object that holds this code, from the kernel: the name that the
 * loader knows may be relative to a directory since left, or be argv[0]. */
static void own_directory(char *dir, size_t len)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];

    while (maps && fgets(line, sizeof line, maps)) {
        uintptr_t lo, hi, at = (uintptr_t)gb_emu_load;
        const char *path = strchr(line, '/');
        const char *slash = strrchr(line, '/');

        if (path && sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &lo, &hi) == 2 && at >= lo &&
            at < hi)
            snprintf(dir, len, "%.*s", (int)(slash - path), path);
    }
    if (maps)
        fclose(maps);
}

/* NULL when there is no such file. A file that does not load is reported. */
static void *emu_open(const char *dir, const char *below, bool *reported)
{
    char path[512];
    void *handle;

    if (snprintf(path, sizeof path, "%s/%s%s", dir, below, EMU_LIBRARY) >=
        (int)sizeof path)
        return NULL;
    if (access(path, F_OK) != 0)
        return NULL;
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle && !*reported) {
        gb_warn("%s", dlerror());
        *reported = true;
    }
    return handle;
}

static void emu_load(void)
{
    /* Beside this object, in a build tree, or below it as in an installation. */
    static const char *const below[] = {"", ".libs/", "../.libs/", "gemmblas/"};
    const struct gb_knobs *knobs = gb_knobs();
    const struct gb_emu_config config = {
        .fault = knobs->fault,
        .cost = knobs->cost,
        .seed = (uint64_t)knobs->seed,
        .log = emu_log,
    };
    char dir[384] = "";
    bool reported = false;
    gb_emu_entry entry = NULL;
    struct gb_hold hold;
    void *handle = NULL;
    void *symbol;

    gb_hold_begin(&hold);
    own_directory(dir, sizeof dir);
    for (size_t i = 0; *dir && !handle && i < GB_COUNT(below); i++)
        handle = emu_open(dir, below[i], &reported);
    if (!handle)
        handle = emu_open(GB_PKGLIBDIR, "", &reported);
    if (handle) {
        symbol = dlsym(handle, GB_EMU_ENTRY);
        memcpy(&entry, &symbol, sizeof symbol);
    }
    if (entry)
        emu_ops = entry(&config);
    else if (!reported)
        gb_warn("the emulated device is not installed: no %s in %s or %s", EMU_LIBRARY,
                dir, GB_PKGLIBDIR);
    gb_hold_end(&hold);
}

const struct gb_device_ops *gb_emu_load(void)
{
    pthread_once(&emu_once, emu_load);
    return emu_ops;
}

int gb_device_local_rank(const char *(*get)(const char *name))
{
    static const char *const names[] = {
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_LOCAL_RANK",
        "MPI_LOCALRANKID",
        "PMI_LOCAL_RANK",
        "PALS_LOCAL_RANKID",
        "FLUX_TASK_LOCAL_ID",
        "SLURM_LOCALID", /* last: under srun the others know better */
    };

    for (size_t i = 0; i < GB_COUNT(names); i++) {
        const char *text = get(names[i]);
        char *end;
        long rank;

        if (!text || !isdigit((unsigned char)*text))
            continue;
        rank = strtol(text, &end, 10);
        if (*end == '\0' && rank <= INT32_MAX)
            return (int)rank;
    }
    return -1;
}

static const char *environment(const char *name)
{
    return secure_getenv(name);
}

static int list_emu(int wanted, struct gb_device_ref *refs, int max)
{
    const struct gb_device_ops *ops = gb_emu_load();
    int n = ops ? (int)gb_min(wanted, max) : 0;

    for (int i = 0; i < n; i++)
        refs[i] = (struct gb_device_ref){.ops = ops, .ordinal = i};
    return n;
}

/* The i-th visible device, NVIDIA before AMD. */
static struct gb_device_ref visible_at(int i, int nvidia)
{
    return i < nvidia
               ? (struct gb_device_ref){.ops = &gb_cuda_ops, .ordinal = i}
               : (struct gb_device_ref){.ops = &gb_hip_ops, .ordinal = i - nvidia};
}

static void count_visible(int *nvidia, int *all)
{
    int amd;

    gb_cuda_ops.count(nvidia);
    gb_hip_ops.count(&amd);
    *all = *nvidia + amd;
}

static int list_auto(struct gb_device_ref *refs, int max)
{
    int rank = gb_device_local_rank(environment);
    int nvidia, all, n = 0;

    count_visible(&nvidia, &all);
    if (rank >= 0 && all > 0 && max > 0) {
        refs[0] = visible_at(rank % all, nvidia);
        return 1;
    }
    for (; n < all && n < max; n++)
        refs[n] = visible_at(n, nvidia);
    return n;
}

/* The next ordinal of a list, -1 at its end, -2 when it is not a list. */
static int next_ordinal(const char **text)
{
    char *end;
    long value;

    if (**text == '\0')
        return -1;
    if (!isdigit((unsigned char)**text))
        return -2;
    value = strtol(*text, &end, 10);
    if (*end == ',' && isdigit((unsigned char)end[1]))
        end++;
    else if (*end != '\0')
        return -2;
    *text = end;
    return value <= INT32_MAX ? (int)value : INT32_MAX;
}

static bool is_list(const char *knob)
{
    int ordinal = 0;

    for (bool first = true; ordinal >= 0; first = false) {
        ordinal = next_ordinal(&knob);
        if (first && ordinal < 0)
            return false;
    }
    return ordinal == -1;
}

static int list_ordinals(const char *knob, struct gb_device_ref *refs, int max)
{
    int nvidia, all, ordinal, n = 0;

    count_visible(&nvidia, &all);
    while ((ordinal = next_ordinal(&knob)) >= 0) {
        bool twice = false;

        if (ordinal >= all) {
            gb_warn("GEMMBLAS_DEVICE: there is no device %d, %d visible", ordinal, all);
            continue;
        }
        for (int i = 0; i < n; i++) {
            struct gb_device_ref ref = visible_at(ordinal, nvidia);

            twice = twice || (refs[i].ops == ref.ops && refs[i].ordinal == ref.ordinal);
        }
        if (!twice && n < max)
            refs[n++] = visible_at(ordinal, nvidia);
    }
    return n;
}

bool gb_device_is_none(const char *knob)
{
    return strcasecmp(knob, "none") == 0;
}

static bool is_emu(const char *knob)
{
    return strncasecmp(knob, "emu", 3) == 0;
}

bool gb_device_plausible(const char *knob)
{
    if (gb_device_is_none(knob))
        return false;
    if (is_emu(knob))
        return true;
    return gb_cuda_ops.plausible() || gb_hip_ops.plausible();
}

enum gb_mem_kind gb_device_where(const char *knob, const void *ptr)
{
    const struct gb_device_ops *const drivers[] = {is_emu(knob) ? gb_emu_load() : NULL,
                                                   &gb_cuda_ops, &gb_hip_ops};

    for (size_t i = 0; i < GB_COUNT(drivers); i++) {
        enum gb_mem_kind kind = drivers[i] && drivers[i]->loaded()
                                    ? drivers[i]->mem_where(ptr)
                                    : GB_MEM_PAGEABLE;

        if (kind != GB_MEM_PAGEABLE)
            return kind;
    }
    return GB_MEM_PAGEABLE;
}

int gb_device_list(const char *knob, struct gb_device_ref *refs, int max)
{
    if (gb_device_is_none(knob))
        return 0;
    if (strcasecmp(knob, "emu") == 0)
        return list_emu(1, refs, max);
    if (strncasecmp(knob, "emu:", 4) == 0 && knob[4] >= '1' &&
        knob[4] <= '0' + GB_EMU_DEVICES && knob[5] == '\0')
        return list_emu(knob[4] - '0', refs, max);
    if (is_list(knob))
        return list_ordinals(knob, refs, max);
    if (*knob && strcasecmp(knob, "auto") != 0)
        gb_warn("GEMMBLAS_DEVICE=%s is not understood; using auto", knob);
    return list_auto(refs, max);
}
