#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What a user gets from `make install`: names, dependencies, linking with -lgemmblas alone,
# pkg-config, headers, the thin libblas.so.3, and the command.
# shellcheck source=tests/testlib.sh
. "$(dirname "$0")/testlib.sh"
need make readelf nm
[ -f "$top_builddir/Makefile" ] || skip_all 'no build tree to install from'
command -v "${CC:-cc}" >/dev/null || skip_all 'no C compiler'
scratch
cc=${CC:-cc}
root=$tap_dir/root

# What make passes down is about another run of make.
env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES \
    make -s -C "$top_builddir" install DESTDIR="$root" >"$tap_dir/log" 2>&1
is 0 $? 'make install DESTDIR=' || diag "$(tail -n 5 "$tap_dir/log")"
so=$(find "$root" -name libgemmblas.so.0)
[ -n "$so" ] || bail 'no libgemmblas.so.0 installed'
libdir=$(dirname "$so")
prefix=$(dirname "$libdir")

dynamic()
{
    readelf -dW "$1" | sed -n "s/.*($2).*\[\(.*\)\]/\1/p"
}
is libgemmblas.so.0 "$(dynamic "$so" SONAME)" 'soname'
is '' "$(dynamic "$so" NEEDED | grep -v -E '^(libc\.so\.6|libm\.so\.6|ld-linux.*)$')" \
    'needs nothing but libc'
readelf -dW "$so" | grep -q NODELETE
ok $? 'stays when a plug-in that uses it is closed'
is '8 (bytes)' "$(readelf -dW "$so" | sed -n 's/.*(INIT_ARRAYSZ) *//p')" \
    'no constructor beside the one of the C start-up object'
readelf -lW "$so" | grep GNU_STACK | grep -q 'RW '
ok $? 'the stack is not executable'
nm -D --defined-only "$so" | awk '{ print $3 }' | LC_ALL=C sort >"$tap_dir/symbols"
diff "$top_srcdir/tests/symbols.txt" "$tap_dir/symbols" >"$tap_dir/diff"
ok $? 'exported names are those of tests/symbols.txt' || diag "$(head "$tap_dir/diff")"
is 0 "$(grep -c -E 'xerbla|lsame|openblas' "$tap_dir/symbols")" 'no names of others'
emu=$libdir/gemmblas/libgemmblas-emu.so
[ -f "$emu" ]
ok $? 'the emulated device is installed'
is '' "$(dynamic "$emu" NEEDED | grep -v -E '^(libc\.so\.6|libm\.so\.6|ld-linux.*)$')" \
    'the emulated device needs nothing but libc and libm'

cat >"$tap_dir/user.c" <<'EOF'
#include <stdio.h>
#ifdef HEADER
#include <gemmblas/cblas.h>
#else
double cblas_ddot(int n, const double *x, int incx, const double *y, int incy);
#endif
void daxpy_(const int *n, const double *a, const double *x, const int *incx, double *y,
            const int *incy);
void dgemm_(const char *, const char *, const int *, const int *, const int *,
            const double *, const double *, const int *, const double *, const int *,
            const double *, double *, const int *, size_t, size_t);
int main(void)
{
    static double a[64 * 64], b[64 * 64], c[64 * 64];
    double one = 1, zero = 0, two = 2;
    int n = 64, inc = 1, all = 64 * 64;

    for (int i = 0; i < all; i++) {
        a[i] = i % 7;
        b[i] = i % 64 == i / 64;
    }
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n, 1, 1);
    for (int i = 0; i < all; i++)
        if (c[i] != a[i])
            return 1;
#ifndef ONLY_GEMM
    daxpy_(&all, &two, a, &inc, c, &inc);
    if (cblas_ddot(2, c, 1, a, 1) != 3 || c[6] != 18)
        return 2;
#else
    (void)two;
    (void)inc;
#endif
    puts("right");
    return 0;
}
EOF
# The example of the README, as it stands there.
# shellcheck disable=SC2016
sed -n '/^```c$/,/^```$/p' "$top_srcdir/README.md" | grep -v '^```' >"$tap_dir/example.c"
$cc -Wall -Wextra -Werror -I"$prefix/include" -o "$tap_dir/example" "$tap_dir/example.c" \
    "$libdir/libgemmblas.so.0" -Wl,-rpath,"$libdir" 2>"$tap_dir/log"
is 0 $? 'the example of the README compiles' || diag "$(cat "$tap_dir/log")"
for device in none emu; do
    is '4.5 0 10.5 0' "$(GEMMBLAS_DEVICE=$device GEMMBLAS_ROUTE=gpu "$tap_dir/example" 2>&1)" \
        "and runs, with device $device"
done
with=$(sed -n 's/^OPENBLAS_LIBS = *//p' "$top_builddir/Makefile")
export LD_LIBRARY_PATH=$libdir
export GEMMBLAS_DEVICE=emu GEMMBLAS_ROUTE=gpu
trace_file=$tap_dir/trace

# used PROGRAM LABEL: it runs, is right, and its product ran on the device.
used()
{
    rm -f "$trace_file"
    is right "$(GEMMBLAS_TRACE="$trace_file" "$1" 2>&1)" "$2: the program is right"
    is 1 "$(traced 'routine=dgemm_ .*route=gpu')" "$2: its product ran on the device"
}

if [ -n "$with" ]; then
    $cc -o "$tap_dir/user" "$tap_dir/user.c" -L"$libdir" -lgemmblas 2>"$tap_dir/log"
    is 0 $? '-lgemmblas alone links level 1, level 3 and CBLAS' || diag "$(cat "$tap_dir/log")"
    used "$tap_dir/user" 'linked with -lgemmblas'
    $cc -DONLY_GEMM -Wl,--as-needed -o "$tap_dir/only" "$tap_dir/user.c" -L"$libdir" -lgemmblas
    is '' "$(dynamic "$tap_dir/only" NEEDED | grep openblas)" \
        'a program of gemm alone is not tied to OpenBLAS'
    used "$tap_dir/only" 'gemm alone'
    is libblas.so.3 "$(dynamic "$libdir/gemmblas/libblas.so.3" SONAME)" 'soname of the provider'
    is libgemmblas.so.0 "$(dynamic "$libdir/gemmblas/libblas.so.3" NEEDED | head -n 1)" \
        'the provider needs us first'
    # A program that was linked with some other libblas.so.3.
    echo 'void dgemm_(void){} void daxpy_(void){} double cblas_ddot(void){ return 0; }' |
        $cc -w -x c -shared -fPIC -Wl,-soname,libblas.so.3 -o "$tap_dir/libblas.so" -
    $cc -o "$tap_dir/provided" "$tap_dir/user.c" "$tap_dir/libblas.so"
    is libblas.so.3 "$(dynamic "$tap_dir/provided" NEEDED | grep blas)" \
        'a program needs libblas.so.3 alone'
    LD_LIBRARY_PATH=$libdir/gemmblas used "$tap_dir/provided" 'through libblas.so.3'
else
    skip 'linking with -lgemmblas alone' 'no OpenBLAS was found by configure'
fi

if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH=$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
    is "-lgemmblas" "$(pkg-config --libs-only-l gemmblas | tr -d ' ')" 'pkg-config names us'
    # shellcheck disable=SC2046
    [ -z "$with" ] || $cc $(pkg-config --cflags gemmblas) -o "$tap_dir/user" "$tap_dir/user.c" \
        $(pkg-config --libs gemmblas)
    ok $? 'flags of pkg-config compile and link'
else
    skip 'flags of pkg-config compile and link' 'no pkg-config'
fi

headers=$(cd "$prefix/include" 2>/dev/null && find gemmblas -name '*.h')
[ -n "$headers" ]
ok $? 'headers are installed'
for h in $headers; do
    for language in c c++; do
        echo "#include <$h>" | $cc -x $language -Wall -Wextra -Werror -pedantic -fsyntax-only \
            -I"$prefix/include" - 2>"$tap_dir/log"
        ok $? "$h stands alone in $language" || diag "$(cat "$tap_dir/log")"
    done
done

command=$prefix/bin/gemmblas
"$command" info >"$tap_dir/info" 2>&1
is 0 $? 'gemmblas info runs' || diag "$(cat "$tap_dir/info")"
grep -q -i emu "$tap_dir/info"
ok $? 'gemmblas info shows the emulated device'
"$command" explain dgemm N N 4096 4096 4096 >"$tap_dir/explain" 2>&1
is 0 $? 'gemmblas explain runs' || diag "$(cat "$tap_dir/explain")"

env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES \
    make -s -C "$top_builddir" uninstall DESTDIR="$root" >"$tap_dir/log" 2>&1
is '' "$(find "$root" -type f -o -type l)" 'make uninstall leaves nothing'
finish
