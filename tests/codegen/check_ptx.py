#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles a .cu to PTX and looks for instructions in it; needs nvcc, no GPU. The file says what is expected:

    // sm_100a: cvt.rn.satfinite.e2m1x2.f32     must be there
    // sm_90a: !cvt.rn.satfinite.e2m1x2.f32     must not be there
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--include", default="include")
    args = parser.parse_args()

    expected = collections.defaultdict(list)
    for arch, no, text in re.findall(r"^// (sm_\w+): (!?)(.+?)\s*$", args.source.read_text(), re.MULTILINE):
        expected[arch].append((text, not no))
    if not expected:
        sys.exit(f"{args.source}: no `// sm_..: instruction` line")

    failed = False
    for arch, wishes in expected.items():
        command = [args.nvcc, "-std=c++20", f"-arch={arch}", f"-I{args.include}", "-ptx", "-o", "-", args.source]
        compiled = subprocess.run(command, capture_output=True, text=True)
        if compiled.returncode:
            sys.exit(compiled.stdout + compiled.stderr)
        for text, wanted in wishes:
            found = text in compiled.stdout
            failed |= found != wanted
            print(f"{'ok  ' if found == wanted else 'FAIL'} {arch:8} {text} is {'' if found else 'not '}there")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
