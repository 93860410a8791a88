# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Test Anything Protocol for shell tests: source it, call ok/is/skip, end with finish.
# Tests get top_srcdir and top_builddir from the makefile; by hand the current directory is
# taken for the build tree.

set -u
: "${top_builddir:=$PWD}"
: "${top_srcdir:=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}"
tap_count=0
tap_failed=0

# ok STATUS NAME: passed when STATUS is 0, as in `cmp a b; ok $? 'same'`.
ok()
{
    tap_count=$((tap_count + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $tap_count - $2"
    else
        echo "not ok $tap_count - $2"
        tap_failed=$((tap_failed + 1))
    fi
}

# is WANTED SEEN NAME
is()
{
    [ "$1" = "$2" ]
    ok $? "$3"
    [ "$1" = "$2" ] || diag "wanted: $1"$'\n'"seen:   $2"
}

diag()
{
    printf '%s\n' "$*" | sed 's/^/# /'
}

# skip NAME REASON
skip()
{
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

# skip_all REASON: the whole test cannot run here.
skip_all()
{
    echo "1..0 # SKIP $*"
    exit 0
}

# need COMMAND...: skip the whole test where one is missing.
need()
{
    local tool
    for tool; do
        command -v "$tool" >/dev/null || skip_all "$tool is not installed"
    done
}

bail()
{
    echo "Bail out! $*"
    exit 1
}

# A directory that is removed when the test ends.
scratch()
{
    tap_dir=$(mktemp -d "${TMPDIR:-/tmp}/gemmblas.XXXXXX") || bail "no temporary directory"
    # Exit status of the test is kept.
    trap 'rm -rf "$tap_dir"' EXIT
}

# Where the library is in the build tree, and its path for LD_PRELOAD.
lib_dir=$top_builddir/.libs
# shellcheck disable=SC2034
preload=$lib_dir/libgemmblas.so.0

# gpu_forced COMMAND...: run it under preload with every eligible call on the device and
# the calls traced to $trace_file. The device is the one that the makefile selected.
gpu_forced()
{
    env LD_PRELOAD="$preload" GEMMBLAS_ROUTE=gpu GEMMBLAS_TRACE="${trace_file:-}" "$@"
}

# traced PATTERN: how many trace lines match.
traced()
{
    grep -c -E -- "$1" "$trace_file" 2>/dev/null || true
}

finish()
{
    echo "1..$tap_count"
    [ "$tap_failed" -eq 0 ]
    exit $?
}
