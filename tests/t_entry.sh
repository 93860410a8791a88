#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The exported entries are a compare and a jump: no frame, no call, nothing on the stack, and
# the argument registers as they came. Read from the machine code of the built library.
# shellcheck source=tests/testlib.sh
. "$(dirname "$0")/testlib.sh"
need objdump nm
[ -e "$preload" ] || bail "$preload is missing"
scratch
objdump -d --no-show-raw-insn "$preload" >"$tap_dir/code"
case $(objdump -f "$preload" | sed -n 's/^architecture: \([^,]*\).*/\1/p') in
i386:x86-64)
    # Registers of arguments, of the static chain and of the stack must not be written.
    forbidden='^(push|pop|call|enter|leave|ret)|%rsp|%rbp|%rbx|%r1[2-5]|%[xy]mm|,%r?(di|si|dx|cx|8|9)$|,%e(di|si|dx|cx)$|,%r[89]d?$'
    jump='^jmp +\*'
    most=12
    ;;
aarch64)
    forbidden='^(stp|ldp|bl|blr|ret)|\<sp\>|\<x(19|2[0-9]|30)\>|^(str|stur)|^[a-z]+ +[xw][0-8],'
    jump='^br +x16'
    most=16
    ;;
*)
    skip_all 'entries are read on x86-64 and aarch64 only'
    ;;
esac

# entry NAME: its instructions, without padding
entry()
{
    awk -v name="<$1>:" '$2 == name { on = 1; next } on && NF == 0 { exit } on' \
        "$tap_dir/code" | sed 's/^[^\t]*\t//; s/ *[#<].*//; s/[[:space:]]*$//' |
        grep -v -E '^(endbr64|nop|data16|cs nop|xchg +%ax,%ax|hint|bti)'
}

entries=$(nm -D --defined-only "$preload" | awk '$3 !~ /^gemmblas_/ { print $3 }')
[ "$(wc -w <<<"$entries")" -ge 50 ]
ok $? 'the entries are there'
for e in $entries; do
    code=$(entry "$e")
    wrong=$(grep -E -- "$forbidden" <<<"$code")
    [ -n "$code" ] && [ -z "$wrong" ] && grep -q -E -- "$jump" <<<"$code" &&
        [ "$(wc -l <<<"$code")" -le "$most" ]
    ok $? "$e is frameless" || diag "$code"
done
finish
