/* SPDX-License-Identifier: BSD-3-Clause */
/* The real symbol behind an exported one: the BLAS that the caller would have got without us.
 * Order: GEMMBLAS_LIBRARY; RTLD_NEXT; the loaded objects; the configured OpenBLAS. An address
 * in our own object is never an answer. See design, section 4. */
#ifndef GB_REAL_H
#define GB_REAL_H

#include <stdatomic.h>
#include <stdbool.h>

enum gb_int_width { GB_INT32, GB_INT64 };

/* One exported name. `fast` is what the frameless entry jumps to for a small call: our own
 * slow path until exactly one provider is known, then that provider's routine for good. */
struct gb_real {
    const char *symbol;
    void *_Atomic fast;
    void *slow;
    enum gb_int_width width; /* the name's own; plain names follow the provider */
    bool plain;              /* a name that providers of either width export */
};

struct gb_provider {
    void *fn;                /* NULL: nobody has it, the portable routine serves */
    enum gb_int_width width;
};

/* The provider for a call from `caller`. Lock-free and quick when the name has one provider.
 * Never fails: fn is NULL when there is none. */
struct gb_provider gb_real_find(struct gb_real *real, const void *caller);

/* For work of our own (finishing panels, half types by fp32 panels): the routine `base`
 * ("dgemm", "sgemm") in any Fortran flavour that a loaded or configured BLAS has. *symbol
 * (may be NULL) says which. */
struct gb_provider gb_real_any(const char *base, const char **symbol);

/* The program's own handlers, if it (or its BLAS) defines them; NULL otherwise. */
void *gb_real_xerbla(void);
void *gb_real_cblas_xerbla(void);

/* For `gemmblas info`: path of the object that holds addr, "" if unknown. */
const char *gb_real_path(const void *addr);

#endif
