/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions that a loaded object itself defines, read from its dynamic section:
 * no lock is taken and nobody is asked, so it may run inside dl_iterate_phdr. */
#ifndef GB_ELFSYM_H
#define GB_ELFSYM_H

#include <link.h>

/* The object's own definition: dlsym would answer for its dependencies too, and for a
 * program that is not position-independent it may answer a jump that leads back to us.
 * The type is STT_FUNC or STT_GNU_IFUNC. NULL: none that dlsym could find. */
const Elf64_Sym *gb_elf_function(Elf64_Addr base, const Elf64_Dyn *ld,
                                 const char *name);

#endif
