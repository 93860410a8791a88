#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Dependencies point one way (design, section 2): blas -> dispatch -> gpu -> leaf files of
# src/. Also: no file name occurs twice, and every source is listed in the makefile.
# shellcheck source=tests/testlib.sh
. "$(dirname "$0")/testlib.sh"
cd "$top_srcdir" || bail "no $top_srcdir"

# layer FILE
layer()
{
    case $1 in
    src/blas/*) echo blas ;;
    src/dispatch/*) echo dispatch ;;
    src/gpu/kernels/*) echo kernels ;;
    src/gpu/*) echo gpu ;;
    src/emu/*) echo emu ;;
    src/cmd/*) echo cmd ;;
    src/*) echo leaf ;;
    include/*) echo public ;;
    esac
}

# The edges there may be; a layer may always include itself.
allowed=' blas>dispatch blas>leaf blas>public
 dispatch>gpu dispatch>kernels dispatch>leaf
 gpu>kernels gpu>leaf
 kernels>leaf
 emu>gpu emu>kernels emu>leaf
 cmd>blas cmd>dispatch cmd>gpu cmd>kernels cmd>leaf cmd>public '

files=$(find src include -type f \( -name '*.[chS]' -o -name '*.cc' -o -name '*.cu' \
    -o -name '*.def' -o -name '*.inc' -o -name '*.sh' -o -name '*.map' \) | LC_ALL=C sort)
[ -n "$files" ] || bail "no sources in $PWD"

declare -A where
twice=
for f in $files; do
    name=${f##*/}
    [ -z "${where[$name]:-}" ] || twice+=" $f"
    where[$name]=$f
done
is '' "$twice" 'no file name occurs twice'

wrong=
unknown=
edges=0
for f in $files; do
    from=$(layer "$f")
    while read -r inc; do
        [ -n "$inc" ] || continue
        name=${inc##*/}
        # config.h is generated.
        [ "$name" != config.h ] || continue
        target=${where[$name]:-}
        if [ -z "$target" ]; then
            unknown+=" $f:$inc"
            continue
        fi
        to=$(layer "$target")
        edges=$((edges + 1))
        # The seam header has one back end per device; the emulated one runs on fibers.
        [ "$f>$name" != 'src/gpu/kernels/seam.h>fiber.h' ] || continue
        [ "$from" = "$to" ] || [[ $allowed == *[[:space:]]"$from>$to"[[:space:]]* ]] ||
            wrong+=" $f($from)>$inc($to)"
    done < <(sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p' "$f")
done
diag "$edges includes of our own files"
[ "$edges" -gt 20 ]
ok $? 'the includes were found'
is '' "$wrong" 'no include against the direction of the layers'
is '' "$unknown" 'every quoted include is a file of ours'

missing=
for f in $files; do
    grep -q -F -- "$f" Makefile.am || missing+=" $f"
done
is '' "$missing" 'the makefile lists every source'

twice=$(find src include tests bench -type f -name '*.[ch]' | sed 's|.*/||' | LC_ALL=C sort |
    uniq -d)
is '' "$twice" 'nor in tests and bench'
# t_x.c and t_x.sh would share t_x.log, and only one of them would run.
twice=$(find tests -name 't_*.c' -o -name 't_*.sh' | sed 's/\.[a-z]*$//' | LC_ALL=C sort | uniq -d)
is '' "$twice" 'no two tests have one log'

# A program that links or preloads the library must get no constructor and no output.
is '' "$(grep -n -E '\b(printf|puts|putchar) *\(|\bstdout\b' -r src \
    --include='*.[ch]' --include='*.cc' --exclude-dir=cmd --exclude-dir=kernels |
    grep -v -E ':[0-9]+: *(/\*|\*|//)|//.*stdout|\* .*stdout|/\*.*stdout' || true)" \
    'no output on stdout'
is '' "$(grep -n -E 'attribute.*constructor|init_array' -r src || true)" 'no constructors'
finish
