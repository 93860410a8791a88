#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Which BLAS a call goes to: plug-ins with their own, a partial one, ourselves in disguise,
# a BLAS that calls itself by name, a library that owns a BLAS name by accident.
# shellcheck source=tests/testlib.sh
. "$(dirname "$0")/testlib.sh"
[ -e "$preload" ] || bail "$preload is missing"
fixtures=$top_builddir/tests/fixtures
[ -x "$fixtures/host" ] || bail "$fixtures/host is missing"
scratch
narrow=$fixtures/plugin32.so
wide=$fixtures/plugin64.so
narrow_needs=$fixtures/needs32.so
wide_needs=$fixtures/needs64.so
# No device: this is about what is not offloaded, but for the runs that ask for all of it.
export GEMMBLAS_DEVICE=none

# host NAME SCENARIO [ARGUMENT...]: silence and status 0 are wanted. $with: assignments.
with=
host()
{
    local name=$1
    shift
    # shellcheck disable=SC2086
    timeout 60 env LD_PRELOAD="$preload" $with "$fixtures/host" "$@" >"$tap_dir/out" \
        2>"$tap_dir/err"
    local status=$?
    [ $status -eq 0 ] && [ ! -s "$tap_dir/out" ]
    ok $? "$name" || diag "status $status
$(cat "$tap_dir/out" "$tap_dir/err")"
}

for pair in "$narrow $wide" "$wide $narrow" "$narrow_needs $wide_needs" \
    "$wide_needs $narrow_needs" "$narrow $wide_needs"; do
    first=${pair% *}
    second=${pair#* }
    names="$(basename "$first" .so), $(basename "$second" .so)"
    with=
    host "each plug-in gets its own BLAS: $names" plugins "$first" "$second"
    host "also when it comes later: $names" later "$first" "$second"
    with='GEMMBLAS_STATS=1 GEMMBLAS_SERIALIZE_CPU=1'
    host "also when every call is looked at: $names" plugins "$first" "$second"
done
with=
for _ in 1 2 3 4 5 6 7 8 9; do
    timeout 20 env LD_PRELOAD="$preload" "$fixtures/host" race "$narrow" \
        "$fixtures"/{few,foreign,conj,nested}.so >"$tap_dir/out" 2>&1
    status=$?
    [ $status -eq 0 ] || break
done
ok "$status" 'nine first products while threads load and unload libraries'
[ "$status" -eq 0 ] || diag "status $status
$(cat "$tap_dir/out")"
# The same for certain: who asks the dynamic linker while it holds a lock is stopped.
with="LD_PRELOAD=$fixtures/locks.so:$preload"
host 'no question inside dl_iterate_phdr' plugins "$narrow" "$wide"
host 'nor when a name may be foreign' foreign "$fixtures/foreign.so"
# And one that comes or goes just when it was found: rests of growing length meet them all.
# As wide as the first, so that each is asked for its width, and none kept.
for i in {01..40}; do
    cp "$fixtures/slow.so" "$tap_dir/slow$i.so"
done
with="LD_PRELOAD=$fixtures/pauses.so:$preload"
host 'a BLAS that is not yet open, or no more, is no provider' passing "$wide" \
    "$tap_dir"/slow??.so
host 'unless its own constructor asks' passing "$wide" "$fixtures/early.so"
with=
host 'B73 a DEEPBIND plug-in is not broken' deep "$narrow"

# OpenBLAS has a fourth letter; elsewhere it is an error that no route may hide.
for run in 'none 2' 'emu 0'; do
    with="GEMMBLAS_DEVICE=${run% *} GEMMBLAS_ROUTE=gpu"
    host "R is legal for an OpenBLAS, device ${run% *}" fourth "$fixtures/conj.so" \
        "${run#* }"
    host "R is an error for others, device ${run% *}" fourth "$fixtures/fixblas32.so" 0
done
with=

# A program that links no BLAS: the configured OpenBLAS, or the portable routines, serve.
host 'no BLAS in the process' product
is '' "$(cat "$tap_dir/err")" 'and nothing to say about it'
host 'B19 hidden lengths' lengths
host 'B14 illegal arguments return' bad
is 2 "$(grep -c '^ \*\* On entry to DGEMM  parameter number  4' "$tap_dir/err")" \
    'B14 one line each on stderr'

with="GEMMBLAS_LIBRARY=$fixtures/few.so"
host 'B23 a BLAS of one routine' product
is 1 "$(grep -c cblas_zgemm "$tap_dir/err")" 'B23 one warning'
with="GEMMBLAS_LIBRARY=$tap_dir/nonexistent.so"
host 'B77 GEMMBLAS_LIBRARY is missing' product
is 1 "$(wc -l <"$tap_dir/err")" 'B77 one line'
ln -s "$preload" "$tap_dir/libself.so"
with="GEMMBLAS_LIBRARY=$tap_dir/libself.so"
host 'B70 GEMMBLAS_LIBRARY is a link to us' product
cp -L "$preload" "$tap_dir/libcopy.so"
with="GEMMBLAS_LIBRARY=$tap_dir/libcopy.so"
host 'B70 GEMMBLAS_LIBRARY is a copy of us' product
if [ -e "$top_builddir/packaging/libblas.so.3" ]; then
    # Uninstalled it finds us through the path.
    with="GEMMBLAS_LIBRARY=$top_builddir/packaging/libblas.so.3 LD_LIBRARY_PATH=$lib_dir"
    host 'B70 GEMMBLAS_LIBRARY is a libblas.so.3 that leads to us' product
else
    skip 'B70 libblas.so.3' 'not built: there is no OpenBLAS to link it with'
fi
with=
host 'B70 cblas_dgemm calls dgemm_, depth 2' nested "$fixtures/nested.so"
with='GEMMBLAS_SERIALIZE_CPU=1'
host 'the same one call at a time' nested "$fixtures/nested.so"
with="LD_PRELOAD=$preload:$tap_dir/libcopy.so"
host 'B17 two copies of us' product
host 'B17 two copies of us and plug-ins' plugins "$narrow" "$wide"
with="LD_PRELOAD=$preload:$preload"
host 'B17 preloaded twice' product
with=
host 'a library that owns a function named dgemm' foreign "$fixtures/foreign.so"
with="LD_PRELOAD=$preload:$fixtures/foreign.so"
host 'and in the global scope' global

for order in "$fixtures/resolver.so:$preload" "$preload:$fixtures/resolver.so" \
    "$fixtures/wrapper.so:$preload" "$preload:$fixtures/wrapper.so"; do
    names=${order//$top_builddir\//}
    with="LD_PRELOAD=$order"
    host "B74 $names" product
    host "B74 $names, plug-ins" plugins "$narrow" "$wide"
done
finish
