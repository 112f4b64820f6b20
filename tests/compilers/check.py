#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every compiler on this machine takes the library without a warning: g++ 12 and later, clang 14 and later, nvcc with
each of them as its host, and clang as CUDA compiler. Each compiles all .hpp together and three examples; for CUDA,
fourscale.cuh and a call. Nothing is linked or assembled, but for a program that says whether clang keeps the bits
under flags that allow others, as docs/exactness.md says.

    check.py                       all that are in PATH
    check.py g++-13 clang++-22     only these

A pair that cannot work together, such as a clang too old for the toolkit, is printed and is no failure."""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OLDEST = {"g++": 12, "clang++": 14}
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Werror"]
EXAMPLES = ("02_matrix.cpp", "05_reference_gemm.cpp", "06_own_rounding_policy.cpp")
CUDA_UNIT = """#include <fourscale/device/buffer.cuh>
#include <fourscale/fourscale.cuh>
#include <fourscale/recipe/fake_quantize.cuh>
namespace f4 = fourscale;
template f4::errc f4::device::quantize(f4::matrix_view<f4::bf16> const&,
                                       f4::block_scaled_view<f4::nvfp4, f4::swizzled_128x4> const&,
                                       f4::quantizer<> const&, cudaStream_t);
"""
BITS_UNIT = """#ifdef PRECISE
#pragma float_control(precise, on, push)
#endif
#include <fourscale/fourscale.hpp>
#ifdef PRECISE
#pragma float_control(pop)
#endif
#include <cstdio>
#include <vector>
namespace f4 = fourscale;
int main() {
  constexpr int rows = 64, cols = 256;
  std::vector<float> x(rows * cols);
  unsigned draw = 12345;
  for (float& value : x) value = float(int((draw = draw * 1664525u + 1013904223u) >> 8) - (1 << 23)) * 1.3e-6f;
  std::vector<f4::u8> codes(f4::code_bytes<f4::nvfp4>(rows, cols)), scales(f4::scale_bytes<f4::nvfp4>(rows, cols));
  float amax = 0;
  const f4::matrix_view<float> m(x, rows, cols);
  const f4::block_scaled_view<f4::nvfp4> q(codes, scales, rows, cols, f4::amax_in(&amax));
  if (f4::host::amax(m, &amax) != f4::errc::ok || f4::host::quantize(m, q) != f4::errc::ok) return 1;
  unsigned long long hash = 0;
  for (auto const* bytes : {&codes, &scales})
    for (f4::u8 byte : *bytes) hash = (hash ^ byte) * 1099511628211u;
  std::printf("%llx", hash);
}
"""
FAST_FLAGS = ["-funsafe-math-optimizations", "-ffp-model=fast"]  # the second is refused by clang 14
CANNOT = re.compile(r"unsupported (?:GNU|clang) version|unsupported CUDA gpu architecture: \S+|"
                    r"'texture_fetch_functions.h' file not found|"
                    r"incompatible with that of previous function \"rsqrt\"")  # glibc 2.42 and CUDA 13.0


def compilers():
    """(name, kind) of each g++ and clang++ in PATH, once."""
    found = {}
    for path in sorted(p for folder in os.get_exec_path() for p in pathlib.Path(folder).glob("*++*")):
        kind = re.fullmatch(r"(g\+\+|clang\+\+)(-\d+)?", path.name)
        if not kind or not os.access(path, os.X_OK):
            continue
        version = subprocess.run([path, "-dumpversion"], capture_output=True, text=True).stdout
        if (number := int(version.split(".")[0] or 0)) >= OLDEST[kind[1]]:
            found[path.resolve()] = (kind[1], number, path.name)  # the name with a number, if there are two
    return [(name, kind) for kind, _, name in sorted(found.values())]


def compiles(what, command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=ROOT)
    said = done.stdout + done.stderr
    cannot = CANNOT.search(said) if done.returncode else None
    if cannot:
        print(f"-    {what}: {cannot[0]}", flush=True)
    else:
        print(f"FAIL {what}\n{said[:4000]}" if done.returncode else f"ok   {what}", flush=True)
    return done.returncode == 0 or cannot is not None


def keeps_bits(name, folder):
    """Of clang, under FAST_FLAGS, between the pragmas of docs/exactness.md."""
    source, program = folder / "bits.cpp", folder / "bits"
    source.write_text(BITS_UNIT)

    def bits(*flags):
        built = subprocess.run([name, "-std=c++20", "-O2", f"-I{ROOT}/include", *flags, str(source), "-o", str(program)],
                               capture_output=True)
        return built.returncode == 0 and subprocess.run([program], capture_output=True, text=True).stdout

    usual = bits()
    for flag in FAST_FLAGS:
        found = bits(flag, "-DPRECISE")
        kept = bool(usual) and (found == usual or (found is False and "model" in flag))
        print(f"{'ok  ' if kept else 'FAIL'} {name} {flag}: {'refused' if found is False else f'{found}, usually {usual}'}; "
              f"without the pragma {bits(flag) or 'refused'}", flush=True)
        yield kept


def checks(folder, wanted):
    headers = sorted(p.relative_to(ROOT / "include").as_posix() for p in (ROOT / "include").rglob("*.hpp"))
    host, cuda = folder / "headers.cpp", folder / "unit.cu"
    host.write_text("".join(f"#include <{h}>\n" for h in headers
                            if "/interop/" not in h and not h.endswith("/io.hpp")))  # CUDA, and fmt
    cuda.write_text(CUDA_UNIT)
    nvcc = shutil.which("nvcc")
    common = ["-std=c++20", f"-I{ROOT}/include"]
    for name, kind in compilers():
        if wanted and name not in wanted:
            continue
        yield compiles(name, [name, *common, *WARNINGS, "-fsyntax-only", host,
                              *(ROOT / "examples" / e for e in EXAMPLES)])
        if kind == "clang++":
            yield from keeps_bits(name, folder)
        if not nvcc:
            continue
        yield compiles(f"nvcc with {name}",
                       [nvcc, f"-ccbin={name}", *common, f"-Xcompiler={','.join(WARNINGS)}", "-c", "-Xcicc=-O0",
                        "-gencode=arch=compute_90a,code=compute_90a", "-o", folder / "out.o", cuda])
        if kind == "clang++":
            for arch in ("sm_80", "sm_100a"):  # software, and the 4-bit instructions
                yield compiles(f"{name} as CUDA compiler, {arch}",
                               [name, "-x", "cuda", f"--cuda-path={pathlib.Path(nvcc).resolve().parents[1]}",
                                f"--cuda-gpu-arch={arch}", *common, *WARNINGS, "-Wno-unknown-cuda-version",
                                "-fsyntax-only", cuda])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of compilers, as in PATH")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = list(checks(pathlib.Path(folder), args.names))
    print(f"{results.count(False)} of {len(results)} failed")
    return int(not results or not all(results))


if __name__ == "__main__":
    sys.exit(main())
