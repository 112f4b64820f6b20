# SPDX-License-Identifier: Apache-2.0
"""The model: a decoder-only transformer on bytes, with RMSNorm, RoPE and SwiGLU. Linear layers follow the recipe;
embedding, norms, attention itself and logits are never quantized."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

import fourscale_jax

from .config import PROJECTIONS, Config
from .layers import DENSE, Dense, wide

SYMBOLS = 256
ACTIVATIONS = jnp.bfloat16


@jax.custom_vjp
def look_up(table, tokens):
    """table[tokens]. Its gradient is a GEMM that accumulates in float32: a scatter would add in the type of the
    activations, and on a GPU in no fixed order."""
    return table.astype(ACTIVATIONS)[tokens]


def _look_up_backward(tokens, dx):
    chosen = jax.nn.one_hot(tokens.reshape(-1), SYMBOLS, dtype=dx.dtype)
    gradient = jnp.dot(chosen.T, dx.reshape(-1, dx.shape[-1]), preferred_element_type=wide(dx).dtype)
    return gradient.astype(jnp.float32), None


look_up.defvjp(lambda table, tokens: (look_up(table, tokens), tokens), _look_up_backward)


def rotate(x):
    """RoPE on x [batch, sequence, heads, size]."""
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[1])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
    a, b = jnp.split(wide(x), 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1).astype(x.dtype)


class Norm(nn.Module):
    """RMSNorm, computed in float32."""

    @nn.compact
    def __call__(self, x):
        scale = self.param("scale", nn.initializers.ones, x.shape[-1:], jnp.float32)
        y = wide(x)
        return (y * jax.lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1e-6) * scale).astype(x.dtype)


class Block(nn.Module):
    config: Config
    layer: int
    shards: int  # devices that share its matrices

    def dense(self, projection, in_, out, **options):
        number = self.layer * len(PROJECTIONS) + PROJECTIONS.index(projection)
        how = dict(accumulate=self.config.accumulate, gemms=tuple(self.config.gemms.split(",")))
        return Dense(in_, out, self.config.recipe(self.layer, projection), number, how, name=projection, **options)

    @nn.compact
    def __call__(self, x, draws):
        c = self.config
        inner, hidden = c.width // self.shards, c.hidden // self.shards
        back = dict(split="rows", size=(2 * c.layers) ** -0.5)  # to the residual stream
        qkv = self.dense("qkv", c.width, inner, parts=3)(Norm(name="before_attention")(x), draws)
        q, k, v = jnp.moveaxis(qkv.reshape(*x.shape[:2], 3, c.heads // self.shards, -1), 2, 0)
        y = jax.nn.dot_product_attention(rotate(q), rotate(k), v, is_causal=True, implementation=c.attention)
        x += self.dense("out", inner, c.width, **back)(y.reshape(*x.shape[:2], inner), draws)[..., 0, :]
        gate_up = self.dense("gate_up", c.width, hidden, parts=2)(Norm(name="before_mlp")(x), draws)
        y = nn.silu(gate_up[..., 0, :]) * gate_up[..., 1, :]
        return x + self.dense("down", hidden, c.width, **back)(y, draws)[..., 0, :]


class Decoder(nn.Module):
    """Logits float32 [batch, sequence, 256] of tokens [batch, sequence]."""

    config: Config
    shards: int

    @nn.compact
    def __call__(self, tokens, draws):
        c = self.config
        embedding = self.param("embedding", nn.initializers.normal(1.0), (SYMBOLS, c.width), jnp.float32)
        x = look_up(embedding, tokens)
        saved = jax.checkpoint_policies.save_only_these_names(DENSE, fourscale_jax.SAVED)
        block = nn.remat(Block, policy=saved) if c.remat else Block
        for layer in range(c.layers):
            x = block(c, layer, self.shards, name=f"layer_{layer}")(x, draws)
        head = self.param("head", nn.initializers.normal(c.width**-0.5), (c.width, SYMBOLS), jnp.float32)
        x = Norm(name="last")(x)
        return jnp.dot(x, head.astype(x.dtype), preferred_element_type=wide(x).dtype)


def partition(path, _):
    """How a variable is split over the mesh."""
    names = [key.key for key in path]
    if "delayed" in names:
        return PartitionSpec()
    if "qkv" in names or "gate_up" in names:
        return PartitionSpec(None, None, "tensor")
    return PartitionSpec("tensor") if "out" in names or "down" in names else PartitionSpec()
