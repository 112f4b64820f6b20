#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants the faults of a table in a copy of the headers, compiles the tests against it once, and runs them for each
fault: `./run mutate`, `./run mutate --gpu`. A fault that no test notices is a missing test, or it is equivalent and
the table has the proof. planting.py says how a table is read.

    mutate.py BUILD_FOLDER [--gpu ARCH] [--jobs N] [--only WORD]"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import planting

# Of a GPU's tests. What is not about a fault in the table, and takes as long as all the rest.
NOT_FOR_GPU = re.compile(r"oracle_test|gemm|program_test|tcgen05")
ALL_FOR_GPU = "~[large]~[model]"

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# Before the first test of a CUDA build, each unit's number goes to the device.
TELLER = """\
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include "support/catch.hpp"
#include <fourscale/planted.hpp>
#if !defined(__CUDA_ARCH__)
#if FOURSCALE_CATCH2_V3
using listener = Catch::EventListenerBase;
#else
using listener = Catch::TestEventListenerBase;
#endif
struct teller : listener {
  using listener::listener;
  void testRunStarting(Catch::TestRunInfo const&) override { fourscale_mutation::tell_device(); }
};
CATCH_REGISTER_LISTENER(teller)
#endif
"""


def mirror(source, faults, gpu):
    """The project once more, with faults, as far as its tests need it."""
    planting.plant_headers(ROOT / "include", source / "include", faults)
    wanted = {source / "include"}
    for name in ["CMakeLists.txt", "cmake", "tests"]:
        files = (ROOT / name).rglob("*") if (ROOT / name).is_dir() else [ROOT / name]
        for file in files:
            path = file.relative_to(ROOT)
            unused = gpu and "_test." in file.name and NOT_FOR_GPU.search(file.name)
            if file.is_file() and file.suffix != ".pyc" and not unused:
                planting.write_if_new(source / path, file.read_text())
                wanted.add(source / path)
    if gpu:
        planting.write_if_new(source / "tests/mutation/teller_test.cu", TELLER)
        wanted.add(source / "tests/mutation/teller_test.cu")
    for old in (source / "tests").rglob("*"):
        if old.is_file() and old not in wanted:
            old.unlink()


def build(folder, gpu):
    """The program of all tests. Warnings are for the headers as they are; here they would be about faults."""
    options = ["-DFOURSCALE_BUILD_BENCH=OFF", "-DFOURSCALE_BUILD_EXAMPLES=OFF", "-DFOURSCALE_INSTALL=OFF"]
    target = "fourscale_tests"
    if gpu:
        target = "fourscale_cuda_tests"
        options += ["-DFOURSCALE_CUDA=ON", f"-DCMAKE_CUDA_ARCHITECTURES={gpu}-real", "-DCMAKE_BUILD_TYPE=Release",
                    "-DCMAKE_CUDA_FLAGS=-w -Xcompiler=-w", "-DCMAKE_CXX_FLAGS=-w"]
    else:  # several faults are tried at a time, each by one thread
        options += ["-DFOURSCALE_CUDA=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_OpenMP=ON", "-DCMAKE_CXX_FLAGS=-O1 -w"]
    log = folder / "build.log"
    with open(log, "w") as out:
        for command in (["cmake", "-S", folder / "source", "-B", folder / "build", "-G", "Ninja", *options],
                        ["cmake", "--build", folder / "build", "--target", target]):
            if subprocess.run(command, stdout=out, stderr=subprocess.STDOUT).returncode != 0:
                out.flush()
                sys.exit(log.read_text()[-4000:] + f"\nmutate: the mutated tests do not build: {log}")
    return folder / "build/tests" / target


def run(program, number, tests, limit, threads):
    """(whether the tests pass, seconds) with fault `number`, 0 for none."""
    environment = dict(os.environ, FOURSCALE_FAULT=str(number), OMP_NUM_THREADS=str(threads))
    begin = time.monotonic()
    try:
        done = subprocess.run([program, "--abort", *([tests] if tests else [])], env=environment, timeout=limit,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        passed = done.returncode == 0
    except subprocess.TimeoutExpired:
        passed = False
    return passed, time.monotonic() - begin


def try_all(program, faults, everything="", jobs=1, threads=1, say=print, least=20):
    """The faults that no test notices. The tests of the fault's header are asked first, then `everything`. Whoever takes five
    times as long as without a fault, and `least` seconds, will never end."""
    limit = {}
    for tests in sorted({fault.tags for fault in faults} | {everything}):
        passed, seconds = run(program, 0, tests, None, threads)
        if not passed:
            sys.exit(f"mutate: the tests {tests or '(all)'} fail without any fault")
        limit[tests] = least + 5 * jobs * seconds

    def survives(fault):
        for tests in dict.fromkeys([fault.tags, everything]):
            if not run(program, fault.number, tests, limit[tests], threads)[0]:
                return False, tests
        return True, everything

    survivors = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for fault, (alive, tests) in zip(faults, pool.map(survives, faults)):
            if alive:
                survivors.append(fault)
                say(f"survived  {fault.number:3} {fault.file}: {fault.name}")
            elif tests != fault.tags:
                say(f"only others noticed {fault.number:3} {fault.file}: {fault.name}")
    return survivors


def report(faults, survivors, say=print):
    """0 if each survivor is proved equivalent, and nothing that is proved so was noticed."""
    unexplained = [f for f in survivors if not f.proof]
    wrong = [f for f in faults if f.proof and f not in survivors]
    for fault in unexplained:
        say(f"MISSING TEST  {fault.file}: {fault.name}\n  - {fault.pattern}\n  + {fault.replacement}")
    for fault in wrong:
        say(f"WRONG PROOF  {fault.file}: {fault.name}: a test notices it")
    say(f"{len(faults)} faults: {len(faults) - len(survivors)} noticed, {len(survivors) - len(unexplained)} proved "
        f"equivalent, {len(unexplained)} that no test notices")
    return 1 if unexplained or wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gpu", metavar="ARCH", help="the table for the GPU, compiled for 90a, ...")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count()), help="faults that are tried at a time")
    parser.add_argument("--only", metavar="WORD", help="only faults with this in header or name")
    options = parser.parse_args()
    begin = time.monotonic()
    faults = planting.read_table(HERE / ("gpu.faults" if options.gpu else "cpu.faults"), options.gpu)
    try:
        mirror(options.folder / "source", faults, options.gpu)
    except planting.Stale as e:
        sys.exit(f"mutate: the table does not fit the headers any more\n{e}")
    program = build(options.folder, options.gpu)
    print(f"{len(faults)} faults compiled in, after {time.monotonic() - begin:.0f} s", flush=True)
    if options.only:
        faults = [f for f in faults if options.only in f.file or options.only in f.name]
    threads = max(1, (os.cpu_count() or 1) // options.jobs)
    survivors = try_all(program, faults, ALL_FOR_GPU if options.gpu else "", options.jobs, threads,
                        lambda line: print(line, flush=True))
    code = report(faults, survivors)
    print(f"{time.monotonic() - begin:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
