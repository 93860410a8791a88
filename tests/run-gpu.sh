#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Run tests that are already built on the hardware of this machine (GEMMBLAS_DEVICE=auto) and
# sum their results. Needs bash and the build tree, no make, libtool or compiler, so that a
# build tree can be carried to a machine where nothing can be installed (tests/carry.sh).
#   tests/run-gpu.sh BUILDDIR [TEST...]    default: those in BUILDDIR/tests/tests.list
# Each test may take GB_TEST_SECONDS (default 600); logs go to GB_TEST_LOGS (default
# BUILDDIR/gpu-logs). The last line is "N passed, N failed, N skipped"; exit status 77 where
# there is no device.
set -u
[ $# -ge 1 ] || { echo "usage: run-gpu.sh BUILDDIR [TEST...]" >&2; exit 2; }
here=$(cd "$(dirname "$0")/.." && pwd)
top_builddir=$(cd "$1" && pwd) || exit 2
shift
top_srcdir=$here
logs=${GB_TEST_LOGS:-$top_builddir/gpu-logs}
[ $# -gt 0 ] || mapfile -t tests <"$top_builddir/tests/tests.list"
[ $# -eq 0 ] || tests=("$@")
mkdir -p "$logs" || exit 2
export top_builddir top_srcdir
export GEMMBLAS_DEVICE=${GEMMBLAS_DEVICE:-auto}
export XDG_CACHE_HOME=$top_builddir/tests/no-cache # no rows that were tuned here
export LD_LIBRARY_PATH=$top_builddir/.libs:$top_builddir/carry/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
cd "$top_builddir" || exit 2

# Without a device there is nothing to say: a skip with its reason, never a pass.
if device=$(./gemmblas info 2>&1 | sed -n 's/^device //p' | head -n 1); [[ $device == none* ]]
then
    echo "SKIP: $device"
    echo "0 passed, 0 failed, ${#tests[@]} skipped"
    exit 77
fi
echo "device $device"

passed=0 failed=0 skipped=0
for t in "${tests[@]}"; do
    log=$logs/$(basename "$t").log
    case $t in
    *.sh) command=(bash "$top_srcdir/$t") ;;
    *) command=("./$t") ;;
    esac
    start=$SECONDS
    timeout "${GB_TEST_SECONDS:-600}" "${command[@]}" >"$log" 2>&1
    status=$?
    p=$(grep -c -E '^ok ' "$log")
    s=$(grep -c -i -E '^ok .*# *skip' "$log")
    f=$(grep -c -E '^not ok ' "$log")
    p=$((p - s))
    if grep -q -i -E '^1\.\.0 *# *skip' "$log"; then
        s=$((s + 1))
        echo "SKIP $t: $(sed -n 's/^1\.\.0 *# *[Ss][Kk][Ii][Pp] *//p' "$log")"
    else
        # A plan that was not kept, a signal or a time-out counts as a failure of its own.
        planned=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$log" | head -n 1)
        if [ "$((p + s + f))" -ne "${planned:--1}" ] || { [ $status -ne 0 ] && [ "$f" -eq 0 ]; }
        then
            f=$((f + 1))
            echo "ERROR $t: status $status after $((p + s + f - 1)) of ${planned:-?} tests"
        fi
        grep -E '^not ok ' "$log" | sed "s|^|$t: |"
        grep -i -E '^ok .*# *skip' "$log" | sed "s|^|$t: |"
        echo "done $t: $p passed, $f failed, $s skipped, $((SECONDS - start)) s"
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
