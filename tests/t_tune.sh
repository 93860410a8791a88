#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `gemmblas tune` on the emulated device, whose clock tells planted times: the search finds the
# row that is cheaper, later processes choose it, and a file that cannot be believed does not
# count at all.
# shellcheck source=tests/testlib.sh
. "$(dirname "$0")/testlib.sh"

gemmblas=$top_builddir/gemmblas
client=$top_builddir/bench/client-gemm
[ -x "$gemmblas" ] || bail "$gemmblas is missing"
scratch
export GEMMBLAS_DEVICE=emu GEMMBLAS_ROUTE=gpu XDG_CACHE_HOME=$tap_dir/cache
unset GEMMBLAS_TUNED GEMMBLAS_COST
file=$XDG_CACHE_HOME/gemmblas/tuned-gemmblas-emulated-device.txt
shape='sgemm N N 300 100 300'

# chosen ROUTINE...: who chose, which kernel, and how it is run, by `gemmblas explain`
chosen()
{
    "$gemmblas" explain "$@" 2>"$tap_dir/err" |
        sed -n 's/^kernel \([^ ]*\) .*chosen by \([a-z]*\): /\2 \1 /p'
}

# tune COST ARGUMENT...: with planted times; what it says to $tap_dir/out
tune()
{
    local cost=$1
    shift
    GEMMBLAS_COST=$cost "$gemmblas" tune "$@" >"$tap_dir/out" 2>"$tap_dir/err"
}

# refused NAME PATTERN ARGUMENT...: one line that says so, exit status 2, nothing on stdout
refused()
{
    local name=$1 pattern=$2 status
    shift 2
    "$gemmblas" tune "$@" >"$tap_dir/out" 2>"$tap_dir/err"
    status=$?
    [ $status -eq 2 ] && [ "$(wc -l <"$tap_dir/err")" -eq 1 ] && [ ! -s "$tap_dir/out" ] &&
        grep -q -E -- "$pattern" "$tap_dir/err"
    ok $? "$name"
    diag "$(cat "$tap_dir/err")"
}

# ---- the search ----
# shellcheck disable=SC2086
{
model=$(chosen $shape | cut -d ' ' -f 2)
is "model $model" "$(chosen $shape | cut -d ' ' -f 1,2)" 'without a file the model chooses'
case $model in
*_128x128x16) other=gemm_simt_f32_64x64x16 ;;
*) other=gemm_simt_f32_128x128x16 ;;
esac

tune "$other=5,*=50" --dry-run --budget 2 $shape
is 0 $? 'a dry run' || diag "$(cat "$tap_dir/err")"
grep -q "model $model .* 50.00 us, tuned $other .* 5.00 us, gain 10.000" "$tap_dir/out"
ok $? 'the search finds the row that is planted as cheaper'
[ ! -e "$XDG_CACHE_HOME" ]
ok $? 'a dry run writes nothing'

tune "$other=5,*=50" --budget 2 $shape
is 0 $? 'a run' || diag "$(cat "$tap_dir/err")"
is '600 700' "$(stat -c %a "$file" "$XDG_CACHE_HOME/gemmblas" | xargs)" \
    'writes a file for its owner alone'
is "$file" "$(find "$XDG_CACHE_HOME" -type f)" 'and nothing else'
is "tuned $other split 1, group 8, hints none,none" "$(chosen $shape)" \
    'the next process chooses that row'
"$gemmblas" explain $shape | grep -q "^  then $model "
ok $? 'the model'\''s is among the runners-up'
is "model $model" "$(chosen sgemm T N 300 100 300 | cut -d ' ' -f 1,2)" \
    'for this shape alone'
is "model $model" "$(GEMMBLAS_TUNED=off chosen $shape | cut -d ' ' -f 1,2)" \
    'GEMMBLAS_TUNED=off: the model'

tune "$other=5,*=50" --check --budget 1 $shape
grep -q "chosen $other .* by tuned, ratio 0.100" "$tap_dir/out"
ok $? 'a check measures both anew'

# ---- tile orders; merging; what is no better any more ----
tune "$other@1=4,$other=40,*=50" --budget 2 sgemm N N 300 100 310
is "tuned $other split 1, group 1, hints none,none" "$(chosen sgemm N N 300 100 310)" \
    'the search finds a cheaper tile order'
is "tuned $other" "$(chosen $shape | cut -d ' ' -f 1,2)" 'the row of the other shape stays'
is 2 "$(grep -c '^row ' "$file")" 'two rows'
tune '*=50' --budget 1 $shape
grep -q ', kept of [1-9]' "$tap_dir/out"
ok $? 'where nothing is better the model'\''s choice is kept'
is "model $model" "$(chosen $shape | cut -d ' ' -f 1,2)" 'and a row from before is gone'
tune "$other=99,*=100" --dry-run --budget 1 $shape
is 0 "$(grep -c tuned "$tap_dir/out")" 'one in a hundred is not taken for a gain'

# ---- classes ----
tune "$other=5,*=50" --class --budget 4 sgemm N N 256 128 256
is 0 $? 'a class' || diag "$(cat "$tap_dir/err")"
is "tuned $other" "$(chosen sgemm N N 300 100 200 | cut -d ' ' -f 1,2)" \
    'a row for a class serves its other members'
is "model $model" "$(chosen sgemm N N 300 100 500 | cut -d ' ' -f 1,2)" \
    'and no other class'

# ---- a file that is not believed ----
tune "$other=5,*=50" --budget 2 $shape
cp "$file" "$tap_dir/good"

# distrusted NAME PATTERN: the file as it is now; the log says why
distrusted()
{
    is "model $model" "$(GEMMBLAS_LOG=info chosen $shape | cut -d ' ' -f 1,2)" "$1"
    is 1 "$(grep -c -E "no tuned rows .*$2" "$tap_dir/err")" "$1: one line says so" ||
        diag "$(cat "$tap_dir/err")"
}
head -c -30 "$tap_dir/good" >"$file"
distrusted 'cut short' damaged
sed 's/group 8/group 4/' "$tap_dir/good" >"$file"
distrusted 'a changed row' damaged
sed '/^end/s/.$/x/' "$tap_dir/good" >"$file"
distrusted 'a changed checksum' damaged
cp "$tap_dir/good" "$file"
chmod 620 "$file"
distrusted 'writable by a group' 'others may write'
chmod 600 "$file"
is "tuned $other" "$(chosen $shape | cut -d ' ' -f 1,2)" 'as it was, it counts again'
# Another driver, the rest of the file as such a machine would have written it.
sed 's/ driver 0 / driver 12 /' "$tap_dir/good" | sed '$d' >"$file"
python3 - "$file" <<'END' 2>/dev/null || skip_signature=1
import sys
h = 0xcbf29ce484222325
for b in open(sys.argv[1], 'rb').read():
    h = (h ^ b) * 0x100000001b3 % 2**64
open(sys.argv[1], 'a').write('end %016x\n' % h)
END
if [ "${skip_signature:-}" ]; then
    skip 'another signature' 'python3 is not installed'
else
    distrusted 'another signature' 'another driver'
    is '' "$(chosen $shape >"$tap_dir/out"; cat "$tap_dir/err")" \
        'which an upgrade brings about: no warning'
fi
mv "$tap_dir/good" "$tap_dir/elsewhere"
is "tuned $other" "$(GEMMBLAS_TUNED=$tap_dir/elsewhere chosen $shape | cut -d ' ' -f 1,2)" \
    'GEMMBLAS_TUNED names a file'
GEMMBLAS_TUNED=$tap_dir/nowhere chosen $shape >"$tap_dir/out"
grep -q 'no such file' "$tap_dir/err"
ok $? 'one that is not there is missed'
}

# ---- the library ----
if [ -x "$client" ]; then
    # run M: a program that multiplies, on the emulated device
    run()
    {
        LD_PRELOAD=$preload GEMMBLAS_TUNED=$tap_dir/elsewhere "$client" f32 N N "$1" 100 300 \
            "$1" 300 "$1" 0 host-fresh 1 7 >"$tap_dir/out" 2>"$tap_dir/err"
    }
    trace_file=$tap_dir/trace
    GEMMBLAS_TRACE=$trace_file run 300
    is right "$(tail -n 1 "$tap_dir/out")" 'a program is right'
    [ "$(traced "kernel=$other .*chosen=tuned")" -ge 1 ]
    ok $? 'and runs on the tuned row'
    GEMMBLAS_TRACE=$trace_file run 30
    [ "$(traced 'kernel=gemm_.*chosen=model')" -ge 1 ]
    ok $? 'or on the model'\''s'

    stats=$tap_dir/stats.json
    for m in 150 150 160; do
        GEMMBLAS_STATS=$stats run $m
    done
    is 3 "$(grep -c '"gemmblas_stats": 1' "$stats")" 'three processes leave statistics'
    tune "$other=5,*=50" --from "$stats" --budget 10 --output "$tap_dir/from"
    is 0 $? 'their shapes are tuned' || diag "$(cat "$tap_dir/err")"
    is '150 160' "$(sed -n 's/^f32 f32 N N \([0-9]*\) 100 300: .*/\1/p' "$tap_dir/out" |
        sort | xargs)" 'each once'
    is "tuned $other" "$(GEMMBLAS_TUNED=$tap_dir/from chosen sgemm N N 160 100 300 |
        cut -d ' ' -f 1,2)" 'into the file that was named'
    echo '{"gemmblas_stats": 1, "routines": [], "shapes": []}' >"$tap_dir/none.json"
    refused 'nothing ran on a device' 'GEMMBLAS_ROUTE=gpu' --from "$tap_dir/none.json"
    head -c -9 "$stats" >"$tap_dir/cut.json"
    refused 'statistics cut short' 'goes wrong at byte' --from "$tap_dir/cut.json"
else
    skip 'a program' "$client has not been built"
fi

# ---- shapes files, tables ----
printf 'routine\ttype\ttypec\ttransa\ttransb\tm\tn\tk\tlda\tldb\tldc\tbatch\tbeta\n' \
    >"$tap_dir/shapes.tsv"
printf 'gemm\tf32\tf32\tN\tT\t70\t90\t40\t0\t0\t0\t2\t0\ngemm\tf64\tf64\tN\tN\t40\t40\t40\t+1\t0\t0\t1\t0\n' \
    >>"$tap_dir/shapes.tsv"
tune "gemm_simt_f32_128x128x16=5,gemm_simt_f64_128x64x8=6,*=50" --shapes "$tap_dir/shapes.tsv" \
    --budget 4 --output "$tap_dir/table.def"
is 0 $? 'a shapes file' || diag "$(cat "$tap_dir/err")"
is 'TUNED(F32, F32, N, T, EXACT, 70, 90, 40, 2, 3, gemm_simt_f32_128x128x16, 1, 8, 0)
TUNED(F64, F64, N, N, EXACT, 40, 40, 40, 1, 1, gemm_simt_f64_128x64x8, 1, 8, 0)' \
    "$(grep '^TUNED' "$tap_dir/table.def")" 'becomes a table to ship'
tune '*=50' --shapes "$tap_dir/shapes.tsv" --type f64 --budget 2 --dry-run
is 1 "$(grep -c '^f' "$tap_dir/out")" '--type keeps shapes of its type'

# ---- refusals ----
refused 'an unknown option' '"--fast".*--help' --fast
refused 'an option without its value' '--budget needs a value' --budget
refused 'no number' '--budget soon' --budget soon sgemm N N 9 9 9
refused 'too few arguments' 'ROUTINE TRANSA' sgemm N N 9 9
refused 'an unknown routine' 'qgemm' qgemm N N 9 9 9
refused 'nothing to multiply' 'sizes from 1' sgemm N N 9 0 9
refused 'two sources of shapes' 'give one of' --shapes x sgemm N N 9 9 9
refused 'no such file' 'No such file' --shapes "$tap_dir/no.tsv"
refused 'a file that is none' 'goes wrong at byte 0' --from "$tap_dir/shapes.tsv"
printf 'gemm\tf32\n' >"$tap_dir/short.tsv"
refused 'a line that is none' 'line 1: not 13 fields' --shapes "$tap_dir/short.tsv"
refused 'a type without shapes' 'no shape' --type c32 --shapes "$tap_dir/shapes.tsv"
refused 'no type' 'f16, bf16:f32' --type q8
GEMMBLAS_DEVICE=none refused 'no device' 'GEMMBLAS_DEVICE=none' sgemm N N 9 9 9
GEMMBLAS_TUNED=off refused 'no file to write' '--output' sgemm N N 9 9 9
GEMMBLAS_FAULT=launch@9 tune '*=50' --budget 1 sgemm N N 9 9 9
is '2 1' "$? $(grep -c 'emulated device: ' "$tap_dir/err")" 'a device that fails ends it'
[ ! -e "$tap_dir/cache2" ] && XDG_CACHE_HOME=/dev/null/x tune '*=50' --budget 1 sgemm N N 9 9 9
is '2 1' "$? $(grep -c -- --output "$tap_dir/err")" 'a place where nothing can be written'
finish
