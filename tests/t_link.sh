#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What the staging ring reaches of the link's rate for 1 GiB of pageable memory (B82); how it
# does so by bench/link, which drives the library's own copy threads as a call does.
# shellcheck source=tests/testlib.sh
. "$(dirname "$0")/testlib.sh"
link=$top_builddir/bench/link
[ -x "$link" ] || bail "$link is missing"
scratch

# Nothing of the program's is ever page-locked: the library does not even know the calls.
is 0 "$(grep -a -c -E 'cuMemHostRegister|hipHostRegister' "$preload")" \
    'B82 the library cannot register the program'"'"'s memory'

device=${GEMMBLAS_DEVICE:-emu}
if [ "$device" = emu ]; then
    "$link" --device emu --mib 8 --repeats 1 --threads 2 >"$tap_dir/out" 2>"$tap_dir/err"
    is 0 $? 'what is staged arrives unchanged'
    cat "$tap_dir/err"
    skip 'B82 60 % of the rate of pinned memory, up' 'the emulated device has no link'
    skip 'B82 60 % of the rate of pinned memory, down' 'the emulated device has no link'
    finish
fi
"$link" --device "$device" --threads 8 >"$tap_dir/out" 2>"$tap_dir/err"
is 0 $? 'what is staged arrives unchanged'
cat "$tap_dir/err"
sed 's/^/# /' "$tap_dir/out"
column() { # ROW N: the Nth figure of the row whose name begins so
    sed -n "s/^$1 *//p" "$tap_dir/out" | head -n 1 | awk -v n="$2" '{ print $n }'
}
for direction in up:1 down:2; do
    n=${direction#*:}
    pinned=$(column pinned "$n")
    staged=$(sed -n 's/^staged by the library, [0-9]* threads* *//p' "$tap_dir/out" |
        awk -v n="$n" '{ print $n }')
    awk -v p="$pinned" -v s="$staged" 'BEGIN { exit !(p > 0 && s >= 0.6 * p) }'
    ok $? "B82 60 % of the rate of pinned memory, ${direction%:*} ($staged of $pinned GB/s)"
done
finish
