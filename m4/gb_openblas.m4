# SPDX-License-Identifier: BSD-3-Clause
# GB_OPENBLAS: the BLAS to open when the program itself brings none, by file name
# (GB_OPENBLAS_SONAME); never a link dependency of libgemmblas. Where a library to link with
# is found too, OPENBLAS_LIBS names it for tests and the thin libblas.so.3, OPENBLAS_INPUT
# for the linker script that lets -lgemmblas resolve all of BLAS.
#   --with-openblas=PATH|guess|no   PATH: a shared library, or a directory that holds one
AC_DEFUN([GB_OPENBLAS],
    [AC_ARG_WITH([openblas],
        [AS_HELP_STRING([--with-openblas=PATH|guess|no],
            [fallback BLAS: library file or its directory [guess: libopenblas.so.0]])],
        [], [with_openblas=guess])
    gb_openblas_soname=libopenblas.so.0
    gb_openblas_ldflags= gb_openblas_name=openblas
    OPENBLAS_INPUT=-lopenblas
    AS_CASE([$with_openblas],
        [no|guess|yes], [],
        [*.so|*.so.*],
            [AS_IF([test -f "$with_openblas"], [],
                [AC_MSG_ERROR([--with-openblas: $with_openblas is not a file])])
            gb_openblas_soname=$with_openblas
            OPENBLAS_INPUT=$with_openblas
            gb_openblas_ldflags="-L`AS_DIRNAME(["$with_openblas"])`"
            gb_openblas_name=`AS_BASENAME(["$with_openblas"]) | $SED 's/^lib//;s/\.so.*$//'`],
        [gb_openblas_soname=$with_openblas/libopenblas.so.0
        OPENBLAS_INPUT=$with_openblas/libopenblas.so.0
        gb_openblas_ldflags="-L$with_openblas"])
    gb_have_openblas=no
    OPENBLAS_LIBS=
    AS_IF([test "x$with_openblas" = xno],
        [gb_openblas_summary="$gb_openblas_soname if there at run time (--without-openblas)"],
        [gb_save_LIBS=$LIBS
        AC_MSG_CHECKING([for -l$gb_openblas_name with dgemm_ and cblas_dgemm])
        LIBS="$gb_openblas_ldflags -l$gb_openblas_name $LIBS"
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[void dgemm_(void); void cblas_dgemm(void);]],
            [[dgemm_(); cblas_dgemm();]])], [gb_have_openblas=yes])
        LIBS=$gb_save_LIBS
        AC_MSG_RESULT([$gb_have_openblas])
        AS_IF([test $gb_have_openblas = yes],
            [OPENBLAS_LIBS="${gb_openblas_ldflags:+$gb_openblas_ldflags }-l$gb_openblas_name"
            gb_openblas_summary="$gb_openblas_soname (linked in tests: $OPENBLAS_LIBS)"],
            [gb_openblas_summary="$gb_openblas_soname if there at run time (none to link with)"])])
    AS_CASE([$with_openblas], [no|guess], [],
        [AS_IF([test $gb_have_openblas = no],
            [AC_MSG_ERROR([--with-openblas=$with_openblas asked for, but it does not link])])])
    AC_DEFINE_UNQUOTED([GB_OPENBLAS_SONAME], ["$gb_openblas_soname"],
        [the BLAS to open when the program has none])
    AC_SUBST([OPENBLAS_INPUT])
    AC_SUBST([OPENBLAS_LIBS])
    AM_CONDITIONAL([HAVE_OPENBLAS], [test $gb_have_openblas = yes])])
