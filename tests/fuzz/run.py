#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py TARGET FOLDER --clang CLANG [--seconds N]: compiles TARGET_fuzz.cpp with libFuzzer, AddressSanitizer and
UndefinedBehaviorSanitizer, and runs it from a few seeds, which stand here. What it finds stays in FOLDER/TARGET."""
import argparse
import os
import pathlib
import random
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def safetensors(header, data):
    header = header.encode()
    return struct.pack("<Q", len(header)) + header + data


def npy(header, data):
    header = header.encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data


SEEDS = {
    "files": [
        safetensors('{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,20],"data_offsets":[0,160]},'
                    '"b":{"dtype":"I64","shape":[],"data_offsets":[160,168]}}', struct.pack("<40f", *range(40)) + bytes(8)),
        safetensors('{"h":{"dtype":"F16","shape":[1,32],"data_offsets":[0,64]}}', b"\x01\x3c" * 32),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 16), }\n", b"\0\0\x80\x3f" * 16),
    ],
    "matrices": [bytes([format]) + random.Random(format).randbytes(200) for format in range(4)],
    "descriptors": [bytes([what]) + random.Random(what).randbytes(80) for what in range(4)],
}


def compile_target(target, folder, clang):
    """The program, or None where this clang has no libFuzzer."""
    program, all_in_one = folder / "fuzz", folder / "fuzz.cpp"
    sources, libraries = [HERE / f"{target}_fuzz.cpp"], []
    if target == "files":
        libraries = ["-lfmt"]  # compiled into the source, it would take half of the time
        sources += sorted(p for p in (ROOT / "examples/inspect").glob("*.cpp") if p.stem not in ("example", "pack"))
    all_in_one.write_text("".join(f'#include "{source}"\n' for source in sources))
    done = subprocess.run(
        [clang, "-std=c++20", "-O1", "-g1", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all",
         f"-I{ROOT / 'include'}", f"-I{ROOT / 'examples'}", all_in_one, *libraries, "-o", program],
        capture_output=True, text=True)
    if done.returncode != 0 and "libclang_rt.fuzzer" in done.stderr:
        return None
    if done.returncode != 0:
        sys.exit(done.stderr)
    return program


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("target", choices=SEEDS)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--clang", required=True)
    parser.add_argument("--seconds", type=int, default=60 if "FOURSCALE_EXHAUSTIVE" in os.environ else 5)
    options = parser.parse_args()
    folder = (options.folder / options.target).resolve()
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    program = compile_target(options.target, folder, options.clang)
    if program is None:
        print("SKIPPED: this clang comes without libFuzzer")
        return 77
    for number, seed in enumerate(SEEDS[options.target]):
        (folder / "corpus" / f"seed{number}").write_bytes(seed)
    return subprocess.run([program, "corpus", f"-max_total_time={options.seconds}", "-timeout=10", "-max_len=4096",
                           "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=0", "-print_funcs=0"], cwd=folder).returncode


if __name__ == "__main__":
    sys.exit(main())
