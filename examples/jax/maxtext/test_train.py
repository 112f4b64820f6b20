# SPDX-License-Identifier: Apache-2.0
"""What MaxText's layers multiply by. Needs MaxText, and so is no part of `./run test`:

    python -m pytest examples/jax/maxtext"""

import types

import fourscale_jax as fj
import jax
import jax.numpy as jnp
import pytest

pytest.importorskip("maxtext")
import train  # noqa: E402
from maxtext.layers import moe  # noqa: E402

SEED = jax.random.key(3)


def normal(number, *shape):
    return jax.random.normal(jax.random.key(number), shape, jnp.bfloat16)


@pytest.mark.parametrize("equation, shape", [("EBCM,EMH -> EBCH", (3, 2, 40, 64)), ("BSM,EMH -> BSEH", (2, 40, 64)),
                                             ("BSEM,EMH->BSEH", (2, 40, 3, 64))])
def test_each_expert_is_a_dense_layer_with_its_own_draws(equation, shape):
    x, kernel = normal(1, *shape), normal(2, 3, 64, 32)
    of_x = equation.split(",")[0]
    key = jax.random.key(5, impl="unsafe_rbg")
    y = train.einsum_of_experts("te_nvfp4", lambda: key, equation, x, kernel)
    seed = train._seed(key, 0)
    for expert in range(3):
        mine = x if "E" not in of_x else jnp.take(x, expert, axis=of_x.index("E"))
        tokens = mine.reshape(-1, 64)
        padded = jnp.zeros((-len(tokens) % train.BLOCK + len(tokens), 64), x.dtype).at[:len(tokens)].set(tokens)
        want = fj.dense(padded, kernel[expert], recipe="te_nvfp4", seed=jax.random.fold_in(seed, expert))[:len(tokens)]
        got = jnp.take(y, expert, axis=equation.replace(" ", "").split("->")[1].index("E"))
        assert (got.reshape(-1, 32) == want).all()


@pytest.mark.parametrize("equation, shapes", [("BSM,BSEC -> EBCM", [(2, 8, 16), (2, 8, 3, 4)]),
                                              ("EBCM,BSEC -> BSM", [(3, 2, 4, 16), (2, 8, 3, 4)])])
def test_dispatch_and_combine_are_not_quantized(equation, shapes):
    a, b = (normal(number, *shape) for number, shape in enumerate(shapes))
    assert (train.einsum_of_experts("te_nvfp4", None, equation, a, b) == jnp.einsum(equation, a, b)).all()


def test_the_state_of_delayed_scaling_is_replaced_by_its_gradient():
    x, kernel = normal(1, 32, 64), normal(2, 64, 32)
    module, numbers = train.DotGeneral("fp8_delayed"), (((1,), (0,)), ((), ()))
    variables = module.init({"params": SEED, "aqt": SEED}, x, kernel, numbers)["_overwrite_with_gradient"]
    assert (variables["state"] == fj.delayed_state()).all()
    y = lambda v: module.apply({"_overwrite_with_gradient": v}, x, kernel, numbers, rngs={"aqt": SEED}).sum()
    state = jax.grad(y)(variables)["state"]
    amaxes = [jnp.abs(x).max(), jnp.abs(kernel).max(), 1]
    assert (state[:, 0] == jnp.array(amaxes, jnp.float32)).all() and (state[:, 1] == state[:, 0]).all()


def test_keys_of_maxtexts_generator_do_not_cancel():
    key = jax.random.key(0, impl="unsafe_rbg")
    words = lambda *numbers: tuple(jax.random.key_data(train._seed(*numbers)).tolist())
    folded = [key] + [jax.random.fold_in(key, number) for number in range(8)]
    folded += [jax.random.fold_in(folded[i + 1], j) for i in range(8) for j in range(i)]  # i, j and j, i are one key
    assert len({words(k, step) for k in folded for step in range(8)}) == 8 * len(folded)


def test_layers_of_other_names():
    named = types.SimpleNamespace(quantization="paper", first_num_dense_layers=3)
    assert [train.number_of(*layer, named) for layer in (("layers", 5), ("dense_layers", 2), ("moe_layers", 4))] == [
        5, 2, 7]
    with pytest.raises(ValueError, match='"paper" .* layers_outside_pipeline have no numbers'):
        train.number_of("layers_outside_pipeline", 0, named)


@pytest.mark.parametrize("recipe", fj.recipes())
def test_a_layer_knows_its_number(recipe):
    whole = train.Recipe(recipe)
    for layer in range(20):
        for kind, axes in (("mlp", ("embed", "mlp")), ("attention", ("embed", "q_heads", "kv"))):
            module = whole.of_layer(layer, 20).dot_general_cls(axes)()
            assert module.recipe == (recipe if fj.quantizes(recipe, kind, layer, 20) else "bf16")
    assert whole.dot_general_cls(("embed", None))().recipe == "bf16"  # a router


def test_experts_of_a_layer_in_bf16_are_in_bf16(monkeypatch):
    for owner, name in [(moe.RoutedMoE, "get_einsum"), (train.nnx_decoders.NNXDecoder, "_create_and_register_layer"),
                        (train.quantizations, "configure_quantization"), (train.pyconfig, "initialize"),
                        (train.train, "train_step")]:
        monkeypatch.setattr(owner, name, getattr(owner, name))  # to be put back
    train.install()
    x, kernel, draw = normal(1, 3, 2, 40, 64), normal(2, 3, 64, 32), lambda: SEED
    for layer, recipe in [(1, "bf16"), (2, "paper")]:
        of_layer = types.SimpleNamespace(quant=train.Recipe("paper", layer, 12), rngs=types.SimpleNamespace(aqt=draw))
        y = moe.RoutedMoE.get_einsum(of_layer, rhs_mesh_axes=("exp", "embed", "mlp"))("EBCM,EMH->EBCH", x, kernel)
        assert (y == train.einsum_of_experts(recipe, draw, "EBCM,EMH->EBCH", x, kernel)).all()
    assert (y != jnp.einsum("EBCM,EMH->EBCH", x, kernel)).any()


def config(quantization, **other):
    usual = dict(scan_layers=True, num_experts=1, sparse_matmul=True, num_decoder_layers=12, decoder_block="llama2",
                 gradient_accumulation_steps=1)
    return types.SimpleNamespace(quantization=quantization, **usual | other)


@pytest.mark.parametrize("refused, allowed, sentence", [
    (config("paper"), config("paper", scan_layers=False), "scan_layers=False"),
    (config("nemotron3"), config("nemotron3", scan_layers=False), "scan_layers=False"),
    (config("te_nvfp4", num_experts=4), config("te_nvfp4", num_experts=4, sparse_matmul=False), "sparse_matmul=False"),
    (config("fp8_delayed", num_experts=4, sparse_matmul=False), config("fp8_delayed"), "each expert"),
    (config("te_nvfp4", num_experts=4), config("bf16", num_experts=4), "quantize nothing"),
    (config("paper", scan_layers=False, num_decoder_layers=4), config("paper", scan_layers=False), "all 4 layers"),
    (config("nemotron3", scan_layers=False, decoder_block="gemma4_small"), config("te_nvfp4", scan_layers=False),
     "gemma4_small"),
    (config("te_nvfp4", gradient_accumulation_steps=2), config("mxfp8", gradient_accumulation_steps=2), "draw the same"),
    (config("fp8_delayed", gradient_accumulation_steps=2), config("fp8_current", gradient_accumulation_steps=2),
     "lose its state"),
])
def test_what_a_recipe_would_not_reach_is_refused(refused, allowed, sentence):
    with pytest.raises(ValueError, match=sentence):
        train.check(refused)
    train.check(allowed)
