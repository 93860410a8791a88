#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Invisible until useful: a program that multiplies nothing must not notice the preload.
# shellcheck source=tests/testlib.sh
. "$(dirname "$0")/testlib.sh"
need bash
[ -e "$preload" ] || bail "$preload is missing"
scratch
export LD_PRELOAD=$preload
# As a user has it: no device chosen.
unset GEMMBLAS_DEVICE

/bin/true >"$tap_dir/out" 2>&1
is 0 $? '/bin/true ends well'
is '' "$(cat "$tap_dir/out")" '/bin/true prints nothing'
bash -c : >"$tap_dir/out" 2>&1
is '' "$(cat "$tap_dir/out")" 'bash prints nothing'

cat /proc/self/maps >"$tap_dir/maps"
grep -q libgemmblas "$tap_dir/maps"
ok $? 'the library is preloaded'
is '' "$(grep -E 'libcuda|libamdhip|libhsa|nvidia|libopenblas|libblas|emu\.so|libstdc' "$tap_dir/maps")" \
    'no driver, no BLAS and no emulated device is mapped'
is 1 "$(sed -n 's/^Threads:[[:space:]]*//p' /proc/self/status)" 'no thread is started'
# shellcheck disable=SC2016
count='fds=(/proc/self/fd/*); echo ${#fds[@]}'
is "$(env -u LD_PRELOAD bash -c "$count")" "$(bash -c "$count")" \
    'no descriptor is open'
is "$(env -u LD_PRELOAD grep Sig /proc/self/status)" "$(grep Sig /proc/self/status)" \
    'signal masks and handlers are as without'

# Tools that see memory or output in odd ways.
is '3' "$(printf 'a\nb\nc\n' | sort -u | wc -l)" 'a pipeline works'
is '' "$(GEMMBLAS_STATS=1 GEMMBLAS_TRACE=1 GEMMBLAS_LOG=debug /bin/true 2>&1)" \
    'nothing is printed for a program without BLAS calls even when asked'
is '' "$(GEMMBLAS_DEVICE=nonsense GEMMBLAS_NONSENSE=1 /bin/true 2>&1)" \
    'knobs are not even read'
finish
