#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The reference BLAS's own level-3 testers (Debian's libblas-test), Fortran and CBLAS, under
# preload with every eligible call on the device. They define xerbla_ and cblas_xerbla
# themselves and so also see that forwarded calls report errors as before.
# GB_NETLIB_DIR: where the testers are, when they were carried here.
# shellcheck source=tests/testlib.sh
. "$(dirname "$0")/testlib.sh"

dir=${GB_NETLIB_DIR:-}
for d in "$top_builddir/carry/netlib" /usr/lib/*/blas; do
    [ -n "$dir" ] || [ ! -x "$d/xblat3d" ] || dir=$d
done
[ -n "$dir" ] || skip_all 'the testers are missing (apt-get install libblas-test)'
[ -x "$dir/xblat3d" ] || bail "no xblat3d in $dir"
ldd "$dir/xblat3d" | grep -q 'not found' && skip_all "no BLAS here that $dir/xblat3d starts with"
[ -e "$preload" ] || bail "$preload is missing"
scratch
cd "$tap_dir" || bail 'no scratch directory'
trace_file=$tap_dir/trace

# run PROGRAM INPUT LETTER WANTED: all WANTED tests pass and gemm ran on the device.
run()
{
    local program=$1 input=$2 letter=$3 wanted=$4 out=$tap_dir/out label="$1 ${5:-}" gpu
    rm -f "$trace_file" ./*.out
    LD_PRELOAD="$top_builddir/tests/rowmajor.so $preload" GEMMBLAS_ROUTE=gpu \
        GEMMBLAS_TRACE="$trace_file" timeout 900 "$dir/$program" <"$input" >"$out" 2>&1
    is 0 $? "$label ends well"
    cat ./*.out >>"$out" 2>/dev/null
    is "$wanted" "$(grep -c ' PASSED THE ' "$out")" "$label passes"
    is 0 "$(grep -c -E 'FAIL|SUSPECT|FATAL|ERROR-EXIT.*NOT|\*{5,}' "$out")" "$label fails nowhere" ||
        diag "$(grep -E 'FAIL|SUSPECT|FATAL|\*{5,}' "$out" | head)"
    gpu=$(traced "name=${letter}gemm .*route=gpu")
    diag "$label: $gpu calls on the device, $(traced 'route=cpu') not"
    [ "$gpu" -gt 100 ]
    ok $? "$label ran ${letter}gemm on the device"
    is 0 "$(traced 'why=(lost|oom|unsupported|nodevice)')" "$label met no device trouble"
}

for letter in s d c z; do
    case $letter in
    s | d) fortran=12 cblas=18 ;;
    *) fortran=18 cblas=27 ;;
    esac
    run "xblat3$letter" "$dir/${letter}blat3.in" $letter $fortran
    run "x${letter}cblat3" "$dir/${letter}in3" $letter $cblas
    # gemm alone, beyond one tile: 65 is the testers' largest.
    sed -e 's/^[0-9 ]*NUMBER OF VALUES OF N$/3                 NUMBER OF VALUES OF N/' \
        -e 's/^[0-9 ]*VALUES OF N$/1 33 65            VALUES OF N/' \
        -e '/GEMM/!s/^\([A-Z0-9]*\)  *T PUT F/\1 F PUT F/' "$dir/${letter}blat3.in" >big.in
    run "xblat3$letter" big.in $letter 2 'up to 65'
done
finish
