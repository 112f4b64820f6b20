# SPDX-License-Identifier: Apache-2.0
"""The library's calls, one function each, on tensors of one device. They are C functions with pointers, so that ctypes
calls them, in the extension module too."""

import ctypes

import torch

from . import _cpu, _library

_LIBRARIES = {"cpu": ctypes.CDLL(_cpu.__file__), "cuda": _library.cuda}
_TYPES = {torch.uint8: 1, torch.int32: 2, torch.float32: 3, torch.bfloat16: 4}  # `element` of calls.hpp


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("rows", ctypes.c_int64), ("cols", ctypes.c_int64), ("type", ctypes.c_int32)]


def _plain(argument):
    if not isinstance(argument, torch.Tensor):
        return ctypes.c_float(argument) if isinstance(argument, float) else ctypes.c_int32(argument)
    rows, cols = argument.shape if argument.ndim == 2 else (1, argument.shape[0])
    return _Tensor(argument.data_ptr(), rows, cols, _TYPES.get(argument.dtype, 0))


def _call(name, *arguments):
    """On a GPU, work on PyTorch's stream."""
    arguments = [a.contiguous() if isinstance(a, torch.Tensor) else a for a in arguments]
    devices = {a.device for a in arguments if isinstance(a, torch.Tensor)}
    device = devices.pop()
    if devices:
        raise ValueError(f"all tensors must be on one device, not {device} and {', '.join(map(str, devices))}")
    library = _LIBRARIES.get(device.type)
    if library is None:
        raise ValueError(f"this build of fourscale_torch has no library for {device}")
    function, plain = getattr(library, f"fourscale_{name}"), [_plain(a) for a in arguments]
    if device.type == "cpu":
        error = function(None, *plain)
    else:
        with torch.cuda.device(device):
            error = function(ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), *plain)
    if error:
        raise RuntimeError(f"fourscale: {_library.message(error)}")


def _numbers(recipe, role):
    return _library.number(recipe), _library.ROLES.index(role)


def new_copy(x, copy, rows, cols):
    """Codes and scales of a copy of a matrix, on the device of x."""
    return x.new_empty(copy.code_shape(rows, cols), dtype=torch.uint8), x.new_empty(copy.scale_shape(rows, cols),
                                                                                    dtype=torch.uint8)


def amax(x, recipe, role, columnwise=False):
    """The amaxes of a tensor [rows, cols], float32 [Copy.amax_count]."""
    to = x.new_empty(_library.copy_of(recipe, role, columnwise).amax_count, dtype=torch.float32)
    if to.numel():
        _call("amax", x, to, *_numbers(recipe, role), int(columnwise))
    return to


def quantize_both(x, amaxes, key, recipe, role):
    """Codes and scales of the rowwise copy, and of the columnwise one."""
    rows, cols = x.shape
    n = new_copy(x, _library.copy_of(recipe, role, False), rows, cols)
    t = new_copy(x, _library.copy_of(recipe, role, True), cols, rows)
    _call("quantize_both", x, amaxes, key, *n, *t, *_numbers(recipe, role))
    return *n, *t


def quantize(x, amaxes, key, recipe, role, columnwise, transposed):
    """Codes and scales of one copy, of x or of its transpose."""
    shape = x.shape[::-1] if transposed else x.shape
    to = new_copy(x, _library.copy_of(recipe, role, columnwise), *shape)
    _call("quantize", x, amaxes, key, *to, *_numbers(recipe, role), int(columnwise), int(transposed))
    return to


def signs(key, gemm):
    """The 128 signs that both operands of a GEMM are multiplied by, float32 1 or -1: draw_key's for dgrad (1) or wgrad
    (2)."""
    to = key.new_empty(128, dtype=torch.float32)
    _call("signs", key, to, gemm)
    return to


def dequantize(codes, scales, amaxes, copy, dtype, at):
    """The values of a copy under the amax at an index; under tensor scale 1, if that is -1."""
    y = codes.new_empty(codes.shape[0], codes.shape[1] * 8 // copy.code_bits, dtype=dtype)
    _call("dequantize", codes, scales, amaxes, y, _library.format_number(copy.format), copy.range, at)
    return y


def gemm(a, b, dtype):
    """D = A * B^T of two Quantized: of 4 bits with Blackwell's bits, of FP8 within a bound."""
    (m, k), n = a.shape, b.shape[0]
    d = a.codes.new_empty(m, n, dtype=dtype)
    in_workspace = d.is_cuda and a.copy.code_bits == 4
    workspace = a.codes.new_empty(_library.gemm_bytes(m, n, k) if in_workspace else 0)
    of = lambda copy: (_library.format_number(copy.format), copy.range, copy.amax_at if copy.amax_count else -1)
    _call("gemm", a.codes, a.scales, a.amaxes, b.codes, b.scales, b.amaxes, d, workspace,
          *of(a.copy), *of(b.copy))
    return d
