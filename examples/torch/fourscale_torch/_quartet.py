# SPDX-License-Identifier: Apache-2.0
"""The backward of Quartet II: both operands by MS-EDEN, under signs that the key draws."""

import torch

from . import _calls
from .quantized import quantize_copy


def ms_eden(x, key, gemm, role, columnwise):
    """x [rows, k] as an operand of a GEMM: 1 for dgrad, 2 for wgrad."""
    signs = _calls.signs(key, gemm)
    signed = (x * signs.repeat(x.shape[1] // 128).to(x.dtype)).contiguous()
    amaxes = _calls.amax(signed, "quartet2", role, columnwise)
    return quantize_copy(signed, amaxes, key, "quartet2", role, columnwise, False)


def again(q, key, gemm, role):
    """The columnwise copy of a tensor from its stored rowwise copy."""
    values = _calls.dequantize(q.codes, q.scales, q.amaxes, q.copy, torch.float32, q.copy.amax_at)
    return ms_eden(values.T, key, gemm, role, True)
