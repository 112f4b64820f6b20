# SPDX-License-Identifier: Apache-2.0
"""The FFI calls, one function each, on the part of a matrix that one device has."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import _cpu, _library

for _name, _handler in _cpu.handlers.items():
    jax.ffi.register_ffi_target(f"fourscale_{_name}", _handler, platform="cpu")
    if _library.cuda is not None:
        _handler = jax.ffi.pycapsule(getattr(_library.cuda, f"fourscale_jax_{_name}"))
        jax.ffi.register_ffi_target(f"fourscale_{_name}", _handler, platform="CUDA")


def _call(handler, results, *arguments, **attributes):
    structs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in results]
    return jax.ffi.ffi_call(f"fourscale_{handler}", structs, vmap_method="sequential")(*arguments, **attributes)


def _numbers(recipe, role):
    return dict(recipe=np.int32(_library.number(recipe)), role=np.int32(_library.ROLES.index(role)))


def _copy_shapes(copy, rows, cols):
    return [(copy.code_shape(rows, cols), jnp.uint8), (copy.scale_shape(rows, cols), jnp.uint8)]


def amax(x, recipe, role, columnwise):
    """The amaxes of a tensor [rows, cols], float32 [Copy.amax_count]."""
    count = _library.copy_of(recipe, role, columnwise).amax_count
    return _call("amax", [((count,), jnp.float32)], x, columnwise=np.int32(columnwise), **_numbers(recipe, role))[0]


def quantize_both(x, amaxes, key, recipe, role):
    """Codes and scales of the rowwise copy, and of the columnwise one."""
    rows, cols = x.shape
    results = (_copy_shapes(_library.copy_of(recipe, role, False), rows, cols) +
               _copy_shapes(_library.copy_of(recipe, role, True), cols, rows))
    return _call("quantize_both", results, x, amaxes, key, **_numbers(recipe, role))


def quantize(x, amaxes, key, recipe, role, columnwise, transposed):
    """Codes and scales of one copy, of x or of its transpose."""
    shape = x.shape[::-1] if transposed else x.shape
    return _call("quantize", _copy_shapes(_library.copy_of(recipe, role, columnwise), *shape), x, amaxes, key,
                 columnwise=np.int32(columnwise), transposed=np.int32(transposed), **_numbers(recipe, role))


def signs(key, gemm):
    """The 128 signs that both operands of a GEMM are multiplied by, float32 1 or -1: draw_key's for dgrad (1) or wgrad
    (2)."""
    return _call("signs", [((128,), jnp.float32)], key, gemm=np.int32(gemm))[0]


def dequantize(codes, scales, amaxes, copy, dtype, at):
    """The values of a copy under the amax at an index; under tensor scale 1, if that is -1."""
    rows, packed = codes.shape
    return _call("dequantize", [((rows, packed * 8 // copy.code_bits), dtype)], codes, scales, amaxes,
                 format=np.int32(_library.format_number(copy.format)), range=np.float32(copy.range), at=np.int32(at))[0]


def _at(copy):
    """Which amax a copy is under: -1, where it has none."""
    return np.int32(copy.amax_at if copy.amax_count else -1)


def gemm(codes_a, scales_a, amaxes_a, codes_b, scales_b, amaxes_b, copy_a, copy_b, dtype):
    """D = A * B^T: of 4 bits with Blackwell's bits, of FP8 within a bound."""
    (m, packed), n = codes_a.shape, codes_b.shape[0]
    attributes = dict(format=np.int32(_library.format_number(copy_a.format)), range=np.float32(copy_a.range),
                      at=_at(copy_a), format_b=np.int32(_library.format_number(copy_b.format)),
                      range_b=np.float32(copy_b.range), at_b=_at(copy_b))

    def on(workspace_bytes):
        results = [((m, n), dtype), ((workspace_bytes,), jnp.uint8)]
        return lambda *arguments: _call("gemm", results, *arguments, **attributes)[0]

    k = packed * 8 // copy_a.code_bits
    if copy_a.code_bits == 8:
        return on(0)(codes_a, scales_a, amaxes_a, codes_b, scales_b, amaxes_b)
    return lax.platform_dependent(codes_a, scales_a, amaxes_a, codes_b, scales_b, amaxes_b, cpu=on(0),
                                  cuda=on(_library.gemm_bytes(m, n, k)))
