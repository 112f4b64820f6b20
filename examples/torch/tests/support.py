# SPDX-License-Identifier: Apache-2.0
"""Data, and the library without PyTorch."""

import ctypes
import pathlib

import fourscale_torch as ft
import torch

FOUR_BITS = ("te_nvfp4", "te_nvfp4_no_rht", "mxfp4", "four_over_six")
ROLES = ("activation", "weight", "gradient")
KEY = dict(seed=0x123456789ABCDEF0, layer=7, step=0xFEDCBA98, microbatch=3)

_reference = ctypes.CDLL(str(pathlib.Path(ft.__file__).parent / "libfourscale_reference.so"))


class _Key(ctypes.Structure):
    _fields_ = [("seed", ctypes.c_uint64), ("layer", ctypes.c_uint32), ("step", ctypes.c_uint64),
                ("microbatch", ctypes.c_uint32)]


def draw_key():
    return ft.draw_key(KEY["seed"], layer=KEY["layer"], step=KEY["step"], microbatch=KEY["microbatch"])


def _pointers(*tensors):
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


def _integers(*values):
    return [ctypes.c_int64(v) for v in values]


def same_bits(a, b):
    """Every NaN is one; on any device."""
    a, b = a.detach().cpu(), b.detach().cpu()
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(_bits(a), _bits(b))


def _bits(a):
    if not a.is_floating_point():
        return a
    integers = a.contiguous().view(torch.int32 if a.itemsize == 4 else torch.int16)
    return torch.where(a.isnan(), 0x7FC0 << 16 if a.itemsize == 4 else 0x7FC0, integers)


def random_matrix(rows, cols, seed, dtype=torch.bfloat16, size=1.0):
    """Gaussian, with rows of very different size."""
    of = torch.Generator().manual_seed(seed)
    values, sizes = torch.randn(rows, cols, generator=of), torch.randn(rows, 1, generator=of)
    return (values * torch.exp2(torch.round(2 * sizes)) * size).to(dtype)


def linear_case(tokens, in_, out):
    """x, w [in, out] and dy."""
    w = random_matrix(in_, out, 2, torch.float32, 0.1)
    return random_matrix(tokens, in_, 1), w, random_matrix(tokens, out, 3)


def whole_case(tokens, in_, out):
    """x, w and dy of whole numbers up to 7: FP8 rounds none of them, and all sums of products fit in 14 bits."""
    def whole(i, *shape):
        values = torch.randint(-7, 8, shape, generator=torch.Generator().manual_seed(i))
        values[0, 0] = 7
        return values
    return whole(1, tokens, in_).bfloat16(), whole(2, in_, out).float(), whole(3, tokens, out).bfloat16()


def outside(got, a, b, to_bf16, tensor_cores_of_fp8=False):
    """How many results are farther from the product in double than sums in float32 may be, in any order; those of
    Blackwell drop less than 2^-22 of a sum and 5 * 2^-35 of the largest product in each of k / 64 steps. On tensor
    cores of FP8: than docs/native_gemm.md derives."""
    a, b = a.double(), b.double()
    want, magnitudes, k = a @ b.T, a.abs() @ b.abs().T, a.shape[1]
    bound = (k + 8) * 2.0**-23 * magnitudes + k * 2.0**-35 * a.abs().max() * b.abs().max()
    if tensor_cores_of_fp8:
        bound += (0.0455 + 1.1 * (-(-k // 128) + 1) * 2.0**-24) * magnitudes
    if to_bf16:
        bound += 2.0**-8 * (want.abs() + bound)
    return int((~((got.double() - want).abs() <= bound)).sum())


def step(recipe, x, w, dy, seed, **arguments):
    """y, dx and dw of a dense layer."""
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    y = ft.dense(x, w, recipe=recipe, seed=seed, **arguments)
    return y, *torch.autograd.grad(y, (x, w), dy)


def reference_step(recipe, x, w, dy):
    """The same by host::linear_layer."""
    w = w.T.contiguous()
    y, dx, dw = torch.empty_like(dy), torch.empty_like(x), torch.empty_like(w)
    shape = _integers(x.shape[0], x.shape[1], dy.shape[1])
    e = _reference.reference_linear(ft.recipes().index(recipe), *shape, *_pointers(x, w, dy), _Key(**KEY),
                                    *_pointers(y, dx, dw))
    assert e == 0
    return y, dx, dw.T


def reference_operand(recipe, role, columnwise, x, amax=1.0):
    """The float32 values of one copy of a tensor by host::fake_quantize, in the coordinates of its transform."""
    x = x.float().contiguous()
    values, amax = torch.empty(x.shape[::-1] if columnwise else x.shape), torch.tensor([amax])
    e = _reference.reference_operand(ft.recipes().index(recipe), ROLES.index(role), int(columnwise),
                                     *_integers(*x.shape), *_pointers(x), _Key(**KEY), *_pointers(amax, values))
    assert e == 0
    return values


def reference_signs(gemm):
    negative = torch.empty(128, dtype=torch.uint8)
    _reference.reference_signs(_Key(**KEY), gemm, *_pointers(negative))
    return 1.0 - 2.0 * negative
