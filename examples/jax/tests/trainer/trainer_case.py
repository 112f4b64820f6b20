# SPDX-License-Identifier: Apache-2.0
"""A model that is as small as recipes allow, and meshes of the first devices."""

import jax
import numpy as np
import pytest
from fourscale_jax.trainer import Config
from fourscale_jax.trainer.data import Text
from fourscale_jax.trainer.layers import AXES
from fourscale_jax.trainer.step import gradients, initial_state, put
from jax.sharding import Mesh, NamedSharding, PartitionSpec

TINY = dict(layers=1, width=128, heads=2, hidden=128, sequence=32, batch=4, steps=8)
RESUMED = dict(quantization="te_nvfp4", steps=24, save_every=8, loss_scaling=True, warmup=0.1, learning_rate=4e-3)


def tiny(**options):
    return Config(**(TINY | options))


def mesh_of(data, tensor):
    if jax.default_backend() == "gpu" and jax.device_count() < data * tensor:
        pytest.skip(f"{data * tensor} GPUs are needed")
    assert jax.device_count() >= data * tensor, "XLA_FLAGS was set too late, or to something else"
    return Mesh(np.array(jax.devices()[:data * tensor]).reshape(data, tensor), AXES)


def tokens_for(config, mesh, step=0):
    tokens = Text(config.text, config.sequence).batch(config.seed, step, config.batch)
    return put(tokens, NamedSharding(mesh, PartitionSpec("data")))


def loss_and_gradients(config, mesh, step=0):
    """As numpy arrays of whole tensors."""
    call = jax.jit(gradients(config, mesh))
    variables, tokens = initial_state(config, mesh).variables, tokens_for(config, mesh, step)
    return jax.tree.map(np.asarray, call(variables, tokens, np.uint32(config.seed), np.uint32(step), np.float32(1)))


def matrices(tree):
    return [w for w in jax.tree.leaves(tree) if w.ndim > 1]


def same_bits(a, b):
    return all(jax.tree.leaves(jax.tree.map(lambda x, y: np.asarray(x).tobytes() == np.asarray(y).tobytes(), a, b)))
