/* SPDX-License-Identifier: BSD-3-Clause */
/* Every exported BLAS name, flavour by flavour (design, section 4). */
#include <stdint.h>

#include "args.h"
#include "jump.h"

#define GB_CAT_(a, b) a##b
#define GB_CAT(a, b) GB_CAT_(a, b)
#define GB_CAT3_(a, b, c) a##b##c
#define GB_CAT3(a, b, c) GB_CAT3_(a, b, c)

/* How CBLAS passes complex scalars, and where the value of a scalar parameter is. */
#define GB_BY_ADDRESS const void *
#define GB_SCALAR_AT(x) _Generic((x), GB_BY_ADDRESS : (x), default : &(x))

/* Everyone's names. Some providers export them with 64-bit integers. */
#define F77(base) GB_CAT(base, _)
#define CBLAS(base) GB_CAT(cblas_, base)
#define BITS 32
#define PLAIN 1
#include "flavour.h"

/* IBM, MKL, NVBLAS: Fortran without underscore. */
#define F77(base) base
#define BARE
#define BITS 32
#define PLAIN 1
#include "flavour.h"

/* Reference and MKL with 64-bit integers; the Fortran names are OpenBLAS's too. */
#define F77(base) GB_CAT(base, _64_)
#define CBLAS(base) GB_CAT3(cblas_, base, _64)
#define BITS 64
#define PLAIN 0
#include "flavour.h"

/* OpenBLAS with the suffix 64_. */
#define CBLAS(base) GB_CAT3(cblas_, base, 64_)
#define BITS 64
#define PLAIN 0
#include "flavour.h"

/* Wheels of numpy and scipy. */
#define F77(base) GB_CAT3(scipy_, base, _)
#define CBLAS(base) GB_CAT(scipy_cblas_, base)
#define BITS 32
#define PLAIN 0
#include "flavour.h"

#define F77(base) GB_CAT3(scipy_, base, _64_)
#define CBLAS(base) GB_CAT3(scipy_cblas_, base, 64_)
#define BITS 64
#define PLAIN 0
#include "flavour.h"

#define F77(base) GB_CAT(base, _)
#define CBLAS(base) GB_CAT(cblas_, base)
#define BITS 32
#define PLAIN 1
#include "flavour_half.h"

#define F77(base) GB_CAT(base, _)
#define CBLAS(base) GB_CAT(cblas_, base)
#define BITS 32
#define PLAIN 1
#include "flavour_integer.h"

#define F77(base) base
#define BARE
#define BITS 32
#define PLAIN 1
#include "flavour_integer.h"

#define F77(base) GB_CAT(base, _64_)
#define CBLAS(base) GB_CAT3(cblas_, base, _64)
#define BITS 64
#define PLAIN 0
#include "flavour_integer.h"

GB_FUNCTION("gb_resolve_bare", ".hidden gb_resolve_bare\n\t.globl", GB_RESOLVER)

void *gb_bare_target(struct gb_bare *bare, const void *caller)
{
    bool fixed;
    void *foreign = gb_real_foreign(bare->real, bare->memo, caller, &fixed);
    void *target = foreign ? foreign : bare->entry;

    if (fixed)
        atomic_store_explicit(&bare->target, target, memory_order_release);
    return target;
}
