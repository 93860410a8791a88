/* SPDX-License-Identifier: BSD-3-Clause */
/* `gemmblas info`: what a program started here would get, and why. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "device.h"
#include "kernels.h"
#include "knobs.h"
#include "real.h"
#include "util.h"

enum { DEVICES = 16, PROBE_BYTES = 64 << 20, PROBE_ROUNDS = 8 };

static const char *vendor_name(enum gb_vendor vendor)
{
    static const char *const name[] = {
        [GB_NVIDIA] = "NVIDIA", [GB_AMD] = "AMD", [GB_EMU] = "emulated"};

    return name[vendor];
}

/* One line of a sysfs attribute of the PCI device, "?" when there is none. */
static void pci_attribute(const char *pci, const char *attribute, char *buf, size_t len)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", pci, attribute);
    f = fopen(path, "re");
    if (!f || !fgets(buf, (int)len, f))
        snprintf(buf, len, "?");
    buf[strcspn(buf, "\n")] = '\0';
    if (f)
        fclose(f);
}

/* GB/s of pinned copies one way, 0 when they fail. */
static double link_rate(struct gb_device *dev, struct gb_stream *s, gb_devptr d,
                        void *h, bool up)
{
    double start = 0;

    for (int i = -1; i < PROBE_ROUNDS; i++) {
        enum gb_status status;

        if (i == 0)
            start = cmd_now(); /* the first copy warms up */
        if (up)
            status = dev->ops->copy_in(dev, s, d, PROBE_BYTES, h, PROBE_BYTES,
                                       PROBE_BYTES, 1);
        else
            status = dev->ops->copy_out(dev, s, h, PROBE_BYTES, d, PROBE_BYTES,
                                        PROBE_BYTES, 1);
        if (status != GB_SUCCESS || dev->ops->stream_sync(dev, s) != GB_SUCCESS)
            return 0;
    }
    return 1e-9 * PROBE_ROUNDS * PROBE_BYTES / (cmd_now() - start);
}

static void print_link(struct gb_device *dev)
{
    struct gb_stream *s;
    gb_devptr d;
    void *h;

    if (dev->info.pci[0]) {
        char speed[32], width[32];

        pci_attribute(dev->info.pci, "current_link_speed", speed, sizeof speed);
        pci_attribute(dev->info.pci, "current_link_width", width, sizeof width);
        printf("  link          PCI %s, %s x%s\n", dev->info.pci, speed, width);
    }
    if (dev->ops->stream_create(dev, &s) != GB_SUCCESS)
        return;
    if (dev->ops->mem_alloc(dev, PROBE_BYTES, &d) == GB_SUCCESS) {
        if (dev->ops->host_alloc(dev, PROBE_BYTES, &h) == GB_SUCCESS) {
            memset(h, 1, PROBE_BYTES);
            printf("  pinned copies %.1f GB/s up, %.1f GB/s down\n",
                   link_rate(dev, s, d, h, true), link_rate(dev, s, d, h, false));
            dev->ops->host_free(dev, h);
        }
        dev->ops->mem_free(dev, d);
    }
    dev->ops->stream_destroy(dev, s);
}

/* Why the row cannot be used, NULL when it can. */
static const char *lack(const struct gb_kernel *k, const struct gb_device_info *info)
{
    bool meant = info->vendor == GB_NVIDIA && info->arch >= k->arch_min &&
                 info->arch <= k->arch_max;

    if (meant && k->smem > info->smem_per_block)
        return "more shared memory than there is";
    /* rows for one architecture alone do not run without their image either */
    if (meant && !gb_image_find(k->family, info))
        return "no device code for it was built in";
    return gb_kernel_runs(k, info) ? NULL : "not for this architecture";
}

static void print_rows(const struct gb_device_info *info)
{
    for (int i = 0; i < gb_kernel_count; i++) {
        const char *why = lack(&gb_kernels[i], info);

        printf("  kernel        %-34s %s\n", gb_kernels[i].name, why ? why : "usable");
    }
}

/* The family that begins with row `first`. */
static void print_family(const struct gb_kernel *first,
                         const struct gb_device_info *info)
{
    const char *why = NULL;
    int tiles = 0, usable = 0;
    char types[32], count[32];

    for (int i = 0; i < gb_kernel_count; i++) {
        const struct gb_kernel *k = &gb_kernels[i];
        const char *lacking;

        if (strcmp(k->family, first->family) != 0)
            continue;
        lacking = lack(k, info);
        tiles++;
        if (lacking)
            why = lacking;
        else
            usable++;
    }
    snprintf(types, sizeof types, "%s%s%s", gb_type_name(first->type),
             first->type == first->type_c ? "" : " to ",
             first->type == first->type_c ? "" : gb_type_name(first->type_c));
    snprintf(count, sizeof count, "%d tile%s", tiles, tiles == 1 ? "" : "s");
    printf("  kernel        %-20s %-12s %-9s ", first->family, types, count);
    if (usable == tiles)
        puts("usable");
    else if (usable == 0)
        puts(why);
    else
        printf("%d usable, others: %s\n", usable, why);
}

static void print_families(const struct gb_device_info *info)
{
    for (int i = 0; i < gb_kernel_count; i++) {
        int first = 0;

        while (strcmp(gb_kernels[first].family, gb_kernels[i].family) != 0)
            first++;
        if (first == i)
            print_family(&gb_kernels[i], info);
    }
}

static void print_device(const struct gb_device_ref *ref, bool every_kernel)
{
    struct gb_device *dev;
    struct gb_guest guest;
    enum gb_status s = ref->ops->open(ref->ordinal, &dev);
    size_t free_bytes, total;

    if (s != GB_SUCCESS) {
        printf("device %s:%d\n  unusable      %s\n", ref->ops->name, ref->ordinal,
               gb_status_text(s));
        return;
    }
    printf("device %s:%d\n", ref->ops->name, ref->ordinal);
    printf("  name          %s (%s, %s)\n", dev->info.name,
           vendor_name(dev->info.vendor), dev->info.arch_name);
    printf("  processors    %d at up to %.0f MHz, %zu KiB shared memory, %zu MiB L2\n",
           dev->info.multiprocessors, 1e-3 * dev->info.clock_khz,
           dev->info.smem_per_block >> 10, dev->info.l2 >> 20);
    printf("  driver        %d\n", dev->info.driver);
    if (ref->ops->enter(dev, &guest) == GB_SUCCESS) {
        if (ref->ops->mem_info(dev, &free_bytes, &total) == GB_SUCCESS)
            printf("  memory        %zu of %zu MiB free\n", free_bytes >> 20,
                   total >> 20);
        print_link(dev);
        ref->ops->leave(dev, &guest);
    }
    if (every_kernel)
        print_rows(&dev->info);
    else
        print_families(&dev->info);
    ref->ops->close(dev);
}

static void print_real(void)
{
    static const char *const base[] = {"sgemm", "dgemm", "cgemm", "zgemm"};

    for (size_t i = 0; i < GB_COUNT(base); i++) {
        const char *symbol = "";
        struct gb_provider real = gb_real_any(base[i], &symbol);

        if (real.fn)
            printf("cpu %s    %s in %s (%d-bit integers)\n", base[i], symbol,
                   gb_real_path(real.fn), real.width == GB_INT64 ? 64 : 32);
        else
            printf("cpu %s    our portable routine: no BLAS was found\n", base[i]);
    }
}

static void print_knob(const char *env, const char *value, enum gb_knob_source source,
                       const char *doc, void *arg)
{
    static const char *const from[] = {[GB_FROM_DEFAULT] = "default",
                                       [GB_FROM_FILE] = "file",
                                       [GB_FROM_ENV] = "environment"};

    (void)arg;
    printf("knob %-24s %-12s (%s) %s\n", env, *value ? value : "-", from[source], doc);
}

int cmd_info(int argc, char **argv)
{
    struct gb_device_ref refs[DEVICES];
    bool every_kernel;
    int n;

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        puts(
            "usage: gemmblas info [--kernels]\n\n"
            "Prints the devices that a program started now would use, their link and "
            "kernels,\n"
            "the BLAS that serves the rest, and every knob with its value and source.\n"
            "A line is for a family of kernels; --kernels prints each kernel.");
        return CMD_OK;
    }
    every_kernel = argc > 1 && strcmp(argv[1], "--kernels") == 0;
    if (argc > (every_kernel ? 2 : 1))
        return cmd_refuse("info takes no argument \"%s\"; try `gemmblas info --help`",
                          argv[every_kernel ? 2 : 1]);
    n = gb_device_list(gb_knobs()->device, refs, DEVICES);
    if (n == 0)
        printf("device none: no driver or no device (GEMMBLAS_DEVICE=%s); calls stay "
               "on the "
               "CPU\n",
               gb_knobs()->device);
    for (int i = 0; i < n; i++)
        print_device(&refs[i], every_kernel);
    print_real();
    gb_knobs_each(print_knob, NULL);
    return CMD_OK;
}
