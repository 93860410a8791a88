# SPDX-License-Identifier: BSD-3-Clause
# GB_WARNINGS: the warnings that the sources are clean under, in GB_WARN_CFLAGS and
# GB_WARN_CXXFLAGS; --enable-werror makes them errors.
AC_DEFUN([GB_WARN_TRY],
    [AS_VAR_PUSHDEF([gb_cache], [gb_cv_warn_[]_AC_LANG_ABBREV[]_$2])dnl
    AC_CACHE_CHECK([whether $[]_AC_CC accepts $2], [gb_cache],
        [gb_save=$[]_AC_LANG_PREFIX[]FLAGS
        _AC_LANG_PREFIX[]FLAGS="$gb_save -Werror $2"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM()],
            [AS_VAR_SET([gb_cache], [yes])], [AS_VAR_SET([gb_cache], [no])])
        _AC_LANG_PREFIX[]FLAGS=$gb_save])
    AS_VAR_IF([gb_cache], [yes], [AS_VAR_APPEND([$1], [" $2"])])
    AS_VAR_POPDEF([gb_cache])])

AC_DEFUN([GB_WARNINGS],
    [AC_ARG_ENABLE([werror],
        [AS_HELP_STRING([--enable-werror], [treat compiler warnings as errors [no]])],
        [], [enable_werror=no])
    GB_WARN_CFLAGS=
    GB_WARN_CXXFLAGS=
    AC_LANG_PUSH([C])
    m4_foreach_w([gb_flag], [-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes
        -Wold-style-definition -Wpointer-arith -Wundef -Wvla -Wwrite-strings],
        [GB_WARN_TRY([GB_WARN_CFLAGS], gb_flag)])
    AC_LANG_POP([C])
    AC_LANG_PUSH([C++])
    m4_foreach_w([gb_flag], [-Wall -Wextra -Wpointer-arith],
        [GB_WARN_TRY([GB_WARN_CXXFLAGS], gb_flag)])
    AC_LANG_POP([C++])
    AS_IF([test "x$enable_werror" = xyes],
        [GB_WARN_CFLAGS="$GB_WARN_CFLAGS -Werror"
        GB_WARN_CXXFLAGS="$GB_WARN_CXXFLAGS -Werror"])
    AC_SUBST([GB_WARN_CFLAGS])
    AC_SUBST([GB_WARN_CXXFLAGS])])
