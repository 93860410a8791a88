/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of embedded device code, written by mkimages.sh as assembly. */
#ifndef GB_IMAGES_H
#define GB_IMAGES_H

#include "kernels.h"

extern const struct gb_image gb_images[] __attribute__((visibility("hidden")));
extern const int gb_image_count __attribute__((visibility("hidden")));

#endif
