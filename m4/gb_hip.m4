# SPDX-License-Identifier: BSD-3-Clause
# GB_HIP: find a clang that compiles and links for AMD GPUs, and say what it serves. The HIP
# runtime is opened at run time, so no ROCm library is linked. Nothing is built with it yet:
# AMD devices are listed by `gemmblas info` and have no kernels.
#   --with-hip=DIR|guess|no
AC_DEFUN([GB_HIP],
    [AC_ARG_WITH([hip],
        [AS_HELP_STRING([--with-hip=DIR|guess|no],
            [clang or ROCm for AMD GPUs [guess: PATH, /opt/rocm]; only reported for now])],
        [], [with_hip=guess])
    AC_ARG_VAR([HIPCC], [clang for AMD GPUs])
    gb_have_hip=no
    gb_hip_summary="none (no clang for AMD GPUs found)"
    AS_CASE([$with_hip],
        [no], [gb_hip_summary="none (--without-hip)"],
        [guess|yes],
            [AC_PATH_PROGS([HIPCC], [amdclang clang-22 clang-21 clang-20 clang-19], [],
                [$PATH:/opt/rocm/llvm/bin:/opt/rocm/bin])],
        [AC_PATH_PROGS([HIPCC], [amdclang clang], [],
            [$with_hip/bin:$with_hip/llvm/bin:$with_hip/lib/llvm/bin])])
    AS_IF([test "x$with_hip" != xno && test -n "$HIPCC"],
        [AC_MSG_CHECKING([which AMD architectures $HIPCC compiles for])
        cat >conftest.hip <<'_ACEOF'
extern "C" __attribute__((global)) void k(int *p) { *p = 1; }
_ACEOF
        gb_ok=
        for gb_arch in gfx90a gfx942 gfx950; do
            AS_IF(["$HIPCC" -x hip --cuda-device-only --offload-arch=$gb_arch -nogpuinc \
                -nogpulib --no-gpu-bundle-output -c -o conftest.co conftest.hip \
                >&AS_MESSAGE_LOG_FD 2>&1], [gb_ok="$gb_ok $gb_arch"])
        done
        rm -f conftest.hip conftest.co
        AC_MSG_RESULT([${gb_ok:-none}])
        AS_IF([test -n "$gb_ok"],
            [gb_have_hip=yes
            gb_hip_summary="none yet ($HIPCC could compile for$gb_ok)"],
            [gb_hip_summary="none ($HIPCC has no AMDGPU target or no lld)"])])
    AS_CASE([$with_hip], [no|guess], [],
        [AS_IF([test $gb_have_hip = no],
            [AC_MSG_ERROR([--with-hip=$with_hip asked for, but: $gb_hip_summary])])])])
