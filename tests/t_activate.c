/* SPDX-License-Identifier: BSD-3-Clause */
/* The activations against libm in long double, in units of their type's last place; what a
 * GPU's approximations do instead for results of 16 bits, t_kernels.c sees on hardware. */
#include <math.h>

#include "activate.h"
#include "tap.h"
#include "util.h"

static long double exact(int activation, long double x)
{
    long double y;

    switch (activation) {
    case GB_ACT_RELU:
        return x < 0 ? 0 : x;
    case GB_ACT_GELU:
        return x * 0.5L * erfcl(-x / sqrtl(2));
    case GB_ACT_GELU_TANH:
        y = sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x);
        return x / (1 + expl(-2 * y));
    case GB_ACT_SILU:
        return x / (1 + expl(-x));
    case GB_ACT_TANH:
        return tanhl(x);
    default:
        return x;
    }
}

/* Largest relative error over both signs of many magnitudes in [low, high), over 2^-digits. */
struct worst {
    double f32, f64;
};

static struct worst worst_of(int activation, double low, double high, bool negative)
{
    struct worst w = {0, 0};
    int steps = 40000;

    for (int i = 0; i < steps; i++) {
        double x = low * pow(high / low, (double)i / steps) * (negative ? -1 : 1);
        long double want = exact(activation, (float)x);

        if (fabsl(want) > 0x1p-126L)
            w.f32 = fmax(
                w.f32, (double)fabsl(gb_activate_f32(activation, (float)x) / want - 1) *
                           0x1p24);
        want = exact(activation, x);
        if (fabsl(want) > 0x1p-1022L)
            w.f64 =
                fmax(w.f64,
                     (double)fabsl(gb_activate_f64(activation, x) / want - 1) * 0x1p53);
    }
    return w;
}

static void check(int activation, const char *name, double low, double high,
                  bool negative, double bound)
{
    struct worst w = worst_of(activation, low, high, negative);

    ok(w.f32 <= bound && w.f64 <= bound,
       "%s, %s from %g to %g: %.1f of f32, %.1f of f64", name,
       negative ? "negative" : "positive", low, high, w.f32, w.f64);
}

/* For results of 16 bits: a small part of their last place, of normal results. */
static void check_short(int activation, const char *name)
{
    double most = 0;

    for (int i = -12000; i <= 12000; i++) {
        float x = (float)i / 1000;
        long double want = exact(activation, x);

        if (fabsl(want) > 0x1p-126L)
            most =
                fmax(most, (double)fabsl(gb_activate_f32s(activation, x) / want - 1) *
                               0x1p11);
    }
    ok(most < 0.2, "%s for fp16: %.3f of its last place", name, most);
}

static void check_special(int activation, const char *name)
{
    const float inf = INFINITY;
    float top = gb_activate_f32(activation, inf);

    ok(isnan(gb_activate_f32(activation, NAN)) &&
           isnan(gb_activate_f64(activation, NAN)),
       "%s keeps a NaN", name);
    ok(activation == GB_ACT_TANH ? top == 1 : isinf(top), "%s of infinity", name);
    ok(gb_activate_f32(activation, 0) == 0 && gb_activate_f64(activation, 0) == 0,
       "%s of 0 is 0", name);
    ok(fabsf(gb_activate_f32(activation, -1e30f)) <= 1 &&
           fabs(gb_activate_f64(activation, -1e300)) <= 1,
       "%s of a large negative number", name);
}

int main(void)
{
    static const struct {
        enum gb_activation activation;
        const char *name;
        double tail; /* below -3, where e loses what its argument is rounded by */
    } all[] = {{GB_ACT_RELU, "relu", 0},
               {GB_ACT_GELU, "gelu", 8},
               {GB_ACT_GELU_TANH, "gelu_tanh", 512},
               {GB_ACT_SILU, "silu", 8},
               {GB_ACT_TANH, "tanh", 8}};

    plan_lazy();
    for (size_t i = 0; i < GB_COUNT(all); i++) {
        check(all[i].activation, all[i].name, 1e-30, 100, false, 16);
        check(all[i].activation, all[i].name, 1e-30, 3, true, 16);
        check(all[i].activation, all[i].name, 3, 12, true, all[i].tail);
        check_short(all[i].activation, all[i].name);
        check_special(all[i].activation, all[i].name);
    }
    return 0;
}
