# SPDX-License-Identifier: Apache-2.0
"""Quantized matrices as values: what one call wrote, another reads right."""

import typing

import torch
from torch import Tensor

from . import _calls, _library


@torch.compiler.assume_constant_result  # torch.compile cannot trace C++
def _copy_of(*of):
    return _library.copy_of(*of)


class Quantized(typing.NamedTuple):
    """A matrix [rows, cols] with blocks along its rows. codes: uint8, row-major; of two 4-bit codes in a byte, the
    lower bits hold the even column. scales: uint8, for each row those of its blocks. amaxes: float32, of the tensor;
    copy says which of them counts, and what codes and scales mean: it follows from the other fields."""

    codes: Tensor
    scales: Tensor
    amaxes: Tensor
    recipe: str
    role: str
    columnwise: bool

    @property
    def copy(self):
        return _copy_of(self.recipe, self.role, self.columnwise)

    @property
    def shape(self):
        return self.codes.shape[0], self.codes.shape[1] * 8 // self.copy.code_bits

    @property
    def amax(self):
        """The amax that the codes are under: float32, or None for formats without a tensor scale."""
        return self.amaxes[self.copy.amax_at] if self.copy.amax_count else None


def draw_key(seed, *, layer=0, step=0, microbatch=0):
    """The seed for one linear layer at one step, uint32 [4]: its random bits are those of the library's draw_key. Each
    may be a tensor. Layers below 4096, microbatches below 65536, steps below 2^32."""
    low, high = (seed & 0xFFFFFFFF, seed >> 32) if isinstance(seed, int) else (seed, 0)
    words = low, high, layer * 16 + microbatch * 65536, step
    device = next((word.device for word in words if isinstance(word, Tensor)), None)
    return torch.stack([torch.as_tensor(word, dtype=torch.int64, device=device) for word in words]).to(torch.uint32)


def check_seed(seed):
    if seed.dtype != torch.uint32 or seed.shape != (4,):
        raise ValueError(f"a seed is uint32 [4], not {name(seed.dtype)} {list(seed.shape)}")


def name(dtype):
    return str(dtype).removeprefix("torch.")


def key_words(seed, device):
    """The key that the calls read, six words: four of a seed, and the place of the matrix in one that devices share,
    which is 0 here. As int32, since PyTorch does little with uint32."""
    return torch.nn.functional.pad(seed.to(device).view(torch.int32), (0, 2))


def quantize_copy(x, amaxes, key, recipe, role, columnwise, transposed):
    """One copy of x, or of its transpose, under given amaxes."""
    return Quantized(*_calls.quantize(x, amaxes, key, recipe, role, columnwise, transposed), amaxes, recipe, role,
                     columnwise)


def _check_quantize(x, recipe, role, columnwise, seed):
    copy = _library.copy_of(recipe, role, columnwise)
    if x.ndim != 2 or x.dtype not in (torch.float32, torch.bfloat16):
        raise ValueError(f"quantize() takes a matrix of float32 or bfloat16, not {name(x.dtype)} {list(x.shape)}")
    if copy.draws and seed is None:
        raise ValueError(f'recipe "{recipe}" rounds the {role} stochastically: quantize() needs a seed')
    if isinstance(length := x.shape[not columnwise], int):  # no symbol
        _library.check_multiple(length, copy.multiple, f"{recipe}, {list(x.shape)}, blocks of")
    return copy


@torch.library.custom_op("fourscale::quantize", mutates_args=())
def _quantize(x: Tensor, recipe: str, role: str, columnwise: bool, seed: Tensor | None,
              amax: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    copy = _check_quantize(x, recipe, role, columnwise, seed)
    in_memory = columnwise
    if columnwise and copy.hadamard > copy.block:  # longer than a block: the transform is not part of the quantizer
        x, in_memory = x.T.contiguous(), False
    amaxes = (_calls.amax(x, recipe, role, columnwise) if amax is None or copy.amax_count == 0 else
              amax.to(x.device, torch.float32).repeat(copy.amax_count))
    seed = torch.zeros(4, dtype=torch.uint32) if seed is None else seed
    return quantize_copy(x, amaxes, key_words(seed, x.device), recipe, role, columnwise, in_memory)[:3]


@_quantize.register_fake
def _(x, recipe, role, columnwise, seed, amax):
    copy = _check_quantize(x, recipe, role, columnwise, seed)
    codes, scales = _calls.new_copy(x, copy, *(reversed(x.shape) if columnwise else x.shape))
    return codes, scales, x.new_empty(copy.amax_count, dtype=torch.float32)


def quantize(x, *, recipe="te_nvfp4", role="activation", columnwise=False, seed=None, amax=None):
    """x [rows, cols], float32 or bfloat16, as the Quantized that a linear layer makes of it under a recipe: `role` is
    "activation", "weight" or "gradient". columnwise: the quantized transpose [cols, rows], transformed where the
    recipe says so; MS-EDEN takes values that have their signs already. seed: as for dense(), needed where the recipe
    rounds stochastically. amax: float32, in place of that of x itself, for example reduced over devices.
    It has no gradient: detach() an x that wants one.

    ValueError: no such recipe; no seed; rows (columnwise: columns) that are no multiple of the block."""
    if seed is not None:
        check_seed(seed)
    amax = None if amax is None else torch.as_tensor(amax)
    return Quantized(*_quantize(x, recipe, role, columnwise, seed, amax), recipe, role, columnwise)


@torch.library.custom_op("fourscale::dequantize", mutates_args=())
def _dequantize(codes: Tensor, scales: Tensor, amaxes: Tensor, recipe: str, role: str, columnwise: bool,
                dtype: torch.dtype) -> Tensor:
    copy = _library.copy_of(recipe, role, columnwise)
    return _calls.dequantize(codes, scales, amaxes, copy, dtype, copy.amax_at if copy.amax_count else -1)


@_dequantize.register_fake
def _(codes, scales, amaxes, recipe, role, columnwise, dtype):
    return codes.new_empty(Quantized(codes, scales, amaxes, recipe, role, columnwise).shape, dtype=dtype)


def dequantize(q, dtype=torch.bfloat16):
    """The values of q, float32 or bfloat16, in the coordinates of its transform. Rounded as the library does."""
    return _dequantize(*q, dtype)


def _without_tensor_scale(q):
    """The values of q under tensor scale 1, which are exact in bfloat16, and the tensor scale."""
    values = _calls.dequantize(q.codes, q.scales, q.amaxes, q.copy, torch.bfloat16, -1)
    if q.copy.amax_count == 0:
        return values, 1
    one, scale_of_one = _library.ONE[q.copy.format]
    codes, scales = _calls.new_copy(q.codes, q.copy, 1, q.copy.block)
    one = _calls.dequantize(codes.fill_(one), scales.fill_(scale_of_one), q.amaxes, q.copy, torch.float32,
                            q.copy.amax_at)
    return values, one[0, 0]


def dot(a, b):
    """a @ b in bfloat16, summed in float32. On CPUs there is no such product in PyTorch, but one of float32 is."""
    a, b = a.to(torch.bfloat16), b.to(torch.bfloat16)
    return torch.mm(a, b, out_dtype=torch.float32) if a.is_cuda else a.float() @ b.float()


def multiply(a, b, dtype, accumulate):
    on_tensor_cores = a.codes.is_cuda and _library.multiplies_fp8(a.copy, b.copy)
    if on_tensor_cores or (a.copy.code_bits == 4 and accumulate == "blackwell"):
        return _calls.gemm(a, b, dtype)
    (values_a, factor_a), (values_b, factor_b) = _without_tensor_scale(a), _without_tensor_scale(b)
    return (dot(values_a, values_b.T) * factor_a * factor_b).to(dtype)


@torch.library.custom_op("fourscale::scaled_matmul", mutates_args=())
def _scaled_matmul(codes_a: Tensor, scales_a: Tensor, amaxes_a: Tensor, recipe_a: str, role_a: str, columnwise_a: bool,
                   codes_b: Tensor, scales_b: Tensor, amaxes_b: Tensor, recipe_b: str, role_b: str, columnwise_b: bool,
                   dtype: torch.dtype, accumulate: str) -> Tensor:
    a = Quantized(codes_a, scales_a, amaxes_a, recipe_a, role_a, columnwise_a)
    b = Quantized(codes_b, scales_b, amaxes_b, recipe_b, role_b, columnwise_b)
    _library.check_operands(a, b)
    return multiply(a, b, dtype, accumulate)


@_scaled_matmul.register_fake
def _(*arguments):
    a, b, dtype = Quantized(*arguments[:6]), Quantized(*arguments[6:12]), arguments[12]
    _library.check_operands(a, b)
    return a.codes.new_empty(a.shape[0], b.shape[0], dtype=dtype)


def scaled_matmul(a, b, dtype=torch.bfloat16, *, accumulate="blackwell"):
    """a @ b.T of two Quantized, [m, k] and [n, k], to bfloat16 or float32 [m, n].

    accumulate="blackwell": of NVFP4 and MXFP4 the bits of Blackwell's block-scaled tensor cores, on every machine.
    accumulate="native", and always for 8 bits: PyTorch's product of the values without tensor scales, each of them
    exact, summed in float32 in an order that is PyTorch's; so within 3 k * 2^-23 * sum |a * b| of exact
    (docs/native_gemm.md), where no value or sum leaves float32, and one rounding to dtype.
    Of FP8, both per tensor or both under scales of 128 values, a Hopper GPU sums in the library's FP8 GEMM: within
    (0.0455 + 1.1 (k / 128 + 2) 2^-24) sum |a * b| of exact there (docs/native_gemm.md), with `accumulate` either way.
    ValueError: other formats, shapes, transforms, or another `accumulate`."""
    _library.check_accumulate(accumulate)
    return _scaled_matmul(*a, *b, dtype, accumulate)
