# SPDX-License-Identifier: Apache-2.0
"""dense() under jit, scan, remat, vmap and grad."""

import fourscale_jax as fj
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fourscale_jax import _sharded, linear, quantized
from jax import lax
from support import draw_key, linear_case, outside, random_matrix, same_bits, step

RECIPES = ("te_nvfp4", "quartet2")


def same_trees(a, b):
    return all(same_bits(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


@pytest.mark.parametrize("recipe", RECIPES)
def test_another_seed_recompiles_nothing_and_changes_the_gradients(recipe):
    case = linear_case(128, 128, 128)
    traced = []

    @jax.jit
    def run(seed):
        traced.append(seed)
        return step(recipe, *case, seed)

    first = run(draw_key())
    other = run(fj.draw_key(1, layer=2, step=3))
    assert len(traced) == 1 and run._cache_size() == 1
    assert same_bits(first[0], other[0])  # nothing is drawn in forward
    assert not same_bits(first[1], other[1]) and not same_bits(first[2], other[2])
    assert same_trees(first, step(recipe, *case, draw_key()))  # nor does jit change a bit


def test_a_jax_key_is_its_data():
    case = linear_case(32, 32, 32)
    key = jax.random.key(5)
    data = jax.random.key_data(key)
    want = step("te_nvfp4", *case, jnp.concatenate([data, jnp.zeros(2, jnp.uint32)]))
    assert same_trees(step("te_nvfp4", *case, key), want) and same_trees(step("te_nvfp4", *case, data), want)


@pytest.mark.parametrize("recipe", RECIPES)
def test_scan_over_layers_equals_a_loop(recipe):
    x, _, dy = linear_case(128, 128, 128)
    weights = jnp.stack([random_matrix(128, 128, i, jnp.float32, 0.1) for i in range(3)])
    seeds = jnp.stack([fj.draw_key(1, layer=i) for i in range(3)])

    def scanned(x, weights):
        return lax.scan(lambda h, ws: (fj.dense(h, ws[0], recipe=recipe, seed=ws[1]), None), x, (weights, seeds))[0]

    def looped(x, weights):
        for w, seed in zip(weights, seeds):
            x = fj.dense(x, w, recipe=recipe, seed=seed)
        return x

    results = []
    for f in (scanned, looped):
        y, backward = jax.vjp(f, x, weights)
        results.append((y, backward(dy)))
    assert same_trees(*results)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("keep", [False, True])
def test_remat_changes_no_bit(recipe, keep):
    x, w, dy = linear_case(128, 128, 128)
    policy = jax.checkpoint_policies.save_only_these_names(fj.SAVED) if keep else None
    plain = lambda x, w: fj.dense(jnp.tanh(x), w, recipe=recipe, seed=draw_key())
    results = []
    for f in (plain, jax.checkpoint(plain, policy=policy)):
        y, backward = jax.vjp(f, x, w)
        results.append((y, backward(dy)))
    assert same_trees(*results)


def _kept(f, *arguments):
    """Shapes and types of what a function keeps for its backward, its arguments apart."""
    from jax._src.ad_checkpoint import saved_residuals
    return [(aval.shape, str(aval.dtype)) for aval, what in saved_residuals(f, *arguments) if "argument" not in what]


def test_what_remat_keeps_is_quantized():
    x, w, _ = linear_case(128, 256, 64)
    policy = jax.checkpoint_policies.save_only_these_names(fj.SAVED)
    f = jax.checkpoint(lambda x, w: fj.dense(jnp.tanh(x), w, recipe="te_nvfp4", seed=draw_key()), policy=policy)
    kept = [k for k in _kept(f, x, w) if np.prod(k[0]) > 6]
    # The transposes [in, tokens] of x and [in, out] of w (its rows): codes and scales.
    assert sorted(kept) == [((256, cols), "uint8") for cols in (4, 8, 32, 64)]


@pytest.mark.parametrize("recipe", ["te_nvfp4", "mxfp8"])
def test_vmap_is_one_call_after_the_other(recipe):
    experts = [linear_case(32, 64, 32) for _ in range(2)]
    experts[1] = tuple(2 * m + 1 for m in experts[1])
    seeds = jnp.stack([fj.draw_key(1, layer=i) for i in range(2)])
    batched = [jnp.stack(m) for m in zip(*experts)]
    got = jax.jit(jax.vmap(lambda *a: step(recipe, *a)))(*batched, seeds)
    for i, expert in enumerate(experts):
        assert same_trees([m[i] for m in got], step(recipe, *expert, seeds[i]))


def test_leading_dimensions_are_tokens():
    x, w, _ = linear_case(64, 32, 48)
    y = fj.dense(x, w, recipe="te_nvfp4", seed=draw_key())
    assert same_bits(fj.dense(x.reshape(2, 32, 32), w, recipe="te_nvfp4", seed=draw_key()), y.reshape(2, 32, 48))


def test_gradients_are_those_of_the_quantized_forward():
    """X, W and dY lie on the grid, so that rounding, stochastic too, changes nothing: gradients are exact."""
    grid = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    random = np.random.default_rng(1)

    def on_grid(rows, cols):
        values = 7 * grid[random.integers(0, 8, (rows, cols))] * random.choice([-1, 1], (rows, cols))
        i = np.arange(rows)[:, None] % 16 == np.arange(cols)[None, :] % 16
        return np.where(i, 42.0, values).astype(np.float32)

    x, w, dy = on_grid(32, 48), on_grid(48, 64), on_grid(32, 64)
    rounded = [jnp.asarray(x, jnp.bfloat16), jnp.asarray(w), jnp.asarray(dy, jnp.bfloat16)]
    y, dx, dw = step("te_nvfp4_no_rht", *rounded, draw_key())
    for got, want in ((y, x @ w), (dx, dy @ w.T)):
        assert same_bits(got, jnp.asarray(want).astype(jnp.bfloat16))
    assert same_bits(dw, x.T @ dy)


def test_bf16_is_a_plain_dot_with_float32_weight_gradients():
    x, w, dy = linear_case(32, 64, 48)
    y, dx, dw = step("bf16", x, w, dy, draw_key())
    w16 = w.astype(jnp.bfloat16)
    assert (dw.dtype, y.dtype, dx.dtype) == (jnp.float32, jnp.bfloat16, jnp.bfloat16)
    for got, a, b, rounded in ((y, x, w16.T, True), (dx, dy, w16, True), (dw, x.T, dy.T, False)):
        assert outside(got, np.asarray(a), np.asarray(b), rounded) == 0


@pytest.mark.parametrize("gemms", [("fprop",), ("dgrad",), ("wgrad", "fprop"), ()])
@pytest.mark.parametrize("recipe", RECIPES)
def test_gemms_that_are_not_quantized_are_those_of_bf16(recipe, gemms):
    case = linear_case(128, 256, 128)
    run = jax.jit(step, static_argnums=0, static_argnames="gemms")
    quantized, plain = (run(r, *case, draw_key()) for r in (recipe, "bf16"))
    for name, got, a, b in zip(fj.GEMMS, run(recipe, *case, draw_key(), gemms=gemms), quantized, plain):
        assert same_bits(got, a if name in gemms else b)


def plus_minus(seed, count):
    return jnp.where(jax.random.bernoulli(jax.random.key(seed), shape=(count,)), 1.0, -1.0)


def test_other_signs_recompile_nothing_and_change_wgrad_alone():
    case = linear_case(64, 128, 96)
    run = jax.jit(lambda signs: step("te_nvfp4", *case, draw_key(), signs=signs))
    te = 1.0 - 2.0 * jnp.array([0xD7E8 >> i & 1 for i in range(16)])
    assert same_trees(run(te), step("te_nvfp4", *case, draw_key()))
    a, b = run(te), run(plus_minus(1, 16))
    assert same_trees(a[:2], b[:2]) and not same_bits(a[2], b[2]) and run._cache_size() == 1


@pytest.mark.parametrize("under", ["scan", "remat"])
def test_other_seeds_and_signs_recompile_nothing_under(under):
    x, _, dy = linear_case(128, 128, 128)
    weights = jnp.stack([random_matrix(128, 128, i, jnp.float32, 0.1) for i in range(2)])
    seeds, others = (jnp.stack([fj.draw_key(1, layer=i, step=step) for i in range(2)]) for step in range(2))
    traced = []

    @jax.jit
    def run(seeds, signs):
        traced.append(seeds)
        layer = lambda h, ws: (fj.dense(h, ws[0], recipe="te_nvfp4", seed=ws[1], signs=signs), None)

        def layers(x, weights):
            if under == "scan":
                return lax.scan(layer, x, (weights, seeds))[0]
            for ws in zip(weights, seeds):
                x, _ = jax.checkpoint(layer)(x, ws)
            return x

        y, backward = jax.vjp(layers, x, weights)
        return y, *backward(dy)

    first, seeded, signed = run(seeds, plus_minus(1, 16)), run(others, plus_minus(1, 16)), run(seeds, plus_minus(2, 16))
    assert len(traced) == 1 and run._cache_size() == 1
    assert [same_bits(a, b) for a, b in zip(first, seeded)] == [True, False, False]  # y, dx, dw
    assert [same_bits(a, b) for a, b in zip(first, signed)] == [True, True, False]
    for i in range(2):  # of each layer
        assert not same_bits(first[2][i], seeded[2][i]) and not same_bits(first[2][i], signed[2][i])


def test_signs_are_those_of_the_transform():
    """Of small integers, whose transform is exact, so that quantizing it without one gives the same."""
    x = jax.random.randint(jax.random.key(3), (64, 96), -8, 9).astype(jnp.float32)
    signs, h = np.asarray(plus_minus(4, 16)), np.array([[1.0]])
    while len(h) < 16:
        h = np.block([[h, h], [h, -h]])
    transformed = np.einsum("ij,bjc->bic", h / 4, np.asarray(x).reshape(4, 16, 96) * signs[:, None]).reshape(64, 96)
    want = fj.quantize(jnp.asarray(transformed, jnp.float32), recipe="te_nvfp4_no_rht", columnwise=True)
    amaxes = _sharded.amax(linear._under(jnp.asarray(signs), x, "te_nvfp4", "activation"), "te_nvfp4", "activation")
    _, got = linear._both_copies(x, amaxes, quantized.key_words(draw_key()), "te_nvfp4", "activation",
                                 jnp.asarray(signs))
    assert same_trees((got.codes, got.scales, got.amax), (want.codes, want.scales, want.amax))


def test_recipes_and_scopes():
    assert fj.recipes()[0] == "bf16" and len(fj.recipes()) == 15
    assert [r for r in fj.recipes() if not fj.is_stochastic(r)] == [
        "bf16", "te_nvfp4_no_sr", "mxfp8", "fp8_current", "fp8_delayed", "fp8_block"]
    assert not fj.quantizes("bf16", "mlp", 0, 4)
    assert fj.quantizes("te_nvfp4", "attention", 3, 4)
    assert not fj.quantizes("mlp_only", "attention", 0, 4) and fj.quantizes("mlp_only", "mlp", 0, 4)
    assert [fj.quantizes("paper", "mlp", i, 62) for i in (1, 2, 53, 54)] == [False, True, True, False]
    assert [fj.quantizes("nemotron3", "mlp", i, 20) for i in (16, 17)] == [True, False]
