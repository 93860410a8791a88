/* SPDX-License-Identifier: BSD-3-Clause */
/* gemmblas: the functions of its own. Its BLAS is called by the names of BLAS, see
 * cblas.h. */
#ifndef GEMMBLAS_GEMMBLAS_H
#define GEMMBLAS_GEMMBLAS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined __GNUC__
#define GEMMBLAS_API __attribute__((visibility("default")))
#else
#define GEMMBLAS_API
#endif

/* "major.minor.patch" of the library that runs; static storage. A copy of the library
 * knows another one by this symbol. */
GEMMBLAS_API const char *gemmblas_version(void);

#ifdef __cplusplus
}
#endif
#endif
