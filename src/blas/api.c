/* SPDX-License-Identifier: BSD-3-Clause */
/* The public C API. */
#include "config.h"
#include "gemmblas/gemmblas.h"

const char *gemmblas_version(void)
{
    return PACKAGE_VERSION;
}
