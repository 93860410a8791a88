/* SPDX-License-Identifier: BSD-3-Clause */
/* The matrix operations of a warp on sm_80 and newer, 16-bit elements and fp32 sums, and the
 * shared memory that feeds them; on the host, rendezvous of a warp's fibers.
 *
 *   gb_copy16(to, from[, valid])          16 bytes from global memory, asynchronous; zeros
 *                                         past `valid`, of which 0 reads nothing
 *   gb_put16(to, words)                   16 bytes from registers
 *   gb_get16(words, from), gb_get8(words, from), gb_get4(from), gb_get2(from)
 *                                         16 bytes, 8, 4 or 2, of global memory
 *   gb_transpose8(word)                   8 by 8: lane 4g+t brings elements 2t, 2t+1 of row g
 *                                         and gets them of column g
 *   gb_pick_halves(x, y, high)            the low or high halves of two words as one
 *   gb_ldmatrix<trans>(r, at)             four matrices of 8x8; lane 8q+i names row i of
 *                                         matrix q. r[q] gets row lane/4 (trans: column),
 *                                         elements 2*(lane%4) and the next
 *   gb_mma_warp<In>(sums, x, y)           one k16 of a warp's tile, all pairs of x and y
 *
 * Of mma.m16n8k16, x[i] are the 16 rows and 16 k: registers (rows, k) 0-7,0-7; 8-15,0-7;
 * 0-7,8-15; 8-15,8-15. y[j] are 16 columns in two halves of two registers, k 0-7 and 8-15
 * each. sums[i][2j+h]: rows lane/4 (elements 0, 1) and lane/4 + 8 (2, 3), columns
 * 8h + 2*(lane%4) and the next. A sum is one chain over k, 16 at a time. */
#ifndef GB_MMA_H
#define GB_MMA_H

#include "shared_memory.h"

#if GB_SEAM_CUDA

GB_INLINE void gb_copy16(gb_shared_at to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from)
                 : "memory");
}

GB_INLINE void gb_copy16(gb_shared_at to, const void *from, int valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(valid)
                 : "memory");
}

GB_INLINE void gb_put16(gb_shared_at to, const uint32_t (&w)[4])
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(w[0]),
                 "r"(w[1]), "r"(w[2]), "r"(w[3])
                 : "memory");
}

/* Volatile: asked for here, long before it is used. */
GB_INLINE void gb_get16(uint32_t *words, const void *from)
{
    asm volatile("ld.global.nc.L2::256B.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(from));
}

GB_INLINE void gb_get8(uint32_t *words, const void *from)
{
    asm volatile("ld.global.nc.L2::128B.v2.b32 {%0, %1}, [%2];"
                 : "=r"(words[0]), "=r"(words[1])
                 : "l"(from));
}

GB_INLINE uint32_t gb_get4(const void *from)
{
    uint32_t word;

    asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(word) : "l"(from));
    return word;
}

GB_INLINE uint32_t gb_transpose8(uint32_t word)
{
    uint32_t out;

    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
                 : "=r"(out)
                 : "r"(word));
    return out;
}

GB_INLINE uint32_t gb_pick_halves(uint32_t x, uint32_t y, bool high)
{
    return __byte_perm(x, y, high ? 0x7632 : 0x5410);
}

GB_INLINE uint32_t gb_get2(const void *from)
{
    return __ldg(static_cast<const unsigned short *>(from));
}

template <bool TRANS>
GB_INLINE void gb_ldmatrix(uint32_t (&r)[4], gb_shared_at at)
{
    if constexpr (TRANS)
        asm volatile(
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
            : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
            : "r"(at)
            : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(at)
                     : "memory");
}

#define GB_MMA_ASM(type)                                                               \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "                 \
                 "{%0, %1, %2, %3};"                                                   \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                      \
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y0), "r"(y1))

GB_INLINE void gb_mma(gb_f16, float (&d)[4], const uint32_t (&x)[4], uint32_t y0,
                      uint32_t y1)
{
    GB_MMA_ASM("f16");
}

GB_INLINE void gb_mma(gb_bf16, float (&d)[4], const uint32_t (&x)[4], uint32_t y0,
                      uint32_t y1)
{
    GB_MMA_ASM("bf16");
}

/* To and fro, so that successive products share a register operand. */
template <class In, int XS, int YS>
GB_INLINE void gb_mma_warp(float (&sums)[XS][2 * YS][4], const uint32_t (&x)[XS][4],
                           const uint32_t (&y)[YS][4])
{
    GB_UNROLL
    for (int i = 0; i < XS; i++) {
        GB_UNROLL
        for (int turn = 0; turn < 2 * YS; turn++) {
            const int j = i % 2 ? 2 * YS - 1 - turn : turn;

            gb_mma(In{}, sums[i][j], x[i], y[j / 2][j % 2 * 2],
                   y[j / 2][j % 2 * 2 + 1]);
        }
    }
}

#elif GB_SEAM_HOST

GB_INLINE void gb_copy16(gb_shared_at to, const void *from, int valid = 16)
{
    gb_fiber_copy(reinterpret_cast<void *>(to), from, 16, (uint32_t)valid);
}

GB_INLINE void gb_put16(gb_shared_at to, const uint32_t (&w)[4])
{
    __builtin_memcpy(reinterpret_cast<void *>(to), w, sizeof w);
}

GB_INLINE void gb_get16(uint32_t *words, const void *from)
{
    const Vec<uint32_t, 4> v =
        gb_load<uint32_t, 4>(static_cast<const uint32_t *>(from));

    for (int i = 0; i < 4; i++)
        words[i] = v.at[i];
}

GB_INLINE void gb_get8(uint32_t *words, const void *from)
{
    const Vec<uint32_t, 2> v =
        gb_load<uint32_t, 2>(static_cast<const uint32_t *>(from));

    words[0] = v.at[0];
    words[1] = v.at[1];
}

GB_INLINE uint32_t gb_get4(const void *from)
{
    return *static_cast<const uint32_t *>(from);
}

GB_INLINE uint32_t gb_pick_halves(uint32_t x, uint32_t y, bool high)
{
    return high ? x >> 16 | (y & 0xffff0000) : (x & 0xffff) | y << 16;
}

GB_INLINE uint32_t gb_get2(const void *from)
{
    return *static_cast<const uint16_t *>(from);
}

/* What a lane brings to ldmatrix. */
struct HostMatrix {
    const uint16_t *row;
    uint32_t *r;
};

template <bool TRANS>
static void gb_host_ldmatrix(void *const *lanes)
{
    for (int q = 0; q < 4; q++) {
        const uint16_t *row[8];

        for (int i = 0; i < 8; i++)
            row[i] = static_cast<HostMatrix *>(lanes[8 * q + i])->row;
        for (int l = 0; l < GB_LANES; l++) {
            const int a = l / 4, b = l % 4 * 2;
            const uint32_t low = TRANS ? row[b][a] : row[a][b];
            const uint32_t high = TRANS ? row[b + 1][a] : row[a][b + 1];

            static_cast<HostMatrix *>(lanes[l])->r[q] = low | high << 16;
        }
    }
}

template <bool TRANS>
GB_INLINE void gb_ldmatrix(uint32_t (&r)[4], gb_shared_at at,
                           int line = __builtin_LINE())
{
    HostMatrix mine = {reinterpret_cast<const uint16_t *>(at), r};

    gb_fiber_warp(line, &mine, gb_host_ldmatrix<TRANS>);
}

static void gb_host_transpose8(void *const *lanes)
{
    uint16_t at[8][8];

    for (int l = 0; l < GB_LANES; l++)
        __builtin_memcpy(&at[l / 4][l % 4 * 2], lanes[l], 4);
    for (int l = 0; l < GB_LANES; l++)
        *static_cast<uint32_t *>(lanes[l]) =
            at[l % 4 * 2][l / 4] | (uint32_t)at[l % 4 * 2 + 1][l / 4] << 16;
}

GB_INLINE uint32_t gb_transpose8(uint32_t word, int line = __builtin_LINE())
{
    gb_fiber_warp(line, &word, gb_host_transpose8);
    return word;
}

/* What a lane brings to a product. */
struct HostProduct {
    float *sums;
    const uint32_t *x, *y;
};

/* One operand's 16 of k: at[k][row], from registers x[..][4] of all lanes. DOWN: the second
 * register is 8 rows further, else 8 of k. */
template <class In, int COUNT, bool DOWN>
static void gb_host_gather(const uint32_t *const *x, double (&at)[16][16 * COUNT])
{
    for (int i = 0; i < COUNT; i++)
        for (int l = 0; l < GB_LANES; l++)
            for (int r = 0; r < 4; r++) {
                const int second = r & 1, third = r >> 1;
                const int row = 16 * i + l / 4 + 8 * (DOWN ? second : third);
                const int k = l % 4 * 2 + 8 * (DOWN ? third : second);
                const uint32_t both = x[l][4 * i + r];

                at[k][row] = gb_to_f32(In{(uint16_t)both});
                at[k + 1][row] = gb_to_f32(In{(uint16_t)(both >> 16)});
            }
}

/* A device's own sum of 16 products and the sum so far is not specified; here it is rounded
 * once, but for what a double loses. */
template <class In, int XS, int YS>
GB_INLINE void gb_host_product_text(void *const *lanes)
{
    typedef double Four __attribute__((vector_size(32)));
    static thread_local double x[16][16 * XS], y[16][16 * YS];
    const uint32_t *from_x[GB_LANES], *from_y[GB_LANES];
    float *sums[GB_LANES];

    for (int l = 0; l < GB_LANES; l++) {
        from_x[l] = static_cast<HostProduct *>(lanes[l])->x;
        from_y[l] = static_cast<HostProduct *>(lanes[l])->y;
        sums[l] = static_cast<HostProduct *>(lanes[l])->sums;
    }
    gb_host_gather<In, XS, true>(from_x, x);
    gb_host_gather<In, YS, false>(from_y, y);
    for (int n = 0; n < 16 * XS; n += 2)
        for (int m = 0; m < 16 * YS; m += 8) {
            const int first = n % 8 * 4;
            const int at = (n / 16 * 2 * YS + m / 8) * 4 + n / 8 % 2 * 2;
            Four a = {}, b = {}, c = {}, d = {}, low, high;

            for (int k = 0; k < 16; k++) {
                __builtin_memcpy(&low, &y[k][m], sizeof low);
                __builtin_memcpy(&high, &y[k][m + 4], sizeof high);
                a += x[k][n] * low;
                b += x[k][n] * high;
                c += x[k][n + 1] * low;
                d += x[k][n + 1] * high;
            }
            for (int e = 0; e < 4; e++) {
                float *row = sums[first + e / 2] + at + e % 2;
                float *next = sums[first + 4 + e / 2] + at + e % 2;

                *row = (float)(*row + a[e]);
                *next = (float)(*next + c[e]);
                row = sums[first + 2 + e / 2] + at + e % 2;
                next = sums[first + 6 + e / 2] + at + e % 2;
                *row = (float)(*row + b[e]);
                *next = (float)(*next + d[e]);
            }
        }
}

template <class In, int XS, int YS>
static void gb_host_products(void *const *lanes)
{
    gb_host_product_text<In, XS, YS>(lanes);
}

#if defined(__x86_64__)
/* The same bits: products of 16-bit elements are exact in a double. */
template <class In, int XS, int YS>
__attribute__((target("avx2,fma"))) static void gb_host_products_fma(void *const *lanes)
{
    gb_host_product_text<In, XS, YS>(lanes);
}
#endif

template <class In, int XS, int YS>
GB_INLINE void gb_mma_warp(float (&sums)[XS][2 * YS][4], const uint32_t (&x)[XS][4],
                           const uint32_t (&y)[YS][4], int line = __builtin_LINE())
{
    HostProduct mine = {&sums[0][0][0], &x[0][0], &y[0][0]};
    void (*products)(void *const *) = gb_host_products<In, XS, YS>;

#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        products = gb_host_products_fma<In, XS, YS>;
#endif
    gb_fiber_warp(line, &mine, products);
}

#endif
#endif
