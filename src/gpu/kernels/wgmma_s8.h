/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of signed 8-bit integers by a warpgroup: X (64 x 32) by Y (32 x n), both K-major in shared
 * memory, a row having 128 of k, into int32 sums modulo 2^32 that lie as those of wgmma.h do. */
#ifndef GB_WGMMA_S8_H
#define GB_WGMMA_S8_H

#include "wgmma.h"

/* d := X Y + (add ? d : 0), asynchronous. */
#if GB_SEAM_HOST

template <int N>
static void gb_host_multiply_s8(float *const *d, const HostProductOf &op)
{
    const uint32_t x = (uint32_t)(op.x & 0x3fff) << 4, y = (uint32_t)(op.y & 0x3fff)
                                                           << 4;

    for (int r = 0; r < 64; r++)
        for (int n = 0; n < N; n++) {
            int32_t *const sum =
                reinterpret_cast<int32_t *>(d[r / 16 * 32 + r % 8 * 4 + n % 8 / 2]) +
                n / 8 * 4 + r % 16 / 8 * 2 + n % 2;
            uint32_t all = op.add ? (uint32_t)*sum : 0;

            for (int k = 0; k < 32; k += 16) {
                int8_t a[16], b[16];

                __builtin_memcpy(a, gb_host_at(gb_host_swizzled(x + r * 128 + k)), 16);
                __builtin_memcpy(b, gb_host_at(gb_host_swizzled(y + n * 128 + k)), 16);
                for (int i = 0; i < 16; i++)
                    all += (uint32_t)(a[i] * b[i]);
            }
            *sum = (int32_t)all;
        }
}

template <int N>
struct GbWgmmaS8 {
    static void mma(int32_t *d, uint64_t x, uint64_t y, int add)
    {
        HostProducts *mine = gb_host_products_here();

        if (mine->count == (int)(sizeof mine->of / sizeof *mine->of))
            gb_fiber_refuse("too many products under way");
        if (x >> 62 != 1 || y >> 62 != 1)
            gb_fiber_refuse("an operand without the 128-byte swizzle");
        mine->of[mine->count++] = {gb_host_multiply_s8<N>,
                                   reinterpret_cast<float *>(d),
                                   x,
                                   y,
                                   add,
                                   mine->groups};
    }
};

#else

template <int N>
struct GbWgmmaS8;

/* clang-format off */
#define GB_S8_4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define GB_S8_16(i) GB_S8_4(i), GB_S8_4(i + 4), GB_S8_4(i + 8), GB_S8_4(i + 12)
#define GB_S8_32(i) GB_S8_16(i), GB_S8_16(i + 16)

template <>
struct GbWgmmaS8<64> {
    GB_INLINE void mma(int32_t *d, uint64_t x, uint64_t y, int add)
    {
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 "
                     "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, "
                     "%15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "
                     "%28, %29, %30, %31}, "
                     "%32, %33, p;\n}\n"
                     : GB_S8_32(0)
                     : "l"(x), "l"(y), "r"(add));
    }
};

template <>
struct GbWgmmaS8<128> {
    GB_INLINE void mma(int32_t *d, uint64_t x, uint64_t y, int add)
    {
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 "
                     "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, "
                     "%15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "
                     "%28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, "
                     "%41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, "
                     "%54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                     "%64, %65, p;\n}\n"
                     : GB_S8_32(0), GB_S8_32(32)
                     : "l"(x), "l"(y), "r"(add));
    }
};

template <>
struct GbWgmmaS8<192> {
    GB_INLINE void mma(int32_t *d, uint64_t x, uint64_t y, int add)
    {
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n192k32.s32.s8.s8 "
                     "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, "
                     "%15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "
                     "%28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, "
                     "%41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, "
                     "%54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, "
                     "%67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                     "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, "
                     "%93, %94, %95}, "
                     "%96, %97, p;\n}\n"
                     : GB_S8_32(0), GB_S8_32(32), GB_S8_32(64)
                     : "l"(x), "l"(y), "r"(add));
    }
};

template <>
struct GbWgmmaS8<256> {
    GB_INLINE void mma(int32_t *d, uint64_t x, uint64_t y, int add)
    {
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 "
                     "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, "
                     "%15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "
                     "%28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, "
                     "%41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, "
                     "%54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, "
                     "%67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                     "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, "
                     "%93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, "
                     "%105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, "
                     "%116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "
                     "%127}, "
                     "%128, %129, p;\n}\n"
                     : GB_S8_32(0), GB_S8_32(32), GB_S8_32(64), GB_S8_32(96)
                     : "l"(x), "l"(y), "r"(add));
    }
};
/* clang-format on */
#undef GB_S8_4
#undef GB_S8_16
#undef GB_S8_32

#endif
#endif
