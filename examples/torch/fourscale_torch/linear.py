# SPDX-License-Identifier: Apache-2.0
"""A linear layer under a recipe: three GEMMs, each of quantized operands."""

import torch
from torch import Tensor

from . import _calls, _library, _quartet
from .quantized import Quantized, check_seed, dot, key_words, multiply, name, quantize_copy


def _both_copies(x, amaxes, key, recipe, role):
    """x with blocks along its rows and its transpose with blocks along the columns of x. Weights come as [in, out], the
    transpose of the library's: their first copy is what the library calls columnwise; they are rounded alike."""
    if _library.copy_of(recipe, role, False).both:
        codes, scales, codes_t, scales_t = _calls.quantize_both(x, amaxes, key, recipe, role)
        return (Quantized(codes, scales, amaxes, recipe, role, False),
                Quantized(codes_t, scales_t, amaxes, recipe, role, True))
    return [quantize_copy(x, amaxes, key, recipe, role, transposed, transposed) for transposed in (False, True)]


def _amaxes(x, recipe, role, state):
    """The amaxes to quantize under, and the one to record in the state of delayed scaling."""
    amaxes = _calls.amax(x, recipe, role)
    if not _library.copy_of(recipe, role, False).delayed:
        return amaxes, amaxes
    return state[_library.ROLES.index(role), :1].clone(), amaxes


def delayed_state(length=1024):
    """The state of delayed scaling for one dense(): float32 [3, 1 + length], for x, w and dy the amax in use and the
    amaxes of `length` steps, the newest first. The gradient of dense() by its state is the next state."""
    state = torch.zeros(3, 1 + length)
    state[:, 0] = torch.tensor([_library.copy_of("fp8_delayed", role, False).range for role in _library.ROLES])
    return state


def _next_state(state, newest):
    """As the library's update(): zero, infinity and NaN keep the amax in use."""
    history = torch.cat([newest[:, None], state[:, 1:-1]], dim=1)
    largest = history.amax(dim=1, keepdim=True)
    in_use = torch.where((largest > 0) & (largest < torch.inf), largest, state[:, :1])
    return torch.cat([in_use, history], dim=1)


def _check(x, w, state, recipe):
    quantized = recipe != "bf16"
    if quantized and all(isinstance(length, int) for length in (*x.shape, *w.shape)):  # no symbols
        _library.check_linear(recipe, *x.shape, w.shape[1])
    if (state.numel() != 0) != (quantized and _library.copy_of(recipe, "activation", False).delayed):
        raise ValueError(f'"fp8_delayed" needs a state, see delayed_state(); no other recipe does, not "{recipe}"')


def _kept(recipe):
    """The copies that backward gets of x and of w, as arguments of copy_of(). Those of Quartet II are what forward
    multiplied."""
    return (recipe, "activation", recipe != "quartet2"), (recipe, "weight", False)


@torch.library.custom_op("fourscale::dense", mutates_args=())
def _dense(x: Tensor, w: Tensor, seed: Tensor, state: Tensor, recipe: str, accumulate: str,
           keep: bool) -> list[Tensor]:
    """y, and what is kept for backward: codes, scales and amaxes of x and of w, and the amaxes for the next state."""
    _check(x, w, state, recipe)
    if recipe == "bf16":
        return [dot(x, w).to(torch.bfloat16)]
    x, w, key = x.contiguous(), w.contiguous(), key_words(seed, x.device)
    amax_x, new_x = _amaxes(x, recipe, "activation", state)
    amax_w, new_w = _amaxes(w, recipe, "weight", state)
    if recipe == "quartet2" or not keep:
        x_n = x_t = quantize_copy(x, amax_x, key, recipe, "activation", False, False)
        w_n = w_t = quantize_copy(w, amax_w, key, recipe, "weight", False, True)
    else:
        x_n, x_t = _both_copies(x, amax_x, key, recipe, "activation")
        w_t, w_n = _both_copies(w, amax_w, key, recipe, "weight")
    y = multiply(x_n, w_n, torch.bfloat16, accumulate)
    return [y, *x_t[:3], *w_t[:3], torch.cat([new_x, new_w])] if keep else [y]


@_dense.register_fake
def _(x, w, seed, state, recipe, accumulate, keep):
    _check(x, w, state, recipe)
    (tokens, in_), out = x.shape, w.shape[1]
    y = x.new_empty(tokens, out, dtype=torch.bfloat16)
    if recipe == "bf16" or not keep:
        return [y]
    shapes = ((tokens, in_), (out, in_)) if recipe == "quartet2" else ((in_, tokens), (in_, out))
    kept = []
    for shape, copy in zip(shapes, (_library.copy_of(*of) for of in _kept(recipe))):
        kept += [*_calls.new_copy(x, copy, *shape), x.new_empty(copy.amax_count, dtype=torch.float32)]
    return [y, *kept, x.new_empty(kept[2].numel() + kept[5].numel(), dtype=torch.float32)]


@torch.library.custom_op("fourscale::dense_backward", mutates_args=())
def _dense_backward(dy: Tensor, seed: Tensor, state: Tensor, kept: list[Tensor], recipe: str, accumulate: str,
                    dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """dx, dw of a type, and the next state."""
    if recipe == "bf16":
        x, w = kept
        return dot(dy, w.T).to(torch.bfloat16), dot(x.T, dy).to(dtype), state.clone()
    x_t, w_t = (Quantized(*kept[3 * i:3 * i + 3], *of) for i, of in enumerate(_kept(recipe)))
    dy, key, newest = dy.contiguous(), key_words(seed, dy.device), kept[6]
    if recipe == "quartet2":
        for_dgrad = _quartet.ms_eden(dy, key, 1, "gradient", False), _quartet.again(w_t, key, 1, "weight")
        for_wgrad = _quartet.again(x_t, key, 2, "activation"), _quartet.ms_eden(dy.T, key, 2, "gradient", True)
    else:
        amax, new_dy = _amaxes(dy, recipe, "gradient", state)
        dy_n, dy_t = _both_copies(dy, amax, key, recipe, "gradient")
        for_dgrad, for_wgrad = (dy_n, w_t), (x_t, dy_t)
    dx = multiply(*for_dgrad, torch.bfloat16, accumulate)
    dw = multiply(*for_wgrad, torch.float32, accumulate).to(dtype)
    return dx, dw, _next_state(state, torch.cat([newest, new_dy])) if state.numel() else state.clone()


@_dense_backward.register_fake
def _(dy, seed, state, kept, recipe, accumulate, dtype):
    if recipe == "bf16":
        tokens, (in_, out) = dy.shape[0], kept[1].shape
    else:
        x_t, w_t = (Quantized(*kept[3 * i:3 * i + 3], *of).shape for i, of in enumerate(_kept(recipe)))
        (tokens, in_), out = x_t if recipe == "quartet2" else reversed(x_t), dy.shape[1]
    return (dy.new_empty(tokens, in_, dtype=torch.bfloat16), dy.new_empty(in_, out, dtype=dtype),
            torch.empty_like(state))


def _setup(ctx, inputs, output):
    x, w, seed, state, ctx.recipe, ctx.accumulate, _ = inputs
    ctx.dtype = w.dtype
    ctx.save_for_backward(seed, state, *((x, w) if ctx.recipe == "bf16" else output[1:]))


def _backward(ctx, grads):
    seed, state, *kept = ctx.saved_tensors
    dx, dw, state = _dense_backward(grads[0], seed, state, kept, ctx.recipe, ctx.accumulate, ctx.dtype)
    return dx, dw, None, state, None, None, None


_dense.register_autograd(_backward, setup_context=_setup)


def dense(x, w, *, recipe, seed, state=None, accumulate="blackwell"):
    """y = x @ w by a recipe, one of recipes(), and its gradients: forward, dgrad and wgrad each multiply operands that
    the recipe quantized, as scaled_matmul() does.

    x [..., in] is rounded to bfloat16; w [in, out] is float32 or bfloat16; y [..., out] is bfloat16. The gradient of x
    is bfloat16 before it gets the type of x; that of w comes from float32. What backward needs is kept quantized.

    seed: uint32 [4], see draw_key(). All random bits follow from it and from the place in the matrix, so each layer and
    step needs its own.
    state: for "fp8_delayed", see delayed_state().
    accumulate: how 4-bit operands are multiplied, "blackwell" or "native", see scaled_matmul().

    ValueError: a recipe or an `accumulate` that does not exist; tokens, in or out no multiple of the recipe's blocks.
    """
    if w.ndim != 2 or x.shape[-1] != w.shape[0]:
        raise ValueError(f"dense() takes x [..., in] and w [in, out], not {list(x.shape)} and {list(w.shape)}")
    if w.dtype not in (torch.float32, torch.bfloat16):
        raise ValueError(f"weights are float32 or bfloat16, not {name(w.dtype)}")
    _library.check_accumulate(accumulate)
    check_seed(seed)
    state = x.new_empty(0, 0, dtype=torch.float32) if state is None else state
    keep = torch.is_grad_enabled() and any(t.requires_grad for t in (x, w, state))
    rows = x.to(torch.bfloat16).reshape(-1, x.shape[-1])
    y = _dense(rows, w, seed, state, recipe, accumulate, keep)[0]
    return y.reshape(*x.shape[:-1], w.shape[1])
