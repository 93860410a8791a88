#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""An ordinary numpy program, unaware of any GPU: principal components of real terrain.

The input is the digital elevation model of the Jacksboro fault (344 x 403 points) that
matplotlib ships. Every square patch of it is one sample; their principal components are
found by randomised subspace iteration, and then every chosen patch is compared with every
other one (one large product). Results go to a folder, times to stdout.

    terrain.py OUTDIR [--patch 32] [--step 3] [--rank 64] [--pairs 6144]
"""

import argparse
import importlib.util
import os
import time

import numpy as np


def elevation():
    spec = importlib.util.find_spec("matplotlib")
    if spec is None:
        raise SystemExit("terrain.py: the data are in the matplotlib package, which is missing")
    name = os.path.join(
        spec.submodule_search_locations[0], "mpl-data/sample_data/jacksboro_fault_dem.npz"
    )
    return np.load(name)["elevation"].astype(float)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("outdir")
    parser.add_argument("--patch", type=int, default=32, help="side of a patch")
    parser.add_argument("--step", type=int, default=3, help="distance of patches")
    parser.add_argument("--rank", type=int, default=64, help="components to find")
    parser.add_argument("--pairs", type=int, default=6144, help="patches to compare")
    args = parser.parse_args()

    side, step = args.patch, args.step
    windows = np.lib.stride_tricks.sliding_window_view(elevation(), (side, side))
    x = windows[::step, ::step].reshape(-1, side * side)
    x = x - x.mean(axis=0)
    pairs = min(args.pairs, len(x))
    chosen = x[np.linspace(0, len(x) - 1, pairs).astype(int)]
    chosen /= np.linalg.norm(chosen, axis=1, keepdims=True)
    turned = np.ascontiguousarray(chosen[::-1])
    start = np.random.default_rng(1).normal(size=(side * side, args.rank + 8))

    began = time.perf_counter()
    y = x @ start
    for _ in range(2):
        q, _ = np.linalg.qr(y)
        z, _ = np.linalg.qr(x.T @ q)
        y = x @ z
    q, _ = np.linalg.qr(y)
    _, s, components = np.linalg.svd(q.T @ x, full_matrices=False)
    s, components = s[: args.rank], components[: args.rank]
    components *= np.sign(components[np.arange(len(s)), np.abs(components).argmax(axis=1)])[
        :, None
    ]
    scores = x @ components.T
    found = time.perf_counter()
    similar = chosen @ turned.T
    ended = time.perf_counter()

    share = (s**2).cumsum() / (x**2).sum()
    half = int(np.searchsorted(share, 0.9)) + 1
    print(f"{len(x)} patches of {side} x {side} points: {half} components hold 90 % of the variance")
    print(f"components_seconds={found - began:.3f}")
    print(f"product_seconds={ended - found:.3f}")
    # What is compared between runs: everything that the program found, each part scaled to 1.
    os.makedirs(args.outdir, exist_ok=True)
    lead = components[:8]
    for name, value in (
        ("variances", s / s[0]),
        ("components", lead),
        ("scores", scores[:, :8] / np.abs(scores[:, :8]).max()),
        ("similarities", similar[::16]),
    ):
        np.save(os.path.join(args.outdir, name), value)


if __name__ == "__main__":
    main()
