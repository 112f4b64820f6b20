#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The GEMM with Blackwell's bits on one core, compared with numpy's sgemm of 1024 x 1024 x 4096 on one core.

    python3 bench/host/gemm_numpy.py build/bench/bench/host_gemm_bench
"""
import json
import os
import subprocess
import sys
import time

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
import numpy as np  # noqa: E402, after the number of its threads

M, N, K = 1024, 1024, 4096


def numpy_rate():
    a = np.random.default_rng(1).standard_normal((M, K), dtype=np.float32)
    b = np.random.default_rng(2).standard_normal((K, N), dtype=np.float32)
    best = float("inf")
    for _ in range(10):
        begin = time.process_time()
        a @ b
        best = min(best, time.process_time() - begin)
    return 2 * M * N * K / best * 1e-9


def main():
    command = [sys.argv[1], "--benchmark_filter=/1/", "--benchmark_format=json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    peer = numpy_rate()
    print(f"numpy's sgemm: {peer:.1f} GFLOP/s on one core ({report['context'].get('CPU', 'unknown')})")
    for row in report["benchmarks"]:
        print(f"{row['name'].split('/')[1]}: {row['GFLOP/s']:.1f} GFLOP/s, {100 * row['GFLOP/s'] / peer:.0f} % of it, "
              f"{row['certified_%']:.0f} % of the steps certified")


if __name__ == "__main__":
    main()
