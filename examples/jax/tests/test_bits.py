# SPDX-License-Identifier: Apache-2.0
"""The bits of the library, which the tests call without XLA."""

import functools

import fourscale_jax as fj
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from fourscale_jax import _calls, _library, _quartet, quantized
from support import (FOUR_BITS, FP8, ROLES, draw_key, linear_case, outside, random_matrix, reference_operand,
                     reference_signs, reference_step, same_bits, step, whole_case)

QUANTIZING = [r for r in fj.recipes() if r not in ("bf16", "quartet2")]


@pytest.mark.parametrize("recipe", FOUR_BITS)
@pytest.mark.parametrize("shape", [(32, 32, 32), (64, 192, 96), (160, 64, 320)])
def test_dense_has_the_bits_of_the_linear_layer(recipe, shape):
    case = linear_case(*shape)
    for got, want in zip(jax.jit(step, static_argnums=0)(recipe, *case, draw_key()), reference_step(recipe, *case)):
        assert same_bits(got, want)


@pytest.mark.parametrize("recipe", ["fp8_current", "fp8_block"])
def test_whole_numbers_in_fp8_have_the_bits_of_the_linear_layer(recipe):
    case = whole_case(128, 256, 384)
    for got, want in zip(jax.jit(step, static_argnums=0)(recipe, *case, draw_key()), reference_step(recipe, *case)):
        assert np.array_equal(got, want)


@pytest.mark.parametrize("recipe", QUANTIZING)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("columnwise", [False, True])
def test_each_copy_has_the_values_of_fake_quantize(recipe, role, columnwise):
    x = random_matrix(128, 256, 4)
    amax = 3.0 if recipe == "fp8_delayed" else None
    q = fj.quantize(x, recipe=recipe, role=role, columnwise=columnwise, seed=draw_key(), amax=amax)
    assert q.shape == ((256, 128) if columnwise else (128, 256))
    assert same_bits(fj.dequantize(q, jnp.float32), reference_operand(recipe, role, columnwise, x, amax or 0.0))


@pytest.mark.parametrize("role", ROLES)
def test_quartet_has_the_values_of_fake_quantize(role):
    x, key = random_matrix(128, 256, 4), quantized.key_words(draw_key())
    gemm = {"activation": 2, "weight": 1}.get(role)
    if role == "gradient":
        for columnwise, gemm in ((False, 1), (True, 2)):
            q = _quartet.ms_eden(x.T if columnwise else x, key, gemm, role, columnwise, lambda amaxes: amaxes)
            assert same_bits(fj.dequantize(q, jnp.float32), reference_operand("quartet2", role, columnwise, x))
    else:
        q = fj.quantize(x, recipe="quartet2", role=role)
        assert same_bits(fj.dequantize(q, jnp.float32), reference_operand("quartet2", role, False, x))
        q = _quartet.again(q, key, gemm, role, lambda amaxes: amaxes)
        assert same_bits(fj.dequantize(q, jnp.float32), reference_operand("quartet2", role, True, x))


def test_signs_are_those_of_draw_key():
    for gemm in (1, 2):
        assert np.array_equal(_calls.signs(quantized.key_words(draw_key()), gemm), reference_signs(gemm))


@pytest.mark.parametrize("recipe", FOUR_BITS + ("mxfp8", "fp8_current", "fp8_block"))
@pytest.mark.parametrize("special", [-0.0, 3e-45, 1e38, np.inf, np.nan])
def test_special_values(recipe, special):
    """XLA flushes subnormal numbers on its threads; handlers must not."""
    x = np.array(random_matrix(128, 128, 5, jnp.float32))
    if abs(special) < 1e-30:
        x = x * np.float32(1e-39)
    x[3, 5:40] = special
    q = fj.quantize(jnp.asarray(x), recipe=recipe)
    assert same_bits(fj.dequantize(q, jnp.float32), reference_operand(recipe, "activation", False, x))


def test_codes_are_packed_with_the_even_column_below():
    x = random_matrix(32, 64, 6)
    q = fj.quantize(x)
    codes = np.asarray(q.codes)
    codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(32, 64)
    magnitudes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    scales = np.asarray(q.scales).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    factors = np.repeat((scales * np.float32(q.amax)) * (np.float32(1) / np.float32(2688)), 16, axis=1)
    values = np.where(codes & 8, -1, 1).astype(np.float32) * magnitudes[codes & 7] * factors
    assert same_bits(fj.dequantize(q, jnp.float32), values)
    assert float(q.amax) == float(jnp.abs(x).max())


@pytest.mark.parametrize("recipe, accumulate", [
    *((r, "blackwell") for r in ("te_nvfp4", "quartet2", "mxfp8", "fp8_current", "fp8_block")),
    *((r, "native") for r in (*FOUR_BITS, "quartet2"))])
def test_each_gemm_multiplies_its_operands(recipe, accumulate):
    x, w, dy = linear_case(128, 256, 384)
    run = jax.jit(functools.partial(step, accumulate=accumulate), static_argnums=0)
    y, dx, dw = run(recipe, x, w, dy, draw_key())
    operand = lambda role, columnwise, m: reference_operand(recipe, role, columnwise, m)
    wt, cores = np.asarray(w).T, recipe in FP8 and jax.default_backend() == "gpu" and _library.has_fp8_gemm()
    assert outside(y, operand("activation", False, x), operand("weight", False, wt), True, cores) == 0
    assert outside(dx, operand("gradient", False, dy), operand("weight", True, wt), True, cores) == 0
    assert outside(dw, operand("activation", True, x), operand("gradient", True, dy), False, cores) == 0
    # The bounds tell keys apart: another draw is outside.
    if fj.quantize(dy, recipe=recipe, seed=draw_key(), role="gradient").copy.draws:
        other = run(recipe, x, w, dy, draw_key().at[0].add(1))
        assert outside(other[1], operand("gradient", False, dy), operand("weight", True, wt), True) > dx.size // 4


@pytest.mark.parametrize("hopper", [False, True])
@pytest.mark.parametrize("recipe", [*FP8, "mxfp8"])
def test_gpus_multiply_fp8_by_the_library_on_hopper_alone(recipe, hopper, monkeypatch):
    """What is compiled for a GPU, which need not be here."""
    monkeypatch.setattr(_library, "has_fp8_gemm", lambda: hopper)
    run = jax.jit(lambda *arguments: step(recipe, *arguments))
    text = run.trace(*whole_case(128, 128, 128), draw_key()).lower(lowering_platforms=("cuda",)).as_text()
    by_library = 3 if hopper and recipe in FP8 else 0
    assert text.count("@fourscale_gemm(") == by_library and text.count("dot_general") == 3 - by_library


def test_scaled_matmul_to_float32():
    a, b = (fj.quantize(random_matrix(n, 128, n)) for n in (48, 80))
    want = [np.asarray(fj.dequantize(q, jnp.float32)) for q in (a, b)]
    assert outside(fj.scaled_matmul(a, b, jnp.float32), *want, False) == 0


def test_delayed_scaling_follows_its_history():
    x, w, dy = linear_case(32, 64, 48)
    state = fj.delayed_state(4)

    @jax.jit
    def run(size, state):
        y, backward = jax.vjp(lambda s: fj.dense(x * size, w, recipe="fp8_delayed", seed=draw_key(), state=s), state)
        return y, backward(dy)[0]

    largest = float(jnp.abs(x).max())
    in_use = []
    for size in (1.0, 4.0, 0.5, 0.5, 0.5, 0.5, jnp.inf):
        _, state = run(jnp.bfloat16(size), state)
        in_use.append(float(state[0, 0]))
    assert in_use == [largest, 4 * largest, 4 * largest, 4 * largest, 4 * largest, largest / 2, largest / 2]
    assert [float(v) for v in state[0, 1:]] == [np.inf] + 3 * [largest / 2]
    assert float(state[1, 0]) == float(jnp.abs(w).max()) and float(state[2, 0]) == float(jnp.abs(dy).max())
