# SPDX-License-Identifier: Apache-2.0
"""The FFI calls, one function each. Shapes are those of one device."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import _library


def _call(handler, results, *arguments, **attributes):
    call = jax.ffi.ffi_call(f"fourscale_{handler}", results, vmap_method="sequential")
    return call(*arguments, **attributes)


def _struct(shape, dtype):
    return jax.ShapeDtypeStruct(shape, dtype)


def _numbers(recipe, role):
    return dict(recipe=np.int32(_library.number(recipe)), role=np.int32(_library.ROLES.index(role)))


def _copy_structs(copy, rows, cols):
    return [_struct(copy.code_shape(rows, cols), jnp.uint8), _struct(copy.scale_shape(rows, cols), jnp.uint8)]


def amax(x, recipe, role):
    """The amaxes of a tensor [rows, cols], float32 [Copy.amax_count]."""
    count = _library.copy_of(recipe, role, False).amax_count
    if count == 0:
        return jnp.zeros(0, jnp.float32)
    return _call("amax", _struct((count,), jnp.float32), x, **_numbers(recipe, role))


def quantize_both(x, amaxes, key, recipe, role):
    """Codes and scales of the rowwise copy, and of the columnwise one."""
    rows, cols = x.shape
    results = (_copy_structs(_library.copy_of(recipe, role, False), rows, cols) +
               _copy_structs(_library.copy_of(recipe, role, True), cols, rows))
    return _call("quantize_both", results, x, amaxes, key, **_numbers(recipe, role))


def quantize(x, amaxes, key, recipe, role, columnwise):
    """Codes and scales of one copy."""
    rows, cols = x.shape[::-1] if columnwise else x.shape
    results = _copy_structs(_library.copy_of(recipe, role, columnwise), rows, cols)
    return _call("quantize", results, x, amaxes, key, columnwise=np.int32(columnwise), **_numbers(recipe, role))


def _format(copy):
    return np.int32({name: number for number, name in _library.FORMATS.items()}[copy.format])


def dequantize(codes, scales, amaxes, copy, dtype):
    """The values of a copy."""
    rows, packed = codes.shape
    return _call("dequantize", _struct((rows, packed * 8 // copy.code_bits), dtype), codes, scales, amaxes,
                 format=_format(copy), range=np.float32(copy.range), at=np.int32(copy.amax_at))


def gemm(a, b, copy_a, copy_b, dtype):
    """D = A * B^T with Blackwell's bits; a and b are (codes, scales, amaxes)."""
    (m, packed), n = a[0].shape, b[0].shape[0]
    attributes = dict(format=_format(copy_a), range=np.float32(copy_a.range), at=np.int32(copy_a.amax_at),
                      range_b=np.float32(copy_b.range), at_b=np.int32(copy_b.amax_at))

    def on(workspace_bytes):
        def call(*arguments):
            results = [_struct((m, n), dtype), _struct((workspace_bytes,), jnp.uint8)]
            return _call("gemm", results, *arguments, **attributes)[0]
        return call

    k = packed * 8 // copy_a.code_bits
    return lax.platform_dependent(*a, *b, cpu=on(0), cuda=on(_library.gemm_bytes(m, n, k)))
