#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The texts follow the tables: every knob, reason and verb is in the manual page, and every
# file that a text names exists.
# shellcheck source=tests/testlib.sh
. "$(dirname "$0")/testlib.sh"
cd "$top_srcdir" || bail "no $top_srcdir"
man=man/gemmblas.1

# all_in LABEL NAME...: each is on a line of its own in the manual page.
all_in()
{
    local label=$1 name lacking=
    shift
    [ $# -gt 0 ] || bail "no names for: $label"
    for name; do
        grep -q -E "^\.B $name( |$)" $man || lacking+=" $name"
    done
    is '' "$lacking" "$label ($#) are in $man"
}
mapfile -t knobs < <(sed -n 's/^KNOB([a-z_]*, *\([A-Z_]*\),.*/GEMMBLAS_\1/p' src/knobs.def)
all_in 'knobs' "${knobs[@]}"
mapfile -t reasons < <(sed -n 's/^WHY([A-Z]*, *"\([a-z]*\)".*/\1/p' src/why.def)
all_in 'reasons' "${reasons[@]}"
mapfile -t verbs < <(sed -n 's/^ *{"\([a-z]*\)", *cmd_.*/\1/p' src/cmd/gemmblas.c)
all_in 'verbs' "${verbs[@]}"
mapfile -t constants < <(grep -o 'GEMMBLAS_[A-Z0-9_]*' include/gemmblas/gemmblas.h | sort -u)
is '' "$(grep -o 'GEMMBLAS_[A-Z0-9_]*' $man README.md | cut -d: -f2 | sort -u |
    grep -v -x -F "$(printf '%s\n' "${knobs[@]}" "${constants[@]}")")" \
    'no text names a knob that is not there'

for text in README.md HACKING.md; do
    lacking=
    names=0
    # Links, and whatever looks like the path of a file of ours.
    # shellcheck disable=SC2016
    while read -r name; do
        names=$((names + 1))
        [ -e "$name" ] || lacking+=" $name"
    done < <(grep -o -E '\]\([^):#]*\)|`(src|tests|bench|man|doc|include|m4|packaging|\.ci)/[A-Za-z0-9_./-]*`' \
        $text | sed -E 's/^\]\(//; s/\)$//; s/`//g' | sort -u |
        grep -v -E '^bench/(gemmblas-bench|link|overhead)$')
    is '' "$lacking" "the $names files that $text names exist"
    [ $names -gt 0 ]
    ok $? "$text names some"
done
finish
