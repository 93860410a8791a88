#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Times numpy's a @ b, without and with a library preloaded, by turns.

numpy_matmul.py [--preload libgemmblas.so.0] [--size 4096] [--repeats 7]
prints, for float32 and float64, the median of repeated calls and of calls on new arrays.
With --append FILE they become rows as gemmblas-bench writes them: `repeat` is host-repeat,
`fresh` host-fresh, the peer is numpy with its own BLAS.
Exit status: 0, 1 when a result is wrong, 2 for bad usage.
"""

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time

TURNS = 3
TYPES = {"float32": ("f32", "sgemm", 1e-3), "float64": ("f64", "dgemm", 1e-12)}
PLACES = {"repeat": "host-repeat", "fresh": "host-fresh"}
# As in rows.c.
HEADER = ("date device driver commit place math routine type typec transa transb m n k lda ldb "
          "ldc batch beta kernel ours_us spread tflops peer peer_us ratio note").replace(" ", "\t")


def die(message):
    sys.stderr.write("numpy_matmul.py: %s\n" % message)
    sys.exit(2)


class Parser(argparse.ArgumentParser):
    """Errors are one line."""

    def error(self, message):
        die(message + "; see numpy_matmul.py --help")


def blas_name():
    """"openblas 0.3.21" from a BLAS that this process has loaded, or "" when none tells."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        words = [line.split(None, 5) for line in maps]
    paths = sorted({w[5].strip() for w in words if len(w) == 6 and ".so" in w[5]})
    for path in paths:
        if "blas" not in os.path.basename(path) and "blis" not in os.path.basename(path):
            continue
        try:
            library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
        except OSError:
            continue
        for symbol, prefix in (("openblas_get_config", ""), ("openblas_get_config64_", ""),
                               ("scipy_openblas_get_config", ""),
                               ("scipy_openblas_get_config64_", ""),
                               ("bli_info_get_version_str", "blis ")):
            try:
                text = getattr(library, symbol)
            except AttributeError:
                continue
            text.restype = ctypes.c_char_p
            return " ".join((prefix + text().decode()).split()[:2]).lower()
    return ""


def child(size, repeats, warm):
    """Prints `type fresh|repeat seconds` per call, how far the result is from right, and
    `numpy version blas version`."""
    import numpy as np

    rng = np.random.default_rng(1)
    for name in TYPES:
        a = rng.standard_normal((size, size), dtype=name)
        b = rng.standard_normal((size, size), dtype=name)
        # A library that moves products to a device may open it meanwhile: the first calls
        # are checked, not timed.
        start = time.perf_counter()
        c = a @ b
        while time.perf_counter() - start < warm:
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
    print("numpy", np.__version__, blas_name())


class Side:
    """What the processes of one side have said: times and errors by (type, kind)."""

    def __init__(self, preload):
        self.preload = preload
        self.numbers = {}
        self.numpy = self.blas = ""
        self.calls = {}  # by type: the trace lines of its timed calls

    def seconds(self, name, kind):
        return statistics.median(self.numbers[name, kind])

    def spread(self, name, kind):
        """Third less first quartile, per cent of the median, as in rows.c."""
        low, middle, high = statistics.quantiles(self.numbers[name, kind], n=4,
                                                 method="inclusive")
        return 100 * (high - low) / middle

    def wrong(self, name):
        return not max(self.numbers[name, "error"]) <= TYPES[name][2]


def run(side, args, trace):
    """One process; what it says joins the others of its side."""
    # New arrays are new pages, however small.
    env = dict(os.environ, MALLOC_MMAP_THRESHOLD_="65536")
    if side.preload:
        env["LD_PRELOAD"] = side.preload
    if side.preload and trace:
        env["GEMMBLAS_TRACE"] = trace
    command = [sys.executable, os.path.abspath(__file__), "--child", "--size", str(args.size),
               "--repeats", str(args.repeats), "--warm", str(args.warm)]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False)
    said = done.stderr.decode().strip().splitlines()
    if done.returncode != 0:
        die("%s %s: %s; take a python3 that has numpy" %
            (sys.executable, "under " + side.preload if side.preload else "by itself",
             said[-1] if said else "status %d" % done.returncode))
    for line in said:
        print(line, file=sys.stderr)
    for line in done.stdout.decode().splitlines():
        words = line.split()
        if words[0] == "numpy":
            side.numpy, side.blas = words[1], " ".join(words[2:])
        else:
            side.numbers.setdefault((words[0], words[1]), []).append(float(words[2]))
    if side.preload and trace:
        read_trace(side, args, trace)


def read_trace(side, args, trace):
    """The timed calls of a type are its last ones; the file is emptied for the next process."""
    with open(trace, "r+", encoding="utf-8") as lines:
        calls = [dict(word.split("=", 1) for word in line.split() if "=" in word)
                 for line in lines]
        lines.truncate(0)
    for name, (_, routine, _) in TYPES.items():
        mine = [c for c in calls if c.get("name") == routine and
                c.get("m") == c.get("n") == c.get("k") == str(args.size) and
                c.get("why") != "nested"]
        side.calls.setdefault(name, []).extend(mine[-2 * args.repeats:])


def where(calls):
    """Kernel and remark of a row."""
    kernels = [c["kernel"] for c in calls if c.get("kernel", "-") != "-"]
    stayed = [c for c in calls if c.get("route") == "cpu"]
    remark = ""
    if stayed:
        remark = "%d of %d on the CPU: %s" % (len(stayed), len(calls), stayed[-1].get("why"))
    return kernels[-1] if kernels else "-", remark


def card():
    """Short name and driver of the first device, as in rows.c."""
    wanted = os.environ.get("GEMMBLAS_DEVICE", "auto")
    name = ctypes.create_string_buffer(128)
    device, version = ctypes.c_int(0), ctypes.c_int(0)
    if wanted.startswith("emu") or wanted == "none":
        return "none" if wanted == "none" else "emu", "-"
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "none", "-"
    if (cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0) or
            cuda.cuDeviceGetName(name, len(name), device)):
        return "none", "-"
    short = name.value.decode()
    for word in ("NVIDIA ", "GeForce ", "Tesla "):
        short = short[len(word):] if short.startswith(word) else short
    if not short.startswith("RTX "):
        short = short.replace("-", " ").split(" ")[0]
    try:
        with open("/sys/module/nvidia/version", encoding="utf-8") as release:
            return short, release.readline().strip()
    except OSError:
        cuda.cuDriverGetVersion(ctypes.byref(version))
        return short, "cuda %d.%d" % (version.value // 1000, version.value % 1000 // 10)


def commit_name(given):
    given = given or os.environ.get("BENCH_COMMIT")
    if given:
        return given
    try:
        done = subprocess.run(["git", "describe", "--always", "--dirty", "--exclude", "*"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return "unknown"
    return done.stdout.decode().strip() or "unknown"


def check_append(path):
    """Opens a results file and makes sure that it is one, before anything is measured."""
    try:
        with open(path, "a+", encoding="utf-8") as rows:
            rows.seek(0)
            first = rows.readline()
            if not first:
                rows.write(HEADER + "\n")
    except OSError as error:
        die("%s: %s; name a file that can be written" % (path, error.strerror))
    if first and first != HEADER + "\n":
        die("%s: its first line is not the header of bench rows; name another file" % path)


def append_rows(args, plain, ours):
    device, driver = card()
    peer = "numpy-" + plain.blas if plain.blas else "numpy " + plain.numpy
    with open(args.append, "a", encoding="utf-8") as rows:
        for name, (kind_of, _, _) in TYPES.items():
            kernel, remark = where(ours.calls.get(name, []))
            for kind, place in PLACES.items():
                ours_us, peer_us = (1e6 * side.seconds(name, kind) for side in (ours, plain))
                notes = [args.note, "numpy " + plain.numpy, remark,
                         "ours wrong" if ours.wrong(name) else "",
                         "peer wrong" if plain.wrong(name) else ""]
                size = [str(args.size)] * 6
                row = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), device, driver,
                       commit_name(args.commit), place, "native", "gemm", kind_of, kind_of,
                       "N", "N", *size, "1", "0", kernel, "%.4f" % ours_us,
                       "%.2f" % ours.spread(name, kind),
                       "%.4f" % (2 * args.size ** 3 / ours_us * 1e-6), peer,
                       "%.4f" % peer_us, "%.4f" % (peer_us / ours_us),
                       "; ".join(note for note in notes if note)]
                rows.write("\t".join(row) + "\n")


def options():
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--preload", help="library to preload, such as libgemmblas.so.0")
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=7, help="calls per process")
    parser.add_argument("--warm", type=float, default=1.5,
                        help="seconds of calls that are not timed, per type and process")
    parser.add_argument("--append", metavar="FILE",
                        help="add tab-separated rows to FILE, with a header if it is new")
    parser.add_argument("--note", default="", help="last column")
    parser.add_argument("--commit", help="of what is measured; default: BENCH_COMMIT, then "
                                         "git's answer")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.size < 1 or args.repeats < 1:
        parser.error("--size and --repeats: give whole numbers from 1")
    if args.preload and not os.path.exists(args.preload):
        parser.error("--preload %s: no such file; name libgemmblas.so.0" % args.preload)
    if args.append and not args.preload:
        parser.error("--append: it needs --preload")
    if "\t" in args.note or "\n" in args.note:
        parser.error("--note: leave tabs and line ends out of it")
    return args


def main():
    args = options()
    if args.child:
        child(args.size, args.repeats, args.warm)
        return 0
    if args.append:
        check_append(args.append)
    plain = Side(None)
    sides = [plain, Side(os.path.abspath(args.preload))] if args.preload else [plain]
    with tempfile.NamedTemporaryFile(prefix="gemmblas-bench.") as file:
        # A trace that the user has asked for stays his.
        trace = file.name if args.append and "GEMMBLAS_TRACE" not in os.environ else None
        for _ in range(TURNS):
            for side in sides:
                run(side, args, trace)
    for name in TYPES:
        for kind in PLACES:
            text = "%s %d %-6s" % (name, args.size, kind)
            for side in sides:
                text += "  %s %.3f ms" % ("preloaded" if side.preload else "plain",
                                          1e3 * side.seconds(name, kind))
            if args.preload:
                text += "  ratio %.2f" % (plain.seconds(name, kind) /
                                          sides[1].seconds(name, kind))
            print(text)
        for side in sides:
            if side.wrong(name):
                print("%s %s: wrong by %g" % (name, "preloaded" if side.preload else "plain",
                                              max(side.numbers[name, "error"])))
    if args.append:
        append_rows(args, plain, sides[1])
    return int(any(side.wrong(name) for side in sides for name in TYPES))


if __name__ == "__main__":
    sys.exit(main())
