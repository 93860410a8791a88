/* SPDX-License-Identifier: BSD-3-Clause */
/* The judge is judged: 16-bit conversions, random numbers, guards and gaps of verify.c.
 */
#include <math.h>
#include <string.h>

#include "tap.h"
#include "verify.h"

/* bf16 by the textbook: the upper half of a float, rounded to nearest even. */
static uint16_t bf16_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void round_trips(void)
{
    int f16 = 0, bf16 = 0;

    for (int i = 0; i < 65536; i++) {
        double x = verify_from_f16((uint16_t)i), y = verify_from_bf16((uint16_t)i);

        f16 += !isnan(x) && verify_f16(x) != i;
        bf16 += !isnan(y) && verify_bf16(y) != i;
    }
    is_int(0, f16, "every f16 survives the way to double and back");
    is_int(0, bf16, "every bf16 survives");
}

static void rounding(void)
{
    struct verify_random r = verify_seed(1);
    int wrong = 0, between = 0;

    for (int i = 0; i < 200000; i++) {
        uint32_t bits = (uint32_t)verify_next(&r);
        float x;

        memcpy(&x, &bits, sizeof x);
        wrong += !isnan(x) && verify_bf16(x) != bf16_of(x);
    }
    is_int(0, wrong, "bf16 rounds as the upper half of a float does");
    for (int i = 0; i < 0x7bff; i++) {
        double lo = verify_from_f16((uint16_t)i),
               hi = verify_from_f16((uint16_t)(i + 1));
        double middle = (lo + hi) / 2;

        between += verify_f16(middle) != (i & 1 ? i + 1 : i);
        between += verify_f16(nextafter(middle, 0)) != i;
        between += verify_f16(nextafter(middle, 1e9)) != i + 1;
    }
    is_int(0, between, "f16 rounds to nearest, ties to even, subnormals too");
    is_int(0x7bff, verify_f16(65519.99L), "the largest f16");
    is_int(0x7c00, verify_f16(65520), "f16 overflows at 65520");
    is_int(0x8001, verify_f16(-0x1.8p-25L), "f16 underflows to its smallest step");
    is_int(0x8000, verify_f16(-0x1p-25L), "and then to zero, with the sign");
    is_int(0x4000, verify_f16(2), "two is 0x4000, as in B25");
}

static void numbers(void)
{
    struct verify_random r = verify_seed(2);
    double sum = 0, square = 0;
    int n = 200000;

    for (int i = 0; i < n; i++) {
        double x = verify_normal(&r);

        sum += x;
        square += x * x;
    }
    ok(fabs(sum / n) < 0.01 && fabs(square / n - 1) < 0.02,
       "normal numbers have mean 0 and variance 1 (%.4f, %.4f)", sum / n, square / n);
    ok(verify_next(&(struct verify_random){3}) ==
           verify_next(&(struct verify_random){3}),
       "a seed gives the same numbers");
}

static void gaps(void)
{
    struct verify_random r = verify_seed(4);
    int missed = 0, bytes = 0;

    for (int place = 0; place < VERIFY_PLACES; place++) {
        for (int row_major = 0; row_major < 2; row_major++) {
            struct verify_matrix x;

            verify_matrix_make(&x, GB_F32, row_major, 5, 7, 9,
                               (enum verify_place)place);
            verify_matrix_fill(&x, VERIFY_INTEGERS, &r);
            verify_freeze(&x, false);
            for (size_t i = 0; i < x.data_bytes; i++) {
                bool element = false;

                for (int64_t e = 0; e < 35; e++) {
                    const char *at = verify_element(&x, e / 7, e % 7);

                    element = element || (x.data + i >= at && x.data + i < at + 4);
                }
                x.data[i] ^= 1;
                missed += verify_gaps_untouched(&x) != element;
                missed += verify_untouched(&x);
                x.data[i] ^= 1;
                bytes++;
            }
            missed += !verify_gaps_untouched(&x);
            verify_matrix_drop(&x);
        }
    }
    is_int(0, missed, "a change of any of %d bytes is seen, and of which kind", bytes);
}

int main(void)
{
    plan_lazy();
    round_trips();
    rounding();
    numbers();
    gaps();
    return 0;
}
