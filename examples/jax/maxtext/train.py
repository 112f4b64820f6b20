# SPDX-License-Identifier: Apache-2.0
"""MaxText's trainer with fourscale's recipes, and nothing in the package edited:

    python examples/jax/maxtext/train.py .../maxtext/configs/base.yml quantization=te_nvfp4 ...

quantization is one of fourscale_jax.recipes(); bf16 is the baseline, through the same modules and so with the same
initial weights. MaxText hands over kernels that it rounded to its `dtype`, so gradients of kernels get that type, too.
"""

import contextlib
import contextvars
import functools
import math
from typing import Optional

import fourscale_jax as fj
import jax
import jax.numpy as jnp
from absl import app
from flax import linen as nn
from maxtext.configs import pyconfig, types
from maxtext.layers import moe, nnx_decoders, quantizations
from maxtext.trainers.pre_train import train

BLOCK = 128  # tokens: a multiple of this is whole blocks under every recipe

_step = contextvars.ContextVar("step", default=0)  # of the step that is being traced


@contextlib.contextmanager
def _at_step(step):
    token = _step.set(step)
    try:
        yield
    finally:
        _step.reset(token)


def _seed(key, *numbers):
    """A key for dense(). MaxText's are of unsafe_rbg, whose fold_in is an exclusive or: two folds may cancel."""
    words = jax.random.key_data(key).reshape(-1)
    seed = jax.random.wrap_key_data(words[:2], impl="threefry2x32")
    for number in (*words[2:], *numbers):
        seed = jax.random.fold_in(seed, number)
    return seed


class DotGeneral(nn.Module):
    """x times a kernel over the last axes of x and the first ones of the kernel, by a recipe."""

    recipe: str

    @nn.compact
    def __call__(self, x, kernel, dimension_numbers, precision=None, **_):
        (of_x, of_kernel), batch = dimension_numbers
        n = len(of_x)
        wanted = (tuple(range(x.ndim - n, x.ndim)), tuple(range(n))), ((), ())
        if ((tuple(of_x), tuple(of_kernel)), tuple(map(tuple, batch))) != wanted:
            raise ValueError(f"a dense layer contracts {wanted}, the last axes of x, not {dimension_numbers}")
        in_ = math.prod(kernel.shape[:n])
        # Under scan_layers, MaxText's keys tell layers apart, but not steps.
        seed = _seed(self.make_rng("aqt"), _step.get())
        state = None
        if self.recipe == "fp8_delayed":  # MaxText puts the gradient of such a variable, the next state, in its place
            state = self.variable("_overwrite_with_gradient", "state", fj.delayed_state).value
        y = fj.dense(x.reshape(*x.shape[:-n], in_), kernel.reshape(in_, -1), recipe=self.recipe, seed=seed, state=state)
        return y.reshape(*x.shape[:-n], *kernel.shape[n:])


def einsum_of_experts(recipe, draw, equation, x, kernel):
    """x times the kernel of each expert, by a recipe: "EBCM,EMH -> EBCH" (tokens under a capacity) or "BSM,EMH -> BSEH"
    (each expert takes all tokens), and back. What has no such kernel, as dispatch and combine, is an einsum as ever.
    draw() is a key."""
    (of_x, of_kernel), of_y = (operands.split(",") for operands in equation.replace(" ", "").split("->"))
    of_y, expert = of_y[0], of_kernel[0]
    if len(of_kernel) != 3 or of_x[-1] != of_kernel[1] or of_y[-1] != of_kernel[2]:
        return jnp.einsum(equation, x, kernel)
    experts, in_, _ = kernel.shape
    routed = expert in of_x
    x = jnp.moveaxis(x, of_x.index(expert), 0) if routed else x[None]
    tokens = x.shape[1:-1]
    x = x.reshape(x.shape[0], -1, in_)
    count = x.shape[1]
    x = jnp.pad(x, ((0, 0), (0, -count % BLOCK), (0, 0)))  # zeros change no amax and no sum
    seed = _seed(draw(), _step.get())
    seeds = jax.vmap(lambda number: jax.random.fold_in(seed, number))(jnp.arange(experts))
    y = jax.vmap(lambda of_expert, w, key: fj.dense(of_expert, w, recipe=recipe, seed=key),
                 in_axes=(0 if routed else None, 0, 0))(x if routed else x[0], kernel, seeds)
    return jnp.moveaxis(y[:, :count].reshape(experts, *tokens, -1), 0, of_y.index(expert))


class Recipe(quantizations.Quantization):
    """What MaxText's dense layers ask for their products."""

    quant_mode = "train"

    def __init__(self, recipe, layer=0, layers=1):
        self.recipe, self.layer, self.layers = recipe, layer, layers

    def of_layer(self, layer, layers):
        return Recipe(self.recipe, layer, layers)

    def dot_general_cls(self, mesh_axes=()):
        if mesh_axes[1:] == (None,):  # the router of experts
            return functools.partial(DotGeneral, "bf16")
        return functools.partial(DotGeneral, self.recipe_of("mlp" if "mlp" in mesh_axes else "attention"))

    def recipe_of(self, kind):
        return self.recipe if fj.quantizes(self.recipe, kind, self.layer, self.layers) else "bf16"

    def get_block_size(self):
        """The tokens that MaxText initializes layers with."""
        return BLOCK

    def __hash__(self):
        return hash((self.recipe, self.layer, self.layers))

    def __eq__(self, other):
        return isinstance(other, Recipe) and vars(self) == vars(other)


def _goes_by_layer(recipe):
    return any(len({fj.quantizes(recipe, kind, layer, 100) for layer in range(100)}) > 1
               for kind in ("attention", "mlp"))


def number_of(name, number, config):
    """Of a layer that MaxText calls name_number. ValueError where we do not know what MaxText means."""
    known = {"layers": 0, "dense_layers": 0, "moe_layers": config.first_num_dense_layers}
    if name not in known:
        raise ValueError(f'"{config.quantization}" keeps some layers in bf16, and {name} have no numbers here')
    return known[name] + number


def check(config):
    """Raises ValueError where a recipe would not be followed everywhere."""
    recipe = config.quantization
    if recipe == "bf16":
        return
    fj.check_layers(recipe, config.num_decoder_layers)
    if _goes_by_layer(recipe) and (config.scan_layers or config.decoder_block == "gemma4_small"):
        raise ValueError(f'"{recipe}" keeps some layers in bf16, and scanned layers have no numbers, nor have those of '
                         "gemma4_small: say scan_layers=False")
    if config.gradient_accumulation_steps > 1:
        if recipe == "fp8_delayed":
            raise ValueError('"fp8_delayed" would lose its state: say gradient_accumulation_steps=1')
        if fj.is_stochastic(recipe):
            raise ValueError(f'"{recipe}" draws random bits, and parts of a batch would all draw the same: '
                             "say gradient_accumulation_steps=1")
    if config.num_experts > 1:
        if config.sparse_matmul:
            raise ValueError("sparse_matmul multiplies experts by kernels of its own, which quantize nothing here: "
                             "say sparse_matmul=False")
        if recipe == "fp8_delayed":
            raise ValueError('"fp8_delayed" needs a state for each expert, which is not kept here')


class Config(types.MaxTextConfig):
    """MaxText's configuration with our names."""

    quantization: Optional[str] = ""


def install():
    """Puts all of this where train.main() looks for it."""
    configured, initialize, train_step = quantizations.configure_quantization, pyconfig.initialize, train.train_step
    create_layer, get_einsum = nnx_decoders.NNXDecoder._create_and_register_layer, moe.RoutedMoE.get_einsum

    def configure_quantization(config, quant_mode_str="train"):
        if config.quantization in fj.recipes():
            check(config)
            return Recipe(config.quantization)
        names = [name.value for name in types.QuantizationType if name.value]
        if config.quantization and config.quantization not in names:
            raise ValueError(f"there is no quantization {config.quantization}; there are {', '.join(fj.recipes())}, "
                             f"and MaxText's {', '.join(names)}")
        return configured(config, quant_mode_str)

    @functools.wraps(train_step)
    def step_with_its_number(model, config, state_mesh_shardings, params_shardings, state, *arguments):
        with _at_step(state.optimizer.step[...]):
            return train_step(model, config, state_mesh_shardings, params_shardings, state, *arguments)

    @functools.wraps(create_layer)
    def layer_with_its_number(decoder, layer_class, rngs, name, number, **arguments):
        quant, config = decoder.quant, decoder.config
        if isinstance(quant, Recipe) and _goes_by_layer(quant.recipe):
            decoder.quant = quant.of_layer(number_of(name, number, config), config.num_decoder_layers)
        create_layer(decoder, layer_class, rngs, name, number, **arguments)
        decoder.quant = quant

    @functools.wraps(get_einsum)
    def einsum_by_recipe(layer, *arguments, **named):  # MaxText's keeps a module, which only scanned layers can
        if not isinstance(layer.quant, Recipe):
            return get_einsum(layer, *arguments, **named)
        recipe = layer.quant.recipe_of("mlp")
        return lambda *operands, **_: einsum_of_experts(recipe, layer.rngs.aqt, *operands)

    moe.RoutedMoE.get_einsum = einsum_by_recipe
    nnx_decoders.NNXDecoder._create_and_register_layer = layer_with_its_number
    quantizations.configure_quantization = configure_quantization
    pyconfig.initialize = functools.partial(initialize, config_class=Config)
    train.train_step = step_with_its_number


if __name__ == "__main__":
    install()
    app.run(train.main)
