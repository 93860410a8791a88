# SPDX-License-Identifier: BSD-3-Clause
# GB_CUDA: find nvcc (12.0 or newer) and the architectures to compile for. Needed only to
# build the kernels: the driver is opened at run time, so no CUDA library is linked.
#   --with-cuda=DIR|guess|no   guess (default): use nvcc if there is one
#   --with-cuda-arch=LIST      SASS for each, and PTX of the newest for GPUs to come
# Sets HAVE_CUDA, HAVE_HOPPER, NVCC, GB_GENCODE, GB_GENCODE_MMA (kernels of which one image
# serves all of 8.x), GB_GENCODE_DMMA (the same, and newer ones by what they know themselves),
# GB_GENCODE_HOPPER (kernels that only sm_90a can run: built where 90 is in
# the list), gb_cuda_summary.
AC_DEFUN([GB_CUDA],
    [AC_ARG_WITH([cuda],
        [AS_HELP_STRING([--with-cuda=DIR|guess|no],
            [CUDA toolkit for the NVIDIA kernels [guess: PATH, /usr/local/cuda*, /opt/cuda]])],
        [], [with_cuda=guess])
    AC_ARG_WITH([cuda-arch],
        [AS_HELP_STRING([--with-cuda-arch=LIST], [architectures [80,86,89,90]])],
        [], [with_cuda_arch=80,86,89,90])
    AC_ARG_VAR([NVCC], [CUDA compiler])
    AC_ARG_VAR([NVCCFLAGS], [flags for nvcc])
    gb_have_cuda=no
    gb_cuda_summary="none (no nvcc found)"
    GB_GENCODE=
    GB_GENCODE_MMA=
    GB_GENCODE_DMMA=
    gb_hopper=no
    GB_GENCODE_HOPPER="-gencode arch=compute_90a,code=sm_90a"
    AS_CASE([$with_cuda],
        [no], [gb_cuda_summary="none (--without-cuda)"],
        [guess|yes],
            [gb_path=$PATH
            for gb_dir in /usr/local/cuda /usr/local/cuda-* /opt/cuda; do
                AS_IF([test -d "$gb_dir/bin"], [gb_path="$gb_path:$gb_dir/bin"])
            done
            AC_PATH_PROG([NVCC], [nvcc], [], [$gb_path])],
        [AC_PATH_PROG([NVCC], [nvcc], [], [$with_cuda/bin])])
    AS_IF([test "x$with_cuda" != xno && test -n "$NVCC"],
        [AC_MSG_CHECKING([version of $NVCC])
        gb_nvcc=`"$NVCC" --version 2>/dev/null | $SED -n 's/.*release \(@<:@0-9.@:>@*\),.*/\1/p'`
        AC_MSG_RESULT([${gb_nvcc:-unknown}])
        AS_CASE([${gb_nvcc:-0.0}],
            [0.*|1.*|2.*|3.*|4.*|5.*|6.*|7.*|8.*|9.*|10.*|11.*],
                [gb_cuda_summary="none ($NVCC is ${gb_nvcc:-unusable}; 12.0 is needed)"],
            [AC_MSG_CHECKING([which architectures $NVCC compiles for])
            cat >conftest.cu <<'_ACEOF'
extern "C" __global__ void k(int *p) { *p = 1; }
_ACEOF
            gb_ok= gb_newest=
            for gb_arch in `echo "$with_cuda_arch" | tr , ' '`; do
                AS_IF(["$NVCC" -fatbin -gencode arch=compute_$gb_arch,code=sm_$gb_arch \
                    -o conftest.fatbin conftest.cu >&AS_MESSAGE_LOG_FD 2>&1],
                    [gb_ok="$gb_ok $gb_arch"
                    GB_GENCODE="$GB_GENCODE -gencode arch=compute_$gb_arch,code=sm_$gb_arch"
                    # One SASS for all of 8.x; the front end runs once for all.
                    gb_mma=$gb_arch gb_front=80
                    AS_CASE([$gb_arch], [8?], [gb_mma=80], [*a|*f], [gb_front=$gb_arch])
                    AS_CASE(["$GB_GENCODE_MMA "], [*"=sm_$gb_mma "*], [],
                        [GB_GENCODE_MMA="$GB_GENCODE_MMA -gencode arch=compute_$gb_front,code=sm_$gb_mma"
                        GB_GENCODE_DMMA="$GB_GENCODE_DMMA -gencode arch=compute_$gb_mma,code=sm_$gb_mma"])
                    AS_CASE([$gb_arch], [*a|*f], [], [gb_newest=$gb_arch])
                    AS_CASE([$gb_arch], [90|90a], [gb_hopper=yes])])
            done
            # The smallest images: every unit test and command embeds them all. nvcc 12.4.
            AS_IF(["$NVCC" -fatbin --compress-mode=size -o conftest.fatbin conftest.cu \
                >&AS_MESSAGE_LOG_FD 2>&1],
                [GB_GENCODE="$GB_GENCODE --compress-mode=size"
                GB_GENCODE_MMA="$GB_GENCODE_MMA --compress-mode=size"
                GB_GENCODE_DMMA="$GB_GENCODE_DMMA --compress-mode=size"
                GB_GENCODE_HOPPER="$GB_GENCODE_HOPPER --compress-mode=size"])
            rm -f conftest.cu conftest.fatbin
            AC_MSG_RESULT([${gb_ok:-none}])
            AS_IF([test -n "$gb_ok"],
                [gb_have_cuda=yes
                gb_cuda_summary="$NVCC $gb_nvcc: sm$gb_ok"
                AS_IF([test -n "$gb_newest"],
                    [GB_GENCODE="$GB_GENCODE -gencode arch=compute_$gb_newest,code=compute_$gb_newest"
                    GB_GENCODE_MMA="$GB_GENCODE_MMA -gencode arch=compute_80,code=compute_80"
                    gb_mma=$gb_newest
                    AS_CASE([$gb_mma], [8?], [gb_mma=80])
                    GB_GENCODE_DMMA="$GB_GENCODE_DMMA -gencode arch=compute_$gb_mma,code=compute_$gb_mma"
                    gb_cuda_summary="$gb_cuda_summary, PTX $gb_newest"])],
                [gb_cuda_summary="none ($NVCC compiles for none of $with_cuda_arch)"])])])
    AS_CASE([$with_cuda], [no|guess], [],
        [AS_IF([test $gb_have_cuda = no],
            [AC_MSG_ERROR([--with-cuda=$with_cuda asked for, but: $gb_cuda_summary])])])
    AS_IF([test "x${NVCCFLAGS+set}" != xset], [NVCCFLAGS=-O3])
    AC_SUBST([GB_GENCODE])
    AC_SUBST([GB_GENCODE_DMMA])
    AC_SUBST([GB_GENCODE_HOPPER])
    AC_SUBST([GB_GENCODE_MMA])
    AM_CONDITIONAL([HAVE_HOPPER], [test $gb_have_cuda = yes && test $gb_hopper = yes])
    AM_CONDITIONAL([HAVE_CUDA], [test $gb_have_cuda = yes])])
