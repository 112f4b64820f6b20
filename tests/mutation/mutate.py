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
NOT_FOR_GPU = re.compile(r"tests/(model|oracle|ptx)/.*_test[.]|tests/interop/(?!cublaslt)|tests/host/gemm.*_test[.]|"
                         r"gemm_(faults|oracle|small_fp16|tcgen05(_faults)?|bits)_test[.]|/gemm_test[.]")
ALL_FOR_GPU = ["~[large]"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def mirror(source, faults, gpu):
    """The project once more, with faults, as far as its tests need it."""
    planting.plant_headers(ROOT / "include", source / "include", faults)
    wanted = {source / "include"}
    for name in ["CMakeLists.txt", "cmake", "tests"]:
        files = (ROOT / name).rglob("*") if (ROOT / name).is_dir() else [ROOT / name]
        for file in files:
            path = file.relative_to(ROOT)
            unused = gpu and NOT_FOR_GPU.search(path.as_posix())
            if file.is_file() and file.suffix != ".pyc" and not unused:
                planting.write_if_new(source / path, file.read_bytes())
                wanted.add(source / path)
    listener = source / "tests/mutation" / ("listener_test.cu" if gpu else "listener_test.cpp")
    planting.write_if_new(listener, planting.LISTENER)
    wanted.add(listener)
    for old in (source / "tests").rglob("*"):
        if old.is_file() and old not in wanted:
            old.unlink()


def build(folder, gpu):
    """The program of all tests. Warnings are for the headers as they are; here they would be about faults."""
    options = ["-DFOURSCALE_BUILD_BENCH=OFF", "-DFOURSCALE_BUILD_EXAMPLES=OFF", "-DFOURSCALE_INSTALL=OFF"]
    target = "fourscale_tests"
    if gpu:
        target = "fourscale_cuda_tests"
        flags = "-w -Xcompiler=-w"
        if "Ofast-compile" in subprocess.run(["nvcc", "--help"], capture_output=True, text=True).stdout:
            flags += " -Ofc=max"  # compiles sooner; bits do not depend on it
        options += ["-DFOURSCALE_CUDA=ON", f"-DCMAKE_CUDA_ARCHITECTURES={gpu}-real", "-DCMAKE_BUILD_TYPE=Release",
                    f"-DCMAKE_CUDA_FLAGS={flags}", "-DCMAKE_CXX_FLAGS=-w"]
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


def run(program, number, arguments, limit=None, threads=1, output=subprocess.DEVNULL, **variables):
    """Whether the tests pass with fault `number`: 0 for none, -1 to note which faults each test comes to."""
    environment = dict(os.environ, FOURSCALE_FAULT=str(number), OMP_NUM_THREADS=str(threads), **variables)
    try:
        return subprocess.run([program, *arguments], env=environment, timeout=limit, stdin=subprocess.DEVNULL,
                              stdout=output, stderr=subprocess.STDOUT).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def tests_that_reach(program, faults, everything, threads):
    """For each fault's number the tests that come to it, as (seconds, name): all others cannot notice it."""
    notes, log = Path(f"{program}.reached"), Path(f"{program}.log")
    with open(log, "w") as output:
        passed = run(program, -1, everything, threads=threads, output=output, FOURSCALE_REACHED=str(notes))
    if not passed:  # the first failure is what the others may follow from
        sys.exit(log.read_text(errors="replace")[:4000] + f"\nmutate: the tests fail without any fault: {log}")
    tests, of_fault = [], {fault.number: [] for fault in faults}
    for line in notes.read_text().splitlines():
        name, seconds, reached = line.split("\t")
        tests.append((float(seconds), name))
        for number in map(int, reached.split()):
            of_fault.setdefault(number, []).append(tests[-1])
    # What a static comes to, every test may see.
    return {n: sorted(tests if any(name == "" for _, name in of) else of) for n, of in of_fault.items()}


def gpus_here():
    """The GPUs that share the faults, as CUDA_VISIBLE_DEVICES names them."""
    if chosen := os.environ.get("CUDA_VISIBLE_DEVICES"):
        return chosen.split(",")
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout
    return [str(number) for number in range(max(1, listed.count("GPU ")))]


def try_all(program, faults, everything=(), jobs=1, threads=1, say=print, least=20, most=600, gpus=()):
    """The faults that no test notices. Quick tests are asked first. What takes five times as long as without a fault,
    and `least` seconds more, will never end; nor will what takes `most` seconds. Faults take turns on the GPUs."""
    reaching = tests_that_reach(program, faults, everything, jobs * threads)

    def survives(fault):
        for slow in (False, True):
            tests = [(s, name) for s, name in reaching[fault.number] if name and (s > 0.2) == slow]
            if not tests:
                continue
            names = Path(f"{program}.tests_of_{fault.number}")
            names.write_text("".join(name.replace(",", "\\,") + "\n" for _, name in tests))  # as Catch2 reads them
            limit = min(most, least + 5 * jobs * sum(seconds for seconds, _ in tests))
            where = {"CUDA_VISIBLE_DEVICES": gpus[fault.number % len(gpus)]} if gpus else {}
            if not run(program, fault.number, ["--abort", "--input-file", names], limit, threads, **where):
                return False
        return True

    survivors = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for fault, alive in zip(faults, pool.map(survives, faults)):
            if alive:
                survivors.append(fault)
                say(f"survived {len(reaching[fault.number])} tests: {fault.file}: {fault.name}")
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
    parser.add_argument("--jobs", type=int, help="faults that are tried at a time")
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
    gpus = gpus_here() if options.gpu else []
    jobs = options.jobs or min(4 * len(gpus) or 8, os.cpu_count())
    survivors = try_all(program, faults, ALL_FOR_GPU if options.gpu else [], jobs, max(1, os.cpu_count() // jobs),
                        lambda line: print(line, flush=True), most=300 if options.gpu else 600, gpus=gpus)
    code = report(faults, survivors)
    print(f"{time.monotonic() - begin:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
