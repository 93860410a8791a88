#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The tests of BLAS semantics must notice a bug. Plant them one at a time in a model of the
# product, preloaded over it, and demand that the property that each breaks is reported.
# shellcheck source=tests/testlib.sh
. "$(dirname "$0")/testlib.sh"
model=$top_builddir/tests/model.so
gemm=$top_builddir/tests/t_gemm.t
[ -e "$model" ] || bail "$model is missing"
scratch
export GEMMBLAS_ROUTE=gpu GEMMBLAS_DEVICE=emu VERIFY_ROUNDS=4 VERIFY_ONLY=m64_

# planted FAULT PATTERN: with FAULT, t_gemm fails and a failing line matches PATTERN.
planted()
{
    MODEL_FAULT=$1 LD_PRELOAD=$model "$gemm" >"$tap_dir/log" 2>"$tap_dir/err"
    local status=$?
    [ $status -ne 0 ] && grep -E '^not ok' "$tap_dir/log" | grep -q -E -- "$2"
    ok $? "$1 is noticed as: $2"
}

MODEL_FAULT=none LD_PRELOAD=$model "$gemm" >"$tap_dir/log" 2>"$tap_dir/err"
status=$?
is 0 $status 'without a fault everything passes'
[ $status -eq 0 ] || diag "$(grep -A 1 '^not ok' "$tap_dir/log")"
planted element 'small integers exact'
planted last_column 'small integers exact'
planted float_sums 'dgemm64_: normal data within the bounds'
planted short_sums 'sgemm64_: normal data within the bounds'
planted conjugate 'zgemm64_: every layout and transpose'
planted row_major 'row'
planted beta_zero 'beta = 0 over NaN'
planted beta_ignored 'k = 0 scales C'
planted beta_real 'zgemm64_: small integers exact'
planted alpha_zero 'alpha = 0 over NaN in A and B'
planted k_zero 'k = 0 scales C'
planted padding 'small integers exact'
planted rewrite 'fault in'
planted input 'fault in'
planted read_past 'fault in'
planted cpu 'every call with work ran on the device'
finish
