/* SPDX-License-Identifier: BSD-3-Clause */
/* Two variables of the reference CBLAS that Debian's x?cblat3 programs import, so that they
 * start on a BLAS that does not define them. Preloaded in t_netlib.sh only. */
extern int RowMajorStrg, CBLAS_CallFromC;
int RowMajorStrg, CBLAS_CallFromC;
