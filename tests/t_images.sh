#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The device images hold what the tables promise: for every configured architecture each row
# of kernels.def in four layouts (of tf32 in one) and its family's reduction (rows of pairs,
# "_c2", run the code of the row of the same tile and have none of their own); no local
# memory (a kernel has no stack frame of its own, so any frame is a spill); and main loops of
# the size that the tile implies. A step of the main loop lies between two barriers. Kernels
# for Hopper alone have its matrix instructions (HGMMA; of 8-bit integers IGMMA), one for each
# 16 of k (8 of tf32) and 64 columns of C, and its copies (UTMALDG); those for tensor cores of
# sm_80 and newer theirs (HMMA.16816), fed by LDSM from asynchronous copies
# (LDGSTS) or, of ragged operands, from vectors; those in fp64 have DMMA.
# shellcheck source=tests/testlib.sh
. "$(dirname "$0")/testlib.sh"

images=$top_builddir/src/gpu/kernels
built=("$images"/*.fatbin)
[ -e "${built[0]}" ] || skip_all 'no CUDA compiler was found, so there are no images'

nvcc=$(sed -n 's/^NVCC = *//p' "$top_builddir/Makefile")
for dir in ${PATH//:/ } ${CUDA_HOME:+"$CUDA_HOME/bin"} "${nvcc%/*}" \
    "${GB_NUMPY_PYTHON:+${GB_NUMPY_PYTHON%/bin/*}}"/lib/python3*/site-packages/nvidia/cu13/bin \
    "$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))' 2>/dev/null)"/nvidia/cu13/bin; do
    [ -z "${cuobjdump:-}" ] && [ -x "$dir/cuobjdump" ] && cuobjdump=$dir/cuobjdump
    [ -z "${nvdisasm:-}" ] && [ -x "$dir/nvdisasm" ] && nvdisasm=$dir/nvdisasm
done
[ -n "${cuobjdump:-}" ] ||
    skip_all 'no cuobjdump: pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm'
[ -z "${nvdisasm:-}" ] || PATH=${nvdisasm%/*}:$PATH # cuobjdump starts it

gencode=$(sed -n 's/^GB_GENCODE = *//p' "$top_builddir/Makefile")
mapfile -t archs < <(grep -o 'code=sm_[0-9a-z]*' <<<"$gencode" | sed 's/code=//')
ptx=$(grep -o 'code=compute_[0-9]*' <<<"$gencode" | sed 's/code=compute/sm/')
[ ${#archs[@]} -gt 0 ] || bail 'no architecture in the makefile'
gencode_dmma=$(sed -n 's/^GB_GENCODE_DMMA = *//p' "$top_builddir/Makefile")
mapfile -t dmma_archs < <(grep -o 'code=sm_[0-9a-z]*' <<<"$gencode_dmma" | sed 's/code=//')
dmma_ptx=$(grep -o 'code=compute_[0-9]*' <<<"$gencode_dmma" | sed 's/code=compute/sm/')
gencode_mma=$(sed -n 's/^GB_GENCODE_MMA = *//p' "$top_builddir/Makefile")
mapfile -t mma_archs < <(grep -o 'code=sm_[0-9a-z]*' <<<"$gencode_mma" | sed 's/code=//')
mma_ptx=$(grep -o 'code=compute_[0-9]*' <<<"$gencode_mma" | sed 's/code=compute/sm/')
hopper=$(sed -n 's/^GB_GENCODE_HOPPER = *.*code=\(sm_[0-9a-z]*\).*/\1/p' "$top_builddir/Makefile")
scratch

# Rows: name family type type_c type_acc tile_m tile_n tile_k threads align
${CC:-cc} -E -P -x c -I"$top_srcdir/src/gpu/kernels" "$top_srcdir/src/gpu/kernels.def" |
    sed -n 's/^ *KERNEL(\(.*\))$/\1/p' | tr -d ' ' | awk -F, '$1 !~ /_c2$/ {
        print $1, $2, $3, tolower($4), tolower($5), $8, $9, $10, $13, $12 }' >"$tap_dir/rows"
[ -s "$tap_dir/rows" ] || bail 'no rows in kernels.def'

# For each kernel: its largest number of multiply-adds between two barriers, and the 128-bit
# loads from shared memory of the same stretch.
steps()
{
    awk '
        # what has no vectors of operands is an epilogue
        function close_step() {
            if (loads > 0 && fma > best[name]) { best[name] = fma; lds[name] = loads }
        }
        /Function :/ { close_step(); name = $3; fma = loads = 0 }
        /BAR\.SYNC/ { close_step(); fma = loads = 0 }
        / [FD]FMA/ { fma++ }
        / LDS\.[A-Z0-9.]*128/ { loads++ }
        END { close_step(); for (n in best) print n, best[n], lds[n] }'
}

cut -d' ' -f2 "$tap_dir/rows" | sort -u >"$tap_dir/families"
while read -r family; do
    image=$images/$family.fatbin
    newer=$ptx
    family_archs=("${archs[@]}")
    case $family in
    gemm_wgmma_* | gemm_emul_* | gemm_int8)
        newer=
        family_archs=("$hopper")
        [[ " ${archs[*]} " == *" ${hopper%a}"* ]] || {
            [ ! -f "$image" ]
            ok $? "$family: no image without ${hopper%a} among the architectures"
            continue
        }
        ;;
    gemm_dmma_*)
        newer=$dmma_ptx
        family_archs=("${dmma_archs[@]}")
        ;;
    gemm_mma_* | gemm_ffma_*)
        newer=$mma_ptx
        family_archs=("${mma_archs[@]}")
        ;;
    esac
    [ -f "$image" ] || { ok 1 "$family has an image"; continue; }
    is "$newer" "$("$cuobjdump" --list-ptx "$image" | sed -n 's/.*\.\(sm_[0-9]*\)\.ptx$/\1/p')" \
        "$family: PTX for newer devices"
    for arch in "${family_archs[@]}"; do
        # name, registers, stack, local
        "$cuobjdump" -res-usage -arch "$arch" "$image" | tr ':' ' ' | awk '
            $1 == "Function" { name = $2 }
            $1 == "REG" { for (i = 1; i < NF; i += 2) v[$i] = $(i + 1)
                print name, v["REG"], v["STACK"], v["LOCAL"] }' | sort >"$tap_dir/usage"
        awk -v family="$family" '$2 == family && family ~ /^gemm_emul_/ {
            print "gb_" $1
            n = split($3 == "F64" ? "measure choose cut join" : "split", steps)
            for (i = 1; i <= n; i++)
                print "gb_" steps[i] "_" tolower($3)
            n = split("nn nt tn tt", layouts)
            for (i = 1; i <= n; i++)
                print "gb_rest_" tolower($3) "_" layouts[i]
            next
        }
        $2 == family && family == "gemm_int8" {
            print "gb_" $1 "\ngb_bytes_s8\ngb_sums_s8"
            next
        }
        $2 == family {
            if (family ~ /_tf32$/) # operands along k alone
                print "gb_" $1 "_tn"
            else
                print "gb_" $1 "_nn\ngb_" $1 "_nt\ngb_" $1 "_tn\ngb_" $1 "_tt"
            if (family !~ /^gemm_thin_/) # which adds up no splits
                print "gb_reduce_" $5 "_" $4 }' "$tap_dir/rows" | sort -u >"$tap_dir/wanted"
        is "$(cat "$tap_dir/wanted")" "$(cut -d' ' -f1 "$tap_dir/usage")" \
            "$family $arch: every kernel, and no other"
        is '' "$(awk '$3 != 0 || $4 != 0' "$tap_dir/usage")" "$family $arch: nothing is spilled"

        [ -n "${nvdisasm:-}" ] || {
            skip "$family $arch: main loops" 'no nvdisasm: pip install nvidia-cuda-nvdisasm'
            continue
        }
        if [[ $family == gemm_emul_* ]]; then
            # 3 for each 16 of k of a buffer, of 4 operands; or of bytes one for each 32, of 2
            is '' "$("$cuobjdump" -sass -arch "$arch" "$image" | awk '
                /Function :/ { name = $3 }
                / [HI]GMMA\./ { products[name]++ }
                / UTMALDG/ { loads[name]++ }
                name ~ /^gb_gemm_emul_/ { kernels[name] = 1 }
                END {
                    for (n in kernels) {
                        bytes = n ~ /_f64_/
                        if (products[n] < (bytes ? 4 : 12) || loads[n] < (bytes ? 2 : 4))
                            print n, products[n] + 0
                    }
                }')" \
                "$family $arch: warpgroup products of tiles that TMA brings"
            continue
        fi
        if [[ $family == gemm_int8 ]]; then
            # 4 of 32 of k per buffer, each for 64 columns of a warpgroup
            is '' "$("$cuobjdump" -sass -arch "$arch" "$image" | awk '
                /Function :/ { name = $3 }
                / IGMMA\..*\.S8\.S8/ { products[name]++ }
                / UTMALDG/ { loads[name]++ }
                name ~ /^gb_gemm_int8_/ { kernels[name] = 1 }
                END { for (n in kernels) if (products[n] < 4 || loads[n] < 2) print n, products[n] + 0 }')" \
                "$family $arch: warpgroup products of tiles that TMA brings"
            continue
        fi
        if [ "$arch" = "$hopper" ] && [[ $family == gemm_wgmma_* ]]; then
            "$cuobjdump" -sass -arch "$arch" "$image" | awk '
                /Function :/ { name = $3 }
                / HGMMA\./ { products[name]++ }
                / UTMALDG/ { loads[name]++ }
                END { for (n in products) print n, products[n], loads[n] + 0 }' >"$tap_dir/hopper"
            # 4 of 16 (tf32: 8) per buffer, each for 64 columns of a warpgroup; in the loop, and
            # once more for the first buffer of carried sums, which stands by itself
            is '' "$(awk -v family="$family" '
                NR == FNR { products[$1] = $2; loads[$1] = $3; next }
                $2 == family {
                    split($9, threads, /[()]/) # 128*(warpgroups that multiply)+128
                    want = 2 * 4 * $7 / 64 / threads[2]
                    layouts = split(family ~ /_tf32$/ ? "tn" : "nn nt tn tt", layout)
                    for (i = 1; i <= layouts; i++) {
                        n = "gb_" $1 "_" layout[i]
                        if (products[n] < want || loads[n] < 2)
                            print n, "HGMMA", products[n] + 0, "of", want, "UTMALDG",
                                loads[n] + 0
                    }
                }' "$tap_dir/hopper" "$tap_dir/rows")" \
                "$family $arch: warpgroup products of tiles that TMA brings"
            continue
        fi
        if [[ $family == gemm_mma_* ]]; then
            "$cuobjdump" -sass -arch "$arch" "$image" | awk '
                /Function :/ { name = $3 }
                / HMMA\.16816\.F32/ { products[name]++ }
                / LDSM\.16\.MT?88\.4/ { matrices[name]++ }
                / LDGSTS\.[A-Z0-9.]*128/ { copies[name]++ }
                / (LDG|LD)\.[A-Z0-9.]*128/ { vectors[name]++ }
                END { for (n in products) print n, products[n], matrices[n] + 0,
                    copies[n] + 0, vectors[n] + 0 }' >"$tap_dir/mma"
            # A step: one product for each 16x8 of C and 16 of k, one matrix load for each 16x16
            # of an operand that a warp needs, one copy for each chunk of a thread.
            is '' "$(awk -v family="$family" '
                NR == FNR { hmma[$1] = $2; ldsm[$1] = $3; copy[$1] = $4; load[$1] = $5; next }
                $2 == family {
                    split($9, f, /[*()]+/) # 32*(warps_m)*(warps_n)
                    k16 = $8 / 16; m = $6 / f[2]; n = $7 / f[3]
                    products = m / 8 * n / 16 * k16
                    matrices = (m + n) / 16 * k16
                    chunks = ($6 + $7) * $8 / 8 / (32 * f[2] * f[3])
                    split("nn nt tn tt", layout)
                    for (i = 1; i <= 4; i++) {
                        x = "gb_" $1 "_" layout[i]
                        if (hmma[x] < products || ldsm[x] < matrices ||
                            ($10 == 16 ? copy[x] : load[x]) < chunks)
                            print x, "HMMA", hmma[x] + 0, "of", products, "LDSM", ldsm[x] + 0,
                                "of", matrices, "copies", copy[x] + 0, "vectors", load[x] + 0,
                                "of", chunks
                    }
                }' "$tap_dir/mma" "$tap_dir/rows")" \
                "$family $arch: whole steps of tensor-core products"
            continue
        fi
        if [[ $family == gemm_dmma_* ]]; then
            # A step: one product for each 16x8 of C and 4 of k (Hopper's may be deeper, those
            # before are half as high), four times that of complex numbers, from single elements
            # that were copied as vectors or, of ragged operands, as doubles.
            "$cuobjdump" -sass -arch "$arch" "$image" | awk '
                /Function :/ { name = $3 }
                / DMMA\.16x8x/ { split($0, part, /DMMA\.16x8x/); products[name] += part[2] + 0 }
                / DMMA\.8x8x4/ { products[name] += 2 }
                / LDGSTS\.[A-Z0-9.]*128/ { copies[name]++ }
                / LDGSTS\.[A-Z0-9.]*64/ { halves[name]++ }
                END { for (n in products) print n, products[n], copies[n] + 0,
                    halves[n] + 0 }' >"$tap_dir/dmma"
            is '' "$(awk -v family="$family" '
                NR == FNR { dmma[$1] = $2; copy[$1] = $3; half[$1] = $4; next }
                $2 == family {
                    split($9, f, /[*()]+/) # 32*(warps_m)*(warps_n)
                    complex = $3 ~ /^C/
                    products = $6 / f[2] / 8 * $7 / f[3] / 16 * $8 * (complex ? 4 : 1)
                    chunks = ($6 + $7) * $8 / (complex ? 1 : 2) / (32 * f[2] * f[3])
                    split("nn nt tn tt", layout)
                    for (i = 1; i <= 4; i++) {
                        x = "gb_" $1 "_" layout[i]
                        if (dmma[x] < products || copy[x] < chunks || half[x] < 2 * chunks)
                            print x, "DMMA", dmma[x] + 0, "of", products, "copies",
                                copy[x] + 0, "and", half[x] + 0, "of", chunks
                    }
                }' "$tap_dir/dmma" "$tap_dir/rows")" \
                "$family $arch: whole steps of tensor-core products"
            continue
        fi
        if [[ $family == gemm_thin_* ]]; then
            # 16 by 8 by 16 each, of the 64 of k that a warp has at a time
            is '' "$("$cuobjdump" -sass -arch "$arch" "$image" | awk '
                /Function :/ { name = $3; n[name] = 0 }
                / HMMA\.16816/ { n[name]++ }
                END { for (k in n) if (n[k] < 16) print k, n[k] }')" \
                "$family $arch: whole steps of tensor-core products"
            continue
        fi
        "$cuobjdump" -sass -arch "$arch" "$image" | steps >"$tap_dir/steps"
        # One multiply-add for each element and k of the tile (complex: four), shared by the
        # threads; at least one vector of each operand for each k.
        short=$(awk -v family="$family" '
            NR == FNR { fma[$1] = $2; lds[$1] = $3; next }
            $2 == family {
                want = $6 * $7 * $8 * ($3 ~ /^C/ ? 4 : 1)
                if (family ~ /^gemm_ffma_/) {
                    # m/(8*per_m)*(n/(4*per_n))*32; the barrier is inside of the last of k
                    split($9, f, /[*()\/]+/)
                    want *= f[3] * f[4] / f[2] * f[6] * f[7] / f[5] / f[8] * ($8 - 2) / $8
                } else {
                    want /= $9
                }
                split("nn nt tn tt", layout)
                for (i = 1; i <= 4; i++) {
                    n = "gb_" $1 "_" layout[i]
                    if (fma[n] < want || lds[n] < 2 * $8)
                        print n, "multiply-adds", fma[n] + 0, "of", want, "vectors",
                            lds[n] + 0, "of", 2 * $8
                }
            }' "$tap_dir/steps" "$tap_dir/rows")
        is '' "$short" "$family $arch: whole steps in the main loop, by 128-bit shared loads"
    done
done <"$tap_dir/families"
finish
