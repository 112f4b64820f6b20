#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an include costs. Lines: those that are neither blank nor `#` after `c++ -std=c++20 -E`; they do not depend
on the machine, so they are the gate. Seconds: user + system time of `nvcc -c` for one architecture, as CMake calls it,
and of `c++ -c`, over an empty kernel or file; the least of several interleaved rounds, in which noise is left out. Exit status 1 if a header has more lines than its bar."""
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


def seconds(*command):
    before = os.times()
    ok = subprocess.run(command, capture_output=True).returncode == 0
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return spent if ok else None


def measure(commands, rounds, headers):
    """The least seconds of each (compiler, header); the header "" is that of an empty source."""
    best = {}
    with tempfile.TemporaryDirectory() as folder:
        sources = {}
        for number, header in enumerate(["", *headers]):
            for compiler, (_, suffix, rest) in commands.items():
                source = sources[compiler, header] = pathlib.Path(folder) / f"{number}{suffix}"
                source.write_text((f"#include <{header}>\n" if header else "") + rest)
        for _ in range(rounds):
            for (compiler, header), source in sources.items():
                spent = seconds(*commands[compiler][0], "-c", source, "-o", os.path.join(folder, "out.o"))
                if spent is not None:
                    best[compiler, header] = min(spent, best.get((compiler, header), spent))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cxx", default="g++")
    parser.add_argument("--nvcc", default=shutil.which("nvcc"))
    parser.add_argument("--arch", default="sm_100a")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--lines-only", action="store_true")
    args = parser.parse_args()

    toolkit = []
    if args.nvcc:
        toolkit = ["-isystem", str(pathlib.Path(os.path.realpath(args.nvcc)).parents[1] / "include")]
    headers = [h for h in HEADERS if not h[0].startswith("fourscale/") or (INCLUDE / h[0]).is_file()]
    number = args.arch.removeprefix("sm_")
    commands = {"nvcc": ([args.nvcc, "-std=c++20", f"-gencode=arch=compute_{number},code={args.arch}", f"-I{INCLUDE}"],
                         ".cu", KERNEL),
                "c++": ([args.cxx, "-std=c++20", "-O2", f"-I{INCLUDE}", *toolkit], ".cpp", "int f() { return 0; }\n")}
    if not args.nvcc:
        del commands["nvcc"]
    times = {}
    if not args.lines_only:
        times = measure(commands, args.rounds, [h[0] for h in headers])
        for compiler in commands:
            print(f"{commands[compiler][0][0]}, nothing included: {times[compiler, '']:.2f} s")
        print()

    def over_empty(compiler, header):
        spent = times.get((compiler, header))
        return "-" if spent is None else f"+{max(0.0, spent - times[compiler, '']):.2f} s"

    print(f"{'#include':32}{'lines':>8}{'bar':>8}{'nvcc':>10}{'c++':>10}")
    failed = False
    for header, bar, plain in headers:
        count = lines(args.cxx, header, toolkit) if plain else None
        if bar and (count is None or count > bar):
            failed = True
        print(f"{header:32}{count if count is not None else '-':>8}{bar or '-':>8}"
              f"{over_empty('nvcc', header):>10}{over_empty('c++', header) if plain else '-':>10}")
    if failed:
        print("a header is over its bar, or does not compile")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
