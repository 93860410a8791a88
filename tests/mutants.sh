#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Does a test see it when a barrier of gemm_wgmma goes missing? compute-sanitizer's racecheck
# does not follow TMA and mbarriers, so mutations stand in for it: each takes one wait or barrier
# out of a copy of the kernels, and tests/t_kernels.c must fail (or hang) on hardware with it.
#   tests/mutants.sh build BUILDDIR DEST   with nvcc; after `make tests/t_kernels.t`
#   tests/mutants.sh run DEST              on an sm_90 device; prints TAP
# Only the rows of `rows` are compiled and tested. The first mutant changes nothing: it must pass.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
rows='256x128x64 64x64x64'

# name | file | what sed does to it. Where a barrier only matters when blocks drift apart, the mutant
# has them do so. The waits for products (wgmma.wait_group) are not here: without one ptxas puts
# its own there ("wgmma.mma_async instructions are serialized", C7518), and nothing changes. Nor is
# the wait for a part of C, which is there early on some runs whether it is waited for or not.
mutants() {
    cat <<'END'
none|gemm_wgmma.h|
loader_does_not_wait_for_empty|gemm_wgmma.h|/if (step > 0)/,/empty/s/gb_bar_wait(.*empty.*/;/
multiplier_does_not_wait_for_full|gemm_wgmma.h|/for (; step < work.steps/,/full/s/gb_bar_wait(.*full.*/;/
cluster_reads_before_all_have_written|gemm_wgmma.h|/v.at.e. = work.steps/,/gb_cluster_sync();/s/gb_cluster_sync();//; /those of gb_wgmma_together/d
cluster_leaves_while_others_read|gemm_wgmma.h|/epilogue.alpha = (float)/s/$/ if (gb_cluster_rank()) for (int i = 0; i < 99; i++) __nanosleep(99999);/; /nobody leaves/d; /those of gb_wgmma_together/d
launch_does_not_wait_for_the_last|gemm_wgmma.h|s/gb_grid_wait();/gb_allow_next();/
END
}

build() {
    local build dest name file edit
    build=$(cd "$1" && pwd)
    mkdir -p "$2"
    dest=$(cd "$2" && pwd)
    tmp=$(mktemp -d) # not local: for the trap
    trap 'rm -rf "$tmp"' EXIT
    cd "$build"
    nvcc=$(sed -n 's/^NVCC = *//p' Makefile)
    gencode=$(sed -n 's/^GB_GENCODE_HOPPER = *//p' Makefile)
    # shellcheck disable=SC2046 # one word each
    images=$(printf '%s\n' $(sed -n 's/.*\.incbin "\(.*\)"/\1/p' src/gpu/images.S) |
        grep -v '/gemm_wgmma_f16\.fatbin$')
    mutants | while IFS='|' read -r name file edit; do
        rm -rf "$tmp/kernels"
        cp -r "$here/src/gpu/kernels" "$tmp/kernels"
        sed "$edit" "$here/src/gpu/kernels/$file" >"$tmp/kernels/$file"
        if [ "$name" != none ] && cmp -s "$here/src/gpu/kernels/$file" "$tmp/kernels/$file"; then
            echo "mutants.sh: $name: changes nothing in $file; update the list" >&2
            exit 2
        fi
        awk -v rows="$rows" 'BEGIN { n = split(rows, row, " ") }
            !/^WGMMA\(/ { print; next }
            { for (i = 1; i <= n; i++) if (index($0, "(" row[i] ",")) print }' \
            "$here/src/gpu/kernels/wgmma.def" >"$tmp/kernels/wgmma.def"
        # shellcheck disable=SC2086 # options
        $nvcc -O3 -std=c++17 $gencode -I"$here/src" -I"$tmp/kernels" -fatbin \
            -o "$tmp/gemm_wgmma_f16.fatbin" "$tmp/kernels/gemm_wgmma_f16.cu"
        # shellcheck disable=SC2086 # a list
        sh "$here/src/gpu/mkimages.sh" $images "$tmp/gemm_wgmma_f16.fatbin" >"$tmp/images.S"
        gcc -c -o "$tmp/images.o" "$tmp/images.S"
        gcc -o "$dest/$name" tests/t_kernels.o "$tmp/images.o" tests/libtap.a .libs/libgb.a \
            -ldl -lpthread -lm
        strip --strip-debug "$dest/$name"
        echo "$name"
    done
}

# 0: the rows pass; 1: a row fails, the device is lost or it never ends; else they did not run.
try() {
    local row status
    for row in $rows; do
        status=0
        GB_TEST_ROWS="gemm_wgmma_f16_$row\$" GEMMBLAS_DEVICE=auto timeout 30 "./$1" \
            >"$1.log" 2>&1 || status=$?
        [ $status -ne 124 ] || return 1
        ! grep -q "^not ok .*gemm_wgmma_f16_$row:" "$1.log" || return 1
        ! grep -q '^Bail out!.*device failed' "$1.log" || return 1
        grep -q "^ok .*gemm_wgmma_f16_$row:" "$1.log" || return 2
    done
}

run() {
    local n=0 bad=0 name seen
    cd "$1"
    for name in $(mutants | cut -d'|' -f1); do
        seen=0
        try "$name" || seen=$?
        n=$((n + 1))
        if [ "$name" = none ] && [ $seen -ne 0 ]; then
            echo "Bail out! without a mutation the rows do not pass: see $1/none.log"
            return 1
        fi
        if [ "$name" = none ] || [ $seen -eq 1 ]; then
            echo "ok $n - $name"
        else
            echo "not ok $n - $name: $([ $seen -eq 0 ] && echo not seen || echo did not run)"
            bad=1
        fi
    done
    echo "1..$n"
    return $bad
}

case ${1-}:$# in
build:3) build "$2" "$3" ;;
run:2) run "$2" ;;
*) sed -n '3,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
