#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What limits a kernel: how busy ncu finds each part of the GPU, compared with the kernel with the same traffic and no
arithmetic, at the clocks that both run at. Needs an NVIDIA GPU, ncu with access to its counters, and what `./run gpu` built:

    bench/device/limits.py build/gpu_bench/bench
"""
import argparse
import csv
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Percent of what each could do, then counts.
METRICS = {
    "issue": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "ALU": "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active",
    "fabric": "lts__ltcfabric2ltc_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "DRAM": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "written": "lts__t_sectors_srcunit_tex_op_write.sum",
    "writes": "lts__t_requests_srcunit_tex_op_write.sum",
    "instructions": "smsp__inst_executed.sum",
    "clock": "sm__cycles_elapsed.avg.per_second",
    "time": "gpu__time_duration.sum",
}
COUNTS = {"written", "writes", "instructions", "time"}
KERNELS = "quantize_|spread_scales|rmsnorm_kernel|swiglu_kernel"
# How many calls a program makes to compare outputs, before the turns: four of the ceiling's and four of ours.
COMPARED = {"device_quantize_bench": 1, "device_types_bench": 1, "device_fused_bench": 4}
ROWS = [  # program, benchmark, values
    *[("device_quantize_bench", f"{name}/16384x16384", 16384 * 16384) for name in (
        "nvfp4_rowwise_nearest", "nvfp4_rowwise_stochastic", "nvfp4_rowwise_four_over_six",
        "nvfp4_columnwise_nearest", "nvfp4_columnwise_rht_nearest", "nvfp4_columnwise_rht_stochastic",
        "nvfp4_both_nearest", "nvfp4_both_stochastic", "nvfp4_both_row_plain_column_rht", "nvfp4_both_16x16")],
    *[("device_types_bench", f"types/{name}/16384x8192", 16384 * 8192) for name in (
        "mxfp8_both/linear", "odd_stride_columnwise_rht/swizzled", "odd_stride_both_16x16/swizzled")],
    ("device_quantize_bench", "nvfp4_both_nearest/4096x4096", 4096 * 4096),
    ("device_quantize_bench", "nvfp4_both_nearest/2048x4096", 2048 * 4096),
    ("device_fused_bench", "swiglu_nvfp4/16384x14336", 16384 * 14336),
    ("device_fused_bench", "rmsnorm_nvfp4/16384x8192", 16384 * 8192),
    ("device_fused_bench", "rmsnorm_nvfp4/2048x4096", 2048 * 4096),
]


def profiled(program, benchmark):
    """{metric: value} of the first ceiling and of the first call, which may launch two kernels, in the turns of
    `benchmark`; or what ncu said."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log"
        command = ["ncu", "--csv", "--print-units", "base", "--clock-control", "none", "--metrics",
                   ",".join(METRICS.values()), "-k", f"regex:ceiling_kernel|{KERNELS}", "--launch-skip",
                   str(COMPARED[program.name]), "--launch-count", "7", "--log-file", log, program,
                   f"--benchmark_filter=^{re.escape(benchmark)}/"]
        done = subprocess.run(command, capture_output=True, text=True)
        text = log.read_text() if log.exists() else ""
    table = text[text.find('"ID"'):] if '"ID"' in text else ""
    launches = {}
    for line in csv.DictReader(table.splitlines()):
        launch = launches.setdefault(line["ID"], {"name": line["Kernel Name"]})
        launch[line["Metric Name"]] = float(line["Metric Value"].replace(",", ""))
    launches = list(launches.values())
    first = next((i for i, l in enumerate(launches) if "ceiling" in l["name"]), None)
    ours = [] if first is None else [l for l in launches[first:] if "ceiling" not in l["name"]]
    if not ours:
        return None, (text + done.stdout + done.stderr).strip()[-2000:]
    of_call = {launch["name"]: launch for launch in reversed(ours)}  # a call launches no kernel twice
    return [summed(launches[first:first + 1]), summed(of_call.values())], None


def summed(launches):
    """{metric: value} of kernels one after the other: counts are added, percents weighted with their times."""
    time = sum(launch[METRICS["time"]] for launch in launches)
    return {key: sum(launch[metric] * (1 if key in COUNTS else launch[METRICS["time"]] / time) for launch in launches)
            for key, metric in METRICS.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="where the benchmarks are")
    args = parser.parse_args()
    if not shutil.which("ncu"):
        sys.exit("limits.py: there is no ncu in PATH")
    print("| kernel | us | of the ceiling | issue slots | ALU | L2 fabric (ceiling's) | DRAM (ceiling's) | writes to L2 "
          "(ceiling's) | sectors written (ceiling's) | instructions a value | SM clock |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|")
    for program, benchmark, values in ROWS:
        found, error = profiled(args.build / program, benchmark)
        if error:
            sys.exit(f"limits.py: {benchmark}: {error}")
        ceiling, ours = found
        print(f"| {benchmark} | {ours['time'] / 1000:.0f} | {100 * ceiling['time'] / ours['time']:.0f} % "
              f"| {ours['issue']:.0f} % | {ours['ALU']:.0f} % | {ours['fabric']:.0f} % ({ceiling['fabric']:.0f}) "
              f"| {ours['DRAM']:.0f} % ({ceiling['DRAM']:.0f}) "
              f"| {ours['writes'] * 1e-6:.1f} M ({ceiling['writes'] * 1e-6:.1f}) "
              f"| {ours['written'] * 1e-6:.1f} M ({ceiling['written'] * 1e-6:.1f}) "
              f"| {32 * ours['instructions'] / values:.1f} | {ours['clock'] * 1e-9:.2f} GHz |", flush=True)


if __name__ == "__main__":
    main()
