# SPDX-License-Identifier: Apache-2.0
"""The backward of Quartet II: both operands by MS-EDEN, under signs that the key draws."""

import jax.numpy as jnp

from . import _calls, _sharded
from .quantized import dequantize, quantize_copy

def ms_eden(x, key, gemm, role, columnwise, reduced):
    """x [rows, k] as an operand of a GEMM: 1 for dgrad, 2 for wgrad. `reduced` is applied to its amax."""
    signs = _calls.signs(key, gemm)
    signed = x * jnp.tile(signs, x.shape[1] // signs.size).astype(x.dtype)
    amaxes = reduced(_sharded.amax(signed, "quartet2", role, columnwise))
    return quantize_copy(signed, amaxes, key, "quartet2", role, columnwise, False)


def again(q, key, gemm, role, reduced):
    """The columnwise copy of a tensor from its stored rowwise copy."""
    return ms_eden(dequantize(q, jnp.float32).T, key, gemm, role, True, reduced)
