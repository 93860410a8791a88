#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The table of doc/accuracy.md, from rows of gemmblas-accuracy.

accuracy.py ROWS.tsv [--write doc/accuracy.md]
takes the latest row of each mode, type, family, shape and layout of the file's device, and
prints a table with the worst of each mode, type and family; --write puts it between the two
marks of a text instead. Exit status: 0, 2 for bad usage or rows that hold nothing.
"""

import argparse
import csv
import sys

BEGIN, END = "<!-- accuracy.py: begin -->\n", "<!-- accuracy.py: end -->\n"
KEY = ("math", "type", "family", "transa", "transb", "m", "n", "k")
COLUMNS = (
    "math", "type", "family", "shapes", "element, u", "share of the bound", "Frobenius",
    "of native's", "of a chain's", "exact", "as native", "promise",
)


def die(message):
    sys.stderr.write("accuracy.py: %s\n" % message)
    sys.exit(2)


class Parser(argparse.ArgumentParser):
    """Errors are one line."""

    def error(self, message):
        die(message)


def read(path):
    """The latest rows, in the order in which each was first seen."""
    try:
        with open(path, newline="", encoding="ascii") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    except OSError as error:
        die("%s: %s" % (path, error.strerror))
    if not rows or "frobenius_ratio" not in rows[0]:
        die("%s: no rows of gemmblas-accuracy" % path)
    latest = {}
    for row in rows:
        latest[tuple(row[name] for name in KEY)] = row
    return list(latest.values())


def share(rows, column):
    """Of how many shapes every element is so."""
    return "%d of %d" % (sum(float(row[column]) == 1 for row in rows), len(rows))


def line(rows):
    def worst(column):
        return "%.3g" % max(float(row[column]) for row in rows)

    first = rows[0]
    broken = sorted({row["verdict"] for row in rows} - {"kept"})
    return (
        first["math"], first["type"], first["family"], str(len(rows)), worst("element"),
        worst("share"), worst("frobenius"), worst("frobenius_ratio"), worst("chain_ratio"),
        share(rows, "rounded"), share(rows, "same"), ", ".join(broken) or "kept",
    )


def table(rows):
    groups = {}
    for row in rows:
        groups.setdefault((row["math"], row["type"], row["family"]), []).append(row)
    lines = [COLUMNS, ("---",) * len(COLUMNS)]
    order = list(groups)  # families stay as the rows have them
    order.sort(key=lambda key: (key[0] == "native", key[0], key[1]))
    lines += [line(groups[key]) for key in order]
    commits = sorted({row["commit"] for row in rows})
    return "%s, driver %s, commit %s:\n\n%s" % (
        rows[0]["device"],
        rows[-1]["driver"],
        ", ".join(commits),
        "".join("| %s |\n" % " | ".join(cells) for cells in lines),
    )


def write(path, text):
    try:
        with open(path, encoding="utf-8") as file:
            old = file.read()
        if old.count(BEGIN) != 1 or old.count(END) != 1:
            die("%s: it needs one line each of %s and %s" % (path, BEGIN.strip(), END.strip()))
        before, rest = old.split(BEGIN)
        with open(path, "w", encoding="utf-8") as file:
            file.write(before + BEGIN + "\n" + text + "\n" + END + rest.split(END)[1])
    except OSError as error:
        die("%s: %s" % (path, error.strerror))


def main():
    parser = Parser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("rows")
    parser.add_argument("--write", metavar="TEXT", help="the text that has the table")
    args = parser.parse_args()
    text = table(read(args.rows))
    if args.write:
        write(args.write, text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
