#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The bench programs on the emulated device: their rows, their verdicts, their refusals.
# shellcheck source=tests/testlib.sh
. "$(dirname "$0")/testlib.sh"

bench=$top_builddir/bench/gemmblas-bench
header='date device driver commit place math routine type typec transa transb m n k lda ldb'
header+=' ldc batch beta kernel ours_us spread tflops peer peer_us ratio note'
header=${header// /$'\t'}
wrong_blas=$top_builddir/tests/wrongblas.so
# The test's own device, not one that the machine may have.
export GEMMBLAS_DEVICE=emu
export BENCH_COMMIT=abc123
[ -x "$bench" ] || skip_all "$bench has not been built"
scratch

openblas=$(ldconfig -p 2>/dev/null | sed -n 's/.*libopenblas\.so\.0 .*=> //p' | head -n 1)

# rows FILE: every row has 27 columns, and the header comes first.
rows()
{
    [ "$(head -n 1 "$1")" = "$header" ] && [ "$(wc -l <"$1")" -gt 1 ] &&
        awk -F '\t' 'NF != 27 { exit 1 }' "$1"
}

# column NAME FILE: its values, a line each.
column()
{
    awk -F '\t' -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i }
        NR > 1 { print $c }' "$2"
}

# refused NAME PATTERN COMMAND...: one line that says so, exit status 2, nothing on stdout.
refused()
{
    local name=$1 pattern=$2 status
    shift 2
    "$@" >"$tap_dir/out" 2>"$tap_dir/err"
    status=$?
    [ $status -eq 2 ] && [ "$(wc -l <"$tap_dir/err")" -eq 1 ] && [ ! -s "$tap_dir/out" ] &&
        grep -q -E -- "$pattern" "$tap_dir/err"
    ok $? "$name"
    diag "$(cat "$tap_dir/err")"
}

# ---- resident ----
file=$tap_dir/resident.tsv
"$bench" --shapes "$top_srcdir/bench/shapes/tiny.tsv" --repeats 3 --block 0 \
    --append "$file" --note 'a note' >"$tap_dir/out" 2>"$tap_dir/err"
is 0 $? 'every shape of tiny.tsv runs and is right'
diag "$(cat "$tap_dir/err")"
rows "$file"
ok $? 'resident: the header, and 27 columns in each row'
is "$(grep -c -v -e skipped "$tap_dir/out")" "$(column m "$file" | wc -l)" \
    'a row for each line that is printed'
is 0 "$(grep -v -e skipped "$tap_dir/out" | grep -c -v 'of peak')" \
    'each line shows the share of the peak'
is 'emu abc123 resident native gemm' "$(awk -F '\t' 'NR == 2 {
    print $2, $4, $5, $6, $7 }' "$file")" 'device, commit, place, math and routine'
# (behind it, what was copied ahead of a product)
is 'a note' "$(column note "$file" | sed 's/; .* copied$//' | sort -u)" 'the note is in every row'
is 0 "$(column ours_us "$file" | awk '!($1 > 0)' | wc -l)" 'every time is positive'
is '- - -' "$(awk -F '\t' 'NR > 1 { print $24, $25, $26 }' "$file" | sort -u)" \
    'no peer is a dash'
"$bench" --shape 33x17x40 --repeats 1 --block 0 --append "$tap_dir/one.tsv" >/dev/null
is '33 17 40' "$(awk -F '\t' 'NR == 2 { print $12, $13, $14 }' "$tap_dir/one.tsv")" \
    '--shape gives m, n and k'
is 131 "$(awk -F '\t' 'NR > 1 && $8 == "f32" && $10 == "T" { print $15 }' "$file")" \
    'a leading dimension of +1 is tight and one more'
"$bench" --shape 40 --kernel gemm_simt_f64_64x64x8 --repeats 1 --block 0 \
    --append "$file" >/dev/null
is gemm_simt_f64_64x64x8 "$(column kernel "$file" | tail -n 1)" '--kernel forces a row'
is 'kernel forced' "$(column note "$file" | tail -n 1)" 'and the note says so'
is 1 "$(grep -c '^date' "$file")" 'a second run adds no second header'

# ---- shapes files ----
for name in baseline host tiny workloads; do
    bash "$top_srcdir/bench/shapes/mkshapes.sh" $name |
        cmp -s - "$top_srcdir/bench/shapes/$name.tsv"
    ok $? "$name.tsv is what its generator writes"
done

# ---- profile ----
profile=$top_srcdir/bench/profile
BUILD=$top_builddir bash "$profile" one 2>"$tap_dir/err"
is 2 $? 'profile without a shape is refused'
BUILD=$top_builddir bash "$profile" gemm_none 64 2>"$tap_dir/err"
is 2 $? 'and so is what is no row'
grep -q 'gemmblas info --kernels' "$tap_dir/err"
ok $? 'with a line that says where rows are'
BUILD=$tap_dir bash "$profile" gemm_simt_f32_64x64x16 64 2>"$tap_dir/err"
is 2 $? 'and a tree without a bench'
# in place of Nsight Compute: says which kernels it was asked for, and that it saw none
# shellcheck disable=SC2016 # for that shell
printf '#!/bin/sh\necho "$2"\nexit 1\n' >"$tap_dir/ncu"
chmod +x "$tap_dir/ncu"
for row in gemm_wgmma_f16_256x128x64 gemm_wgmma_f16_256x128x64_c2; do
    is 'regex:^gb_gemm_wgmma_f16_256x128x64_[nt]' "$(PATH=$tap_dir:$PATH \
        BUILD=$top_builddir bash "$profile" $row 64 2>&1)" "the kernels of $row"
done

# ---- host places ----
if [ -n "$openblas" ]; then
    for place in host-fresh host-repeat; do
        file=$tap_dir/$place.tsv
        "$bench" --place $place --shape 70x50x60 --type c64 --trans CT --pause 0 --block 0 \
            --repeats 3 --peer "$openblas" --append "$file" >"$tap_dir/out" 2>&1
        is 0 $? "$place: ours against a BLAS"
        rows "$file"
        ok $? "$place: the header, and 27 columns"
        is "$place" "$(column place "$file")" "$place is the place"
        is '' "$(column note "$file")" "$place: both are right, and ours ran on the device"
        is 1 "$(column kernel "$file" | grep -c '^gemm_')" "$place: the kernel is named"
        is 1 "$(column peer "$file" | grep -c -i openblas)" "$place: the peer has a name"
    done

    # ---- a peer that is wrong ----
    file=$tap_dir/wrong.tsv
    "$bench" --place host-repeat --shape 90x60x40 --type f64 --pause 0 --block 0 --repeats 1 \
        --peer "$wrong_blas,$openblas" --append "$file" >"$tap_dir/out" 2>&1
    is 0 $? 'a wrong peer is no failure of ours'
    diag "$(cat "$tap_dir/out")"
    is 'peer wrong' "$(column note "$file" | head -n 1)" 'one wrong entry: peer wrong'
    is '' "$(column note "$file" | tail -n 1)" 'the other peer is not blamed'
    grep -q 'peer wrong' "$tap_dir/out"
    ok $? 'the line on stdout says so too'
    file=$tap_dir/ours.tsv
    "$bench" --place host-repeat --shape 90x60x40 --type f64 --pause 0 --block 0 --repeats 1 \
        --ours "$wrong_blas" --peer "$openblas" --append "$file" >/dev/null
    is 1 $? 'a wrong result of ours is exit status 1'
    is 'ours wrong' "$(column note "$file")" 'and the note says whose'

    # ---- by turns under LD_PRELOAD ----
    file=$tap_dir/turns.tsv
    "$bench" --place host-fresh --shape 40x30x50 --type f32 --repeats 3 --peer nvblas \
        --nvblas "$wrong_blas" --blas "$openblas" --append "$file" >"$tap_dir/out" 2>&1
    is 0 $? 'a client under ours and under another by turns'
    diag "$(cat "$tap_dir/out")"
    rows "$file"
    ok $? 'by turns: the header, and 27 columns'
    is 'wrongblas.so' "$(column peer "$file")" 'by turns: the other is named'
    is 'peer wrong' "$(column note "$file")" 'by turns: a wrong peer is told'
    is 1 "$(column kernel "$file" | grep -c '^gemm_')" 'by turns: the kernel is named'
    cp "$wrong_blas" "$tap_dir/libnvblas.so.13.1.0"
    for library in "$tap_dir/libnvblas.so.13.1.0" "$openblas"; do
        "$bench" --place host-fresh --shape 40 --repeats 1 --peer nvblas \
            --nvblas "$library" --blas "$openblas" --append "$tap_dir/names.tsv" >/dev/null
    done
    is 'nvblas 13.1.0 autopin' "$(column peer "$tap_dir/names.tsv" | head -n 1)" \
        'by turns: an NVBLAS that is named has its version'
    column peer "$tap_dir/names.tsv" | tail -n 1 | grep -q -E '^OpenBLAS [0-9.]+$'
    ok $? 'by turns: so has another library'
    GEMMBLAS_ROUTE=cpu "$bench" --place host-repeat --shape 40 --pause 0 --block 0 \
        --repeats 1 --append "$tap_dir/cpu.tsv" >/dev/null
    is 'on the CPU: cpu' "$(column note "$tap_dir/cpu.tsv")" \
        'a call of ours that stayed on the CPU is told'

    # ---- overhead ----
    file=$tap_dir/overhead.tsv
    "$top_builddir/bench/overhead" --blas "$openblas" --rounds 5 --append "$file" \
        >"$tap_dir/out" 2>"$tap_dir/err"
    is 0 $? 'overhead runs'
    diag "$(cat "$tap_dir/out" "$tap_dir/err")"
    is 8 "$(grep -c 'adds .* ns, floor .* ns' "$tap_dir/out")" \
        'overhead: two routines, four sizes'
    rows "$file"
    ok $? 'overhead: the header, and 27 columns'
else
    skip 'host places, overhead' 'no libopenblas.so.0 here'
fi

# ---- numpy ----
python=/usr/bin/python3
if [ -n "$openblas" ] && "$python" -c 'import numpy' 2>/dev/null; then
    file=$tap_dir/numpy.tsv
    numpy=("$python" "$top_srcdir/bench/numpy_matmul.py" --size 80 --repeats 2 --warm 0)
    GEMMBLAS_ROUTE=gpu "${numpy[@]}" --preload "$preload" --append "$file" --note 'a note' \
        >"$tap_dir/out" 2>"$tap_dir/err"
    is 0 $? 'numpy without and with ours by turns'
    diag "$(cat "$tap_dir/out" "$tap_dir/err")"
    rows "$file"
    ok $? 'numpy: the header, and 27 columns'
    is 'host-repeat f32 host-fresh f32 host-repeat f64 host-fresh f64' \
        "$(awk -F '\t' 'NR > 1 { print $5, $8 }' "$file" | paste -s -d ' ')" \
        'numpy: both places, both types'
    is 4 "$(column peer "$file" | grep -c '^numpy-')" 'numpy: the peer is its own BLAS'
    is 4 "$(column kernel "$file" | grep -c '^gemm_')" 'numpy: the kernel is named'
    is 4 "$(column note "$file" | grep -c '^a note; numpy [0-9.]*$')" \
        'numpy: its version is in the note, and both are right'
    GEMMBLAS_ROUTE=cpu "${numpy[@]}" --preload "$preload" --append "$file" >/dev/null 2>&1
    is 4 "$(column note "$file" | grep -c '12 of 12 on the CPU: cpu$')" \
        'numpy: calls that stayed on the CPU are told'
    printf 'something else\n' >"$tap_dir/other.tsv"
    refused 'numpy: another file to append to' 'not the header' \
        "${numpy[@]}" --preload "$preload" --append "$tap_dir/other.tsv"
    refused 'numpy: rows without a library' '--append: it needs --preload' \
        "${numpy[@]}" --append "$file"
else
    skip 'numpy_matmul.py' 'no numpy here'
fi

# ---- plot.py ----
plot_python=${GB_NUMPY_PYTHON:-python3}
if "$plot_python" -c 'import matplotlib' 2>/dev/null; then
    plot=("$plot_python" "$top_srcdir/bench/plot.py")
    "${plot[@]}" "$top_srcdir/bench/results/h200.tsv" "$tap_dir/plot.svg" >"$tap_dir/out" 2>&1
    is 0 $? 'plot.py draws the committed rows'
    diag "$(cat "$tap_dir/out")"
    is 1 "$(grep -c '</svg>' "$tap_dir/plot.svg")" 'plot.py: a whole picture'
    cp "$tap_dir/plot.svg" "$tap_dir/first.svg"
    "${plot[@]}" "$top_srcdir/bench/results/h200.tsv" "$tap_dir/plot.svg"
    cmp -s "$tap_dir/first.svg" "$tap_dir/plot.svg"
    ok $? 'plot.py: the same picture from the same rows'
    refused 'plot.py: rows that are not there' 'no resident rows of f64 to f32' \
        "${plot[@]}" "$top_srcdir/bench/results/h200.tsv" "$tap_dir/plot.svg" --type f64 --typec f32
    refused 'plot.py: no file' 'nothing.tsv' "${plot[@]}" "$tap_dir/nothing.tsv" "$tap_dir/plot.svg"
else
    skip 'plot.py' 'no matplotlib here'
fi

# ---- link ----
"$top_builddir/bench/link" --mib 5 --repeats 1 --threads 1,3 >"$tap_dir/out" 2>"$tap_dir/err"
is 0 $? 'link runs, and staged data arrive unchanged'
diag "$(cat "$tap_dir/out" "$tap_dir/err")"
is 9 "$(grep -c -E '^(pinned|staged).* [0-9.]+ +[0-9.]+ +([0-9.]+|-)$' "$tap_dir/out")" \
    'link: six pinned rows, three staged'

# ---- refusals ----
shapes()
{
    printf '%s\n' "$1" | tr ' ' '\t' >"$tap_dir/shapes.tsv"
}

refused 'no shapes' 'give --shapes FILE or --shape' "$bench"
refused 'no such file' 'absent.tsv: No such file' "$bench" --shapes "$tap_dir/absent.tsv"
shapes 'gemm f64 f64 N N 4 4 4 0 0 0 1'
refused 'a field missing' 'shapes.tsv:1: fewer than 13' "$bench" --shapes "$tap_dir/shapes.tsv"
shapes 'trsm f64 f64 N N 4 4 4 0 0 0 1 0'
refused 'an unknown routine' 'only gemm' "$bench" --shapes "$tap_dir/shapes.tsv"
shapes 'gemm f64 f64 N N 4 4 4 3 0 0 1 0'
refused 'a short leading dimension' 'lda, ldb, ldc' "$bench" --shapes "$tap_dir/shapes.tsv"
shapes 'gemm f64 f32 N N 4 4 4 0 0 0 1 0'
refused 'a typec that no routine has' 'typec' "$bench" --shapes "$tap_dir/shapes.tsv"
shapes 'gemm f64 f64 N N 4 4 99999999999 0 0 0 1 0'
refused 'a size beyond 32 bits' 'm, n, k' "$bench" --shapes "$tap_dir/shapes.tsv"
refused 'an unknown type' "--type 'f65'" "$bench" --shape 4 --type f65
refused 'an unknown option' '--nonsense' "$bench" --nonsense
refused 'an unknown place' "--place 'moon'" "$bench" --shape 4 --place moon
refused 'an unknown kernel' '--kernel nothing: no such row' "$bench" --shape 4 --kernel nothing
refused 'cublas without its GPU' '--peer cublas' "$bench" --shape 4 --peer cublas
refused 'a peer that is not there' 'peer /nowhere/libblas.so' \
    "$bench" --shape 4 --place host-fresh --peer /nowhere/libblas.so
printf 'something else\n' >"$tap_dir/other.tsv"
refused 'another file to append to' 'not the header' \
    "$bench" --shape 4 --append "$tap_dir/other.tsv"
is 'something else' "$(cat "$tap_dir/other.tsv")" 'which is left as it was'
refused 'no repeats' "--repeats '0'" "$bench" --shape 4 --repeats 0
refused 'link: a bad size' "--mib 'x'" "$top_builddir/bench/link" --mib x
refused 'overhead: a BLAS that is not there' '/nowhere/libblas.so' \
    "$top_builddir/bench/overhead" --blas /nowhere/libblas.so
for program in gemmblas-bench link overhead; do
    "$top_builddir/bench/$program" --help | grep -q '^Usage: '
    ok $? "$program --help"
done

finish
