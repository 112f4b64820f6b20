#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions per element of each kernel, from its machine code, and what bounds it on which GPU. Needs nvcc and
nvdisasm or cuobjdump, no GPU. Nothing here ran on Blackwell: its rates are predicted from the machine code and from
published figures. They can be compared with what bench/device measured on an H200:

    quantize_bench --benchmark_out=speed.json && bench/roofline/roofline.py --measured speed.json
"""
import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import sass

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = ["sm_90a", "sm_100a", "sm_103a", "sm_120a"]
SKIPPED = 77

# An SM has four schedulers, each of which issues one warp instruction a clock: 128 thread-instructions (CUDA
# programming guide, "Compute Capability" 9.0, 10.0, 12.0).
ISSUED_PER_CLOCK = 128
Machine = collections.namedtuple("Machine", "name target sms ghz tb_per_s")
MACHINES = [
    # 132 SMs, 1.98 GHz boost: "NVIDIA H200" as its driver reports it; 4.8 TB/s: NVIDIA H200 data sheet.
    Machine("H200", "sm_90a", 132, 1.98, 4.8),
    # 148 SMs; 1.856 GHz is what 9.0 PFLOP/s of dense FP4 take at 16384 multiply-adds an SM and clock; 9 PFLOP/s and
    # 7.7 TB/s: HGX B200 as listed by verda.com/blog/gb300-nvl72-architecture.
    Machine("B200", "sm_100a", 148, 1.856, 7.7),
    # 148 SMs, 1.92 GHz sustained: measured by others (ademeure/QuickRunCUDA, b300_clean); 7.7 TB/s: HGX B300, as above.
    Machine("B300", "sm_103a", 148, 1.92, 7.7),
    # 188 SMs, 2.617 GHz boost, 1792 GB/s GDDR7: RTX PRO 6000 Blackwell Workstation Edition, specification page.
    Machine("RTX PRO 6000", "sm_120a", 188, 2.617, 1.792),
]

# A kernel is known by words in its symbol: all of `has`, none of `lacks`. Of several that fit, such as one
# for matrices of whole tiles and one for others, the quicker is meant. A thread takes `elements`, reads
# `read` bytes of them and four for each amax, and stores as `stores` says, {width: how many}; warps of
# several kinds have several, as often. `shared` says for each of `stores` what it loads from shared memory,
# where other paths could make those stores; `twice` are bytes that are read but are a neighbour's too.
Row = collections.namedtuple("Row", "name has lacks elements read stores amaxes shared twice")


def row(name, has, lacks=(), elements=64, read=128, stores=({1: 4, 8: 4},), amaxes=1, shared=None, twice=0):
    return Row(name, has, lacks, elements, read, stores, amaxes, shared, twice)


# A tile: codes of columns in 16 bytes, and half of the threads the scales of one in eight; in addition
# rowwise codes in eight, and scales like those of columns; or of squares both alike. From shared memory: two
# columns by 32 rows, a word for both; 16 bytes of codes; eight of scales, and of a tensor scale. One thread
# finds that of the columns, while the others wait: it is left out, and with it the amax.
COLUMN, OF_COLUMN = ({16: 2, 8: 1}, {16: 2}), ({4: 32, 16: 2, 8: 2}, {4: 32, 16: 2, 8: 1})
COLUMN_AND_ROW, OF_BOTH = ({16: 2, 8: 6}, {16: 2, 8: 4}), ({4: 32, 16: 2, 8: 3}, {4: 32, 16: 2, 8: 1})
SQUARE, OF_SQUARE = ({16: 4, 8: 2}, {16: 4}), ({4: 32, 16: 4, 8: 3}, {4: 32, 16: 4, 8: 1})
ROWS_OF, BOTH, SQUARES = "quantize_kernel", "quantize_tile_kernel", "quantize_squares_kernel"
RHT, SR, NVFP4, ALONE = "hadamardILi16", "10stochastic", "5nvfp4", "no_copy"
ROWS = [
    row("amax", ["amax_vectors_kernel"], stores=({},), amaxes=0),
    row("NVFP4 rowwise, nearest", [ROWS_OF, NVFP4, "linear"], [SR, "four_over_six"]),
    row("NVFP4 rowwise, stochastic", [ROWS_OF, NVFP4, "linear", SR]),
    row("NVFP4 rowwise, four over six", [ROWS_OF, NVFP4, "four_over_six"], elements=32, read=64, stores=({1: 2, 8: 2},)),
    # Scales gathered in shared memory; a quarter of the threads stores them.
    row("NVFP4 rowwise, swizzled", [ROWS_OF, NVFP4, "swizzled_sink"], stores=(*3 * ({8: 4},), {8: 4, 16: 1})),
    row("MXFP4 rowwise", [ROWS_OF, "5mxfp4"], stores=({16: 2, 1: 2},), amaxes=0),
    row("MXFP8 rowwise", [ROWS_OF, "10mxfp8_e4m3"], stores=({16: 4, 1: 2},), amaxes=0),
    row("FP8 per tensor", [ROWS_OF, "8fp8_e4m3"], stores=({16: 4},)),
    row("NVFP4 columnwise, nearest", [BOTH, ALONE], [RHT, SR], stores=COLUMN, amaxes=0, shared=OF_COLUMN),
    row("NVFP4 columnwise, RHT, nearest", [BOTH, ALONE, RHT], [SR], stores=COLUMN, amaxes=0, shared=OF_COLUMN),
    row("NVFP4 columnwise, RHT, stochastic", [BOTH, ALONE, RHT, SR], stores=COLUMN, amaxes=0, shared=OF_COLUMN),
    row("NVFP4 both, nearest", [BOTH], [ALONE, RHT, SR], stores=COLUMN_AND_ROW, shared=OF_BOTH),
    row("NVFP4 both, stochastic", [BOTH, SR], [ALONE, RHT], stores=COLUMN_AND_ROW, shared=OF_BOTH),
    row("NVFP4 both, column RHT, nearest", [BOTH, RHT], [ALONE, SR], stores=COLUMN_AND_ROW, shared=OF_BOTH),
    row("NVFP4 16x16, both", [SQUARES], [ALONE], stores=SQUARE, amaxes=0, shared=OF_SQUARE),
    row("NVFP4 dequantize", ["dequantize_rows_kernel", NVFP4], elements=32, read=20, stores=({16: 4},), twice=2),
]


# The benchmark of bench/device/quantize_bench.cu that runs a kernel.
BENCHMARKS = {
    "amax": "amax", "nvfp4_rowwise_nearest": "NVFP4 rowwise, nearest",
    "nvfp4_rowwise_stochastic": "NVFP4 rowwise, stochastic",
    "nvfp4_rowwise_four_over_six": "NVFP4 rowwise, four over six",
    "nvfp4_rowwise_nearest_swizzled": "NVFP4 rowwise, swizzled", "mxfp4_rowwise": "MXFP4 rowwise",
    "mxfp8_rowwise": "MXFP8 rowwise", "fp8_tensor": "FP8 per tensor",
    "nvfp4_columnwise_nearest": "NVFP4 columnwise, nearest",
    "nvfp4_columnwise_rht_nearest": "NVFP4 columnwise, RHT, nearest",
    "nvfp4_columnwise_rht_stochastic": "NVFP4 columnwise, RHT, stochastic",
    "nvfp4_both_nearest": "NVFP4 both, nearest", "nvfp4_both_stochastic": "NVFP4 both, stochastic",
    "nvfp4_both_row_plain_column_rht": "NVFP4 both, column RHT, nearest", "nvfp4_both_16x16": "NVFP4 16x16, both",
    "nvfp4_dequantize": "NVFP4 dequantize",
}


def measured_rates(path):
    """10^12 elements/s of each row, from 16384 x 16384 elements in the benchmark's JSON."""
    rates = {}
    with open(path) as file:
        for b in json.load(file)["benchmarks"]:
            kernel, shape = b["name"].split("/")[:2]
            if kernel in BENCHMARKS and shape == "16384x16384":
                rates[BENCHMARKS[kernel]] = 16384 * 16384 / b["real_time"] * 1e-6
    return rates


def tool(name, given, nvcc=None):
    path = os.pathsep.join(filter(None, [nvcc and str(pathlib.Path(nvcc).parent), os.environ.get("PATH", ""),
                                         str(ROOT / "build/venv/bin")]))  # where ./run test puts nvdisasm
    return shutil.which(given or name, path=path)


def tools(args):
    """nvcc, and the command that prints machine code; or the sentence that says what is missing."""
    nvcc = tool("nvcc", args.nvcc)
    if not nvcc:
        return None, None, "there is no nvcc in PATH: install the CUDA toolkit, or give --nvcc"
    for name, options in (("nvdisasm", ["-g", "-c"]), ("cuobjdump", ["-sass"])):
        if found := tool(name, getattr(args, name), nvcc):
            return nvcc, [found, *options], None
    return None, None, ("there is neither nvdisasm nor cuobjdump in PATH or next to nvcc: ./run test fetches one into "
                        "build/venv; or give --nvdisasm or --cuobjdump")


def disassemble(nvcc, disassembler, target, include, rows):
    source = pathlib.Path(__file__).with_name("kernels.cu")
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "a.cubin"
        options = ["-std=c++20", "-O3", f"-arch={target}", "-lineinfo", f"-I{include}"]
        if not any(kernel in r.has for r in rows for kernel in (BOTH, SQUARES)):
            options.append("-DROWS_ALONE")
        if [r.name for r in rows] == ["NVFP4 rowwise, nearest"]:
            options.append("-DNEAREST_ALONE")
        if subprocess.run([nvcc, *options, "-cubin", "-o", cubin, source]).returncode:
            sys.exit(f"nvcc did not compile kernels.cu for {target}")
        done = subprocess.run([*disassembler, cubin], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{disassembler[0]}: {done.stderr.strip()}")
    return sass.parse(done.stdout)


def main_paths(kernels, what):
    """The path of each kind of warp; or the sentence that says why there is none."""
    fit = [k for name, k in kernels.items()
           if all(h in name for h in what.has) and not any(x in name for x in what.lacks)]
    if not fit:
        return None, f"{what.name}: no kernel has all of {', '.join(what.has)} in its name; change ROWS or kernels.cu"
    shared = what.shared or [None] * len(what.stores)
    found = [[k.path(what.read + 4 * what.amaxes, *kind) for kind in zip(what.stores, shared)] for k in fit]
    found = [paths for paths in found if None not in paths]
    if not found:
        return None, (f"{what.name}: no path reads {what.read} bytes and {what.amaxes} amaxes and stores "
                      f"{what.stores}, width: how many; change ROWS, if its threads now do something else")
    return min(found, key=lambda paths: sum(map(len, paths))), None


def per_element(elements, paths):
    return sum(map(len, paths)) / len(paths) / elements


def bytes_per_element(what):
    written = sum(width * n for stores in what.stores for width, n in stores.items())
    return (what.read - what.twice + written / len(what.stores)) / what.elements


def bounds(machine, instructions, size):
    """10^12 elements/s that issue slots allow, and that memory allows."""
    return machine.sms * machine.ghz * ISSUED_PER_CLOCK / 1000 / instructions, machine.tb_per_s / size


def print_table(rows, targets, counts, measured):
    machines = [m for m in MACHINES if m.target in targets]
    width = max(len(r.name) for r in rows)
    print("Thread-instructions issued per element, counted in machine code; and 10^12 elements/s that issue slots |\n"
          "memory allow, the smaller one binds. " +
          ("H200: bounds, and the rate measured. " if measured else "H200: bounds. ") +
          "B200, B300, RTX PRO 6000: predicted, never run.\n")
    head = f"{'kernel':{width}} {'B/elem':>7}" + "".join(f"{t:>8}" for t in targets)
    print(head + "".join(f"{m.name:>19}" for m in machines) + ("  H200 measured, issue slots used" if measured else ""))
    for r in rows:
        size = bytes_per_element(r)
        line = f"{r.name:{width}} {size:7.4f}" + "".join(f"{counts[t, r.name]:8.2f}" for t in targets)
        for m in machines:
            issue, memory = bounds(m, counts[m.target, r.name], size)
            line += f"{issue:6.2f} |{memory:5.2f} {'issue' if issue < memory else 'HBM':>5}"
        if r.name in measured:
            slots = measured[r.name] / bounds(MACHINES[0], counts[MACHINES[0].target, r.name], 1)[0]
            line += f"{measured[r.name]:15.2f}{100 * slots:16.0f} %"
        print(line)


def print_detail(target, what, paths):
    print(f"\n{what.name}, {target}: {per_element(what.elements, paths):.2f} an element")
    for title, key in (("pipe", sass.pipe), ("opcode", lambda x: x.opcode.split(".")[0]),
                       ("line", lambda x: f"{pathlib.Path(x.line[0]).name}:{x.line[1]}" if x.line else "?")):
        count = collections.Counter(key(x) for path in paths for x in path)
        parts = [f"{name} {n / len(paths) / what.elements:.2f}" for name, n in count.most_common(14)]
        print(f"  by {title:7}" + ", ".join(parts))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc")
    parser.add_argument("--nvdisasm")
    parser.add_argument("--cuobjdump")
    parser.add_argument("--include", default=ROOT / "include")
    parser.add_argument("--target", action="append", help="sm_100a ...; all four if not given")
    parser.add_argument("--measured", metavar="JSON", help="what quantize_bench printed on an H200")
    parser.add_argument("--detail", metavar="KERNEL", help="what the instructions of this kernel are")
    parser.add_argument("--at-most", metavar="KERNEL=COUNT", help="look at it alone, and fail if it takes more")
    args = parser.parse_args()

    measured = measured_rates(args.measured) if args.measured else {}
    bar, most = args.at_most.rsplit("=", 1) if args.at_most else (None, None)
    known = [r.name for r in ROWS]
    if unknown := [n for n in filter(None, [args.detail, bar]) if n not in known]:
        sys.exit(f"there is no kernel called {unknown[0]}; there are: {'; '.join(known)}")
    rows = [r for r in ROWS if bar in (None, r.name)]
    nvcc, disassembler, missing = tools(args)
    if missing:
        print(f"roofline.py: {missing}", file=sys.stderr)
        return SKIPPED
    counts, details, errors = {}, [], []
    targets = args.target or TARGETS
    for target in targets:
        kernels = disassemble(nvcc, disassembler, target, args.include, rows)
        for what in rows:
            found, error = main_paths(kernels, what)
            counts[target, what.name] = float("nan") if error else per_element(what.elements, found)
            if error:
                errors.append(f"{target}: {error}")
            elif what.name == args.detail:
                details.append((target, what, found))
    print_table(rows, targets, counts, measured)
    for detail in details:
        print_detail(*detail)
    for error in errors:
        print(error, file=sys.stderr)
    over = [t for t in targets if bar and counts[t, bar] > float(most)]
    for target in over:
        print(f"{target}: {bar}: {counts[target, bar]:.2f} instructions an element, at most {most}", file=sys.stderr)
    return int(bool(errors or over))


if __name__ == "__main__":
    sys.exit(main())
