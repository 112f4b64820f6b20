#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""D = A * B^T of NVFP4 operands, by fourscale and by what else multiplies them on this machine: the same codes and
scales for each, TFLOP/s, and the distance from the exact product.

    python3 bench/peers/gemm.py                            4096 x 4096 x 4096
    python3 bench/peers/gemm.py --shape 8192x14336x4096    M x N x K
    python3 bench/peers/gemm.py --json gemm.json           the table for gemm_plot.py, too
    python3 bench/peers/gemm.py --shape 128x64x256         also on a CPU, to try a path: fourscale's own is left out there

A path that is not installed, or that refuses this machine, is a line that says so."""
import argparse
import json
import time

import torch

from gemm_operand import DATA, Operand
from gemm_paths import PATHS

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def seconds(call, synchronize, least=0.05):
    """Of one call: the median of five runs, each of so many calls that Python and the launch do not count."""
    def run(count):
        synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            last = call()
        synchronize(last)
        return (time.perf_counter() - begin) / count
    run(2)
    count = max(1, min(1000, int(least / run(1))))
    return sorted(run(count) for _ in range(5))[2]


def error(d, exact):
    """||d - exact|| / ||exact||, both in double."""
    return float((d.double() - exact).norm() / exact.norm())


def measure(name, make, a, b, exact, expected):
    """What is known of a path; its bf16 outputs, so that others can be compared with fourscale's."""
    try:
        path = make(a, b)
        d = path.result(path.call())
        tflops = 2e-12 * a.rows * b.rows * a.cols / seconds(path.call, path.synchronize)
    except Exception as e:  # a path that is not there is a line of the table, not the end of it
        return {"name": name, "missing": (f"{type(e).__name__}: {e}".splitlines() or [""])[0][:110]}, None
    rounded = d.bfloat16()
    same = None if expected is None else 100 * float((rounded == expected).double().mean())
    return {"name": name, "tflops": tflops, "error": error(d, exact), "same": same, "note": path.note}, rounded


def line(path):
    if "missing" in path:
        return f"{path['name']:<44} left out: {path['missing']}"
    same = "" if path["same"] is None else f"{path['same']:>9.2f} %"
    return f"{path['name']:<44}{path['tflops']:>9.2f}{path['error']:>12.2e}{same:>12}   {path['note']}".rstrip()


def run(m, n, k, data):
    a, b = (Operand.random(rows, k, seed, DEVICE, data) for rows, seed in ((m, 1), (n, 2)))
    exact = a.values().double() @ b.values().double().T * (a.tensor_scale * b.tensor_scale)
    print(f"\n{m} x {n} x {k}, {DATA[data]}\n{'':<44}{'TFLOP/s':>9}{'error':>12}{'of our bits':>12}")
    print(f"{'the exact product, rounded to bf16':<44}{'':>9}{error(exact.bfloat16(), exact):>12.2e}")
    ours, paths = None, []
    for name, make in PATHS.items():
        path, rounded = measure(name, make, a, b, exact, ours)
        ours = rounded if make is PATHS["fourscale, Blackwell's bits"] else ours
        paths.append(path)
        print(line(path), flush=True)
    return {"shape": [m, n, k], "data": DATA[data], "paths": paths}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", metavar="MxNxK", help="multiples of 16")
    parser.add_argument("--data", action="append", choices=DATA, help="both, if it is not given")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    shapes = [[int(x) for x in s.split("x")] for s in options.shape or ["4096x4096x4096"]]
    if any(len(s) != 3 or any(x < 16 or x % 16 for x in s) for s in shapes):
        parser.error("--shape takes three multiples of 16, such as 4096x4096x4096")
    device = torch.cuda.get_device_name() if DEVICE == "cuda" else "a CPU"
    print(f"{device}, torch {torch.__version__}\n"
          "error: the Euclidean norm of D - exact over that of exact; a path that is exact until it rounds to bf16 has\n"
          "that of the first line. of our bits: outputs that, rounded to bf16, equal fourscale's.")
    tables = [run(*shape, data) for shape in shapes for data in options.data or DATA]
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"gpu": device, "torch": torch.__version__, "tables": tables}, f, indent=1)


if __name__ == "__main__":
    main()
