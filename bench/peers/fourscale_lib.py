# SPDX-License-Identifier: Apache-2.0
"""fourscale_c.cu and gemm_c.cu, built with nvcc when they are not there or old, and called with torch tensors on torch's
stream."""
import ctypes
import os
import pathlib
import shutil
import subprocess

import torch

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RECIPES = ["rowwise_linear", "rowwise", "rowwise_stochastic", "rowwise_four_over_six", "columnwise",
           "columnwise_hadamard", "rowwise_16x16", "rowwise_division"]


def find_nvcc():
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.access(nvcc, os.X_OK):
        raise SystemExit("bench/peers needs nvcc, which was not found.")
    return nvcc


def build(source, folder=ROOT / "build" / "peers"):
    major, minor = torch.cuda.get_device_capability()
    target = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
    library = pathlib.Path(folder) / f"lib{pathlib.Path(source).stem}_{target}.so"
    sources = [*HERE.glob("*.cu*"), *(ROOT / "include").rglob("*.*pp"), *(ROOT / "include").rglob("*.cuh")]
    if not library.exists() or library.stat().st_mtime < max(s.stat().st_mtime for s in sources):
        library.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([find_nvcc(), "-std=c++20", "-O3", f"-arch={target}", "--extended-lambda", "-shared",
                        "-Xcompiler=-fPIC,-fopenmp,-O3,-march=native", f"-I{ROOT / 'include'}", "-o", str(library),
                        str(HERE / source)], check=True)
    return library


class Fourscale:
    """Each method is a function of its source; x and all outputs are tensors of the caller."""

    def __init__(self, source="fourscale_c.cu"):
        self.library = ctypes.CDLL(str(build(source)))

    def _call(self, name, *arguments, stream=True):
        def converted(a):
            return ctypes.c_void_p(a.data_ptr()) if isinstance(a, torch.Tensor) else ctypes.c_longlong(a)

        values = [converted(a) for a in arguments]
        if stream:
            values.append(ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        status = getattr(self.library, name)(*values)
        if status != 0:
            raise RuntimeError(f"{name} returned {status}")

    def amax(self, x, out):
        self._call("f4_amax", x, *x.shape, out)

    def amax_hadamard(self, x, out):
        self._call("f4_amax_hadamard", x, *x.shape, out)

    def quantize(self, recipe, x, amax, codes, scales):
        self._call("f4_quantize", RECIPES.index(recipe), x, *x.shape, amax, codes, scales)

    def quantize_on_host(self, recipe, x, amax):
        """The codes and scales as the CPU makes them: what every row of the table is compared with."""
        codes = torch.zeros(x.numel() // 2, dtype=torch.uint8)
        scales = torch.zeros(x.numel() // 16, dtype=torch.uint8)
        self._call("f4_quantize_on_host", RECIPES.index(recipe), x, *x.shape, amax, codes, scales, stream=False)
        return codes, scales

    def quantize_both(self, x, amax, codes, scales, codes_t, scales_t):
        self._call("f4_quantize_both", x, *x.shape, amax, codes, scales, codes_t, scales_t)

    def dequantize(self, codes, scales, amax, y):
        self._call("f4_dequantize", codes, scales, *y.shape, amax, y)

    def round_trip(self, x, amax, y):
        self._call("f4_round_trip", x, *x.shape, amax, y)

    def hadamard(self, size, x, y):
        self._call("f4_hadamard", size, x, *x.shape, y)

    def hadamard_on_host(self, size, x):
        y = torch.zeros_like(x)
        self._call("f4_hadamard_on_host", size, x, *x.shape, y, stream=False)
        return y

    def plain_amax(self, x, out):
        self._call("plain_amax", x, *x.shape, out)

    def plain_quantize(self, x, amax, codes, scales):
        self._call("plain_quantize", x, *x.shape, amax, codes, scales)

    def ceiling(self, code_bytes, x, codes, scales):
        self._call("ceiling", code_bytes, x, *x.shape, codes, scales)

    def gemm_workspace_bytes(self, m, n, k):
        self.library.f4_gemm_workspace_bytes.restype = ctypes.c_longlong
        return self.library.f4_gemm_workspace_bytes(*map(ctypes.c_longlong, (m, n, k)))

    def gemm(self, a, amax_a, b, amax_b, d, workspace):
        """D of two gemm_operand.Operand, by gemm_c.cu."""
        self._call("f4_gemm", a.codes, a.scales, amax_a, b.codes, b.scales, amax_b, a.rows, b.rows, a.cols, d, workspace,
                   workspace.numel())
