# SPDX-License-Identifier: Apache-2.0
"""Gradients of a step: draws, the recipe of each layer, remat, and one device against two."""

import collections
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import fourscale_jax
from fourscale_jax import linear
from fourscale_jax.trainer import layers, model
from fourscale_jax.trainer.config import PROJECTIONS
from fourscale_jax.trainer.layers import Draws
from fourscale_jax.trainer.step import gradients, initial_state, initial_variables, make_train_step
from jax.sharding import PartitionSpec as P
from trainer_case import RESUMED, loss_and_gradients, matrices, mesh_of, same_bits, tiny, tokens_for


def shapes(config):
    """What a step takes, without its values."""
    variables = jax.eval_shape(lambda key: initial_variables(config, key), jax.random.key(0))
    tokens = jax.ShapeDtypeStruct((config.batch, config.sequence + 1), jnp.int32)
    return variables, tokens, np.uint32(0), np.uint32(0), np.float32(1)


def calls(config, mesh):
    """How often a step calls each function of the library, as it was lowered."""
    lowered = jax.jit(gradients(config, mesh)).lower(*shapes(config))
    return collections.Counter(re.findall(r"@fourscale_(\w+)\(", lowered.as_text()))


def test_each_layer_draws_by_its_own_number(monkeypatch):
    seen = []
    real = Draws.key
    monkeypatch.setattr(Draws, "key", lambda self, layer, own: seen.append((layer, own)) or real(self, layer, own))
    jax.eval_shape(gradients(tiny(layers=3), mesh_of(1, 1)), *shapes(tiny(layers=3)))
    # Devices of "tensor" that hold the same gradient, that of out and down, draw the same.
    own = {"qkv": True, "out": False, "gate_up": True, "down": False}
    want = [(4 * layer + n, own[p]) for layer in range(3) for n, p in enumerate(PROJECTIONS)]
    assert list(dict.fromkeys(seen)) == want


@pytest.mark.parametrize("data, tensor, own, ranks", [
    (2, 1, True, [0, 1]), (2, 1, False, [0, 1]), (1, 2, True, [0, 1]), (1, 2, False, [0, 0])])
def test_a_key_is_the_draw_key_of_layer_microbatch_and_step(data, tensor, own, ranks):
    def keys(step):
        return Draws(jnp.uint32(7), step, jnp.uint32(3)).key(5, own)

    mesh = mesh_of(data, tensor)
    key = jax.jit(jax.shard_map(keys, mesh=mesh, in_specs=P(), out_specs=P(("data", "tensor")), check_vma=False))
    # f4::draw_key: layer << 4 | microbatch << 16, then the step; microbatch 3 of 2 ranks is 6 and 7.
    assert key(np.uint32(9)).reshape(2, 4).tolist() == [[7, 0, 5 << 4 | 6 + rank << 16, 9] for rank in ranks]


def test_draws_reach_the_gradients():
    config, mesh = tiny(quantization="te_nvfp4"), mesh_of(1, 1)
    call, variables = jax.jit(gradients(config, mesh)), initial_state(config, mesh).variables
    (loss, first), (again, same), (other, second) = (
        call(variables, tokens_for(config, mesh), np.uint32(0), np.uint32(step), np.float32(1)) for step in (0, 0, 1))
    assert loss == again == other  # nothing in the forward draws
    assert same_bits(first, same)
    a, b = (grads["params"]["layer_0"]["qkv"]["w"] for grads in (first, second))
    assert np.mean(a != b) > 0.9
    assert call._cache_size() == 1


@pytest.mark.parametrize("options", [
    dict(quantization="bf16"), dict(quantization="te_nvfp4"), dict(quantization="mlp_only"),
    dict(quantization="paper", layers=11),
    dict(quantization="mxfp4", quantize="qkv,down"), dict(quantization="te_nvfp4_no_rht", last_in_bf16=1)])
def test_each_linear_layer_gets_the_recipe_of_the_policy(monkeypatch, options):
    asked = []
    monkeypatch.setattr(fourscale_jax, "dense", lambda x, w, **o: asked.append(o["recipe"]) or x @ w.astype(x.dtype))
    config = tiny(**dict(layers=3) | options)
    arguments = shapes(config)
    asked.clear()
    jax.eval_shape(gradients(config, mesh_of(1, 1)), *arguments)
    assert asked[:4 * config.layers] == [config.recipe(layer, p) for layer in range(config.layers) for p in PROJECTIONS]


def test_options_of_gemms_reach_each_layer(monkeypatch):
    asked = []
    monkeypatch.setattr(fourscale_jax, "dense", lambda x, w, **o: asked.append(o) or x @ w.astype(x.dtype))
    config = tiny(quantization="te_nvfp4", accumulate="native", gemms="fprop,wgrad")
    jax.eval_shape(gradients(config, mesh_of(1, 1)), *shapes(config))
    assert asked and all(o["accumulate"] == "native" and o["gemms"] == ("fprop", "wgrad") for o in asked)


def test_seeds_and_places_share_a_program():
    mesh = mesh_of(1, 1)
    a, b = (tiny(seed=1).program, tiny(seed=2, out="folder", save_every=3, text="file", stop=5).program)
    assert make_train_step(a, mesh) is make_train_step(b, mesh)
    assert make_train_step(tiny(gemms="fprop").program, mesh) is not make_train_step(a, mesh)


def test_delayed_scaling_takes_amaxes_of_steps_before():
    config, mesh = tiny(quantization="fp8_delayed"), mesh_of(2, 1)
    _, once = loss_and_gradients(config, mesh)
    params = initial_state(config, mesh).variables["params"]
    state = once["delayed"]["layer_0"]["down"]["state"]  # of x, w and dy: the amax in use, then the newest
    assert state[:, 0].tolist() == state[:, 1].tolist() and not state[:, 2:].any()
    assert state[1, 0] == np.abs(params["layer_0"]["down"]["w"]).max()


def test_remat_repeats_no_gemm_and_no_quantization():
    config = tiny(quantization="te_nvfp4")
    assert calls(tiny(quantization="te_nvfp4", remat=True), mesh_of(1, 1)) == calls(config, mesh_of(1, 1))


def test_the_gradient_of_the_embedding_is_that_of_a_table():
    table = jax.random.normal(jax.random.key(1), (256, 8))
    tokens = jax.random.randint(jax.random.key(2), (4, 64), 0, 256)
    dx = jax.random.normal(jax.random.key(3), (4, 64, 8), jnp.bfloat16)
    y, gradient = jax.vjp(lambda t: model.look_up(t, tokens), table)
    assert same_bits(y, table.astype(jnp.bfloat16)[tokens])
    want = np.zeros((256, 8))
    np.add.at(want, np.asarray(tokens).ravel(), np.asarray(dx, np.float64).reshape(-1, 8))
    # At most 8 of 256 places have one symbol here; float32 rounds each sum 7 times.
    assert np.bincount(np.asarray(tokens).ravel()).max() <= 8
    np.testing.assert_allclose(gradient(dx)[0], want, 0, 7 * 2**-24 * 8 * np.abs(np.asarray(dx, np.float64)).max())


def test_two_devices_share_a_batch_with_the_bits_of_two_microbatches():
    """Without a tensor amax, which two devices share and two microbatches do not. The gradients of norms are sums over
    tokens in an order that XLA chooses, so they are left out."""
    loss_of_two, two = loss_and_gradients(tiny(quantization="mxfp4"), mesh_of(2, 1))
    loss, one = loss_and_gradients(tiny(quantization="mxfp4", microbatches=2), mesh_of(1, 1))
    assert loss == loss_of_two and same_bits(matrices(one), matrices(two))


def test_two_devices_share_matrices_as_one_has_them(monkeypatch):
    """In float64, the order of sums changes a value only where it is rounded to float32 after it, in attention and in
    the results: by 2^-23 of it. A reduction that is missing or doubled changes far more than 2^-18."""
    monkeypatch.setattr(layers.fourscale_jax, "dense", lambda x, w, **_: x @ w.astype(x.dtype))
    monkeypatch.setattr(model, "ACTIVATIONS", jnp.float64)
    with jax.enable_x64(True):
        loss, one = loss_and_gradients(tiny(), mesh_of(1, 1))
        loss_of_two, two = loss_and_gradients(tiny(tensor=2), mesh_of(1, 2))
    assert abs(loss_of_two - loss) <= 2**-18 * loss
    jax.tree.map(lambda a, b: np.testing.assert_allclose(b, a, 0, 2**-18 * np.abs(a).max()), one, two)


def test_amaxes_are_those_of_whole_tensors(monkeypatch):
    """Layers see part of a tensor; under the amax of all of it, their codes are those of one device."""
    axes = []
    real = linear._dense
    monkeypatch.setattr(linear, "_dense", lambda *a: axes.append(a[-1].axes) or real(*a))
    config = tiny(quantization="te_nvfp4", tensor=2)
    jax.eval_shape(gradients(config, mesh_of(1, 2)), *shapes(config))
    both = "data", "tensor"
    column_parallel, row_parallel = (("data",), ("tensor",), both), (both, ("tensor",), ("data",))
    assert set(axes) == {column_parallel, row_parallel}


@pytest.mark.parametrize("quantization", ("bf16", "fp8_delayed"))
def test_a_step_that_is_not_finite_is_skipped_under_loss_scaling(quantization):
    config, mesh = tiny(out="unused", **RESUMED | dict(quantization=quantization)), mesh_of(2, 1)
    state = initial_state(config, mesh)
    state = state._replace(loss_scale=state.loss_scale._replace(value=jnp.float32(jnp.inf)))
    before = jax.tree.map(np.asarray, (state.variables, state.optimizer))
    state, metrics = make_train_step(config.program, mesh)(state, tokens_for(config, mesh))
    assert not np.isfinite(metrics["gradient_norm"]) and int(state.step) == 1
    assert same_bits(before, (state.variables, state.optimizer))
