#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Writes the shapes files of this folder: mkshapes.sh NAME prints NAME.tsv on stdout.
# The lists are here; the files are kept so that a row can be looked up.
set -eu

header='routine type typec transa transb m n k lda ldb ldc batch beta'

# line TYPE TYPEC XY M N K [LD [BATCH [BETA]]]
line()
{
    local op=$3 ld=${7:-0}

    printf '%s\t' gemm "$1" "$2" "${op:0:1}" "${op:1:1}" "$4" "$5" "$6" "$ld" "$ld" "$ld" \
        "${8:-1}"
    printf '%s\n' "${9:-0}"
}

# Every type of the kernels, as type and typec.
types=('f16 f16' 'f16 f32' 'bf16 bf16' 'bf16 f32' 'f32 f32' 'f64 f64' 'c32 c32' 'c64 c64'
    'i8 i32')

# The shapes at which the vendor's library was measured: square, each layout, ragged sizes,
# ragged leading dimensions, skinny ones, and products from neural networks.
baseline()
{
    local both t c

    for both in "${types[@]}"; do
        read -r t c <<<"$both"
        line "$t" "$c" NN 256 256 256
        line "$t" "$c" NN 512 512 512
        line "$t" "$c" NN 1024 1024 1024
        line "$t" "$c" NN 2048 2048 2048
        line "$t" "$c" NN 4096 4096 4096
        line "$t" "$c" NN 8192 8192 8192
        line "$t" "$c" NT 4096 4096 4096
        line "$t" "$c" TN 4096 4096 4096
        line "$t" "$c" TT 4096 4096 4096
        line "$t" "$c" NN 4095 4095 4095
        line "$t" "$c" NN 1000 1000 1000
        line "$t" "$c" NN 4096 4096 4096 +1
        line "$t" "$c" NN 64 4096 4096
        line "$t" "$c" NN 4096 64 4096
        line "$t" "$c" NN 8192 8192 64
        line "$t" "$c" TN 128 128 65536
        line "$t" "$c" NN 16 8192 8192
        line "$t" "$c" TN 4096 14336 4096
        line "$t" "$c" NT 2048 2048 32768
        line "$t" "$c" NT 12288 12288 512
    done
}

# Host pointers: the squares at which CPU, NVBLAS and ours were compared, the complex double
# ones up to 8192 only.
host()
{
    local t n

    for t in f32 f64 c64; do
        for n in 256 512 1024 2048 4096 8192 16384; do
            if [ $t != c64 ] || [ $n -lt 16384 ]; then
                line $t $t NN $n $n $n
            fi
        done
    done
}

# 16-bit products of programs. A linear layer of a network is weights^T (TN) times one column
# for each token: the layers of models with hidden sizes 4096 and 8192, from one token to many.
# Its gradients are NN and NT. Attention is a batch of heads, a convolution a product with
# unfolded pixels. Then products that are hard for a tiled kernel: ragged, small, narrow, deep.
workloads()
{
    local out in n t

    while read -r out in; do
        for n in 1 16 64 256 1024 4096 16384; do
            line bf16 bf16 TN "$out" $n "$in"
        done
    done <<'END'
6144 4096
4096 4096
28672 4096
4096 14336
10240 8192
8192 28672
END
    for n in 2048 8192; do
        line bf16 bf16 NN 4096 $n 14336
        line bf16 f32 NT 4096 14336 $n
    done
    for n in 128 512 2048 4096; do # 32 heads of 128
        line f16 f16 TN $n $n 128 0 32
        line f16 f16 NN 128 $n $n 0 32
    done
    line f16 f16 NN 512 512 512 0 64
    line bf16 bf16 TN 512 512 512 0 64
    line f16 f16 NN 64 64 64 0 4096
    line bf16 bf16 NT 64 64 64 0 4096
    line f16 f32 NN 256 256 256 0 256
    while read -r out in n; do
        line f16 f16 NN "$out" "$n" "$in"
    done <<'END'
64 576 100352
128 1152 25088
256 2304 6272
512 4608 1568
256 64 100352
2048 512 1568
END
    for t in f16 bf16; do
        for n in 1001 1023 2047 3001 5003 8191; do
            line $t $t NN $n $n $n
        done
        line $t f32 TN 4095 4095 4095
        line $t $t NT 4095 4095 4095
        line $t $t TT 2047 4095 1023
        line $t $t TN 8192 8192 8192 +1
        line $t $t NT 2048 2048 2048 +1
        line $t $t NN 1500 1500 1500 +1
    done
    for n in 384 640 768 896 1536 3072 6144 16384; do
        line f16 f16 NN $n $n $n
        line bf16 bf16 TN $n $n $n
    done
    for n in 16 32 64 128; do
        line f16 f16 TN $n $n 65536
        line f16 f16 NN $n 4096 4096
        line f16 f16 NN 4096 $n 4096
        line f16 f16 NN 8192 8192 $n
    done
}

# Seconds on the emulated device: every type, layout, batches, beta and ragged edges.
tiny()
{
    local both t c op

    for both in "${types[@]}"; do
        read -r t c <<<"$both"
        line "$t" "$c" NN 33 17 40
        line "$t" "$c" TN 16 9 130 +1
    done
    for op in NT TT CN NC; do
        line c64 c64 $op 19 23 31 +1 1 0.5
    done
    line f64 f64 NN 20 12 35 0 3 1
    line f32 f32 NN 8 8 2048
}

case ${1:-} in
    baseline | host | tiny | workloads)
        printf '%s\n' "$header" | tr ' ' '\t'
        "$1"
        ;;
    *)
        echo "mkshapes.sh '${1:-}': give baseline, host, tiny or workloads" >&2
        exit 2
        ;;
esac
