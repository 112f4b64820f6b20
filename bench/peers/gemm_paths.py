# SPDX-License-Identifier: Apache-2.0
"""How each library multiplies two NVFP4 operands, as its user would call it. A function takes the operands, prepares
what a user keeps between calls, and gives a Path."""
import dataclasses
import os
from typing import Callable

import torch

from gemm_operand import values


def _synchronize(_=None):
    if torch.cuda.is_available():
        torch.cuda.synchronize()


@dataclasses.dataclass
class Path:
    call: Callable               # what is timed
    note: str = ""
    result: Callable = lambda d: d  # of call(): D as a torch tensor, tensor scales included
    synchronize: Callable = _synchronize


def fourscale(a, b):
    from fourscale_lib import Fourscale
    if a.codes.device.type != "cuda":
        raise RuntimeError("device::gemm needs a GPU")
    lib = Fourscale("gemm_c.cu")
    d = torch.empty(a.rows, b.rows, dtype=torch.bfloat16, device="cuda")
    workspace = torch.empty(lib.gemm_workspace_bytes(a.rows, b.rows, a.cols), dtype=torch.uint8, device="cuda")
    amaxes = [torch.tensor([x.amax], device="cuda") for x in (a, b)]

    def call():
        lib.gemm(a, amaxes[0], b, amaxes[1], d, workspace)
        return d
    return Path(call, "from packed operands")


def _matmul(x, y, scale):
    """x @ y.T in bf16, the tensor scales in the epilogue."""
    none = torch.empty((), dtype=torch.bfloat16, device=x.device)
    return torch.addmm(none, x, y.T, beta=0, alpha=scale)


def torch_bf16(a, b):
    x, y, scale = a.values().bfloat16(), b.values().bfloat16(), a.tensor_scale * b.tensor_scale
    return Path(lambda: _matmul(x, y, scale), "from bf16 that is there already: a bound, not a peer")


def torch_dequantize(a, b):
    scale = a.tensor_scale * b.tensor_scale
    dequantize = torch.compile(values, dynamic=False)
    operands = [(x.codes, x.scales, torch.bfloat16) for x in (a, b)]
    return Path(lambda: _matmul(dequantize(*operands[0]), dequantize(*operands[1]), scale),
                "both operands dequantized in each call, torch.compile")


def torch_fp8(a, b):
    def rowwise(x):
        exact = x.values() * x.tensor_scale
        scale = exact.abs().amax(1, keepdim=True) / 448
        return (exact / scale).to(torch.float8_e4m3fn), scale
    (x, scale_x), (y, scale_y) = rowwise(a), rowwise(b)
    return Path(lambda: torch._scaled_mm(x, y.t(), scale_a=scale_x, scale_b=scale_y.t(), out_dtype=torch.bfloat16,
                                         use_fast_accum=True),
                "operands requantized to FP8, beforehand")


def torch_nvfp4(a, b):
    def swizzled(s):  # tiles of 128 x 4, as cuBLASLt reads them
        rows, cols = s.shape
        return s.view(rows // 128, 4, 32, cols // 4, 4).permute(0, 3, 2, 1, 4).contiguous().view(-1)
    x, y = (t.codes.view(torch.float4_e2m1fn_x2) for t in (a, b))
    scales, scale = [swizzled(t.scales) for t in (a, b)], a.tensor_scale * b.tensor_scale
    return Path(lambda: torch._scaled_mm(x, y.t(), scale_a=scales[0], scale_b=scales[1], out_dtype=torch.bfloat16),
                "the tensor scales afterwards", lambda d: d.float() * scale)


def jax_scaled_matmul(a, b):
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # torch needs memory as well
    import jax
    import jax.numpy as jnp
    import ml_dtypes

    def operand(x):  # ml_dtypes has a code of E2M1 in the low half of a byte
        codes = torch.stack((x.codes & 15, x.codes >> 4), 2).view(1, x.rows, x.cols).cpu().numpy()
        scales = x.scales.view(torch.uint8).unsqueeze(0).cpu().numpy()
        return jnp.asarray(codes.view(ml_dtypes.float4_e2m1fn)), jnp.asarray(scales.view(ml_dtypes.float8_e4m3fn))
    (x, scale_x), (y, scale_y) = operand(a), operand(b)
    multiply = jax.jit(lambda *o: jax.nn.scaled_matmul(*o, preferred_element_type=jnp.bfloat16))
    scale = a.tensor_scale * b.tensor_scale

    def result(d):
        return torch.from_numpy(jax.device_get(d[0].astype(jnp.float32)).copy()).to(a.codes.device) * scale
    return Path(lambda: multiply(x, y, scale_x, scale_y), f"jax {jax.__version__}; the tensor scales afterwards", result,
                lambda d=None: d is not None and d.block_until_ready())


def torchao(a, b):
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor
    scale = torch.tensor(b.tensor_scale, device=b.codes.device)
    weight = NVFP4Tensor(b.codes, b.scales, 16, torch.bfloat16, scale)
    x = (a.values() * a.tensor_scale).bfloat16()
    linear = torch.compile(torch.nn.functional.linear, dynamic=False)
    return Path(lambda: linear(x, weight), "A in bf16, B dequantized in each call, torch.compile")


def humming(a, b):
    from humming.layer import HummingLayer
    layer = HummingLayer(shape_n=b.rows, shape_k=b.cols, torch_dtype=torch.bfloat16,
                         weight_config={"quant_method": "modelopt", "quant_algo": "nvfp4"}).cuda()
    layer.load_from_tensors({"weight": b.codes, "weight_scale": b.scales,
                             "weight_scale_2": torch.tensor([b.tensor_scale], device="cuda")})
    layer.transform()
    x = (a.values() * a.tensor_scale).bfloat16()
    return Path(lambda: layer(x), "A in bf16, B decoded in registers, its own heuristics")


PATHS = {
    "fourscale, Blackwell's bits": fourscale,
    "torch.addmm, bf16": torch_bf16,
    "torch, dequantize and multiply": torch_dequantize,
    "torch._scaled_mm, FP8 by rows": torch_fp8,
    "torch._scaled_mm, NVFP4": torch_nvfp4,
    "jax.nn.scaled_matmul, NVFP4": jax_scaled_matmul,
    "torchao NVFP4Tensor, weight only": torchao,
    "humming, weight only": humming,
}
