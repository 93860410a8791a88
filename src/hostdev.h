/* SPDX-License-Identifier: BSD-3-Clause */
/* GB_HD: a small pure function that host C, host C++ and both device compilers all see, so
 * that the index arithmetic of a kernel is proved on any machine. */
#ifndef GB_HOSTDEV_H
#define GB_HOSTDEV_H

#include <stdint.h>

#if defined(__CUDACC__)
#define GB_HD static __host__ __device__ __forceinline__
#elif defined(__HIP__)
#define GB_HD static __attribute__((host, device, always_inline)) inline
#else
#define GB_HD static inline
#endif

#endif
