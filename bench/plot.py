#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws committed rows: TFLOP/s against size, and against arithmetic intensity (roofline).

plot.py ROWS.tsv OUT.svg [--type bf16] [--typec bf16]
takes the resident rows of one device and pair of types, the latest of each shape and peer, and
draws ours beside the peer of the same run. Needs matplotlib.
Exit status: 0, 2 for bad usage or rows that hold nothing to draw.
"""

import argparse
import csv
import sys

# Dense peak of the arithmetic (TFLOP/s) and of the memory (TB/s), by the vendor's data sheet.
PEAKS = {
    "H200": {"f16": 989, "bf16": 989, "f32": 67, "f64": 67, "c32": 67, "c64": 67, "memory": 4.8}
}
BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "c32": 8, "c64": 16}
OURS, PEER, LIMIT = "#1b6ca8", "#d1802f", "#888888"


def die(message):
    sys.stderr.write("plot.py: %s\n" % message)
    sys.exit(2)


class Parser(argparse.ArgumentParser):
    """Errors are one line."""

    def error(self, message):
        die(message + "; see plot.py --help")


def read(path, kind, kind_c):
    """The latest row of each shape: {shape: row}, shape = (transposes, m, n, k, lda, ...)."""
    rows = {}
    try:
        with open(path, encoding="utf-8", newline="") as f:
            for row in csv.DictReader(f, delimiter="\t"):
                if (
                    row["place"] == "resident"
                    and (row["type"], row["typec"]) == (kind, kind_c)
                    and row["peer"] != "-"
                    and "wrong" not in row["note"]
                    and "forced" not in row["note"]
                ):
                    key = tuple(row[c] for c in "transa transb m n k lda ldb ldc batch beta".split())
                    if key not in rows or rows[key]["date"] <= row["date"]:
                        rows[key] = row
    except OSError as e:
        die("%s: %s" % (path, e.strerror))
    except KeyError as e:
        die("%s: no column %s; take a file that gemmblas-bench wrote" % (path, e))
    if not rows:
        die("%s: no resident rows of %s to %s with a peer" % (path, kind, kind_c))
    return list(rows.values())


def rates(row):
    """TFLOP/s of ours and of the peer."""
    ours = float(row["tflops"])
    return ours, ours * float(row["ours_us"]) / float(row["peer_us"])


def intensity(row):
    """Operations for each byte that has to move once."""
    m, n, k = int(row["m"]), int(row["n"]), int(row["k"])
    size, size_c = BYTES[row["type"]], BYTES[row["typec"]]
    moved = (m * k + k * n) * size + m * n * size_c * (1 if float(row["beta"]) == 0 else 2)
    return (8 if row["type"][0] == "c" else 2) * m * n * k / moved


def is_square(row):
    return (
        row["m"] == row["n"] == row["k"]
        and row["transa"] + row["transb"] == "NN"
        and row["lda"] == row["m"]
        and int(row["m"]) % 64 == 0
    )


def by_size(axes, rows, peer):
    squares = sorted((r for r in rows if is_square(r)), key=lambda r: int(r["m"]))
    sizes = [int(r["m"]) for r in squares]
    ours, theirs = zip(*map(rates, squares)) if squares else ((), ())
    axes.plot(sizes, ours, marker="o", color=OURS, label="gemmblas")
    axes.plot(sizes, theirs, marker="s", color=PEER, label=peer)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, ["%d" % s for s in sizes], rotation=45)
    axes.set_xlabel("n of n x n x n, NN")
    axes.set_ylabel("TFLOP/s")
    axes.set_title("Rate against size")
    axes.legend(frameon=False)


def roofline(axes, rows, peak):
    x = [intensity(r) for r in rows]
    ours, theirs = zip(*map(rates, rows))
    low, high = min(x) / 1.5, max(x) * 1.5
    knee = peak["rate"] / peak["memory"]
    axes.plot([low, knee, high], [low * peak["memory"], peak["rate"], peak["rate"]], color=LIMIT)
    axes.annotate("%g TFLOP/s" % peak["rate"], (high, peak["rate"]), ha="right", va="bottom")
    axes.annotate(
        "%g TB/s" % peak["memory"], (low, low * peak["memory"]), ha="left", va="bottom"
    )
    axes.scatter(x, theirs, marker="s", s=18, color=PEER)
    axes.scatter(x, ours, marker="o", s=18, color=OURS)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("operations per byte that must move")
    axes.set_title("All shapes against what the card allows")


def main():
    parser = Parser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("rows")
    parser.add_argument("out")
    parser.add_argument("--type", default="bf16", choices=sorted(BYTES))
    parser.add_argument("--typec", choices=sorted(BYTES), help="of C (as --type)")
    args = parser.parse_args()
    kind_c = args.typec or args.type

    rows = read(args.rows, args.type, kind_c)
    devices = sorted({r["device"] for r in rows})
    if len(devices) > 1:
        die("%s: rows of %s; take one device's" % (args.rows, ", ".join(devices)))
    if devices[0] not in PEAKS:
        die("%s: no peaks of %s are known; add them to PEAKS" % (args.rows, devices[0]))
    try:
        import matplotlib
    except ImportError:
        die("matplotlib is missing; install it with pip or apt (python3-matplotlib)")
    matplotlib.use("svg")
    # The same rows give the same file.
    matplotlib.rcParams.update({"svg.hashsalt": "gemmblas", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    peak = {"rate": PEAKS[devices[0]][args.type], "memory": PEAKS[devices[0]]["memory"]}
    by_size(axes[0], rows, rows[-1]["peer"])
    roofline(axes[1], rows, peak)
    for a in axes:
        a.grid(alpha=0.3)
    figure.suptitle("%s, C %s, operands on an %s" % (args.type, kind_c, devices[0]))
    try:
        figure.savefig(args.out, metadata={"Date": None})
    except OSError as e:
        die("%s: %s" % (args.out, e.strerror))


if __name__ == "__main__":
    main()
