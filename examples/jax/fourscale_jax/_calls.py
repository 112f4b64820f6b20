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


def _numbers(recipe, role):
    return dict(recipe=np.int32(_library.number(recipe)), role=np.int32(_library.ROLES.index(role)))


def _copy_structs(copy, rows, cols):
    return [jax.ShapeDtypeStruct(shape, jnp.uint8) for shape in (copy.code_shape(rows, cols), copy.scale_shape(rows, cols))]


def amax(x, recipe, role, columnwise=False):
    """The amaxes of a tensor [rows, cols], float32 [Copy.amax_count]."""
    count = _library.copy_of(recipe, role, columnwise).amax_count
    if count == 0:
        return jnp.zeros(0, jnp.float32)
    return _call("amax", jax.ShapeDtypeStruct((count,), jnp.float32), x, columnwise=np.int32(columnwise),
                 **_numbers(recipe, role))


def quantize_both(x, amaxes, key, recipe, role):
    """Codes and scales of the rowwise copy, and of the columnwise one."""
    rows, cols = x.shape
    results = (_copy_structs(_library.copy_of(recipe, role, False), rows, cols) +
               _copy_structs(_library.copy_of(recipe, role, True), cols, rows))
    return _call("quantize_both", results, x, amaxes, key, **_numbers(recipe, role))


def quantize(x, amaxes, key, recipe, role, columnwise, transposed):
    """Codes and scales of one copy, of x or of its transpose."""
    rows, cols = x.shape[::-1] if transposed else x.shape
    results = _copy_structs(_library.copy_of(recipe, role, columnwise), rows, cols)
    return _call("quantize", results, x, amaxes, key, columnwise=np.int32(columnwise), transposed=np.int32(transposed),
                 **_numbers(recipe, role))


def dequantize(codes, scales, amaxes, copy, dtype, at):
    """The values of a copy under the amax at an index; under tensor scale 1, if that is -1."""
    rows, packed = codes.shape
    return _call("dequantize", jax.ShapeDtypeStruct((rows, packed * 8 // copy.code_bits), dtype), codes, scales, amaxes,
                 format=np.int32(_library.format_number(copy.format)), range=np.float32(copy.range), at=np.int32(at))


def gemm(a, b, copy_a, copy_b, dtype):
    """D = A * B^T with Blackwell's bits; a and b are (codes, scales, amaxes)."""
    (m, packed), n = a[0].shape, b[0].shape[0]
    attributes = dict(format=np.int32(_library.format_number(copy_a.format)), range=np.float32(copy_a.range),
                      at=np.int32(copy_a.amax_at), range_b=np.float32(copy_b.range), at_b=np.int32(copy_b.amax_at))

    def on(workspace_bytes):
        results = [jax.ShapeDtypeStruct((m, n), dtype), jax.ShapeDtypeStruct((workspace_bytes,), jnp.uint8)]
        return lambda *arguments: _call("gemm", results, *arguments, **attributes)[0]

    k = packed * 8 // copy_a.code_bits
    return lax.platform_dependent(*a, *b, cpu=on(0), cuda=on(_library.gemm_bytes(m, n, k)))
