/* SPDX-License-Identifier: BSD-3-Clause */
/* What a kernel may use, with three back ends: CUDA (nvcc), AMDGCN (clang -x hip -nogpuinc)
 * and host fibers (any C++17 compiler). Kernels include no vendor header and call no vendor
 * name but through this file.
 *
 *   GB_KERNEL(symbol, threads, blocks, args)   define a kernel; blocks: wanted per processor
 *   GB_KERNEL_OF(type, symbol, ...)            the same with arguments of another type
 *   GB_DEVICE, GB_INLINE, GB_NOINLINE, GB_UNROLL, GB_NO_UNROLL, GB_UNROLL_BY(n)
 *   GB_SHARED(type, name)                      a block's static shared memory: one object
 *   GB_SHARED_DYNAMIC(type, name)              its dynamic shared memory: a pointer
 *   gb_thread() gb_block() gb_grid()           indices; grids are folded into x
 *   gb_sync()                                  the block's barrier
 *   gb_grid_wait()                             for the kernel queued before
 *   gb_copy_async<bytes>(to, from, valid)      global to shared, zero past `valid` bytes;
 *   gb_copy_wait()                             in place for this thread after this
 *   gb_copy_commit() gb_copy_wait_groups<n>()  or by groups: all but the latest n
 *   gb_sync_warp()                             a warp's barrier (these two: not AMDGCN)
 *   Vec<T, N>, gb_load, gb_store               aligned vectors
 *   gb_store_whole                             the same, to global memory, never in pieces
 *   gb_f16, gb_bf16, gb_to_f32, gb_from_f32    16-bit storage; rounds to nearest even */
#ifndef GB_SEAM_H
#define GB_SEAM_H

#include <stddef.h>
#include <stdint.h>

#include "epilogue.h"
#include "gemm_args.h"
#include "half.h"
#include "hostdev.h"
#include "swizzle.h"
#include "tile_map.h"

#if defined(__CUDACC__)
#define GB_SEAM_CUDA 1
#elif defined(__HIP__)
#define GB_SEAM_AMDGCN 1
#else
#define GB_SEAM_HOST 1
#include "fiber.h"
#endif

#if GB_SEAM_CUDA

#define GB_DEVICE __device__
#define GB_INLINE static __device__ __forceinline__
#define GB_NOINLINE static __device__ __noinline__
#define GB_UNROLL _Pragma("unroll")
#define GB_NO_UNROLL _Pragma("unroll 1")
#define GB_UNROLL_BY(n) GB_PRAGMA(unroll n)
#define GB_PRAGMA(text) _Pragma(#text)
#define GB_SHARED(type, name) __shared__ type name
#define GB_SHARED_DYNAMIC(type, name)                                                  \
    extern __shared__ __align__(128) unsigned char gb_dynamic_smem[];                  \
    type *name = reinterpret_cast<type *>(gb_dynamic_smem)
#define GB_KERNEL_OF(type, symbol, threads, blocks, args)                              \
    extern "C" __global__ void __launch_bounds__(threads, blocks)                      \
        symbol(const __grid_constant__ struct type args)

/* Read anew each time: what follows from it is cheap to compute again, and must not hold
 * registers from the top of a kernel to its end. */
GB_INLINE int gb_thread()
{
    int x;

    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
    return x;
}

GB_INLINE int64_t gb_block()
{
    return blockIdx.x;
}

GB_INLINE int64_t gb_grid()
{
    return gridDim.x;
}

GB_INLINE void gb_sync()
{
    __syncthreads();
}

/* By every thread, before a kernel that may start early touches memory: what was queued before
 * it is done. The next one may be started meanwhile. */
GB_INLINE void gb_grid_wait()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n"
                 "griddepcontrol.wait;" ::
                     : "memory");
#endif
}

template <int BYTES>
GB_INLINE void gb_copy_async(void *to, const void *from, int valid)
{
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async sizes");
    uint32_t shared = (uint32_t)__cvta_generic_to_shared(to);

    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared),
                     "l"(from), "r"(valid)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared),
                     "l"(from), "n"(BYTES), "r"(valid)
                     : "memory");
}

GB_INLINE void gb_copy_wait()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

GB_INLINE void gb_copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int PENDING>
GB_INLINE void gb_copy_wait_groups()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

GB_INLINE void gb_sync_warp()
{
    __syncwarp();
}

#elif GB_SEAM_AMDGCN

#define GB_DEVICE __attribute__((device))
#define GB_INLINE static __attribute__((device, always_inline)) inline
#define GB_NOINLINE static __attribute__((device, noinline))
#define GB_UNROLL _Pragma("unroll")
#define GB_NO_UNROLL _Pragma("unroll 1")
#define GB_UNROLL_BY(n) GB_PRAGMA(unroll n)
#define GB_PRAGMA(text) _Pragma(#text)
#define GB_SHARED(type, name) static __attribute__((shared)) type name
#define GB_SHARED_DYNAMIC(type, name)                                                  \
    extern __attribute__((shared, aligned(128))) unsigned char gb_dynamic_smem[];      \
    type *name = reinterpret_cast<type *>(gb_dynamic_smem)
/* clang ignores launch_bounds for AMDGPU; this attribute sets the register limit */
#define GB_KERNEL_OF(type, symbol, threads, blocks, args)                              \
    extern "C"                                                                         \
        __attribute__((global, amdgpu_flat_work_group_size(threads, threads))) void    \
        symbol(const struct type args)

GB_INLINE int gb_thread()
{
    return (int)__builtin_amdgcn_workitem_id_x();
}

GB_INLINE int64_t gb_block()
{
    return __builtin_amdgcn_workgroup_id_x();
}

/* the dispatch packet holds the grid in work-items and the block's size */
GB_INLINE int64_t gb_grid()
{
    const __attribute__((address_space(4))) char *packet =
        (const __attribute__((address_space(4))) char *)__builtin_amdgcn_dispatch_ptr();
    uint16_t block = *(const __attribute__((address_space(4))) uint16_t *)(packet + 4);
    uint32_t items = *(const __attribute__((address_space(4))) uint32_t *)(packet + 12);

    return items / block;
}

GB_INLINE void gb_grid_wait()
{
}

GB_INLINE void gb_sync()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

#else

#define GB_DEVICE
#define GB_INLINE static inline __attribute__((always_inline))
#define GB_NOINLINE static __attribute__((noinline, unused))
#define GB_UNROLL
#define GB_NO_UNROLL
#define GB_UNROLL_BY(n)
#define GB_SHARED(type, name)                                                          \
    type &name = *static_cast<type *>(gb_fiber_shared(sizeof(type)))
#define GB_SHARED_DYNAMIC(type, name)                                                  \
    type *name = static_cast<type *>(gb_fiber_shared_dynamic())
#define GB_KERNEL_OF(type, symbol, threads, blocks, args)                              \
    static void symbol(const struct type &args)

GB_INLINE int gb_thread()
{
    return (int)gb_fiber_thread();
}

GB_INLINE int64_t gb_block()
{
    return gb_fiber_block();
}

GB_INLINE int64_t gb_grid()
{
    return gb_fiber_grid();
}

GB_INLINE void gb_grid_wait()
{
}

/* the line tells barriers apart: all threads of a block must meet at the same one */
#define gb_sync() gb_fiber_sync(__LINE__)
#define gb_sync_warp() gb_fiber_warp(__LINE__, nullptr, nullptr)

#endif

#define GB_KERNEL(symbol, threads, blocks, args)                                       \
    GB_KERNEL_OF(gb_gemm_args, symbol, threads, blocks, args)

/* Aligned as a whole, so that one instruction moves it. */
template <class T, int N>
struct alignas(sizeof(T) * N) Vec {
    T at[N];
};

template <class T, int N>
GB_INLINE Vec<T, N> gb_load(const T *from)
{
    return *reinterpret_cast<const Vec<T, N> *>(from);
}

template <class T, int N>
GB_INLINE void gb_store(T *to, const Vec<T, N> &v)
{
    *reinterpret_cast<Vec<T, N> *>(to) = v;
}

#if GB_SEAM_CUDA
/* Compilers cut the store of a vector whose elements they know apart. */
template <class T, int N>
GB_INLINE void gb_store_whole(T *to, const Vec<T, N> &v)
{
    uint32_t w[sizeof v / 4];

    static_assert(sizeof v == 8 || sizeof v == 16, "two words or four");
    __builtin_memcpy(w, &v, sizeof v);
    if constexpr (sizeof v == 16)
        asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(w[0]),
                     "r"(w[1]), "r"(w[2]), "r"(w[3])
                     : "memory");
    else
        asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(w[0]), "r"(w[1])
                     : "memory");
}
#else
template <class T, int N>
GB_INLINE void gb_store_whole(T *to, const Vec<T, N> &v)
{
    gb_store(to, v);
}
#endif

#if GB_SEAM_AMDGCN
/* Without an asynchronous copy the bytes travel through registers; the pipeline of the
 * kernels is right either way. Words of 4 bytes: no element is smaller. */
template <int BYTES>
GB_INLINE void gb_copy_async(void *to, const void *from, int valid)
{
    typedef Vec<uint32_t, BYTES / 4> Words;

    if (valid == BYTES) {
        *static_cast<Words *>(to) = *static_cast<const Words *>(from);
        return;
    }
    for (int i = 0; i < BYTES / 4; i++)
        static_cast<uint32_t *>(to)[i] =
            4 * i < valid ? static_cast<const uint32_t *>(from)[i] : 0;
}

GB_INLINE void gb_copy_wait()
{
}
#endif

#if GB_SEAM_HOST
/* The destination is NaN from here on and the bytes come with the wait, no sooner. */
template <int BYTES>
GB_INLINE void gb_copy_async(void *to, const void *from, int valid)
{
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async sizes");
    gb_fiber_copy(to, from, BYTES, (uint32_t)valid);
}

GB_INLINE void gb_copy_wait()
{
    gb_fiber_copy_wait();
}

GB_INLINE void gb_copy_commit()
{
    gb_fiber_copy_commit();
}

template <int PENDING>
GB_INLINE void gb_copy_wait_groups()
{
    gb_fiber_copy_wait_groups(PENDING);
}
#endif

struct gb_f16 {
    uint16_t bits;
};
struct gb_bf16 {
    uint16_t bits;
};

GB_INLINE float gb_to_f32(gb_f16 h)
{
#if GB_SEAM_CUDA
    float x;

    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h.bits));
    return x;
#else
    return gb_f16_to_f32(h.bits);
#endif
}

GB_INLINE float gb_to_f32(gb_bf16 h)
{
    return gb_bf16_to_f32(h.bits);
}

GB_INLINE void gb_from_f32(float x, gb_f16 &h)
{
#if GB_SEAM_CUDA
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(x));
#else
    h.bits = gb_f32_to_f16(x);
#endif
}

GB_INLINE void gb_from_f32(float x, gb_bf16 &h)
{
    h.bits = gb_f32_to_bf16(x);
}

#endif
