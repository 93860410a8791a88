/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of symbol tables against dlsym, by every name that a loaded object's string
 * table holds; objects with either kind of hash table. */
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elfsym.h"
#include "tap.h"

enum { OBJECTS = 64 };

static struct object {
    Elf64_Addr base, low, high;
    const Elf64_Dyn *ld;
    const char *name;
} object[OBJECTS];
static int objects;

static int collect(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct object o = {.base = info->dlpi_addr, .low = -1ul, .name = info->dlpi_name};

    (void)size;
    (void)arg;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *ph = &info->dlpi_phdr[i];
        Elf64_Addr at = o.base + ph->p_vaddr;

        if (ph->p_type == PT_DYNAMIC)
            o.ld = (const Elf64_Dyn *)at;
        if (ph->p_type == PT_LOAD && at < o.low)
            o.low = at;
        if (ph->p_type == PT_LOAD && at + ph->p_memsz > o.high)
            o.high = at + ph->p_memsz;
    }
    if (o.ld && objects < OBJECTS)
        object[objects++] = o;
    return 0;
}

static Elf64_Addr dynamic(const struct object *o, Elf64_Sxword tag)
{
    for (const Elf64_Dyn *d = o->ld; d->d_tag != DT_NULL; d++)
        if (d->d_tag == tag)
            return d->d_un.d_val;
    return 0;
}

static const char *strings(const struct object *o)
{
    Elf64_Addr at = dynamic(o, DT_STRTAB);

    return (const char *)(at < o->base ? o->base + at : at); /* vdso */
}

static bool is_code(const void *addr)
{
    const Elf64_Sym *s = NULL;
    Dl_info info;

    return dladdr1(addr, &info, (void **)&s, RTLD_DL_SYMENT) && s &&
           (ELF64_ST_TYPE(s->st_info) == STT_FUNC ||
            ELF64_ST_TYPE(s->st_info) == STT_GNU_IFUNC);
}

/* Is `name` found as dlsym finds it in that object? */
static bool agrees(const struct object *o, void *handle, const char *name, long *found)
{
    const Elf64_Sym *s = gb_elf_function(o->base, o->ld, name);
    const void *addr = dlsym(handle, name);
    Elf64_Addr at = (Elf64_Addr)addr;

    if (!s)
        return at < o->low || at >= o->high || !is_code(addr);
    (*found)++;
    /* The address of an indirect function is what its resolver answers. */
    return ELF64_ST_TYPE(s->st_info) == STT_GNU_IFUNC ? addr != NULL
                                                      : at == o->base + s->st_value;
}

/* How many functions were found. */
static long compare(const struct object *o, void *handle)
{
    const char *names = strings(o);
    const char *end = names + dynamic(o, DT_STRSZ);
    long found = 0, wrong = 0;

    for (const char *name = names; name < end; name += strlen(name) + 1) {
        if (agrees(o, handle, name, &found))
            continue;
        if (wrong++ < 5)
            diag("%s", name);
    }
    is_int(0, wrong, "%ld functions of %s", found,
           o->name[0] ? o->name : "this program");
    ok(!gb_elf_function(o->base, o->ld, "no_such_function") &&
           !gb_elf_function(o->base, o->ld, ""),
       "and none else");
    return found;
}

static void load(const char *name)
{
    const char *top = getenv("top_builddir");
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/tests/fixtures/%s", top ? top : ".", name);
    if (!dlopen(path, RTLD_NOW | RTLD_LOCAL))
        bail("%s", dlerror());
}

int main(void)
{
    long found = 0;
    int gnu = 0, sysv = 0;

    plan_lazy();
    load("fixblas32.so");
    load("sysv.so");
    dl_iterate_phdr(collect, NULL);
    for (int i = 0; i < objects; i++) {
        const char *name = object[i].name;
        void *handle = dlopen(name[0] ? name : NULL, RTLD_LAZY | RTLD_NOLOAD);

        /* Some versions of glibc have no handle for the vdso; one for the dynamic linker
         * itself finds nothing. */
        if (!handle || strstr(name, "/ld-"))
            continue;
        gnu += dynamic(&object[i], DT_GNU_HASH) != 0;
        sysv += dynamic(&object[i], DT_GNU_HASH) == 0;
        found += compare(&object[i], handle);
        dlclose(handle);
    }
    ok(gnu > 0 && sysv > 0, "objects with either hash table (%d and %d)", gnu, sysv);
    ok(found > 1000, "%ld functions in all", found);
    return 0;
}
