#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copy from a build tree what is needed to run tests, bench and quickstart's program on
# another machine, without debug information, together with the reference testers and the
# libraries that these need. The copy serves as a build tree there:
#   tests/carry.sh BUILDDIR DEST        here; after `make` and `make check TESTS=`
#   tests/run-gpu.sh DEST               there; QUICKSTART_BUILD=DEST ./quickstart run
set -eu
[ $# -eq 2 ] || { echo "usage: carry.sh BUILDDIR DEST" >&2; exit 2; }
build=$(cd "$1" && pwd)
mkdir -p "$2"
dest=$(cd "$2" && pwd)
cd "$build"

# Programs and objects as they are; links (libgemmblas.so.0) as links.
find gemmblas .libs/libgemmblas* bench tests packaging \( -type f -o -type l \) \
    ! -name '*.o' ! -name '*.a' ! -name '*.la' ! -name '*.lai' ! -name '*.log' \
    ! -name '*.trs' ! -name '*.Po' ! -name '*.Plo' ! -path '*/.deps/*' ! -name '.dirstamp' |
    grep -v '/libgemmblas.*T$' | while read -r f; do
    mkdir -p "$dest/$(dirname "$f")"
    cp -P "$f" "$dest/$f"
    case $(head -c 4 "$f" | tail -c 3) in
    ELF) [ -L "$dest/$f" ] || strip --strip-debug "$dest/$f" ;;
    esac
done

for testers in /usr/lib/*/blas; do
    [ -x "$testers/xblat3d" ] || continue
    mkdir -p "$dest/carry/netlib" "$dest/carry/lib"
    cp "$testers"/x?blat3 "$testers"/xblat3? "$testers"/x?cblat3 "$testers"/?blat3.in \
        "$testers"/?in3 "$dest/carry/netlib/" 2>/dev/null || :
    # The reference BLAS is small; OpenBLAS would be most of what is carried.
    cp -L "$testers/libblas.so.3" "$dest/carry/lib/" 2>/dev/null || :
    ldd "$testers/xblat3d" | awk '/gfortran|quadmath/ { print $3 }' | while read -r lib; do
        cp -L "$lib" "$dest/carry/lib/"
    done
done
du -sh "$dest"
