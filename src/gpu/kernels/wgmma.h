/* SPDX-License-Identifier: BSD-3-Clause */
/* What a Hopper GEMM says to the hardware that CUDA C++ has no words for: barriers in
 * shared memory, the tensor memory accelerator (TMA), and matrix products of warpgroups
 * (wgmma). One function per instruction; PTX ISA 8.0, sm_90a. Addresses of shared
 * memory are 32-bit. On host fibers the same: wgmma_host.h.
 *
 * A warpgroup is four warps. wgmma multiplies X (64 x 16) by Y (16 x n), both in shared
 * memory, into sums that the warpgroup's registers hold: thread t has, of every 8
 * columns, rows r = t/32*16 + t%32/4 and r + 8, columns t%4*2 and t%4*2 + 1, in d[0..1]
 * and d[2..3]. Of 32-bit elements k is 8: 32 bytes as well. */
#ifndef GB_WGMMA_H
#define GB_WGMMA_H

#include <stdint.h>

#include "seam.h"
#include "tensor_map.h"

/* fp32 storage of which the tensor cores read the sign, 8 bits of exponent and the
 * first 10 of the fraction, whatever the others are. */
struct gb_tf32 {
    uint32_t bits;
};

/* Products of so many of k are one instruction's. */
template <class T>
constexpr int gb_wgmma_k = 32 / (int)sizeof(T);

/* Where an operand of 16-bit elements lies: atoms of 8 rows of 128 bytes, swizzled as
 * TMA's 128-byte mode does, at a multiple of 1024 bytes. K-major (MN false): a row has
 * 64 of k, the next 8 rows follow 1024 bytes on. MN-major: a row has 64 of m or n, the
 * next 8 of k follow 1024 bytes on (stride), the next 64 of m or n GB_ATOM_BYTES on
 * (leading). Elements of 32 bits are K-major, 32 of k to a row. */
enum { GB_ATOM_BYTES = 64 * 128 };

template <bool MN>
GB_INLINE uint64_t gb_descriptor(uint32_t at)
{
    const uint64_t leading = MN ? GB_ATOM_BYTES : 16, stride = 1024, swizzle_128 = 1;

    return (at & 0x3ffff) >> 4 | leading >> 4 << 16 | stride >> 4 << 32 |
           swizzle_128 << 62;
}

/* In a descriptor's units of 16 bytes, what one step of gb_wgmma_k along k adds. */
template <bool MN>
constexpr uint64_t gb_descriptor_step = MN ? 16 * 128 / 16 : 32 / 16;

#if GB_SEAM_HOST
#include "wgmma_host.h"
#else

/* A block's memory, at a multiple of 1024 bytes. */
GB_INLINE unsigned char *gb_wgmma_memory()
{
    extern __shared__ __align__(1024) unsigned char gb_wgmma_bytes[];

    return gb_wgmma_bytes;
}

/* ---- barriers in shared memory ---- */

GB_INLINE uint32_t gb_smem(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

GB_INLINE void gb_bar_init(uint32_t bar, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals));
}

/* The initialised barriers are seen by the cluster and by TMA. */
GB_INLINE void gb_bar_fence_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* Arrive, and expect so many bytes of TMA besides. */
GB_INLINE void gb_bar_expect(uint32_t bar, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar),
                 "r"(bytes)
                 : "memory");
}

GB_INLINE void gb_bar_arrive(uint32_t bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

/* Arrive at the same barrier of another block of the cluster. Without a scope: one wider than
 * the block would flush all of the thread's memory traffic first, which nothing here needs
 * (what is handed back was read by the tensor cores) and which halves the kernel's speed. */
GB_INLINE void gb_bar_arrive_at(uint32_t bar, uint32_t rank)
{
    asm volatile("{\n.reg .b32 at;\n"
                 "mapa.shared::cluster.u32 at, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [at];\n}\n" ::"r"(bar),
                 "r"(rank)
                 : "memory");
}

/* Wait for the phase of this parity to end. The instruction itself waits a while. */
GB_INLINE void gb_bar_wait(uint32_t bar, uint32_t parity)
{
    asm volatile("{\n.reg .pred p;\n"
                 "AGAIN:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@p bra DONE;\n"
                 "bra AGAIN;\n"
                 "DONE:\n}\n" ::"r"(bar),
                 "r"(parity)
                 : "memory");
}

/* One of the block's 16 barriers, for so many of its threads. */
template <int THREADS>
GB_INLINE void gb_named_sync(int id)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(THREADS) : "memory");
}

GB_INLINE uint32_t gb_cluster_rank()
{
    uint32_t rank;

    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

GB_INLINE void gb_cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

/* From the place that `at` is here, in the shared memory of another block of the cluster. */
GB_INLINE void gb_load_of(float (&v)[4], uint32_t at, uint32_t rank)
{
    asm volatile("{\n.reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %4, %5;\n"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n}\n"
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                 : "r"(at), "r"(rank)
                 : "memory");
}

/* ---- launches that overlap: gb_grid_wait() is both ---- */

/* What was queued before this launch is done, and seen. */
GB_INLINE void gb_await_last()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

/* The next may start, when all blocks have come here or ended. */
GB_INLINE void gb_allow_next()
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

/* ---- TMA ---- */

/* Fetch a description before the first copy needs it. */
GB_INLINE void gb_tma_prefetch(const gb_tensor_map *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Boxes that reach past the tensor are filled with zeros, and count in full at the barrier.
 * `hint`: what becomes of the lines in L2, GB_L2_... of tensor_map.h. */
GB_INLINE void gb_tma_load(uint32_t to, const gb_tensor_map *map, uint32_t bar, int x,
                           int y, int z, uint64_t hint)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes.L2::cache_hint"
                 " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
                 "l"(map), "r"(bar), "r"(x), "r"(y), "r"(z), "l"(hint)
                 : "memory");
}

/* To the same place of every block of the cluster whose bit is set, and to its barrier. */
GB_INLINE void gb_tma_multicast(uint32_t to, const gb_tensor_map *map, uint32_t bar,
                                int x, int y, int z, uint64_t hint, uint16_t blocks)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
                 " [%0], [%1, {%3, %4, %5}], [%2], %6, %7;" ::"r"(to),
                 "l"(map), "r"(bar), "r"(x), "r"(y), "r"(z), "h"(blocks), "l"(hint)
                 : "memory");
}

/* What this thread has written to shared memory is seen by TMA and wgmma; what it has read
 * there is read before they write. */
GB_INLINE void gb_fence_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- registers ---- */

template <int N>
GB_INLINE void gb_more_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N>
GB_INLINE void gb_fewer_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

/* x, which the compiler cannot know to be so. */
GB_INLINE float gb_opaque(float x)
{
    float y;

    asm volatile("mov.b32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Two values as 16-bit elements of one word, the first of them low. */
GB_INLINE uint32_t gb_pack(const float (&v)[2], gb_f16)
{
    uint32_t both;

    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(v[1]), "f"(v[0]));
    return both;
}

GB_INLINE uint32_t gb_pack(const float (&v)[2], gb_bf16)
{
    uint32_t both;

    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(v[1]), "f"(v[0]));
    return both;
}

/* Four 8x8 matrices of 16-bit elements; lane i gives the address of row i%8 of matrix i/8. */
GB_INLINE void gb_stmatrix(uint32_t at, const uint32_t (&v)[4])
{
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
        "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
        : "memory");
}

/* ---- wgmma ---- */

GB_INLINE void gb_wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

GB_INLINE void gb_wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* All but the last N groups are done. */
template <int N>
GB_INLINE void gb_wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* d := X Y + (add ? d : 0), asynchronous. X_MN, Y_MN: the operand is MN-major. */
template <int N, class T, int X_MN, int Y_MN>
struct GbWgmma;

/* kind: k and the types. majors: which operands are MN-major, of types that can be. */
#define GB_EITHER_MAJOR(operands) operands
#define GB_K_MAJOR(operands)
/* clang-format off */
#define GB_WGMMA_16(kind, majors)                                                      \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"                          \
                 "wgmma.mma_async.sync.aligned.m64n16" kind " "                        \
                 "{%0, %1, %2, %3, %4, %5, %6, %7}, "                                  \
                 "%8, %9, p, 1, 1" majors(", %11, %12") ";\n}\n"                       \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]),         \
                   "+f"(d[5]), "+f"(d[6]), "+f"(d[7])                                  \
                 : "l"(x), "l"(y), "r"(add), "n"(X_MN), "n"(Y_MN))

#define GB_WGMMA_32(kind, majors)                                                      \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"                          \
                 "wgmma.mma_async.sync.aligned.m64n32" kind " "                        \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "       \
                 "%14, %15}, "                                                         \
                 "%16, %17, p, 1, 1" majors(", %19, %20") ";\n}\n"                     \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]),         \
                   "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),         \
                   "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),                 \
                   "+f"(d[14]), "+f"(d[15])                                            \
                 : "l"(x), "l"(y), "r"(add), "n"(X_MN), "n"(Y_MN))

#define GB_WGMMA_64(kind, majors)                                                      \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"                          \
                 "wgmma.mma_async.sync.aligned.m64n64" kind " "                        \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "       \
                 "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "        \
                 "%26, %27, %28, %29, %30, %31}, "                                     \
                 "%32, %33, p, 1, 1" majors(", %35, %36") ";\n}\n"                     \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]),         \
                   "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),         \
                   "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),                 \
                   "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),                 \
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),                 \
                   "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]),                 \
                   "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),                 \
                   "+f"(d[30]), "+f"(d[31])                                            \
                 : "l"(x), "l"(y), "r"(add), "n"(X_MN), "n"(Y_MN))

#define GB_WGMMA_128(kind, majors)                                                     \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                          \
                 "wgmma.mma_async.sync.aligned.m64n128" kind " "                       \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "       \
                 "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "        \
                 "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "        \
                 "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "        \
                 "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "        \
                 "%62, %63}, "                                                         \
                 "%64, %65, p, 1, 1" majors(", %67, %68") ";\n}\n"                     \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]),         \
                   "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),         \
                   "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),                 \
                   "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),                 \
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),                 \
                   "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]),                 \
                   "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),                 \
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]),                 \
                   "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]),                 \
                   "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),                 \
                   "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]),                 \
                   "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]),                 \
                   "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),                 \
                   "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]),                 \
                   "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]),                 \
                   "+f"(d[62]), "+f"(d[63])                                            \
                 : "l"(x), "l"(y), "r"(add), "n"(X_MN), "n"(Y_MN))

#define GB_WGMMA_192(kind, majors)                                                     \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\n"                          \
                 "wgmma.mma_async.sync.aligned.m64n192" kind " "                       \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "       \
                 "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "        \
                 "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "        \
                 "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "        \
                 "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "        \
                 "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, "        \
                 "%74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, "        \
                 "%86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "                 \
                 "%96, %97, p, 1, 1" majors(", %99, %100") ";\n}\n"                    \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]),         \
                   "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),         \
                   "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),                 \
                   "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),                 \
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),                 \
                   "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]),                 \
                   "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),                 \
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]),                 \
                   "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]),                 \
                   "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),                 \
                   "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]),                 \
                   "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]),                 \
                   "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),                 \
                   "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]),                 \
                   "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]),                 \
                   "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]),                 \
                   "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]),                 \
                   "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]),                 \
                   "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]),                 \
                   "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]),                 \
                   "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]),                 \
                   "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]),                 \
                   "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]),                 \
                   "+f"(d[94]), "+f"(d[95])                                            \
                 : "l"(x), "l"(y), "r"(add), "n"(X_MN), "n"(Y_MN))

#define GB_WGMMA_256(kind, majors)                                                     \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"                         \
                 "wgmma.mma_async.sync.aligned.m64n256" kind " "                       \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "       \
                 "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "        \
                 "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "        \
                 "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "        \
                 "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "        \
                 "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, "        \
                 "%74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, "        \
                 "%86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, "        \
                 "%98, %99, %100, %101, %102, %103, %104, %105, %106, %107, "          \
                 "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, "        \
                 "%118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "       \
                 "%128, %129, p, 1, 1" majors(", %131, %132") ";\n}\n"                 \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]),         \
                   "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),         \
                   "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),                 \
                   "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),                 \
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),                 \
                   "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]),                 \
                   "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),                 \
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]),                 \
                   "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]),                 \
                   "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),                 \
                   "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]),                 \
                   "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]),                 \
                   "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),                 \
                   "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]),                 \
                   "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]),                 \
                   "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]),                 \
                   "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]),                 \
                   "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]),                 \
                   "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]),                 \
                   "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]),                 \
                   "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]),                 \
                   "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]),                 \
                   "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]),                 \
                   "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]),                 \
                   "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]),               \
                   "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]),             \
                   "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]),             \
                   "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]),             \
                   "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]),             \
                   "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]),             \
                   "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]),             \
                   "+f"(d[126]), "+f"(d[127])                                          \
                 : "l"(x), "l"(y), "r"(add), "n"(X_MN), "n"(Y_MN))
/* clang-format on */

#define GB_WGMMA(n)                                                                    \
    template <int X_MN, int Y_MN>                                                      \
    struct GbWgmma<n, gb_f16, X_MN, Y_MN> {                                            \
        GB_INLINE void mma(float *d, uint64_t x, uint64_t y, int add)                  \
        {                                                                              \
            GB_WGMMA_##n("k16.f32.f16.f16", GB_EITHER_MAJOR);                          \
        }                                                                              \
    };                                                                                 \
    template <int X_MN, int Y_MN>                                                      \
    struct GbWgmma<n, gb_bf16, X_MN, Y_MN> {                                           \
        GB_INLINE void mma(float *d, uint64_t x, uint64_t y, int add)                  \
        {                                                                              \
            GB_WGMMA_##n("k16.f32.bf16.bf16", GB_EITHER_MAJOR);                        \
        }                                                                              \
    };                                                                                 \
    template <int X_MN, int Y_MN>                                                      \
    struct GbWgmma<n, gb_tf32, X_MN, Y_MN> {                                           \
        static_assert(!X_MN && !Y_MN, "tf32 is K-major");                              \
        GB_INLINE void mma(float *d, uint64_t x, uint64_t y, int add)                  \
        {                                                                              \
            GB_WGMMA_##n("k8.f32.tf32.tf32", GB_K_MAJOR);                              \
        }                                                                              \
    };
GB_WGMMA(16)
GB_WGMMA(32)
GB_WGMMA(64)
GB_WGMMA(128)
GB_WGMMA(192)
GB_WGMMA(256)

/* d := X Y + (add ? d : 0) of bytes, 64 by 32 times 32 by N, in int32_t, which wraps around;
 * asynchronous, both operands K-major: a step of 32 along k is one of 16 of 16-bit elements. In, of
 * X and of Y: int8_t or uint8_t. */
template <int N, class X, class Y>
struct GbWgmmaBytes;

/* clang-format off */
#define GB_BYTES_NAMES_32                                                              \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, "                \
    "%15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "                \
    "%28, %29, %30, %31"
#define GB_BYTES_NAMES_64 GB_BYTES_NAMES_32 ", "                                       \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, "                \
    "%45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, "                \
    "%58, %59, %60, %61, %62, %63"
#define GB_BYTES_NAMES_96 GB_BYTES_NAMES_64 ", "                                       \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "                \
    "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, "                \
    "%90, %91, %92, %93, %94, %95"
#define GB_BYTES_NAMES_128 GB_BYTES_NAMES_96 ", "                                      \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, "                   \
    "%107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, "               \
    "%118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define GB_BYTES_SUMS_32                                                               \
    "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]),            \
    "+r"(d[6]), "+r"(d[7]), "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]),          \
    "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]), "+r"(d[16]), "+r"(d[17]),      \
    "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]),      \
    "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]), "+r"(d[29]),      \
    "+r"(d[30]), "+r"(d[31])
#define GB_BYTES_SUMS_64 GB_BYTES_SUMS_32,                                             \
    "+r"(d[32]), "+r"(d[33]), "+r"(d[34]), "+r"(d[35]), "+r"(d[36]), "+r"(d[37]),      \
    "+r"(d[38]), "+r"(d[39]), "+r"(d[40]), "+r"(d[41]), "+r"(d[42]), "+r"(d[43]),      \
    "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47]), "+r"(d[48]), "+r"(d[49]),      \
    "+r"(d[50]), "+r"(d[51]), "+r"(d[52]), "+r"(d[53]), "+r"(d[54]), "+r"(d[55]),      \
    "+r"(d[56]), "+r"(d[57]), "+r"(d[58]), "+r"(d[59]), "+r"(d[60]), "+r"(d[61]),      \
    "+r"(d[62]), "+r"(d[63])
#define GB_BYTES_SUMS_96 GB_BYTES_SUMS_64,                                             \
    "+r"(d[64]), "+r"(d[65]), "+r"(d[66]), "+r"(d[67]), "+r"(d[68]), "+r"(d[69]),      \
    "+r"(d[70]), "+r"(d[71]), "+r"(d[72]), "+r"(d[73]), "+r"(d[74]), "+r"(d[75]),      \
    "+r"(d[76]), "+r"(d[77]), "+r"(d[78]), "+r"(d[79]), "+r"(d[80]), "+r"(d[81]),      \
    "+r"(d[82]), "+r"(d[83]), "+r"(d[84]), "+r"(d[85]), "+r"(d[86]), "+r"(d[87]),      \
    "+r"(d[88]), "+r"(d[89]), "+r"(d[90]), "+r"(d[91]), "+r"(d[92]), "+r"(d[93]),      \
    "+r"(d[94]), "+r"(d[95])
#define GB_BYTES_SUMS_128 GB_BYTES_SUMS_96,                                            \
    "+r"(d[96]), "+r"(d[97]), "+r"(d[98]), "+r"(d[99]), "+r"(d[100]), "+r"(d[101]),    \
    "+r"(d[102]), "+r"(d[103]), "+r"(d[104]), "+r"(d[105]), "+r"(d[106]),              \
    "+r"(d[107]), "+r"(d[108]), "+r"(d[109]), "+r"(d[110]), "+r"(d[111]),              \
    "+r"(d[112]), "+r"(d[113]), "+r"(d[114]), "+r"(d[115]), "+r"(d[116]),              \
    "+r"(d[117]), "+r"(d[118]), "+r"(d[119]), "+r"(d[120]), "+r"(d[121]),              \
    "+r"(d[122]), "+r"(d[123]), "+r"(d[124]), "+r"(d[125]), "+r"(d[126]),              \
    "+r"(d[127])

/* With `regs` = N / 2 sums of a thread; x, y and add come after them. */
#define GB_WGMMA_BYTES(n, regs, x_at, y_at, add_at, type_x, type_y, letters)           \
    template <>                                                                        \
    struct GbWgmmaBytes<n, type_x, type_y> {                                           \
        GB_INLINE void mma(int32_t *d, uint64_t x, uint64_t y, int add)                \
        {                                                                              \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #add_at ", 0;\n"         \
                         "wgmma.mma_async.sync.aligned.m64n" #n "k32.s32." letters     \
                         " {" GB_BYTES_NAMES_##regs "}, %" #x_at ", %" #y_at           \
                         ", p;\n}\n"                                                   \
                         : GB_BYTES_SUMS_##regs                                        \
                         : "l"(x), "l"(y), "r"(add));                                  \
        }                                                                              \
    };
#define GB_WGMMA_BYTES_OF(type_x, type_y, letters)                                     \
    GB_WGMMA_BYTES(64, 32, 32, 33, 34, type_x, type_y, letters)                        \
    GB_WGMMA_BYTES(128, 64, 64, 65, 66, type_x, type_y, letters)                       \
    GB_WGMMA_BYTES(192, 96, 96, 97, 98, type_x, type_y, letters)                       \
    GB_WGMMA_BYTES(256, 128, 128, 129, 130, type_x, type_y, letters)
GB_WGMMA_BYTES_OF(int8_t, int8_t, "s8.s8")
GB_WGMMA_BYTES_OF(int8_t, uint8_t, "s8.u8")
GB_WGMMA_BYTES_OF(uint8_t, int8_t, "u8.s8")
GB_WGMMA_BYTES_OF(uint8_t, uint8_t, "u8.u8")
/* clang-format on */

#endif /* not GB_SEAM_HOST */
#endif
