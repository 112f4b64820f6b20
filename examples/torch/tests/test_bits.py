# SPDX-License-Identifier: Apache-2.0
"""The bits of the library, which the tests call without PyTorch."""

import fourscale_torch as ft
import pytest
import torch
from fourscale_torch import _calls, _quartet, quantized
from support import (FOUR_BITS, ROLES, draw_key, linear_case, outside, random_matrix, reference_operand,
                     reference_signs, reference_step, same_bits, step)

QUANTIZING = [r for r in ft.recipes() if r not in ("bf16", "quartet2")]


@pytest.mark.parametrize("recipe", FOUR_BITS)
@pytest.mark.parametrize("shape", [(32, 32, 32), (64, 192, 96), (160, 64, 320)])
def test_dense_has_the_bits_of_the_linear_layer(recipe, shape):
    case = linear_case(*shape)
    for got, want in zip(step(recipe, *case, draw_key()), reference_step(recipe, *case)):
        assert same_bits(got, want)


@pytest.mark.parametrize("recipe", QUANTIZING)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("columnwise", [False, True])
def test_each_copy_has_the_values_of_fake_quantize(recipe, role, columnwise):
    x = random_matrix(128, 256, 4)
    amax = 3.0 if recipe == "fp8_delayed" else None
    q = ft.quantize(x, recipe=recipe, role=role, columnwise=columnwise, seed=draw_key(), amax=amax)
    assert q.shape == ((256, 128) if columnwise else (128, 256))
    assert same_bits(ft.dequantize(q, torch.float32), reference_operand(recipe, role, columnwise, x, amax or 0.0))


@pytest.mark.parametrize("role", ROLES)
def test_quartet_has_the_values_of_fake_quantize(role):
    x, key = random_matrix(128, 256, 4), quantized.key_words(draw_key(), "cpu")
    if role == "gradient":
        for columnwise, gemm in ((False, 1), (True, 2)):
            q = _quartet.ms_eden(x.T if columnwise else x, key, gemm, role, columnwise)
            assert same_bits(ft.dequantize(q, torch.float32), reference_operand("quartet2", role, columnwise, x))
    else:
        q = ft.quantize(x, recipe="quartet2", role=role)
        assert same_bits(ft.dequantize(q, torch.float32), reference_operand("quartet2", role, False, x))
        q = _quartet.again(q, key, {"activation": 2, "weight": 1}[role], role)
        assert same_bits(ft.dequantize(q, torch.float32), reference_operand("quartet2", role, True, x))


def test_signs_are_those_of_draw_key():
    for gemm in (1, 2):
        assert torch.equal(_calls.signs(quantized.key_words(draw_key(), "cpu"), gemm), reference_signs(gemm))


@pytest.mark.parametrize("recipe", FOUR_BITS + ("mxfp8", "fp8_current", "fp8_block"))
@pytest.mark.parametrize("special", [-0.0, 3e-45, 1e38, torch.inf, torch.nan])
def test_special_values(recipe, special):
    """PyTorch can be told to flush subnormal numbers; the calls must not."""
    x = random_matrix(128, 128, 5, torch.float32)
    if abs(special) < 1e-30:
        x = x * 1e-39
    x[3, 5:40] = special
    want = reference_operand(recipe, "activation", False, x)
    torch.set_flush_denormal(True)
    try:
        got = ft.dequantize(ft.quantize(x, recipe=recipe), torch.float32)
    finally:
        torch.set_flush_denormal(False)
    assert same_bits(got, want)


def test_codes_are_packed_with_the_even_column_below():
    x = random_matrix(32, 64, 6)
    q = ft.quantize(x)
    codes = torch.stack([q.codes & 15, q.codes >> 4], dim=-1).reshape(32, 64).long()
    magnitudes = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    scales = q.scales.view(torch.float8_e4m3fn).float()
    factors = ((scales * q.amax) * (torch.tensor(1.0) / 2688)).repeat_interleave(16, dim=1)
    values = torch.where(codes & 8 > 0, -1.0, 1.0) * magnitudes[codes & 7] * factors
    assert same_bits(ft.dequantize(q, torch.float32), values)
    assert q.amax == x.abs().max()


@pytest.mark.parametrize("recipe", ["te_nvfp4", "quartet2", "mxfp8", "fp8_current", "fp8_block"])
@pytest.mark.parametrize("accumulate", ["blackwell", "native"])
def test_each_gemm_multiplies_its_operands(recipe, accumulate):
    x, w, dy = linear_case(128, 256, 384)
    y, dx, dw = step(recipe, x, w, dy, draw_key(), accumulate=accumulate)
    operand = lambda role, columnwise, m: reference_operand(recipe, role, columnwise, m)
    assert outside(y, operand("activation", False, x), operand("weight", False, w.T), True) == 0
    assert outside(dx, operand("gradient", False, dy), operand("weight", True, w.T), True) == 0
    assert outside(dw, operand("activation", True, x), operand("gradient", True, dy), False) == 0
    # The bounds tell keys apart: another draw is outside.
    if ft.quantize(dy, recipe=recipe, role="weight").copy.code_bits == 4:
        other = step(recipe, x, w, dy, ft.draw_key(1), accumulate=accumulate)
        assert outside(other[1], operand("gradient", False, dy), operand("weight", True, w.T), True) > dx.numel() // 4


@pytest.mark.parametrize("recipe", ["te_nvfp4", "mxfp4", "mxfp8"])
@pytest.mark.parametrize("accumulate", ["blackwell", "native"])
def test_scaled_matmul_to_float32(recipe, accumulate):
    a, b = (ft.quantize(random_matrix(n, 128, n), recipe=recipe) for n in (48, 80))
    want = [ft.dequantize(q, torch.float32) for q in (a, b)]
    assert outside(ft.scaled_matmul(a, b, torch.float32, accumulate=accumulate), *want, False) == 0


def test_delayed_scaling_follows_its_history():
    x, w, dy = linear_case(32, 64, 48)
    state = ft.delayed_state(4)
    largest = x.abs().max()
    in_use = []
    for size in (1.0, 4.0, 0.5, 0.5, 0.5, 0.5, torch.inf):
        state.requires_grad_()
        y = ft.dense(x * size, w, recipe="fp8_delayed", seed=draw_key(), state=state)
        state, = torch.autograd.grad(y, state, dy)
        in_use.append(state[0, 0])
    assert in_use == [largest, 4 * largest, 4 * largest, 4 * largest, 4 * largest, largest / 2, largest / 2]
    assert state[0, 1:].tolist() == [torch.inf] + 3 * [largest / 2]
    assert state[1, 0] == w.abs().max() and state[2, 0] == dy.abs().max()
