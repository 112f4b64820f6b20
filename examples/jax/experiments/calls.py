# SPDX-License-Identifier: Apache-2.0
"""The library's calls for a linear layer, without JAX: those that dense() makes in forward and backward, one after the
other on one stream of a GPU. JAX only lends memory."""

import ctypes

import jax
import jax.numpy as jnp
from fourscale_jax import _library

TYPES = {jnp.dtype(jnp.uint8): 1, jnp.dtype(jnp.uint32): 2, jnp.dtype(jnp.float32): 3, jnp.dtype(jnp.bfloat16): 4}


class _Tensor(ctypes.Structure):  # `tensor` of calls.hpp
    _fields_ = [("data", ctypes.c_void_p), ("rows", ctypes.c_int64), ("cols", ctypes.c_int64), ("type", ctypes.c_int32)]


def _plain(argument):
    if not isinstance(argument, jax.Array):
        return ctypes.c_float(argument) if isinstance(argument, float) else ctypes.c_int32(argument)
    rows, cols = argument.shape if argument.ndim == 2 else (1, argument.shape[0])
    data = argument.unsafe_buffer_pointer() if argument.size else None
    return _Tensor(data, rows, cols, TYPES[argument.dtype])


def synchronize():
    """Waits for all work of the GPU that calls of this thread are on."""
    if error := ctypes.CDLL("libcuda.so.1").cuCtxSynchronize():
        raise RuntimeError(f"cuCtxSynchronize: {error}")


class Layer:
    """y, dx and dw of x [tokens, in], w [in, out] and dy [tokens, out] by a recipe: run() writes self.results, and
    returns before the GPU has."""

    def __init__(self, recipe, x, w, dy, key):
        (tokens, in_), out = x.shape, w.shape[1]
        empty = lambda shape, dtype=jnp.uint8: jax.block_until_ready(jnp.zeros(shape, dtype))
        self.results = (empty((tokens, out), jnp.bfloat16), empty((tokens, in_), jnp.bfloat16),
                        empty((in_, out), jnp.float32))
        workspace = empty((max(_library.gemm_bytes(*s) for s in ((tokens, out, in_), (tokens, in_, out),
                                                                 (in_, out, tokens))),))
        self.calls, copies, number = [], {}, _library.number(recipe)

        def add(name, *arguments):
            self.calls.append((getattr(_library.cuda, f"fourscale_{name}"), arguments, [_plain(a) for a in arguments]))

        def quantize(role, of):
            kinds = [_library.copy_of(recipe, role, columnwise) for columnwise in (False, True)]
            amaxes, at = empty((kinds[0].amax_count,), jnp.float32), _library.ROLES.index(role)
            memory = [(empty(kind.code_shape(*shape)), empty(kind.scale_shape(*shape)))
                      for kind, shape in zip(kinds, (of.shape, of.shape[::-1]))]
            if amaxes.size:
                add("amax", of, amaxes, number, at, 0)
            add("quantize_both", of, amaxes, key, *memory[0], *memory[1], number, at)
            copies[role] = [(kind, *m, amaxes) for kind, m in zip(kinds, memory)]

        def multiply(a, b, to):
            of = lambda kind: (_library.format_number(kind.format), float(kind.range),
                               kind.amax_at if kind.amax_count else -1)
            add("gemm", *a[1:], *b[1:], to, workspace, *of(a[0]), *of(b[0]))

        quantize("activation", x), quantize("weight", w)
        multiply(copies["activation"][0], copies["weight"][1], self.results[0])
        quantize("gradient", dy)
        multiply(copies["gradient"][0], copies["weight"][0], self.results[1])
        multiply(copies["activation"][1], copies["gradient"][1], self.results[2])

    def run(self):
        for function, _, plain in self.calls:
            if error := function(None, *plain):
                raise RuntimeError(f"fourscale: {_library.message(error)}")
