/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of the vocabulary, for people: traces, statistics, commands, bench rows. */
#include "gb.h"

const char *gb_type_name(enum gb_type t)
{
    static const char *const name[GB_TYPES] = {
        [GB_F16] = "f16", [GB_BF16] = "bf16", [GB_F32] = "f32", [GB_F64] = "f64",
        [GB_C32] = "c32", [GB_C64] = "c64",   [GB_I8] = "i8",   [GB_I32] = "i32",
    };

    return name[t];
}

const char *gb_trans_name(enum gb_trans t)
{
    static const char *const name[] = {
        [GB_N] = "N", [GB_T] = "T", [GB_C] = "C", [GB_CONJ] = "R"};

    return name[t];
}

const char *gb_why_name(enum gb_why why)
{
    static const char *const name[GB_WHYS] = {
        [GB_OK] = "ok",
#define WHY(id, name, text) [GB_WHY_##id] = name,
#include "why.def"
#undef WHY
    };

    return name[why];
}

const char *gb_why_text(enum gb_why why)
{
    static const char *const text_of[GB_WHYS] = {
        [GB_OK] = "computed on the device",
#define WHY(id, name, text) [GB_WHY_##id] = text,
#include "why.def"
#undef WHY
    };

    return text_of[why];
}

const char *gb_status_text(enum gb_status s)
{
    static const char *const text[] = {
        [GB_SUCCESS] = "success",
        [GB_E_ABSENT] = "no such driver or device",
        [GB_E_NOMEM] = "out of device or pinned memory",
        [GB_E_UNSUPPORTED] = "no kernel or image for this device",
        [GB_E_DEVICE] = "the device failed",
        [GB_E_ARGUMENT] = "not a stream that work can be queued in",
    };

    return text[s];
}
