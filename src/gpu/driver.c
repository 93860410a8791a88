/* SPDX-License-Identifier: BSD-3-Clause */
/* Loading driver libraries without a trace where there is no device. */
#include "driver.h"

#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "log.h"

static const char *existing(const char *const *nodes)
{
    while (*nodes && access(*nodes, F_OK) != 0)
        nodes++;
    return *nodes;
}

bool gb_driver_loaded(const char *const *names)
{
    for (; *names; names++) {
        void *handle = dlopen(*names, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);

        if (handle) {
            dlclose(handle);
            return true;
        }
    }
    return false;
}

void *gb_driver_find(const char *const *names, const char *symbol)
{
    void *found = NULL;

    for (; *names && !found; names++) {
        void *handle = dlopen(*names, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);

        if (handle) {
            found = dlsym(handle, symbol);
            dlclose(handle);
        }
    }
    return found;
}

enum gb_mem_kind gb_driver_guess(const void *ptr)
{
    char byte;
    const struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)ptr, 1};

    /* Asked of the kernel, which answers where a look would end the process. Where it does
     * not answer such questions, the memory is as good as any. */
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) < 0 && errno == EFAULT
               ? GB_MEM_DEVICE
               : GB_MEM_PAGEABLE;
}

bool gb_driver_plausible(const char *const *names, const char *const *nodes)
{
    return gb_driver_loaded(names) || existing(nodes) != NULL;
}

void *gb_driver_open(const char *const *names, const char *const *nodes)
{
    const char *node;
    void *handle = NULL;

    /* A runtime that the program brought along is better than a second copy. */
    for (const char *const *name = names; !handle && *name; name++)
        handle = dlopen(*name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle)
        return handle;
    node = existing(nodes);
    if (!node)
        return NULL;
    for (const char *const *name = names; !handle && *name; name++)
        handle = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        gb_info("%s is there, but no driver library: %s", node, dlerror());
    return handle;
}

bool gb_driver_bind(void *handle, const struct gb_driver_symbol *symbols, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *address = dlsym(handle, symbols[i].name);

        if (!address) {
            gb_info("the driver is too old: it lacks %s", symbols[i].name);
            return false;
        }
        memcpy(symbols[i].slot, &address, sizeof address);
    }
    return true;
}

void gb_driver_pci(struct gb_device_info *info, const char *pci)
{
    char path[64], text[16] = "";
    ssize_t got = 0;
    int fd;

    snprintf(info->pci, sizeof info->pci, "%s", pci);
    for (char *p = info->pci; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    info->numa_node = -1;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", info->pci);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got > 0)
        info->numa_node = atoi(text);
}
