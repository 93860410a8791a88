/* SPDX-License-Identifier: BSD-3-Clause */
/* For epilogue.h on the CPU, and so included before it: fused multiply-adds without libm, which
 * the library is not linked with. They now and then round twice. */
#ifndef GB_CPU_FMA_H
#define GB_CPU_FMA_H

#ifndef __FP_FAST_FMA
#define GB_OWN_FMA 1

/* A product of floats is exact in double. */
static inline float gb_fma_f32(float x, float y, float z)
{
    return (float)((double)x * y + z);
}

/* T. J. Dekker, A floating-point technique for extending the available precision, 1971: what a
 * product loses, from halves of its factors whose products are exact; and what a sum does. */
static inline double gb_fma_f64(double x, double y, double z)
{
    const double split = 0x1p27 + 1, p = x * y, s = p + z, b = s - p;
    double xh = split * x, yh = split * y, lost;

    if (!(p < 1e270 && p > -1e270 && x < 1e270 && x > -1e270 && y < 1e270 &&
          y > -1e270 && s - s == 0))
        return s; /* infinite, or nearly; NaN; the sum also by z */
    xh -= xh - x;
    yh -= yh - y;
    lost = xh * yh - p + xh * (y - yh) + (x - xh) * yh + (x - xh) * (y - yh);
    return s + (lost + (p - (s - b)) + (z - b));
}
#endif

#endif
