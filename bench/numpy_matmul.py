#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Times numpy's a @ b, without and with a library preloaded, by turns.

numpy_matmul.py [--preload libgemmblas.so.0] [--size 4096] [--repeats 7]
prints, for float32 and float64, the median of repeated calls and of calls on new arrays.
Exit status: 0, 1 when a result is wrong, 2 for bad usage.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

TURNS = 3
WARM_SECONDS = 1.5


def die(message):
    sys.stderr.write("numpy_matmul.py: %s\n" % message)
    sys.exit(2)


class Parser(argparse.ArgumentParser):
    """Errors are one line."""

    def error(self, message):
        die(message + "; see numpy_matmul.py --help")


def child(size, repeats):
    """Prints `type fresh|repeat seconds` per call, then how far the result is from right."""
    import numpy as np

    rng = np.random.default_rng(1)
    for name in ("float32", "float64"):
        a = rng.standard_normal((size, size), dtype=name)
        b = rng.standard_normal((size, size), dtype=name)
        # A library that moves products to a device may open it meanwhile: the first calls
        # are checked, not timed.
        start = time.perf_counter()
        c = a @ b
        while time.perf_counter() - start < WARM_SECONDS:
            c = a @ b
        rows = rng.integers(0, size, 8)
        want = a[rows].astype("longdouble") @ b[:, :16].astype("longdouble")
        error = float(np.max(np.abs(c[rows, :16] - want)) / np.sqrt(size))
        print(name, "error", error)
        for _ in range(repeats):
            start = time.perf_counter()
            np.matmul(a, b, out=c)
            print(name, "repeat", time.perf_counter() - start)
        for _ in range(repeats):
            a2, b2 = a.copy(), b.copy()
            start = time.perf_counter()
            c2 = a2 @ b2
            print(name, "fresh", time.perf_counter() - start)
            del a2, b2, c2


def run(preload, size, repeats):
    """One process; its lines as (type, kind, number)."""
    env = dict(os.environ)
    if preload:
        env["LD_PRELOAD"] = preload
    command = [sys.executable, os.path.abspath(__file__), "--child", "--size", str(size),
               "--repeats", str(repeats)]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False)
    said = done.stderr.decode().strip().splitlines()
    if done.returncode != 0:
        die("%s %s: %s; take a python3 that has numpy" %
            (sys.executable, "under " + preload if preload else "by itself",
             said[-1] if said else "status %d" % done.returncode))
    for line in said:
        print(line, file=sys.stderr)
    return [line.split() for line in done.stdout.decode().splitlines()]


def main():
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--preload", help="library to preload, such as libgemmblas.so.0")
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=7, help="calls per process")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.size < 1 or args.repeats < 1:
        parser.error("--size and --repeats: give whole numbers from 1")
    if args.child:
        child(args.size, args.repeats)
        return 0
    preload = os.path.abspath(args.preload) if args.preload else None
    if preload and not os.path.exists(preload):
        parser.error("--preload %s: no such file; name libgemmblas.so.0" % args.preload)
    sides = [None, preload] if preload else [None]
    times = {}
    for _ in range(TURNS):
        for side in sides:
            for name, kind, number in run(side, args.size, args.repeats):
                times.setdefault((name, kind, side), []).append(float(number))
    wrong = 0
    for name, limit in (("float32", 1e-3), ("float64", 1e-12)):
        for kind in ("repeat", "fresh"):
            text = "%s %d %-6s" % (name, args.size, kind)
            for side in sides:
                text += "  %s %.3f ms" % ("preloaded" if side else "plain",
                                          1e3 * statistics.median(times[name, kind, side]))
            if preload:
                text += "  ratio %.2f" % (statistics.median(times[name, kind, None]) /
                                          statistics.median(times[name, kind, preload]))
            print(text)
        for side in sides:
            error = max(times[name, "error", side])
            if not error <= limit:
                print("%s %s: wrong by %g" % (name, "preloaded" if side else "plain", error))
                wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
