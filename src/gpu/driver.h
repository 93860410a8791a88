/* SPDX-License-Identifier: BSD-3-Clause */
/* What the back ends share: behaving as a guest in the program's threads and process,
 * and loading a driver library only where there can be a device. */
#ifndef GB_DRIVER_H
#define GB_DRIVER_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "fpstate.h"
#include "hold.h"

/* The last two words of a guest belong to these; the others to the back end. */
static inline void gb_guest_save(struct gb_guest *guest)
{
    guest->saved[2] = (uintptr_t)errno;
    guest->saved[3] = gb_fp_enter();
}

static inline void gb_guest_restore(const struct gb_guest *guest)
{
    gb_fp_leave(guest->saved[3]);
    errno = (int)guest->saved[2];
}

/* The first of `names` (NULL-terminated) that is loaded already, else the first that
 * can be loaded, provided one of the paths `nodes` exists: without a device nothing is
 * mapped into the process. NULL when there is none. */
void *gb_driver_open(const char *const *names, const char *const *nodes);
/* Has the process one of these libraries, whoever loaded it? */
bool gb_driver_loaded(const char *const *names);

/* A function of the one that is loaded, or NULL. */
void *gb_driver_find(const char *const *names, const char *symbol);
/* What a driver that does not answer leaves to ask: memory that the CPU can read is not a
 * device's. */
enum gb_mem_kind gb_driver_guess(const void *ptr);

/* Would that find something to open? Loads nothing. */
bool gb_driver_plausible(const char *const *names, const char *const *nodes);

/* Fill a table of function pointers. False, with an info line, at the first symbol that
 * the library lacks. */
struct gb_driver_symbol {
    const char *name;
    void *slot; /* a function pointer */
};
bool gb_driver_bind(void *handle, const struct gb_driver_symbol *symbols, size_t n);

/* Copies a PCI address in lower case, and finds its NUMA node (-1 unknown). */
void gb_driver_pci(struct gb_device_info *info, const char *pci);

/* Makes one long row of rows that touch each other. Says whether one row is left. */
static inline bool gb_rows_fold(size_t dst_pitch, size_t src_pitch, size_t *width,
                                size_t *height)
{
    if (*height > 1 && dst_pitch == *width && src_pitch == *width) {
        *width *= *height;
        *height = 1;
    }
    return *height == 1;
}

#endif
