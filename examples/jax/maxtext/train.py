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
from maxtext.layers import quantizations
from maxtext.trainers.pre_train import train

_step = contextvars.ContextVar("step", default=0)  # of the step that is being traced


@contextlib.contextmanager
def _at_step(step):
    token = _step.set(step)
    try:
        yield
    finally:
        _step.reset(token)


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
        seed = jax.random.fold_in(self.make_rng("aqt"), _step.get())
        y = fj.dense(x.reshape(*x.shape[:-n], in_), kernel.reshape(in_, -1), recipe=self.recipe, seed=seed)
        return y.reshape(*x.shape[:-n], *kernel.shape[n:])


class Recipe(quantizations.Quantization):
    """What MaxText's dense layers ask for their products."""

    quant_mode = "train"

    def __init__(self, recipe):
        if recipe in ("paper", "nemotron3"):
            raise ValueError(f'"{recipe}" keeps some layers in bf16, but MaxText does not tell a layer its number')
        if recipe == "fp8_delayed":
            raise ValueError('"fp8_delayed" needs a state for each layer, which is not kept here')
        self.recipe = recipe

    def dot_general_cls(self, mesh_axes=()):
        kind = "mlp" if "mlp" in mesh_axes else "attention"
        return functools.partial(DotGeneral, self.recipe if fj.quantizes(self.recipe, kind, 0, 1) else "bf16")

    def get_block_size(self):
        """The tokens that MaxText initializes layers with."""
        return 128

    def __hash__(self):
        return hash(self.recipe)

    def __eq__(self, other):
        return isinstance(other, Recipe) and self.recipe == other.recipe


class Config(types.MaxTextConfig):
    """MaxText's configuration with our names."""

    quantization: Optional[str] = ""


def install():
    """Puts all of this where train.main() looks for it."""
    configured, initialize, train_step = quantizations.configure_quantization, pyconfig.initialize, train.train_step

    def configure_quantization(config, quant_mode_str="train"):
        if config.quantization in fj.recipes():
            return Recipe(config.quantization)
        return configured(config, quant_mode_str)

    @functools.wraps(train_step)
    def step_with_its_number(model, config, state_mesh_shardings, params_shardings, state, *arguments):
        with _at_step(state.optimizer.step[...]):
            return train_step(model, config, state_mesh_shardings, params_shardings, state, *arguments)

    quantizations.configure_quantization = configure_quantization
    pyconfig.initialize = functools.partial(initialize, config_class=Config)
    train.train_step = step_with_its_number


if __name__ == "__main__":
    install()
    app.run(train.main)
