# SPDX-License-Identifier: Apache-2.0
"""Quantized matrices as values: what one call wrote, another reads right."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from . import _calls, _library
from .linear import key_words


@functools.partial(jax.tree_util.register_dataclass, data_fields=["codes", "scales", "amax"], meta_fields=["copy"])
@dataclasses.dataclass(frozen=True)
class Quantized:
    """A matrix [rows, cols] with blocks along its rows. codes: uint8 [rows, cols / 2], the lower four bits hold the
    even column. scales: uint8 [rows, cols / block]. amax: float32, of the tensor; of the transformed tensor where
    there is a transform, and empty for formats without a tensor scale. copy: what the codes mean."""

    codes: jax.Array
    scales: jax.Array
    amax: jax.Array
    copy: _library.Copy

    @property
    def shape(self):
        return self.codes.shape[0], self.codes.shape[1] * 8 // self.copy.code_bits


def quantize(x, *, recipe="te_nvfp4", role="activation", columnwise=False, seed=None, amax=None):
    """x [rows, cols], float32 or bfloat16, as the Quantized that a linear layer makes of it under a recipe: `role` is
    "activation", "weight" or "gradient". columnwise: the quantized transpose [cols, rows], transformed where the
    recipe says so. seed as for dense(), needed where the recipe rounds stochastically. amax: float32, in place of
    x's own, for example reduced over devices.

    ValueError: no such recipe, no seed, a row length that is no multiple of the block."""
    copy = _library.copy_of(recipe, role, columnwise)
    if x.ndim != 2 or x.dtype not in (jnp.float32, jnp.bfloat16):
        raise ValueError(f"quantize() takes a matrix of float32 or bfloat16, not {x.dtype} {list(x.shape)}")
    if copy.stochastic and seed is None:
        raise ValueError(f'recipe "{recipe}" rounds the {role} stochastically: quantize() needs a seed')
    _library.check_linear(recipe, copy.block, x.shape[0] if columnwise else x.shape[1], copy.block)
    key = jnp.zeros(4, jnp.uint32) if seed is None else key_words(seed)
    amaxes = (_calls.amax(x, recipe, role) if amax is None or copy.amax_count == 0 else
              jnp.full(copy.amax_count, amax, jnp.float32))
    codes, scales = _calls.quantize(x, amaxes, key, recipe, role, columnwise)
    at = copy.amax_at
    return Quantized(codes, scales, amaxes[at:at + 1], copy._replace(amax_at=0))


def dequantize(q, dtype=jnp.bfloat16):
    """The values of q, float32 or bfloat16, in the coordinates of its transform."""
    return _calls.dequantize(q.codes, q.scales, q.amax, q.copy, jnp.dtype(dtype))


def scaled_matmul(a, b, dtype=jnp.bfloat16):
    """a @ b.T of two Quantized, [m, k] and [n, k], to bfloat16 or float32 [m, n], with the bits of Blackwell's
    block-scaled tensor cores. ValueError: other formats, shapes, or transforms."""
    if a.copy.format != b.copy.format or a.copy.hadamard != b.copy.hadamard or a.shape[1] != b.shape[1]:
        raise ValueError(f"scaled_matmul() takes two matrices of one format and transform, with rows of one length, "
                         f"not {a.copy.format} {a.shape}, {a.copy.hadamard} and {b.copy.format} {b.shape}, "
                         f"{b.copy.hadamard}")
    return _calls.gemm((a.codes, a.scales, a.amax), (b.codes, b.scales, b.amax), a.copy, b.copy, jnp.dtype(dtype))
