#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an include costs. Lines: those that are neither blank nor `#` after `c++ -std=c++20 -E`; they do not depend
on the machine, so they are the gate. Seconds: user + system of `nvcc -c` over an empty kernel, the least of several
interleaved rounds. Exit status 1 if a header has more lines than its bar."""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"
KERNEL = "__global__ void kernel() {}\n"
# header, bar in lines (None: shown for comparison), may be included without CUDA
HEADERS = [
    ("fourscale/formats/convert.hpp", 3000, True),
    ("fourscale/fourscale.hpp", 8000, True),
    ("fourscale/fourscale.cuh", None, False),
    ("cuda_fp4.h", None, True),
]


def lines(cxx, header, toolkit):
    command = [cxx, "-std=c++20", "-E", "-x", "c++", f"-I{INCLUDE}", *toolkit, "-"]
    done = subprocess.run(command, input=f"#include <{header}>\n", capture_output=True, text=True)
    if done.returncode:
        return None
    return sum(1 for line in done.stdout.splitlines() if line.strip() and not line.startswith("#"))


def seconds(nvcc, arch, source, output):
    before = os.times()
    command = [nvcc, "-std=c++20", f"-arch={arch}", f"-I{INCLUDE}", "-c", source, "-o", output]
    ok = subprocess.run(command, capture_output=True).returncode == 0
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return spent if ok else None


def measure_nvcc(nvcc, arch, rounds, headers):
    best = {}
    with tempfile.TemporaryDirectory() as folder:
        sources = {}
        for number, header in enumerate(["", *headers]):
            sources[header] = pathlib.Path(folder) / f"{number}.cu"
            sources[header].write_text((f"#include <{header}>\n" if header else "") + KERNEL)
        for _ in range(rounds):
            for header, source in sources.items():
                spent = seconds(nvcc, arch, source, os.path.join(folder, "out.o"))
                if spent is not None:
                    best[header] = min(spent, best.get(header, spent))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cxx", default="g++")
    parser.add_argument("--nvcc", default=shutil.which("nvcc"))
    parser.add_argument("--arch", default="sm_100a")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lines-only", action="store_true")
    args = parser.parse_args()

    toolkit = []
    if args.nvcc:
        toolkit = ["-isystem", str(pathlib.Path(os.path.realpath(args.nvcc)).parents[1] / "include")]
    headers = [h for h in HEADERS if not h[0].startswith("fourscale/") or (INCLUDE / h[0]).is_file()]
    times = {}
    if args.nvcc and not args.lines_only:
        times = measure_nvcc(args.nvcc, args.arch, args.rounds, [h[0] for h in headers])
        print(f"nvcc -arch={args.arch}, an empty kernel: {times['']:.2f} s\n")

    print(f"{'#include':32}{'lines':>8}{'bar':>8}{'nvcc, over empty':>20}")
    failed = False
    for header, bar, plain in headers:
        count = lines(args.cxx, header, toolkit) if plain else None
        if bar and (count is None or count > bar):
            failed = True
        spent = f"+{max(0.0, times[header] - times['']):.2f} s" if header in times else "-"
        print(f"{header:32}{count if count is not None else '-':>8}{bar or '-':>8}{spent:>20}")
    if failed:
        print("a header is over its bar, or does not compile")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
