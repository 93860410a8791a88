#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# On hardware: 20 shapes are tuned, and then what is chosen is never over 2 % slower than the
# model's choice, both measured anew in turn. A shape that misses is measured once more: a
# single measurement of a few microseconds may be off by as much.
# shellcheck source=tests/testlib.sh
. "$(dirname "$0")/testlib.sh"
gemmblas=$top_builddir/gemmblas
[ -x "$gemmblas" ] || bail "$gemmblas is missing"
device=$("$gemmblas" info 2>/dev/null | sed -n 's/^device //p' | head -n 1)
case $device in
cuda:* | hip:*) ;;
*) skip_all "times are measured on a GPU; the device here is ${device:-none}" ;;
esac
scratch
export GEMMBLAS_TUNED=$tap_dir/tuned.txt

# type, type of C, transposes, m, n, k, leading dimensions of A and B: 0 is tight, +1 ragged
while read -r type type_c transa transb m n k ld; do
    printf 'gemm\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t0\t1\t0\n' "$type" "$type_c" \
        "$transa" "$transb" "$m" "$n" "$k" "$ld" "$ld"
done >"$tap_dir/shapes.tsv" <<'END'
f16 f16 N N 1024 1024 1024 0
f16 f16 N N 4096 4096 4096 0
f16 f16 T N 2048 2048 2048 0
f16 f16 N T 3072 3072 3072 0
f16 f32 N N 512 512 512 0
f16 f32 N T 2048 1024 4096 0
f16 f16 N N 1001 1001 1001 +1
bf16 bf16 N N 2048 2048 2048 0
bf16 bf16 T N 4096 64 4096 0
bf16 bf16 T N 4096 16 4096 0
bf16 bf16 N N 64 4096 4096 0
bf16 bf16 N N 128 128 16384 0
bf16 f32 N N 4096 4096 64 0
bf16 f32 T N 1536 768 2304 0
bf16 bf16 N N 2047 2047 2047 +1
f32 f32 N N 1024 1024 1024 0
f32 f32 N N 3000 500 2000 0
f64 f64 N N 1024 1024 1024 0
c32 c32 N N 512 512 512 0
c64 c64 N N 512 512 512 0
END
is 20 "$(wc -l <"$tap_dir/shapes.tsv")" '20 shapes'

"$gemmblas" tune --shapes "$tap_dir/shapes.tsv" --budget "${GB_TEST_TUNE:-120}" \
    >"$tap_dir/out" 2>"$tap_dir/err"
is 0 $? 'they are tuned' || diag "$(cat "$tap_dir/err")"
diag "$(cat "$tap_dir/out")"
is 0 "$(grep -c -E 'left|skipped' "$tap_dir/out")" 'all of them'

# measure FILE: the shapes of FILE, to $tap_dir/check
measure()
{
    "$gemmblas" tune --check --shapes "$1" --budget 60 >"$tap_dir/check" 2>"$tap_dir/err" ||
        bail "the check failed: $(cat "$tap_dir/err")"
    diag "$(cat "$tap_dir/check")"
}
# slow: which lines of the check are over 2 % slower, by number
slow()
{
    grep ', ratio ' "$tap_dir/check" | awk '{ if ($NF > 1.02) print NR }'
}
measure "$tap_dir/shapes.tsv"
is 20 "$(grep -c ', ratio ' "$tap_dir/check")" 'all are checked'
missed=$(slow)
if [ -n "$missed" ]; then
    diag "measured again: shapes $(xargs <<<"$missed")"
    # shellcheck disable=SC2046,SC2086
    sed -n $(printf -- '-e %sp ' $missed) "$tap_dir/shapes.tsv" >"$tap_dir/again.tsv"
    measure "$tap_dir/again.tsv"
    missed=$(slow)
fi
is '' "$missed" 'none is over 2 % slower than the model'\''s choice'
finish
