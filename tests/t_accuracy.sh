#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The accuracy suite on the emulated device: a part of it, its rows, its verdicts, its table.
# shellcheck source=tests/testlib.sh
. "$(dirname "$0")/testlib.sh"

accuracy=$top_builddir/bench/gemmblas-accuracy
table=$top_srcdir/bench/accuracy.py
# The fibers' tensor cores, whatever the machine has.
export GEMMBLAS_DEVICE=emu
export BENCH_COMMIT=abc123
[ -x "$accuracy" ] || skip_all "$accuracy has not been built"
scratch
file=$tap_dir/rows.tsv

# column NAME: its values, a line each.
column()
{
    awk -F '\t' -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i }
        NR > 1 { print $c }' "$file"
}

# run NAME STATUS OPTION...: rows go to a new $file
run()
{
    local name=$1 wanted=$2
    shift 2
    rm -f "$file"
    "$accuracy" --append "$file" "$@" >"$tap_dir/out" 2>"$tap_dir/err"
    is "$wanted" $? "$name"
    diag "$(cat "$tap_dir/err" "$tap_dir/out")"
}

# all NAME CONDITION: of every row, whose fields are named f["k"]
all()
{
    awk -F '\t' 'NR == 1 { for (i = 1; i <= NF; i++) name[i] = $i; next }
        { for (i = 1; i <= NF; i++) f[name[i]] = $i
          if (NF != 28 || !('"$2"')) { print "# " $0; bad = 1 } }
        END { exit bad || NR < 2 }' "$file"
    ok $? "$1"
}

most=normal,uniform,positive,spread-0,spread-1,spread-2,spread-3,spread-4,spread-5,spread-6
most+=,graded,cancels-far,large,tiny,denormal,special,integers-3,integers-6,integers-10
most+=,integers-20

run 'fp32 in both modes keeps its promises' 0 --type f32 --family $most --shape 130x70x300
all 'and each row says so' 'f["verdict"] == "kept" && f["share"] <= 1'
is 40 "$(column family | wc -l)" 'a row for each mode and family'
is 20 "$(column kernel | grep -c '^gemm_emul_f32')" 'emulated ones are by rows of that mode'
all 'on the emulated device native mode is a chain of multiply-adds' \
    'f["math"] != "native" || (f["chain_ratio"] == 1 && f["frobenius_ratio"] == 1)'
own='^(normal|uniform|positive|spread-[01]|cancels-far)$'
all 'emulated fp32 has bits of its own, or native ones where the guard leaves the product' \
    'f["math"] == "native" || f["family"] ~ /^integers/ || (f["same"] < 1) == (f["family"] ~ /'"$own"'/)'
all 'products of small integers are exact in both modes' \
    'f["family"] !~ /^integers-[36]$/ || (f["rounded"] == 1 && f["element"] == 0)'
cp "$file" "$tap_dir/f32.tsv"

run 'a longer k, turned' 0 --type f32 --family normal,spread-1 --shape 65x33x5000 --trans TT
all 'has a third of the error of a chain at most' \
    'f["math"] == "native" || f["chain_ratio"] < 1 / 3'

run 'where native mode cuts k, emulated arithmetic is held against a chain' 0 --type f32 \
    --family spread-2 --shape 32x32x4096
all 'to which the guard has left it' \
    'f["math"] == "native" || (f["chain_ratio"] == 1 && f["frobenius_ratio"] > 3)'

# An adversary of any split: the sum of what native arithmetic takes back at once stays small.
run 'an adversary has four times the error of native arithmetic at most' 0 --type f32 \
    --math emulated --family cancels --shape 64x64x256
all 'more than any other data, while the bound is kept' \
    'f["share"] <= 1 && f["frobenius_ratio"] > 3'

for type in f64 c32 c64; do
    trans=TN
    [ $type = f64 ] || trans=CR
    run "$type in native mode keeps its promises" 0 --type $type --math native \
        --family $most --shape 37x29x260 --trans $trans --threads 3
    is 20 "$(column family | wc -l)" "$type: a row for each family"
done
"$accuracy" --type f64 --math native --family normal --shape 37x29x260 --threads 1 \
    >"$tap_dir/one"
"$accuracy" --type f64 --math native --family normal --shape 37x29x260 --threads 5 \
    >"$tap_dir/five"
cmp -s "$tap_dir/one" "$tap_dir/five"
ok $? 'data and figures do not depend on the threads'
run 'a mode without rows is skipped' 0 --type f64 --math emulated --shape 20x20x20
is 'f64 emulated: skipped, emu has no row of that mode' "$(head -n 1 "$tap_dir/out")" \
    'and said to be'

for wrong in '--type f16' '--math slow' '--family odd' '--kernel none' '--shape 0x1' '--nothing' 'word'
do
    # shellcheck disable=SC2086 # an option and its value
    "$accuracy" $wrong >"$tap_dir/out" 2>"$tap_dir/err"
    is '2 1' "$? $(wc -l <"$tap_dir/err")" "refused with a line: $wrong"
done
cp "$top_srcdir/tests/none.conf" "$file"
"$accuracy" --append "$file" --shape 8 2>"$tap_dir/err"
is 2 $? 'a file of another kind is not added to'

# ---- the table ----
if command -v python3 >/dev/null; then
    file=$tap_dir/f32.tsv
    python3 "$table" "$file" >"$tap_dir/table"
    is 0 $? 'a table of the rows'
    is 40 "$(grep -c '^| [en].* f32 .* kept |$' "$tap_dir/table")" 'has a line for each'
    cp "$top_srcdir/doc/accuracy.md" "$tap_dir/text.md"
    python3 "$table" "$file" --write "$tap_dir/text.md" &&
        python3 "$table" "$file" --write "$tap_dir/text.md"
    is 0 $? 'and a text has it written in, twice'
    is 1 "$(grep -c '^| emulated | f32 | graded |' "$tap_dir/text.md")" 'and once in it'
    python3 "$table" "$top_srcdir/bench/results/README.md" 2>"$tap_dir/err"
    is '2 1' "$? $(wc -l <"$tap_dir/err")" 'what has no such rows is refused with a line'
else
    skip 'the table' 'python3 is not installed'
fi
finish
