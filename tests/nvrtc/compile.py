#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NVRTC, the compiler that programs carry with them, takes what a kernel needs: each header of the layers up to
view/, of warp/ and of cta/, and each umbrella, as the only include; and kernels.cu. Without a warning and without a
header from outside. Needs no GPU.

    compile.py headers              the PTX has the kernel behind the include
    compile.py kernels              PTX and machine code of each kernel, and what the first lines expect of them

NVRTC is that of the toolkit (--nvrtc FILE, or beside nvcc) or of `pip install nvidia-cuda-nvrtc`."""
import argparse
import ctypes
import ctypes.util
import pathlib
import re
import shutil
import site
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "codegen")]
from check import SKIPPED, expectations, has, with_constants  # noqa: E402
from include_direction import LAYERS, OUTSIDE, ROOT, UMBRELLAS  # noqa: E402

TARGETS = ("sm_80", "sm_90a", "sm_100a")


def library():
    """The first libnvrtc there is, or None."""
    folders = [pathlib.Path(p) / "nvidia" for p in [*site.getsitepackages(), site.getusersitepackages()]]
    found = [f for folder in folders for f in folder.glob("*/lib/libnvrtc.so.*")]
    if nvcc := shutil.which("nvcc"):
        toolkit = pathlib.Path(nvcc).resolve().parents[1]
        found += [f for name in ("lib64", "lib") for f in (toolkit / name).glob("libnvrtc.so*")]
    return next((str(f) for f in found), ctypes.util.find_library("nvrtc"))


class Program:
    """A compiled source: `log`, and where it compiled `ptx` and `cubin`."""

    def __init__(self, nvrtc, source, arch):
        self.nvrtc, self.handle = nvrtc, ctypes.c_void_p()
        options = [b"-std=c++20", f"-I{ROOT.parent}".encode(), f"--gpu-architecture={arch}".encode()]
        self.call("CreateProgram", ctypes.byref(self.handle), source.encode(), b"source.cu", 0, None, None)
        self.failed = nvrtc.nvrtcCompileProgram(self.handle, len(options), (ctypes.c_char_p * len(options))(*options))
        self.log = self.get("ProgramLog").rstrip(b"\0").decode()
        if not self.failed:
            self.ptx, self.cubin = self.get("PTX").decode(), self.get("CUBIN")
        self.call("DestroyProgram", ctypes.byref(self.handle))

    def call(self, name, *arguments):
        if error := getattr(self.nvrtc, "nvrtc" + name)(*arguments):
            sys.exit(f"nvrtc{name} gives error {error}")

    def get(self, what):
        size = ctypes.c_size_t()
        self.call(f"Get{what}Size", self.handle, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self.call(f"Get{what}", self.handle, buffer)
        return buffer.raw


def problems_of(program, entries):
    if program.failed or program.log:
        yield program.log or f"error {program.failed}"
    else:
        for name in entries:
            if not re.search(rf"\.entry {name}\b", program.ptx):
                yield f"the PTX has no kernel {name}"
        if not program.cubin.startswith(b"\x7fELF"):
            yield "there is no machine code"


def headers(nvrtc):
    """Of each header that a kernel may need."""
    for name in sorted(p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*.*")):
        folder = name.split("/")[0]
        low = folder in UMBRELLAS or folder in ("warp", "cta") or LAYERS.get(folder, 99) <= LAYERS["view"]
        if not low or name in OUTSIDE:
            continue
        for arch in TARGETS:
            program = Program(nvrtc, f'#include <fourscale/{name}>\nextern "C" __global__ void last() {{}}\n', arch)
            yield f"{name} {arch}", list(problems_of(program, ["last"]))


def kernels(nvrtc):
    """Of kernels.cu, by target."""
    source = HERE / "kernels.cu"
    wanted = expectations(source)
    entries = re.findall(r'extern "C" __global__ void(?: __launch_bounds__\(\w+\))?\s+(\w+)\(', source.read_text())
    for arch in TARGETS:
        program = Program(nvrtc, source.read_text(), arch)
        found = list(problems_of(program, entries))
        if not found:
            looked = [has(text, with_constants(program.ptx)) for _, text in wanted[arch, ""]]
            found = [text for holds, text in looked if not holds]
        yield f"kernels.cu {arch}: {len(entries)} kernels", found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["headers", "kernels"])
    parser.add_argument("--nvrtc", help="the library; else one is looked for")
    args = parser.parse_args()
    path = args.nvrtc or library()
    if not path:
        print("SKIPPED: there is no NVRTC: pip install nvidia-cuda-nvrtc")
        return SKIPPED
    nvrtc = ctypes.CDLL(path)
    version = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(version[0]), ctypes.byref(version[1]))
    print(f"NVRTC {version[0].value}.{version[1].value}")

    checked = failed = 0
    for what, found in globals()[args.what](nvrtc):
        checked += 1
        failed += bool(found)
        if found or args.what == "kernels":
            print(f"{'FAIL' if found else 'ok  '} {what}", *found, sep="\n     " if found else "")
    print(f"{failed} of {checked} failed")
    return int(failed > 0 or checked == 0)


if __name__ == "__main__":
    sys.exit(main())
