# SPDX-License-Identifier: Apache-2.0
"""Gradients of a step: draws, the recipe of each layer, remat, and one device against two."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fourscale_jax import linear
from fourscale_jax.trainer import layers, model
from fourscale_jax.trainer.config import PROJECTIONS
from fourscale_jax.trainer.step import gradients, initial_state, make_train_step
from trainer_case import loss_and_gradients, matrices, mesh_of, same_bits, tiny, tokens_for


def calls(config, mesh):
    """How often a step calls each function of the library, as it was lowered."""
    params = initial_state(config, mesh).params
    text = jax.jit(gradients(config, mesh)).lower(params, tokens_for(config, mesh), np.uint32(0), np.float32(1)).as_text()
    return {name: text.count(f"@fourscale_{name}(") for name in ("gemm", "quantize_both", "amax")}


def test_draws_differ_between_layers_steps_microbatches_and_ranks(monkeypatch):
    seen = collections.Counter()

    def recording(x, w, *, recipe, seed, axis_name):
        jax.debug.callback(lambda s: seen.update([tuple(s.tolist())]), seed)
        return x @ w.astype(x.dtype)

    monkeypatch.setattr(layers.fourscale_jax, "dense", recording)
    config = tiny(layers=2, seed=7, microbatches=2)
    for step in (0, 1):
        loss_and_gradients(config, mesh_of(2, 1), step)
    jax.effects_barrier()
    # f4::draw_key: layer << 4 | microbatch << 16, then the step. Each microbatch of a rank counts as one.
    want = {(7, 0, layer << 4 | microbatch << 16, step)
            for layer in range(2 * len(PROJECTIONS)) for microbatch in range(4) for step in range(2)}
    assert {key for key in seen if key[0] == 7} == want  # initialisation draws under seed 0


def test_ranks_that_share_a_matrix_draw_alike_only_for_the_same_gradient(monkeypatch):
    seen = []

    def recording(x, w, *, recipe, seed, axis_name):
        jax.debug.callback(lambda s: seen.append(tuple(s.tolist())), seed)
        return x @ w.astype(x.dtype)

    monkeypatch.setattr(layers.fourscale_jax, "dense", recording)
    loss_and_gradients(tiny(seed=7, tensor=2), mesh_of(1, 2))
    jax.effects_barrier()
    ranks = {number: {key[2] >> 16 for key in seen if key[0] == 7 and key[2] >> 4 & 0xfff == number} for number in range(4)}
    assert ranks == {0: {0, 1}, 1: {0}, 2: {0, 1}, 3: {0}}  # qkv, out, gate_up, down


def test_draws_reach_the_gradients():
    config = tiny(quantization="te_nvfp4")
    params = initial_state(config, mesh_of(1, 1)).params
    call, tokens = jax.jit(gradients(config, mesh_of(1, 1))), tokens_for(config, mesh_of(1, 1))
    (loss, first), (again, same), (other, second) = (call(params, tokens, np.uint32(s), np.float32(1)) for s in (0, 0, 1))
    assert loss == again == other  # nothing in the forward draws
    assert same_bits(first, same)
    w = "layer_0", "qkv", "w"
    assert np.mean(first[w[0]][w[1]][w[2]] != second[w[0]][w[1]][w[2]]) > 0.9
    assert call._cache_size() == 1


@pytest.mark.parametrize("options, layers_quantized", [
    (dict(quantization="bf16"), 0), (dict(quantization="te_nvfp4"), 8), (dict(quantization="mlp_only"), 4),
    (dict(quantization="mxfp4", quantize="down"), 2), (dict(quantization="te_nvfp4_no_rht", last_in_bf16=1), 4)])
def test_layers_that_follow_the_recipe_are_those_of_the_policy(options, layers_quantized):
    assert calls(tiny(layers=2, **options), mesh_of(1, 1))["gemm"] == 3 * layers_quantized


def test_remat_repeats_no_gemm_and_no_quantization():
    config = tiny(quantization="te_nvfp4")
    assert calls(tiny(quantization="te_nvfp4", remat=True), mesh_of(1, 1)) == calls(config, mesh_of(1, 1))


@pytest.mark.parametrize("recipe", ["bf16", "mxfp4"])
def test_two_devices_share_a_batch_with_the_bits_of_two_microbatches(recipe):
    """Without a tensor amax, which two devices share and two microbatches do not. The gradients of norms are sums over
    tokens in an order that XLA chooses, so they are left out."""
    loss_of_two, two = loss_and_gradients(tiny(quantization=recipe), mesh_of(2, 1))
    loss, one = loss_and_gradients(tiny(quantization=recipe, microbatches=2), mesh_of(1, 1))
    assert loss == loss_of_two and same_bits(matrices(one), matrices(two))


def test_two_devices_share_matrices_as_one_has_them(monkeypatch):
    """In float64, where the order of sums changes some 1e-16 of them: 1e-10 has room for all sums of a model, while a
    reduction that is missing or doubled changes much more. Results are rounded to float32 in the end."""
    monkeypatch.setattr(layers.fourscale_jax, "dense", lambda x, w, **_: x @ w.astype(x.dtype))
    monkeypatch.setattr(model, "ACTIVATIONS", jnp.float64)
    with jax.enable_x64(True):
        loss, one = loss_and_gradients(tiny(), mesh_of(1, 1))
        loss_of_two, two = loss_and_gradients(tiny(tensor=2), mesh_of(1, 2))
    assert abs(loss_of_two - loss) <= 2**-22 * loss
    jax.tree.map(lambda a, b: np.testing.assert_allclose(b, a, 2**-22, 1e-10 * np.abs(a).max()), one, two)


def test_amaxes_are_those_of_whole_tensors(monkeypatch):
    """Column-parallel layers see all of X and part of W; with the amax of all of W, the codes are those of one device."""
    axes = []
    real = linear._dense
    monkeypatch.setattr(linear, "_dense", lambda *a: axes.append(a[-1]) or real(*a))
    loss_and_gradients(tiny(quantization="te_nvfp4", tensor=2), mesh_of(1, 2))
    assert set(axes) == {("data", "tensor")}


def test_a_step_that_is_not_finite_is_skipped_under_loss_scaling():
    config = tiny(loss_scaling=True)
    mesh = mesh_of(1, 1)
    state = initial_state(config, mesh)
    state = state._replace(loss_scale=state.loss_scale._replace(value=jnp.float32(jnp.inf)))
    before = jax.tree.map(np.asarray, (state.params, state.optimizer))
    state, metrics = make_train_step(config, mesh)(state, tokens_for(config, mesh))
    assert not np.isfinite(metrics["gradient_norm"]) and int(state.step) == 1
    assert same_bits(before, (state.params, state.optimizer))
