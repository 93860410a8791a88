/* SPDX-License-Identifier: BSD-3-Clause */
/* wgmma.h on the host, for kernels that run on fibers, where what is asynchronous on a device is
 * so too.
 *
 * Waits for an earlier launch and fences have no effect here: nothing overlaps a launch, and all
 * that is written is seen.
 *
 * Shared memory has the addresses that it has on a device, from 1024 on. TMA's copies are made some
 * time after they were asked for. Products are made when they are waited for: what overwrites
 * their operands too early is seen as well. */
#ifndef GB_WGMMA_HOST_H
#define GB_WGMMA_HOST_H

enum { GB_HOST_SMEM = 1024 };

GB_INLINE unsigned char *gb_wgmma_memory()
{
    return static_cast<unsigned char *>(gb_fiber_shared_dynamic());
}

GB_INLINE uint32_t gb_smem(const void *at)
{
    return GB_HOST_SMEM +
           (uint32_t)(static_cast<const unsigned char *>(at) - gb_wgmma_memory());
}

/* The same place of a block of the cluster. */
GB_INLINE unsigned char *gb_host_of(uint32_t rank, uint32_t at)
{
    return static_cast<unsigned char *>(gb_fiber_shared_of(rank)) + (at - GB_HOST_SMEM);
}

GB_INLINE unsigned char *gb_host_at(uint32_t at)
{
    return gb_wgmma_memory() + (at - GB_HOST_SMEM);
}

/* ---- barriers in shared memory ---- */

struct HostBar {
    int16_t arrivals, left; /* of a phase; that are still to come */
    int32_t bytes : 31;     /* likewise, of TMA: less than none while they are ahead */
    uint32_t phase : 1;
};
static_assert(sizeof(HostBar) == 8, "as large as the device's");

GB_INLINE HostBar *gb_host_bar(uint32_t rank, uint32_t bar)
{
    return reinterpret_cast<HostBar *>(gb_host_of(rank, bar));
}

static inline void gb_host_bar_change(HostBar *b, int arrivals, int32_t bytes)
{
    b->left = (int16_t)(b->left - arrivals);
    b->bytes += bytes;
    if (b->left == 0 && b->bytes == 0) {
        b->left = b->arrivals;
        b->phase ^= 1;
    }
}

GB_INLINE void gb_bar_init(uint32_t bar, uint32_t arrivals)
{
    *gb_host_bar(gb_fiber_rank(), bar) = {(int16_t)arrivals, (int16_t)arrivals, 0, 0};
}

GB_INLINE void gb_bar_fence_init()
{
}

GB_INLINE void gb_bar_expect(uint32_t bar, uint32_t bytes)
{
    gb_host_bar_change(gb_host_bar(gb_fiber_rank(), bar), 1, (int32_t)bytes);
}

GB_INLINE void gb_bar_arrive(uint32_t bar)
{
    gb_host_bar_change(gb_host_bar(gb_fiber_rank(), bar), 1, 0);
}

GB_INLINE void gb_bar_arrive_at(uint32_t bar, uint32_t rank)
{
    if (rank >= gb_fiber_cluster_size())
        gb_fiber_refuse("an arrival at a block that the cluster does not have");
    gb_host_bar_change(gb_host_bar(rank, bar), 1, 0);
}

struct HostWait {
    const HostBar *bar;
    uint32_t parity;
};

static inline bool gb_host_passed(void *what)
{
    const HostWait *w = static_cast<const HostWait *>(what);

    return w->bar->phase != w->parity;
}

GB_INLINE void gb_bar_wait(uint32_t bar, uint32_t parity, int line = __builtin_LINE())
{
    HostWait w = {gb_host_bar(gb_fiber_rank(), bar), parity};

    if (!gb_host_passed(&w))
        gb_fiber_await(line, gb_host_passed, &w);
}

template <int THREADS>
GB_INLINE void gb_named_sync(int id, int line = __builtin_LINE())
{
    static_assert(THREADS % 32 == 0, "whole warps");
    if (id < 1 || id > 15) /* 0 is gb_sync()'s */
        gb_fiber_refuse("a block has 16 barriers");
    gb_fiber_group(line, (uint32_t)id, THREADS, nullptr, nullptr);
}

GB_INLINE uint32_t gb_cluster_rank()
{
    return gb_fiber_rank();
}

GB_INLINE void gb_cluster_sync()
{
    gb_fiber_cluster(0); /* all threads, wherever they are */
}

GB_INLINE void gb_load_of(float (&v)[4], uint32_t at, uint32_t rank)
{
    if (rank >= gb_fiber_cluster_size())
        gb_fiber_refuse("a load from a block that the cluster does not have");
    __builtin_memcpy(v, gb_host_of(rank, at), sizeof v);
}

/* ---- launches that overlap: here none does ---- */

GB_INLINE void gb_await_last()
{
}

GB_INLINE void gb_allow_next()
{
}

/* ---- TMA ---- */

GB_INLINE void gb_tma_prefetch(const gb_tensor_map *)
{
}

/* Where 16 bytes lie that the 128-byte swizzle moves: as the hardware does, by the address. */
GB_INLINE uint32_t gb_host_swizzled(uint32_t at)
{
    return at ^ (at >> 7 & 7) << 4;
}

/* fp32's bits to those of the nearest tf32, of two the even one: beyond the largest,
 * infinity. */
GB_INLINE uint32_t gb_host_rounded(uint32_t x)
{
    if ((x & 0x7f800000u) == 0x7f800000u)
        return (x & 0x007fffffu) ? x | 0x00400000u : x;
    return (x + 0xfffu + (x >> 13 & 1)) & ~0x1fffu;
}

struct HostBox {
    const gb_tensor_map *map;
    uint32_t rank, to, bar;
    int x, y, z;
};
static_assert(sizeof(HostBox) <= GB_FIBER_LATER, "room");

static void gb_host_tma(const void *what)
{
    const HostBox &b = *static_cast<const HostBox *>(what);
    unsigned char *const memory = gb_host_of(b.rank, GB_HOST_SMEM);
    gb_host_tensor t;
    uint32_t size;

    __builtin_memcpy(&t, b.map, sizeof t);
    size = t.element_bytes;
    for (uint32_t j = 0; j < t.box[1]; j++)
        for (uint32_t i = 0; i < t.box[0]; i++) {
            const int64_t x = (int64_t)b.x + i, y = (int64_t)b.y + j;
            const uint32_t place = b.to + j * 128 + i * size; /* however short a row */
            unsigned char *here =
                memory +
                ((gb_host_swizzled(place & ~15u) | (place & 15)) - GB_HOST_SMEM);

            if (x < 0 || y < 0 || b.z < 0 || (uint64_t)x >= t.dim[0] ||
                (uint64_t)y >= t.dim[1] || (uint64_t)b.z >= t.dim[2])
                __builtin_memset(here, 0, size);
            else
                __builtin_memcpy(here,
                                 reinterpret_cast<const unsigned char *>(
                                     (uintptr_t)t.at + (uint64_t)x * size +
                                     (uint64_t)y * t.stride[0] +
                                     (uint64_t)b.z * t.stride[1]),
                                 size);
            if (t.tf32) {
                uint32_t bits;

                __builtin_memcpy(&bits, here, sizeof bits);
                bits = gb_host_rounded(bits);
                __builtin_memcpy(here, &bits, sizeof bits);
            }
        }
    gb_host_bar_change(gb_host_bar(b.rank, b.bar), 0,
                       -(int32_t)(t.box[0] * t.box[1] * size));
}

GB_INLINE void gb_tma_load(uint32_t to, const gb_tensor_map *map, uint32_t bar, int x,
                           int y, int z, uint64_t)
{
    const HostBox b = {map, gb_fiber_rank(), to, bar, x, y, z};

    gb_fiber_later(gb_host_tma, &b, sizeof b);
}

GB_INLINE void gb_tma_multicast(uint32_t to, const gb_tensor_map *map, uint32_t bar,
                                int x, int y, int z, uint64_t, uint16_t blocks)
{
    if (blocks >> gb_fiber_cluster_size() != 0)
        gb_fiber_refuse("a copy to a block that the cluster does not have");
    for (uint32_t rank = 0; rank < gb_fiber_cluster_size(); rank++) {
        const HostBox b = {map, rank, to, bar, x, y, z};

        if (blocks >> rank & 1)
            gb_fiber_later(gb_host_tma, &b, sizeof b);
    }
}

GB_INLINE void gb_fence_async()
{
}

/* ---- registers ---- */

template <int N>
GB_INLINE void gb_more_registers()
{
}

template <int N>
GB_INLINE void gb_fewer_registers()
{
}

GB_INLINE float gb_opaque(float x)
{
    return x;
}

template <class T>
GB_INLINE uint32_t gb_pack(const float (&v)[2], T)
{
    T low, high;

    gb_from_f32(v[0], low);
    gb_from_f32(v[1], high);
    return low.bits | (uint32_t)high.bits << 16;
}

struct HostRows {
    unsigned char *row;
    const uint32_t *v;
};

static void gb_host_stmatrix(void *const *lanes)
{
    for (int l = 0; l < GB_LANES; l++)
        for (int q = 0; q < 4; q++) {
            const HostRows *to = static_cast<HostRows *>(lanes[8 * q + l / 4]);

            __builtin_memcpy(to->row + l % 4 * 4,
                             &static_cast<HostRows *>(lanes[l])->v[q], 4);
        }
}

GB_INLINE void gb_stmatrix(uint32_t at, const uint32_t (&v)[4],
                           int line = __builtin_LINE())
{
    HostRows mine = {gb_host_at(at), v};

    gb_fiber_warp(line, &mine, gb_host_stmatrix);
}

/* ---- wgmma ---- */

/* One product of this thread's warpgroup: 64 by n by gb_wgmma_k, or by 32 of bytes; into floats, or
 * int32_t. */
struct HostProductOf {
    void (*multiply)(void *const *d, const HostProductOf &op);
    void *d;
    uint64_t x, y;
    int add, group;
};

/* What a thread has asked for. */
struct HostProducts {
    int count, groups; /* groups that were committed */
    int due;           /* of them all but so many are to be done now */
    HostProductOf of[64];
};
static_assert(sizeof(HostProducts) <= GB_FIBER_LOCAL, "room");

GB_INLINE HostProducts *gb_host_products_here()
{
    return static_cast<HostProducts *>(gb_fiber_local());
}

GB_INLINE float gb_to_f32(gb_tf32 x)
{
    float read;

    x.bits &= ~0x1fffu;
    __builtin_memcpy(&read, &x, sizeof read);
    return read;
}

/* Element (row, k) of an operand, wherever its descriptor says. */
template <class T>
GB_INLINE float gb_host_element(uint64_t descriptor, bool mn, int row, int k)
{
    const uint32_t begin = (uint32_t)(descriptor & 0x3fff) << 4;
    const uint32_t leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4;
    const uint32_t stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4;
    const uint32_t at =
        mn ? begin + row / 64 * leading + k / 8 * stride + k % 8 * 128 + row % 64 * 2
           : begin + row / 8 * stride + row % 8 * 128 + k * (uint32_t)sizeof(T);
    T x;

    __builtin_memcpy(&x, gb_host_at(gb_host_swizzled(at & ~15u) | (at & 15)), sizeof x);
    return gb_to_f32(x);
}

/* One for all tiles: threads have little room for what is theirs alone. */
static thread_local double gb_host_y[16][256];

/* 2^(25 - e) where 2^e <= x < 2^(e + 1), for doubles that are no denormals; of 0 a power of two as well. */
GB_INLINE double gb_host_grid(double x)
{
    uint64_t bits;

    __builtin_memcpy(&bits, &x, sizeof bits);
    bits = ((uint64_t)(2 * 1023 + 25) << 52) - (bits & ~((UINT64_C(1) << 52) - 1));
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

/* To fp32, towards 0. */
GB_INLINE float gb_host_cut(double x)
{
    uint64_t bits;

    __builtin_memcpy(&bits, &x, sizeof bits);
    bits &= ~((UINT64_C(1) << 29) - 1);
    __builtin_memcpy(&x, &bits, sizeof x);
    return (float)x;
}

/* As the hardware does it (measured on an H200): the terms of a sum, the products and
 * what it is added to, are aligned to the largest of them and cut off at 25 bits after
 * its first, and the sum at fp32's. */
template <int N, class T, int X_MN, int Y_MN>
GB_INLINE void gb_host_multiply_text(void *const *d, const HostProductOf &op)
{
    constexpr int DEEP = gb_wgmma_k<T>;
    double(&y)[16][256] = gb_host_y;
    double x[DEEP], sum[N], most[N], start[N];

    for (int k = 0; k < DEEP; k++)
        for (int n = 0; n < N; n++)
            y[k][n] = gb_host_element<T>(op.y, Y_MN, n, k);
    for (int r = 0; r < 64; r++) {
        /* the four threads that hold a row, and where */
        float *const *of =
            reinterpret_cast<float *const *>(d) + r / 16 * 32 + r % 8 * 4;
        const int half = r % 16 / 8 * 2;

        for (int k = 0; k < DEEP; k++)
            x[k] = gb_host_element<T>(op.x, X_MN, r, k);
        for (int n = 0; n < N; n++) {
            start[n] = op.add ? (double)of[n % 8 / 2][n / 8 * 4 + half + n % 2] : 0;
            most[n] = __builtin_fabs(start[n]);
        }
        for (int k = 0; k < DEEP; k++)
            for (int n = 0; n < N; n++) {
                const double size = __builtin_fabs(x[k] * y[k][n]);

                most[n] = size > most[n] ? size : most[n];
            }
        for (int n = 0; n < N; n++) {
            most[n] = gb_host_grid(most[n]);
            sum[n] = __builtin_trunc(start[n] * most[n]);
        }
        for (int k = 0; k < DEEP; k++)
            for (int n = 0; n < N; n++)
                sum[n] += __builtin_trunc(x[k] * y[k][n] * most[n]);
        for (int n = 0; n < N; n++) {
            const double whole = sum[n] / most[n];

            of[n % 8 / 2][n / 8 * 4 + half + n % 2] =
                __builtin_isfinite(whole) ? gb_host_cut(whole) : (float)whole;
        }
    }
}

template <int N, class T, int X_MN, int Y_MN>
static void gb_host_multiply(void *const *d, const HostProductOf &op)
{
    gb_host_multiply_text<N, T, X_MN, Y_MN>(d, op);
}

#if defined(__x86_64__)
/* The same bits: products of short elements are exact in a double. */
template <int N, class T, int X_MN, int Y_MN>
__attribute__((target("avx2,fma"))) static void
gb_host_multiply_fma(void *const *d, const HostProductOf &op)
{
    gb_host_multiply_text<N, T, X_MN, Y_MN>(d, op);
}
#endif

GB_INLINE void gb_wgmma_fence()
{
}

GB_INLINE void gb_wgmma_commit()
{
    gb_host_products_here()->groups++;
}

/* All threads of a warpgroup: the products of old groups, in order. */
static void gb_host_perform(void *const *threads)
{
    HostProducts *first = static_cast<HostProducts *>(threads[0]);
    int done = 0;

    for (int t = 1; t < 128; t++) {
        const HostProducts *p = static_cast<HostProducts *>(threads[t]);
        bool same = p->count == first->count && p->groups == first->groups &&
                    p->due == first->due;

        for (int i = 0; same && i < p->count; i++)
            same = p->of[i].multiply == first->of[i].multiply &&
                   p->of[i].x == first->of[i].x && p->of[i].y == first->of[i].y &&
                   p->of[i].add == first->of[i].add &&
                   p->of[i].group == first->of[i].group;
        if (!same)
            gb_fiber_refuse("threads of a warpgroup ask for different products");
    }

    for (; done < first->count && first->of[done].group < first->groups - first->due;
         done++) {
        void *d[128];

        for (int t = 0; t < 128; t++)
            d[t] = static_cast<HostProducts *>(threads[t])->of[done].d;
        first->of[done].multiply(d, first->of[done]);
    }
    for (int t = 0; t < 128; t++) {
        HostProducts *p = static_cast<HostProducts *>(threads[t]);

        p->count -= done;
        __builtin_memmove(p->of, p->of + done, (size_t)p->count * sizeof *p->of);
    }
}

template <int N>
GB_INLINE void gb_wgmma_wait(int line = __builtin_LINE())
{
    HostProducts *mine = gb_host_products_here();

    mine->due = N;
    if (mine->count == 0 || mine->of[0].group >= mine->groups - N)
        return; /* nobody waits for anybody */
    gb_fiber_group(line, 16 + gb_fiber_thread() / 128, 128, mine, gb_host_perform);
}

GB_INLINE void gb_host_ask(void (*multiply)(void *const *, const HostProductOf &),
                           void *d, uint64_t x, uint64_t y, int add)
{
    HostProducts *mine = gb_host_products_here();

    if (mine->count == (int)(sizeof mine->of / sizeof *mine->of))
        gb_fiber_refuse("too many products under way");
    if (x >> 62 != 1 || y >> 62 != 1)
        gb_fiber_refuse("an operand without the 128-byte swizzle");
    mine->of[mine->count++] = {multiply, d, x, y, add, mine->groups};
}

template <int N, class T, int X_MN, int Y_MN>
struct GbWgmma {
    static_assert(sizeof(T) == 2 || (!X_MN && !Y_MN), "tf32 is K-major");
    static void mma(float *d, uint64_t x, uint64_t y, int add)
    {
        void (*multiply)(void *const *, const HostProductOf &) =
            gb_host_multiply<N, T, X_MN, Y_MN>;

#if defined(__x86_64__)
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
            multiply = gb_host_multiply_fma<N, T, X_MN, Y_MN>;
#endif
        gb_host_ask(multiply, d, x, y, add);
    }
};

/* ---- of bytes ---- */

/* Row `row` of a K-major operand, 32 of k. */
template <class T>
GB_INLINE void gb_host_bytes(uint64_t descriptor, int row, T (&to)[32])
{
    const uint32_t at = ((uint32_t)(descriptor & 0x3fff) << 4) +
                        row / 8 * ((uint32_t)(descriptor >> 32 & 0x3fff) << 4) +
                        row % 8 * 128;

    for (int half = 0; half < 2; half++)
        __builtin_memcpy(to + 16 * half,
                         gb_host_at(gb_host_swizzled(at + 16 * (uint32_t)half)), 16);
}

/* One for all tiles, as gb_host_y. */
static thread_local int16_t gb_host_y_bytes[256][32];

/* Exact, modulo 2^32. */
template <int N, class X, class Y>
GB_INLINE void gb_host_bytes_text(void *const *d, const HostProductOf &op)
{
    for (int n = 0; n < N; n++) {
        Y y[32];

        gb_host_bytes(op.y, n, y);
        for (int k = 0; k < 32; k++)
            gb_host_y_bytes[n][k] = y[k];
    }
    for (int r = 0; r < 64; r++) {
        int32_t *const *of =
            reinterpret_cast<int32_t *const *>(d) + r / 16 * 32 + r % 8 * 4;
        const int half = r % 16 / 8 * 2;
        int16_t wide[32];
        X x[32];

        gb_host_bytes(op.x, r, x);
        for (int k = 0; k < 32; k++)
            wide[k] = x[k];
        for (int n = 0; n < N; n++) {
            int32_t &to = of[n % 8 / 2][n / 8 * 4 + half + n % 2], sum = 0;

            for (int k = 0; k < 32; k++)
                sum += wide[k] * gb_host_y_bytes[n][k];
            to = (int32_t)((uint32_t)sum + (op.add ? (uint32_t)to : 0));
        }
    }
}

template <int N, class X, class Y>
static void gb_host_multiply_bytes(void *const *d, const HostProductOf &op)
{
    gb_host_bytes_text<N, X, Y>(d, op);
}

#if defined(__x86_64__)
template <int N, class X, class Y>
__attribute__((target("avx2"))) static void
gb_host_multiply_bytes_avx2(void *const *d, const HostProductOf &op)
{
    gb_host_bytes_text<N, X, Y>(d, op);
}
#endif

template <int N, class X, class Y>
struct GbWgmmaBytes {
    static void mma(int32_t *d, uint64_t x, uint64_t y, int add)
    {
        void (*multiply)(void *const *, const HostProductOf &) =
            gb_host_multiply_bytes<N, X, Y>;

#if defined(__x86_64__)
        if (__builtin_cpu_supports("avx2"))
            multiply = gb_host_multiply_bytes_avx2<N, X, Y>;
#endif
        gb_host_ask(multiply, d, x, y, add);
    }
};

#endif
