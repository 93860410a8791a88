# SPDX-License-Identifier: BSD-3-Clause
# GB_LD_VERSION_SCRIPT: does the linker take a version script? The list of exported names
# depends on it, so a linker that does not is refused.
AC_DEFUN([GB_LD_VERSION_SCRIPT],
    [AC_CACHE_CHECK([whether the linker takes a version script], [gb_cv_ld_version_script],
        [gb_save_LDFLAGS=$LDFLAGS
        LDFLAGS="$LDFLAGS -shared -fPIC -Wl,--version-script=conftest.map"
        echo '{ global: gb_shown; local: *; };' >conftest.map
        AC_LINK_IFELSE([AC_LANG_SOURCE([[int gb_shown(void); int gb_shown(void) { return 0; }]])],
            [gb_cv_ld_version_script=yes], [gb_cv_ld_version_script=no])
        rm -f conftest.map
        LDFLAGS=$gb_save_LDFLAGS])
    AS_VAR_IF([gb_cv_ld_version_script], [yes], [],
        [AC_MSG_ERROR([the linker takes no version script; GNU ld, gold and lld do])])])
