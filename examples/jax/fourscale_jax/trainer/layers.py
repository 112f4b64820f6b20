# SPDX-License-Identifier: Apache-2.0
"""A linear layer by a recipe, on the devices of a mesh with the axes "data" and "tensor"; and where its draws are from.

All of this runs under shard_map, on the part of each tensor that a device has."""

import typing

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

import fourscale_jax

AXES = ("data", "tensor")
DENSE = "dense"  # the name of outputs, for remat


def wide(x):
    """x in float32, or in what is wider."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


class Draws(typing.NamedTuple):
    """What random bits follow from, besides the layer: uint32 scalars. They may be traced."""

    seed: jax.Array
    step: jax.Array
    microbatch: jax.Array

    def key(self, layer, of_tensor_rank):
        """The seed that dense() takes. Ranks count as microbatches, since rounding errors that were the same on each
        would not average out; but ranks of "tensor" that hold the same gradient need the same draws."""
        rank = lax.axis_index("data") * lax.axis_size("tensor")
        if of_tensor_rank:
            rank += lax.axis_index("tensor")
        ranks = lax.axis_size("data") * lax.axis_size("tensor")
        microbatch = self.microbatch * jnp.uint32(ranks) + rank.astype(jnp.uint32)
        return fourscale_jax.draw_key(self.seed, layer=layer, step=self.step, microbatch=microbatch)


@jax.custom_vjp
def to_all(x):
    """x, which all devices of "tensor" have; each uses it, so its gradient is the sum of theirs."""
    return x


to_all.defvjp(lambda x: (x, None), lambda _, dx: (lax.psum(dx, "tensor"),))


@jax.custom_vjp
def sum_of_all(x):
    """The sum of x over "tensor", which all then have."""
    return lax.psum(x, "tensor")


sum_of_all.defvjp(lambda x: (sum_of_all(x), None), lambda _, dy: (dy,))


class Dense(nn.Module):
    """y = x @ w by a recipe: x [..., in], w [in, parts, out] in float32, y [..., parts, out]. The columns of w are
    split over "tensor", or its rows; partial sums of rows are added in float32. The gradient of what is in the
    collection "delayed" is its next value."""

    in_: int  # on this device, as `out`
    out: int
    recipe: str
    number: int  # of the layer, for its draws
    how: dict  # of dense()'s other options
    parts: int = 1
    split: str = "columns"
    size: float = 1.0  # of initial weights, times 1 / sqrt(in)

    @nn.compact
    def __call__(self, x, draws):
        initial = nn.initializers.normal(self.size * self.in_**-0.5)
        w = self.param("w", initial, (self.in_, self.parts, self.out), jnp.float32)
        columns = self.split == "columns"
        x = to_all(x) if columns else x
        key = draws.key(self.number, columns)
        delayed = self.recipe == "fp8_delayed"
        state = self.variable("delayed", "state", fourscale_jax.delayed_state).value if delayed else None
        # Devices of "data" have one w, and those of "tensor" one x of columns, one dy of rows.
        shared = {"activation": "data" if columns else AXES, "weight": "tensor",
                  "gradient": AXES if columns else "data"}
        y = fourscale_jax.dense(x, w.reshape(self.in_, -1), recipe=self.recipe, seed=key, axis_name=shared, state=state,
                                **self.how)
        if not columns:
            y = sum_of_all(wide(y)).astype(y.dtype)
        return checkpoint_name(y, DENSE).reshape(*x.shape[:-1], self.parts, self.out)
