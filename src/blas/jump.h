/* SPDX-License-Identifier: BSD-3-Clause */
/* The exported entries themselves: a size compared with one word and a jump, with the
 * caller's registers and stack as they came. In assembly because no C compiler promises
 * it: GCC copies every stack argument of a tail call onto itself, and pushes six
 * registers to do so.
 *
 * Only the low 32 bits of the sizes of plain names are looked at, since their width is
 * not known here. A size beyond that may be taken for small and then runs on the CPU,
 * nothing worse; negative ones give large products or go to the BLAS that reports them.
 */
#ifndef GB_JUMP_H
#define GB_JUMP_H

#include <stddef.h>

#include "dispatch.h"
#include "real.h"
#include "util.h"

_Static_assert(offsetof(struct gb_real, fast) == 0, "entries jump through the struct");

#define GB_FUNCTION_(name, scope, body)                                                \
    __asm__(".pushsection .text\n\t.p2align 4\n\t" scope " " name "\n\t.type " name    \
            ", %function\n" name ":\n\t.cfi_startproc\n\t" body                        \
            "\t.cfi_endproc\n\t.size " name ", .-" name "\n\t.popsection\n");

#if defined __x86_64__

#define GB_FUNCTION(name, scope, body) GB_FUNCTION_(name, scope, "endbr64\n" body)
/* m, n, k by reference: rdx, rcx, r8; by value: ecx, r8d, r9d. The product is in
 * rax. */
#define GB_SIZE_F77_32                                                                 \
    "\tmovslq (%rdx), %rax\n\tmovslq (%rcx), %r10\n\tmovslq (%r8), %r11\n"             \
    "\timulq %r10, %rax\n\timulq %r11, %rax\n"
#define GB_SIZE_F77_64                                                                 \
    "\tmovq (%rdx), %rax\n\timulq (%rcx), %rax\n\timulq (%r8), %rax\n"
#define GB_SIZE_CBLAS_32                                                               \
    "\tmovslq %ecx, %rax\n\tmovslq %r8d, %r10\n\tmovslq %r9d, %r11\n"                  \
    "\timulq %r10, %rax\n\timulq %r11, %rax\n"
/* Where an argument of the size is on the stack: as if it were large. */
#define GB_SIZE_ANY "\tmovq $-1, %rax\n"
#define GB_SIZE_CBLAS_64 "\tmovq %rcx, %rax\n\timulq %r8, %rax\n\timulq %r9, %rax\n"
#define GB_CHOOSE(real, slow)                                                          \
    "\tcmpq gb_fast(%rip), %rax\n\tjae " slow "\n\tjmp *" real "(%rip)\n"
#define GB_JUMP_THROUGH(slot) "\tjmp *" slot "(%rip)\n"
#define GB_JUMP_WITH(slot, function) "\tleaq " slot "(%rip), %r11\n\tjmp " function "\n"

/* Save all that can hold an argument, ask gb_bare_target(slot, return address),
 * restore, jump there. Slot in r11. (Arguments wider than 16 bytes are the
 * exception.) */
#define GB_RESOLVER                                                                    \
    "\tpushq %rbp\n\t.cfi_def_cfa_offset 16\n\t.cfi_offset %rbp, -16\n"                \
    "\tmovq %rsp, %rbp\n\t.cfi_def_cfa_register %rbp\n"                                \
    "\tsubq $192, %rsp\n\tandq $-16, %rsp\n"                                           \
    "\tmovq %rax, (%rsp)\n\tmovq %rdi, 8(%rsp)\n\tmovq %rsi, 16(%rsp)\n"               \
    "\tmovq %rdx, 24(%rsp)\n\tmovq %rcx, 32(%rsp)\n\tmovq %r8, 40(%rsp)\n"             \
    "\tmovq %r9, 48(%rsp)\n\tmovq %r10, 56(%rsp)\n"                                    \
    "\tmovaps %xmm0, 64(%rsp)\n\tmovaps %xmm1, 80(%rsp)\n\tmovaps %xmm2, 96(%rsp)\n"   \
    "\tmovaps %xmm3, 112(%rsp)\n\tmovaps %xmm4, 128(%rsp)\n\tmovaps %xmm5, "           \
    "144(%rsp)\n"                                                                      \
    "\tmovaps %xmm6, 160(%rsp)\n\tmovaps %xmm7, 176(%rsp)\n"                           \
    "\tmovq %r11, %rdi\n\tmovq 8(%rbp), %rsi\n\tcall gb_bare_target\n\tmovq %rax, "    \
    "%r11\n"                                                                           \
    "\tmovq (%rsp), %rax\n\tmovq 8(%rsp), %rdi\n\tmovq 16(%rsp), %rsi\n"               \
    "\tmovq 24(%rsp), %rdx\n\tmovq 32(%rsp), %rcx\n\tmovq 40(%rsp), %r8\n"             \
    "\tmovq 48(%rsp), %r9\n\tmovq 56(%rsp), %r10\n"                                    \
    "\tmovaps 64(%rsp), %xmm0\n\tmovaps 80(%rsp), %xmm1\n\tmovaps 96(%rsp), %xmm2\n"   \
    "\tmovaps 112(%rsp), %xmm3\n\tmovaps 128(%rsp), %xmm4\n\tmovaps 144(%rsp), "       \
    "%xmm5\n"                                                                          \
    "\tmovaps 160(%rsp), %xmm6\n\tmovaps 176(%rsp), %xmm7\n"                           \
    "\tleave\n\t.cfi_def_cfa %rsp, 8\n\t.cfi_restore %rbp\n\tjmp *%r11\n"

#elif defined __aarch64__

#define GB_FUNCTION(name, scope, body) GB_FUNCTION_(name, scope, "hint #34\n" body)
/* m, n, k by reference: x2, x3, x4; by value: w3, w4, w5. The product is in x9. */
#define GB_SIZE_F77_32                                                                 \
    "\tldrsw x9, [x2]\n\tldrsw x10, [x3]\n\tldrsw x11, [x4]\n"                         \
    "\tmul x9, x9, x10\n\tmul x9, x9, x11\n"
#define GB_SIZE_F77_64                                                                 \
    "\tldr x9, [x2]\n\tldr x10, [x3]\n\tldr x11, [x4]\n"                               \
    "\tmul x9, x9, x10\n\tmul x9, x9, x11\n"
#define GB_SIZE_CBLAS_32 "\tsmull x9, w3, w4\n\tsxtw x10, w5\n\tmul x9, x9, x10\n"
#define GB_SIZE_ANY "\tmov x9, #-1\n"
#define GB_SIZE_CBLAS_64 "\tmul x9, x3, x4\n\tmul x9, x9, x5\n"
#define GB_CHOOSE(real, slow)                                                          \
    "\tadrp x10, gb_fast\n\tldr x10, [x10, #:lo12:gb_fast]\n\tcmp x9, x10\n\tb.hs "    \
    "1f\n" GB_JUMP_THROUGH(real) "1:\tb " slow "\n"
#define GB_JUMP_THROUGH(slot)                                                          \
    "\tadrp x16, " slot "\n\tldr x16, [x16, #:lo12:" slot "]\n\tbr x16\n"
#define GB_JUMP_WITH(slot, function)                                                   \
    "\tadrp x17, " slot "\n\tadd x17, x17, #:lo12:" slot "\n\tb " function "\n"

/* As above; slot in x17. */
#define GB_RESOLVER                                                                    \
    "\tstp x29, x30, [sp, #-224]!\n\t.cfi_def_cfa_offset 224\n"                        \
    "\t.cfi_offset 29, -224\n\t.cfi_offset 30, -216\n\tmov x29, sp\n"                  \
    "\tstp x0, x1, [sp, #16]\n\tstp x2, x3, [sp, #32]\n\tstp x4, x5, [sp, #48]\n"      \
    "\tstp x6, x7, [sp, #64]\n\tstr x8, [sp, #80]\n"                                   \
    "\tstp q0, q1, [sp, #96]\n\tstp q2, q3, [sp, #128]\n"                              \
    "\tstp q4, q5, [sp, #160]\n\tstp q6, q7, [sp, #192]\n"                             \
    "\tmov x0, x17\n\tmov x1, x30\n\tbl gb_bare_target\n\tmov x17, x0\n"               \
    "\tldp x0, x1, [sp, #16]\n\tldp x2, x3, [sp, #32]\n\tldp x4, x5, [sp, #48]\n"      \
    "\tldp x6, x7, [sp, #64]\n\tldr x8, [sp, #80]\n"                                   \
    "\tldp q0, q1, [sp, #96]\n\tldp q2, q3, [sp, #128]\n"                              \
    "\tldp q4, q5, [sp, #160]\n\tldp q6, q7, [sp, #192]\n"                             \
    "\tldp x29, x30, [sp], #224\n\t.cfi_def_cfa_offset 0\n\t.cfi_restore 29\n"         \
    "\t.cfi_restore 30\n\tmov x16, x17\n\tbr x16\n"

#else
#error "the entries are written for x86-64 and aarch64"
#endif

/* An exported name. size: one of GB_SIZE_*. */
#define GB_ENTRY(symbol, real, slow, size)                                             \
    GB_FUNCTION(GB_STR(symbol), ".globl", size GB_CHOOSE(GB_STR(real), GB_STR(slow)))

/* A name that any library may own: through a slot, which leads to `resolver` until it
 * is known whose it is, and then to the next definition or to `entry`. */
#define GB_ENTRY_BARE(symbol, slot, entry, resolver, real, slow, size)                 \
    GB_FUNCTION(GB_STR(symbol), ".globl", GB_JUMP_THROUGH(GB_STR(slot)))               \
    GB_FUNCTION(GB_STR(resolver), ".hidden " GB_STR(resolver) "\n\t.globl",            \
                GB_JUMP_WITH(GB_STR(slot), "gb_resolve_bare"))                         \
    GB_FUNCTION(GB_STR(entry), ".hidden " GB_STR(entry) "\n\t.globl",                  \
                size GB_CHOOSE(GB_STR(real), GB_STR(slow)))

/* `entry` is where a call of BLAS goes. */
struct gb_bare {
    void *_Atomic target; /* first: the entry jumps through the address of the struct */
    void *entry;
    struct gb_real *real;
    struct gb_memo memo[GB_MEMOS];
};

_Static_assert(offsetof(struct gb_bare, target) == 0,
               "entries jump through the struct");

/* Where a call of a bare name from `caller` goes. Called by the resolver only. */
void *gb_bare_target(struct gb_bare *bare, const void *caller);

#endif
