/* SPDX-License-Identifier: BSD-3-Clause */
/* Every routine that exists in every flavour; included once per flavour by entry.c. */
#define ROUTINE sgemm
#define SCALAR float
#include "entry.h"
#define ROUTINE dgemm
#define SCALAR double
#include "entry.h"
#define ROUTINE cgemm
#define SCALAR GB_BY_ADDRESS
#include "entry.h"
#define ROUTINE zgemm
#define SCALAR GB_BY_ADDRESS
#include "entry.h"

#undef F77
#undef CBLAS
#undef BARE
#undef BITS
#undef PLAIN
