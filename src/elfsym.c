/* SPDX-License-Identifier: BSD-3-Clause */
/* A symbol by name through the hash tables of one loaded object, as the dynamic linker
 * looks it up. */
#include "elfsym.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* What the dynamic section says, in addresses. */
struct tables {
    const Elf64_Sym *sym;
    const char *str;
    const uint32_t *gnu, *sysv;
    const Elf64_Half *version;
};

static struct tables tables_of(Elf64_Addr base, const Elf64_Dyn *ld)
{
    struct tables t = {0};

    for (; ld->d_tag != DT_NULL; ld++) {
        /* glibc has relocated these in place, but not in the vdso. */
        Elf64_Addr at = ld->d_un.d_ptr < base ? ld->d_un.d_ptr + base : ld->d_un.d_ptr;
        const void *p = (const void *)at; /* NOLINT(performance-no-int-to-ptr) */

        if (ld->d_tag == DT_SYMTAB)
            t.sym = p;
        else if (ld->d_tag == DT_STRTAB)
            t.str = p;
        else if (ld->d_tag == DT_GNU_HASH)
            t.gnu = p;
        else if (ld->d_tag == DT_HASH)
            t.sysv = p;
        else if (ld->d_tag == DT_VERSYM)
            t.version = p;
    }
    return t;
}

/* An old version, for programs that were linked with it. */
static bool is_hidden(const struct tables *t, uint32_t i)
{
    return t->version && t->version[i] & 0x8000 && (t->version[i] & 0x7fff) > 1;
}

static bool is_function(const struct tables *t, uint32_t i, const char *name)
{
    const Elf64_Sym *s = &t->sym[i];
    int type = ELF64_ST_TYPE(s->st_info);

    return s->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC) &&
           strcmp(t->str + s->st_name, name) == 0 && !is_hidden(t, i);
}

static const Elf64_Sym *gnu_lookup(const struct tables *t, const char *name)
{
    uint32_t buckets = t->gnu[0], first = t->gnu[1], words = t->gnu[2],
             shift = t->gnu[3];
    const Elf64_Addr *bloom = (const Elf64_Addr *)&t->gnu[4];
    const uint32_t *bucket = (const uint32_t *)&bloom[words];
    const uint32_t *chain = bucket + buckets;
    enum { BITS = 8 * sizeof(Elf64_Addr) };
    uint32_t h = 5381;
    Elf64_Addr word;

    for (const char *c = name; *c; c++)
        h = h * 33 + (unsigned char)*c;
    word = bloom[h / BITS % words];
    if (!(word >> h % BITS & word >> (h >> shift) % BITS & 1) || !buckets)
        return NULL;
    for (uint32_t i = bucket[h % buckets]; i >= first; i++) {
        uint32_t here = chain[i - first];

        if ((here | 1) == (h | 1) && is_function(t, i, name))
            return &t->sym[i];
        if (here & 1)
            break;
    }
    return NULL;
}

static const Elf64_Sym *sysv_lookup(const struct tables *t, const char *name)
{
    uint32_t buckets = t->sysv[0], h = 0;

    if (!buckets)
        return NULL;
    for (const char *c = name; *c; c++) {
        h = (h << 4) + (unsigned char)*c;
        h = (h ^ (h >> 24 & 0xf0)) & 0x0fffffff;
    }
    for (uint32_t i = t->sysv[2 + h % buckets]; i; i = t->sysv[2 + buckets + i])
        if (is_function(t, i, name))
            return &t->sym[i];
    return NULL;
}

const Elf64_Sym *gb_elf_function(Elf64_Addr base, const Elf64_Dyn *ld, const char *name)
{
    struct tables t = tables_of(base, ld);

    if (!t.sym || !t.str)
        return NULL;
    return t.gnu ? gnu_lookup(&t, name) : t.sysv ? sysv_lookup(&t, name) : NULL;
}
