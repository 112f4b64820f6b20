# SPDX-License-Identifier: Apache-2.0
"""The library for GPUs, and what is known about recipes. fourscale_torch has this module, too."""

import ctypes
import functools
import itertools
import os
import pathlib
import typing

from . import _cpu
from ._cpu import message  # the rule that a call found broken, as a sentence

ROLES = ("activation", "weight", "gradient")
KINDS = ("attention", "mlp")  # of linear layers


class Copy(typing.NamedTuple):
    """One copy of a tensor under a recipe: what its codes and scales mean."""

    format: str
    block: int  # values under one scale
    code_bits: int
    scale_bytes: int
    amax_count: int  # amaxes of the tensor: none, one, or a second one of the transformed tensor
    amax_at: int  # which of them this copy is under
    multiple: int  # what the length of a row must be a multiple of
    rows: int  # how many rows share a scale
    hadamard: int  # the size of the transform, or 0
    signs: int  # its fixed signs, of 16 elements, again and again: bit i is 1 where element i is negated
    draws: bool  # random bits
    delayed: bool  # under an amax of the past
    both: bool  # made with the other copy by one call
    range: float  # what the amax is brought to

    def code_shape(self, rows, cols):
        return rows, cols * self.code_bits // 8

    def scale_shape(self, rows, cols):
        return rows, cols // self.block * self.scale_bytes


# What 1 is in each format with a tensor scale, as bytes of codes and of block scales.
ONE = {"nvfp4": (0x22, 0x38), "fp8_e4m3": (0x38, 0), "fp8_e5m2": (0x3C, 0)}

ACCUMULATE = ("blackwell", "native")


def _stays_on_the_cpu():
    """Whether JAX was told to use no GPU. Then this process loads no CUDA library of ours and makes no CUDA call."""
    platforms = os.environ.get("JAX_PLATFORMS", "") if __package__ == "fourscale_jax" else ""
    return platforms != "" and {"cuda", "gpu"}.isdisjoint(platforms.lower().split(","))


def _load_cuda():
    path = pathlib.Path(__file__).parent / f"lib{__package__}_cuda.so"
    return ctypes.CDLL(str(path)) if path.exists() and not _stays_on_the_cpu() else None


cuda = _load_cuda()
if cuda is not None:
    cuda.fourscale_has_fp8_gemm.restype = ctypes.c_bool
    cuda.fourscale_gemm_bytes.restype = ctypes.c_int64
    cuda.fourscale_gemm_bytes.argtypes = 3 * [ctypes.c_int64]


def recipes():
    """The names of all recipes: the presets of the library. "bf16" quantizes nothing."""
    return _cpu.recipes


def format_number(name):
    return _cpu.formats[name]


def number(recipe):
    if recipe not in recipes():
        raise ValueError(f'there is no recipe "{recipe}"; there are: {", ".join(recipes())}')
    return recipes().index(recipe)


@functools.cache
def copy_of(recipe, role, columnwise):
    """The Copy of a tensor, `role` one of ROLES, under a recipe that quantizes."""
    if role not in ROLES:
        raise ValueError(f'there is no role "{role}"; there are {", ".join(ROLES)}')
    fields = _cpu.describe(number(recipe), ROLES.index(role), bool(columnwise))
    if fields is None:
        raise ValueError(f'recipe "{recipe}" quantizes nothing')
    return Copy(**fields)


def check_linear(recipe, tokens, in_, out):
    """Raises ValueError with the library's sentence if a linear layer of this shape is refused."""
    for length, role, columnwise in ((in_, "activation", False), (out, "gradient", False), (tokens, "gradient", True)):
        check_multiple(length, copy_of(recipe, role, columnwise).multiple,
                       f"{recipe}, {tokens} tokens, {in_} inputs, {out} outputs, blocks of")


def check_multiple(length, block, what):
    refusal = _cpu.refusal(block, block, length, block)
    if refusal is not None:
        raise ValueError(f"{what} {block}: {refusal}")


def check_accumulate(how):
    if how not in ACCUMULATE:
        raise ValueError(f'accumulate is "blackwell" or "native", not "{how}"')


def check_operands(a, b):
    """Raises ValueError if two Quantized, [m, k] and [n, k], have no product."""
    bits, hadamard = (a.copy.code_bits, b.copy.code_bits), (a.copy.hadamard, b.copy.hadamard)
    alike = a.copy.format == b.copy.format if 4 in bits else True
    if not alike or hadamard[0] != hadamard[1] or a.shape[1] != b.shape[1]:
        raise ValueError(f"scaled_matmul() takes two matrices of one format and transform, with rows of one length, "
                         f"not {a.copy.format} {a.shape}, {hadamard[0]} and {b.copy.format} {b.shape}, {hadamard[1]}")


def quantizes(recipe, kind, layer, layers):
    """Whether linear layers of `kind` ("attention" or "mlp") in transformer layer `layer` of `layers` are quantized
    under a recipe: where they are not, dense() takes "bf16" instead."""
    return _cpu.quantizes(number(recipe), KINDS.index(kind), layer, layers)


def check_layers(recipe, layers):
    """Raises ValueError if a recipe other than "bf16" would quantize none of so many transformer layers."""
    works = lambda count: any(quantizes(recipe, kind, layer, count) for kind in KINDS for layer in range(count))
    if recipe != "bf16" and not works(layers):
        enough = next(filter(works, itertools.count(layers)))
        raise ValueError(f'"{recipe}" would keep all {layers} layers in bf16: it needs {enough}')


def is_stochastic(recipe):
    """Whether a recipe draws random bits: then each call of dense() needs a seed of its own."""
    return recipe != "bf16" and any(copy_of(recipe, role, columnwise).draws for role in ROLES
                                    for columnwise in (False, True))


@functools.cache
def has_fp8_gemm():
    """Whether the GPUs of this machine multiply FP8 by the library's FP8 tensor core GEMM: Hopper."""
    return cuda is not None and cuda.fourscale_has_fp8_gemm()


def multiplies_fp8(a, b):
    """Whether that GEMM takes copies a and b: both in FP8 per tensor, or both under scales of 128 values."""
    return a.format.startswith("fp8_") and b.format.startswith("fp8_") and a.block == b.block and has_fp8_gemm()


def gemm_bytes(m, n, k):
    """The workspace that a GEMM in 4 bits on a GPU asks for; 0 in a build without CUDA, which has no such GEMM."""
    return 0 if cuda is None else cuda.fourscale_gemm_bytes(m, n, k)
