#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# numpy's own linalg and product tests under preload with every eligible call on the device:
# for the distribution's numpy (plain names from libblas.so.3) and for the wheel from PyPI
# (scipy_..64_ names of its own library, loaded RTLD_LOCAL).
# GB_NUMPY_PYTHON: a python that has the wheel; default .venv of quickstart and .ci/run.
# shellcheck source=tests/testlib.sh
. "$(dirname "$0")/testlib.sh"
[ -e "$preload" ] || bail "$preload is missing"
scratch
trace_file=$tap_dir/trace
cd "$tap_dir" || bail 'no scratch directory'
export PYTHONDONTWRITEBYTECODE=1

# Left out: the tests that allocate gigabytes to pass 2^31 elements to level 1. On the emulated
# device also the one that multiplies for a second, and those cases of stacked matrices that
# are 350,000 products of 2 x 2 (hardware runs them).
skipped='not huge'
[ "${GEMMBLAS_DEVICE:-}" != emu ] || skipped+=' and not openblas_threading
    and not (generalized and (TestPinv or TestEig or TestSVD or TestInv))'
skipped=${skipped//$'\n'/ }

# tested LABEL PYTHON NAME-PATTERN
tested()
{
    local label=$1 python=$2 pattern=$3 core out=$tap_dir/out gpu
    if [ -z "$python" ] || ! "$python" -c 'import numpy' 2>/dev/null; then
        skip "$label: linalg and products" 'no such numpy here'
        return
    fi
    if ! "$python" -c 'import pytest, hypothesis' 2>/dev/null; then
        skip "$label: linalg and products" "$python has no pytest or hypothesis"
        return
    fi
    core=$("$python" -c 'import numpy
print("numpy._core" if int(numpy.__version__.split(".")[0]) > 1 else "numpy.core")')
    diag "$label: $("$python" -c 'import numpy; print(numpy.__version__, numpy.__file__)')"
    rm -f "$trace_file"
    gpu_forced "$python" -m pytest -q -p no:cacheprovider --pyargs numpy.linalg \
        -k "$skipped" >"$out" 2>&1
    is 0 $? "$label: numpy.linalg passes" || diag "$(grep -E '^(FAILED|ERROR|E )' "$out" | head)"
    diag "$(tail -n 1 "$out")"
    gpu_forced "$python" -m pytest -q -p no:cacheprovider --pyargs \
        "$core.tests.test_multiarray" "$core.tests.test_numeric" \
        -k "(atmul or dot or Dot or inner) and $skipped" >"$out" 2>&1
    is 0 $? "$label: products pass" || diag "$(grep -E '^(FAILED|ERROR|E )' "$out" | head)"
    diag "$(tail -n 1 "$out")"
    gpu=$(traced "routine=$pattern .*route=gpu")
    diag "$label: $gpu products on the device"
    [ "$gpu" -gt 20 ]
    ok $? "$label: its products ran on the device"
    is 0 "$(traced 'why=(lost|oom|unsupported|nodevice)')" "$label: no device trouble"
}

tested distribution /usr/bin/python3 'cblas_[sdcz]gemm'

wheel=${GB_NUMPY_PYTHON:-}
for python in "$top_srcdir/.venv/bin/python" "$(command -v python3)"; do
    [ -z "$wheel" ] && [ -x "$python" ] && "$python" -c '
import glob, numpy, os, sys
sys.exit(not glob.glob(os.path.dirname(numpy.__file__) + ".libs/*openblas64_*"))' 2>/dev/null &&
        wheel=$python
done
tested wheel "$wheel" 'scipy_cblas_[sdcz]gemm64_'
finish
