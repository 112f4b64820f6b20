# SPDX-License-Identifier: Apache-2.0
"""The four functions under torch.compile, autograd and checkpointing."""

from functools import partial

import fourscale_torch as ft
import pytest
import torch
from support import draw_key, linear_case, outside, same_bits, step
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

RECIPES = ("te_nvfp4", "quartet2", "fp8_current", "bf16")


def same(a, b):
    return all(same_bits(x, y) for x, y in zip(a, b, strict=True))


def step_of(f, x, w, dy, seed):
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    y = f(x, w, seed)
    return y, *torch.autograd.grad(y, (x, w), dy)


@pytest.mark.parametrize("recipe", RECIPES)
def test_compile_changes_no_bit_and_another_seed_recompiles_nothing(recipe):
    case, seeds = linear_case(128, 128, 128), (draw_key(), ft.draw_key(1, layer=2, step=3))
    plain = lambda x, w, seed: ft.dense(torch.tanh(x), w, recipe=recipe, seed=seed) * 2
    compiled = torch.compile(plain, fullgraph=True, backend="aot_eager")
    first = step_of(compiled, *case, seeds[0])
    with torch.compiler.set_stance("fail_on_recompile"):
        other = step_of(compiled, *case, seeds[1])
    for seed, got in zip(seeds, (first, other)):
        assert same(got, step_of(plain, *case, seed))
    assert same_bits(first[0], other[0])  # nothing is drawn in forward
    assert same(first, other) == (recipe in ("fp8_current", "bf16"))


def test_inductor_compiles_all_four_functions():
    x, w, dy = linear_case(32, 64, 48)
    w.requires_grad_()

    def f(x, w, step):
        seed = ft.draw_key(5, layer=1, step=step)
        a, b = ft.quantize(x), ft.quantize(w.detach().T, role="weight")
        q = ft.quantize(x, role="gradient", seed=seed)
        return (ft.dense(x, w, recipe="te_nvfp4", seed=seed), ft.scaled_matmul(a, b), ft.dequantize(a),
                torch.ones(a.shape) * a.amax, *q[:3])

    def run(f, step):
        w.grad = None
        y, *others = f(x, w, step)
        y.backward(dy)
        return y, w.grad, *others

    compiled = torch.compile(f, fullgraph=True)
    for number in (3, torch.tensor(4)):
        assert same(run(compiled, number), run(f, number))


def test_symbolic_tokens():
    plain = lambda x, w, seed: ft.dense(x, w, recipe="te_nvfp4", seed=seed)
    compiled = torch.compile(plain, fullgraph=True, dynamic=True, backend="aot_eager")
    step_of(compiled, *linear_case(32, 64, 48), draw_key())
    with torch.compiler.set_stance("fail_on_recompile"):
        for tokens in (48, 80):
            case = linear_case(tokens, 64, 48)
            assert same(step_of(compiled, *case, draw_key()), step_of(plain, *case, draw_key()))


@pytest.mark.parametrize("recipe", ["te_nvfp4", "quartet2", "fp8_delayed", "bf16"])
def test_opcheck(recipe):
    x, w, dy = linear_case(128, 128, 128)
    state = ft.delayed_state(3) if recipe == "fp8_delayed" else torch.empty(0, 0)
    arguments = x.requires_grad_(), w.requires_grad_(), draw_key(), state.requires_grad_(recipe == "fp8_delayed")
    torch.library.opcheck(torch.ops.fourscale.dense.default, (*arguments, recipe, "blackwell", True))
    if recipe != "bf16":
        q = ft.quantize(dy, recipe=recipe, role="weight")
        torch.library.opcheck(torch.ops.fourscale.quantize.default, (dy, recipe, "gradient", True, draw_key(), None))
        torch.library.opcheck(torch.ops.fourscale.dequantize.default, (*q, torch.float32))
        torch.library.opcheck(torch.ops.fourscale.scaled_matmul.default, (*q, *q, torch.bfloat16, "native"))


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("keep", [False, True])
def test_checkpointing_changes_no_bit(recipe, keep):
    case = linear_case(128, 128, 128)
    plain = lambda x, w, seed: ft.dense(torch.tanh(x), w, recipe=recipe, seed=seed)
    policy = partial(create_selective_checkpoint_contexts, [torch.ops.fourscale.dense.default])
    again = partial(checkpoint, plain, use_reentrant=False, **dict(context_fn=policy) if keep else {})
    assert same(step_of(plain, *case, draw_key()), step_of(again, *case, draw_key()))


def test_what_is_kept_is_quantized():
    x, w, _ = (m.requires_grad_() for m in linear_case(128, 256, 64))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        ft.dense(x, w, recipe="te_nvfp4", seed=draw_key())
    # The transposes [in, tokens] of x and [in, out] of w (its rows): codes and scales.
    large = sorted((*t.shape, t.dtype) for t in kept if t.numel() > 6)
    assert large == [(256, cols, torch.uint8) for cols in (4, 8, 32, 64)]


def test_nothing_is_kept_without_gradients():
    x, w, _ = linear_case(32, 64, 48)
    with torch.no_grad():
        y = ft.dense(x, w.requires_grad_(), recipe="te_nvfp4", seed=draw_key())
    assert same_bits(y, ft.dense(x, w, recipe="te_nvfp4", seed=draw_key())) and not y.requires_grad


def test_leading_dimensions_are_tokens():
    x, w, _ = linear_case(64, 32, 48)
    y = ft.dense(x, w, recipe="te_nvfp4", seed=draw_key())
    assert same_bits(ft.dense(x.reshape(2, 32, 32), w, recipe="te_nvfp4", seed=draw_key()), y.reshape(2, 32, 48))


def test_the_weight_of_a_linear_module():
    x, w, dy = linear_case(64, 32, 48)
    module = torch.nn.Linear(32, 48, bias=False)
    module.weight.data = w.T.contiguous()
    y = ft.dense(x, module.weight.T, recipe="te_nvfp4", seed=draw_key())
    y.backward(dy)
    want = step("te_nvfp4", x, w, dy, draw_key())
    assert same((y, module.weight.grad), (want[0], want[2].T))


def test_gradients_are_those_of_the_quantized_forward():
    """X, W and dY lie on the grid, so that rounding, stochastic too, changes nothing: gradients are exact."""
    grid = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    random = torch.Generator().manual_seed(1)

    def on_grid(rows, cols):
        values = 7 * grid[torch.randint(0, 8, (rows, cols), generator=random)]
        values = torch.where(torch.rand(rows, cols, generator=random) < 0.5, -values, values)
        diagonal = torch.arange(rows)[:, None] % 16 == torch.arange(cols)[None, :] % 16
        return torch.where(diagonal, 42.0, values)

    x, w, dy = on_grid(32, 48), on_grid(48, 64), on_grid(32, 64)
    y, dx, dw = step("te_nvfp4_no_rht", x.bfloat16(), w, dy.bfloat16(), draw_key())
    assert same((y, dx, dw), ((x @ w).bfloat16(), (dy @ w.T).bfloat16(), x.T @ dy))


def test_bf16_is_a_plain_dot_with_float32_weight_gradients():
    x, w, dy = linear_case(32, 64, 48)
    y, dx, dw = step("bf16", x, w, dy, draw_key())
    w16 = w.bfloat16()
    assert (dw.dtype, y.dtype, dx.dtype) == (torch.float32, torch.bfloat16, torch.bfloat16)
    for got, a, b, rounded in ((y, x, w16.T, True), (dx, dy, w16, True), (dw, x.T, dy.T, False)):
        assert outside(got, a, b, rounded) == 0


def test_types_of_gradients_are_those_of_arguments():
    x, w, dy = linear_case(32, 64, 48)
    y, dx, dw = step("te_nvfp4", x.float(), w.bfloat16(), dy, draw_key())
    assert (dx.dtype, dw.dtype) == (torch.float32, torch.bfloat16)
    assert same_bits(y, step("te_nvfp4", x, w.bfloat16(), dy, draw_key())[0])


def test_scopes():
    assert ft.recipes()[0] == "bf16"
    assert not ft.quantizes("bf16", "mlp", 0, 4)
    assert ft.quantizes("te_nvfp4", "attention", 3, 4)
    assert not ft.quantizes("mlp_only", "attention", 0, 4) and ft.quantizes("mlp_only", "mlp", 0, 4)
