#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `gemmblas info` says in a line for each family what `gemmblas info --kernels` says of each
# kernel.
# shellcheck source=tests/testlib.sh
. "$(dirname "$0")/testlib.sh"
[ -x "$top_builddir/gemmblas" ] || bail "$top_builddir/gemmblas is missing"
scratch

# info [ARGUMENT...]: on the emulated device
info()
{
    GEMMBLAS_DEVICE=emu "$top_builddir/gemmblas" info "$@"
}

info >"$tap_dir/families" 2>"$tap_dir/err"
is "0 " "$? $(cat "$tap_dir/err")" 'info runs'
info --kernels >"$tap_dir/kernels" 2>"$tap_dir/err"
is "0 " "$? $(cat "$tap_dir/err")" 'info --kernels runs'
is "$(grep -c '^knob ' "$tap_dir/kernels")" "$(grep -c '^knob ' "$tap_dir/families")" \
    'and says the rest too'
usable=$(grep -c '^  kernel .* usable$' "$tap_dir/kernels")
[ "$usable" -gt 0 ]
ok $? 'some kernels are emulated'

families=$(sed -n 's/^  kernel  *//p' "$tap_dir/families")
rows=$(sed -n 's/^  kernel  *//p' "$tap_dir/kernels")
is '' "$(awk '{ print $1 }' <<<"$rows" | sort | uniq -d)" 'each kernel once'
is '' "$(awk '{ print $1 }' <<<"$families" | sort | uniq -d)" 'each family once'
is "$(wc -l <<<"$rows")" "$(awk -F ' tiles? ' '{ sub(/.* /, "", $1); n += $1 }
    END { print n }' <<<"$families")" 'the tiles of the families are all kernels'
while read -r family line; do
    tiles=$(sed -E 's/.* ([0-9]+) tiles? .*/\1/' <<<" $line")
    why=$(sed -E 's/.* tiles? +//' <<<"$line")
    # What follows the family's name begins with the tile.
    is "$tiles $why" "$(awk -v family="$family" '
        $1 ~ "^" family "_[0-9]+x" { n++; $1 = ""; why = substr($0, 2) }
        END { print n, why }' <<<"$rows")" "$family: as its kernels"
done <<<"$families"

for arguments in '--kernel' 'kernels' '--kernels all'; do
    # shellcheck disable=SC2086
    info $arguments >"$tap_dir/out" 2>"$tap_dir/err"
    is "2 0 1" "$? $(wc -l <"$tap_dir/out") $(wc -l <"$tap_dir/err")" \
        "info $arguments is refused in one line"
done
finish
