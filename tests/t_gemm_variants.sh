#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The property tests of t_gemm again, where other code serves: the real BLAS and the portable
# routines; a device with hardly any memory; emulated fp32 (where the device has it); other orders of its streams.
# shellcheck source=tests/testlib.sh
. "$(dirname "$0")/testlib.sh"
gemm=$top_builddir/tests/t_gemm.t
[ -e "$gemm" ] || bail "$gemm is missing"
scratch

# variant NAME ASSIGNMENT...
variant()
{
    local name=$1
    shift
    env "$@" "$gemm" >"$tap_dir/log" 2>"$tap_dir/err"
    local status=$?
    is 0 $status "$name: $(grep -c '^ok' "$tap_dir/log") properties"
    [ $status -eq 0 ] || diag "$(grep -A 1 '^not ok' "$tap_dir/log" | head -n 40)"
    is '' "$(head -n 5 "$tap_dir/err")" "$name: nothing on stderr"
}

variant 'on the CPU' GEMMBLAS_ROUTE=cpu VERIFY_ROUNDS=6
variant 'on the CPU, no device' GEMMBLAS_DEVICE=none GEMMBLAS_ROUTE=gpu VERIFY_ROUNDS=2
# room for two buffers of each operand; the shapes for hardware are cut into more splits, too
limit=2M
[ "${GEMMBLAS_DEVICE:-emu}" = emu ] || limit=12M
variant 'with little device memory' GEMMBLAS_ROUTE=gpu GEMMBLAS_MEM_LIMIT=$limit VERIFY_ROUNDS=4
variant 'with emulated fp32' GEMMBLAS_ROUTE=gpu GEMMBLAS_MATH=emulated VERIFY_ROUNDS=4
variant 'other streams first' GEMMBLAS_ROUTE=gpu GEMMBLAS_SEED=5 VERIFY_ROUNDS=4
finish
