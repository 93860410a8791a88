#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Sum the results of `make check` in a build tree from automake's .trs files: failures and
# skips by name, then "N passed, N failed, N skipped" alone on the last line.
#   tests/count.sh BUILDDIR
set -u
[ $# -eq 1 ] || { echo "usage: count.sh BUILDDIR" >&2; exit 2; }
cd "$1" || exit 2
shopt -s nullglob
passed=0 failed=0 skipped=0 missing=0
while read -r t; do
    trs=${t%.*}.trs
    if [ ! -f "$trs" ]; then
        echo "FAIL: $t left no result"
        missing=$((missing + 1))
        continue
    fi
    passed=$((passed + $(grep -c '^:test-result: \(PASS\|XFAIL\)' "$trs")))
    failed=$((failed + $(grep -c '^:test-result: \(FAIL\|XPASS\|ERROR\)' "$trs")))
    skipped=$((skipped + $(grep -c '^:test-result: SKIP' "$trs")))
    sed -n "s|^:test-result: \(\(FAIL\|XPASS\|ERROR\|SKIP\).*\)|$t: \1|p" "$trs"
done <tests/tests.list
echo "$passed passed, $((failed + missing)) failed, $skipped skipped"
