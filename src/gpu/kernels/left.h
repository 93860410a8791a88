/* SPDX-License-Identifier: BSD-3-Clause */
/* The tiles that an emulated product has left: which of a native kernel's they are. */
#ifndef GB_LEFT_H
#define GB_LEFT_H

#include "seam.h"
#include "split_args.h"

struct RestPick {
    const gb_left &left;

    GB_DEVICE bool none() const
    {
        return *reinterpret_cast<const uint32_t *>(left.any) == 0;
    }
    GB_DEVICE bool wants(int64_t m, int64_t n, int64_t z) const
    {
        return reinterpret_cast<const uint8_t *>(
            left.flags)[(z * left.tiles_n + n / GB_SPLIT_TILE) * left.tiles_m +
                        m / GB_SPLIT_TILE];
    }
};

#endif
