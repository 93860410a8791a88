/* SPDX-License-Identifier: BSD-3-Clause */
/* The real symbol behind an exported one: the BLAS that the caller would have got
 * without us. Order: GEMMBLAS_LIBRARY; RTLD_NEXT; the loaded objects; the configured
 * OpenBLAS. An address in our own object, or in another copy of it, is never an answer.
 * See design, section 4. */
#ifndef GB_REAL_H
#define GB_REAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum gb_int_width { GB_INT32, GB_INT64 };

/* An answer that real.c remembers: a sequence lock, so that calls take no lock and a
 * child forked in the middle of a write only loses the memory. */
struct gb_memo {
    _Atomic unsigned seq;
    _Atomic unsigned flags;
    void *_Atomic fn;
    _Atomic uintptr_t caller;
    _Atomic uint64_t generation; /* of the list of loaded objects */
};

enum { GB_MEMOS = 5 };

/* One exported name. `fast` is what the frameless entry jumps to for a small call: our
 * own slow path until exactly one provider is known for good, then that provider's
 * routine. */
struct gb_real {
    void *_Atomic fast; /* first: the entries jump through the address of the struct */
    void *slow;
    const char *symbol;
    const char *sibling; /* isamax of the same flavour: never ours, tells the width */
    const char *also;    /* another name that a provider must define, or NULL */
    struct gb_real
        *alias; /* same signature, asked when nobody has this name, or NULL */
    enum gb_int_width width;       /* the name's own; plain names follow the provider */
    bool plain;                    /* a name that providers of either width export */
    bool loaded_only;              /* no fallback is opened for it, nor its lack told */
    struct gb_memo memo[GB_MEMOS]; /* [0] for every caller, the others by caller */
    atomic_bool reported;          /* that nobody has it */
};

struct gb_provider {
    void *fn; /* NULL: nobody has it, the portable routine serves */
    enum gb_int_width width;
    bool conj; /* takes 'R' and CblasConjNoTrans: an extension of OpenBLAS's */
};

/* The provider for a call from `caller`. Lock-free and quick when the name has one
 * provider. Never fails: fn is NULL when there is none. */
struct gb_provider gb_real_find(struct gb_real *real, const void *caller);

/* A name without prefix or suffix ("dgemm") may belong to any library. Answers the next
 * definition when its object is no BLAS (does not define real->also), else NULL: the
 * call is BLAS. *fixed: the answer holds for every caller and for good. `memo` has
 * GB_MEMOS. */
void *gb_real_foreign(struct gb_real *real, struct gb_memo *memo, const void *caller,
                      bool *fixed);

/* For work of our own (finishing panels, half types by fp32 panels): the routine `base`
 * ("dgemm", "sgemm") in any Fortran flavour that a loaded or configured BLAS has.
 * *symbol (may be NULL) says which. */
struct gb_provider gb_real_any(const char *base, const char **symbol);

/* GEMMBLAS_SERIALIZE_CPU: true when the lock was taken, and must be given back. The
 * thread that holds it may take it again (a BLAS whose cblas_dgemm calls dgemm_). */
bool gb_real_lock(void);
void gb_real_unlock(void);

/* The program's own handlers; NULL when it defines none. Those of a BLAS do not count:
 * they stop the program or write to stdout. */
void *gb_real_xerbla(void);
void *gb_real_cblas_xerbla(void);

/* For `gemmblas info`: path of the object that holds addr, "" if unknown. */
const char *gb_real_path(const void *addr);

#endif
