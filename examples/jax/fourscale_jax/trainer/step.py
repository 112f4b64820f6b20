# SPDX-License-Identifier: Apache-2.0
"""A training step on a mesh of data and tensor: gradients under shard_map, with every reduction written out; the
optimizer under jit."""

import functools
import typing

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .layers import AXES, Draws
from .model import Decoder, partition
from .optimizer import LossScale, adamw


class State(typing.NamedTuple):
    """All that a run goes on from. Draws and batches follow from `seed` and `step`."""

    seed: jax.Array  # uint32
    step: jax.Array  # uint32: steps that are done
    variables: typing.Any  # "params", float32 masters; "delayed", amaxes of the past, empty for most recipes
    optimizer: typing.Any
    loss_scale: LossScale


def make_mesh(config):
    """All devices of all processes as [data, tensor]. ValueError if they, or the batch, do not divide."""
    count = jax.device_count()
    if count % config.tensor:
        raise ValueError(f"{count} devices do not divide by tensor={config.tensor}")
    parts = count // config.tensor * config.microbatches
    if config.batch % parts:
        raise ValueError(f"a batch of {config.batch} does not divide by {parts} devices and microbatches")
    return Mesh(np.array(jax.devices()).reshape(-1, config.tensor), AXES)


def put(value, sharding):
    """An array that every process has, as one that is spread over the mesh."""
    return jax.make_array_from_callback(np.shape(value), sharding, lambda index: np.asarray(value)[index])


@functools.partial(jax.jit, static_argnums=0)
def initial_variables(config, key):
    """Whole, on one device."""
    alone = Mesh(np.array(jax.local_devices()[:1]).reshape(1, 1), AXES)
    tokens = jnp.zeros((config.batch // config.microbatches, config.sequence), jnp.int32)
    make = jax.shard_map(lambda key: Decoder(config, 1).init(key, tokens, Draws(*jnp.zeros(3, jnp.uint32))),
                         mesh=alone, in_specs=PartitionSpec(), out_specs=PartitionSpec(), check_vma=False)
    return {"delayed": {}} | make(key)


def initial_state(config, mesh):
    """The same for every mesh."""
    made = initial_variables(config.program, jax.random.key(config.seed))
    made = jax.tree_util.tree_map_with_path(lambda path, x: put(x, NamedSharding(mesh, partition(path, x))), made)
    optimizer = adamw(config).init(made["params"])
    state = State(jnp.uint32(config.seed), jnp.uint32(0), made, optimizer, LossScale.initial(config))
    replicated = NamedSharding(mesh, PartitionSpec())
    return jax.tree.map(lambda x: x if isinstance(x.sharding, NamedSharding) else put(x, replicated), state)


def mean_loss(config, variables, tokens, draws):
    """Nats per byte, of this device's tokens [sequences, length + 1]."""
    logits = Decoder(config, config.tensor).apply(variables, tokens[:, :-1], draws)
    return jnp.float32(optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean())


def _on_devices(mesh, function, outputs):
    """function(variables, tokens, seed, step, scale) under shard_map; outputs(specs of variables) are its out_specs."""
    def call(variables, tokens, seed, step, scale):
        specs = jax.tree_util.tree_map_with_path(partition, variables)
        return jax.shard_map(function, mesh=mesh, check_vma=False,
                             in_specs=(specs, PartitionSpec("data")) + 3 * (PartitionSpec(),),
                             out_specs=outputs(specs))(variables, tokens, seed, step, scale)
    return call


def gradients(config, mesh):
    """(variables, tokens, seed, step, scale) -> the loss, and in the shape of the variables: the gradient of "params"
    in float32, the next value of "delayed"."""
    def local(variables, tokens, seed, step, scale):
        def one(carry, part):
            loss, sums, delayed = carry
            draws = Draws(seed, step, part[0])
            now = {"params": variables["params"], "delayed": delayed}
            scaled, grads = jax.value_and_grad(lambda v: mean_loss(config, v, part[1], draws) * scale)(now)
            return (loss + scaled / scale, jax.tree.map(jnp.add, sums, grads["params"]), grads["delayed"]), None

        count = config.microbatches
        parts = jnp.arange(count, dtype=jnp.uint32), tokens.reshape(count, -1, tokens.shape[-1])
        none = jnp.float32(0), jax.tree.map(jnp.zeros_like, variables["params"]), variables["delayed"]
        (loss, sums, delayed), _ = lax.scan(one, none, parts)
        loss, grads = jax.tree.map(lambda x: lax.psum(x, "data") / (count * lax.axis_size("data")), (loss, sums))
        return loss, {"params": jax.tree.map(lambda g: g / scale, grads), "delayed": delayed}

    return _on_devices(mesh, local, lambda specs: (PartitionSpec(), specs))


@functools.cache
def make_train_step(config, mesh):
    """(state, tokens) -> state, metrics, for a Config.program. The state given is used up."""
    loss_and_gradients, optimizer = gradients(config, mesh), adamw(config)

    def step(state, tokens):
        params = state.variables["params"]
        loss, grads = loss_and_gradients(state.variables, tokens, state.seed, state.step, state.loss_scale.value)
        norm = optax.tree.norm(grads["params"])
        finite = jnp.isfinite(norm)
        updates, moments = optimizer.update(grads["params"], state.optimizer, params)
        new = grads | {"params": optax.apply_updates(params, updates)}, moments
        if config.loss_scaling:
            new = jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, (state.variables, state.optimizer))
        metrics = {"loss": loss, "gradient_norm": norm, "loss_scale": state.loss_scale.value}
        return State(state.seed, state.step + 1, *new,
                     state.loss_scale.after(finite, config)), metrics

    return jax.jit(step, donate_argnums=0)


@functools.cache
def make_eval_step(config, mesh):
    """(variables, tokens, seed, step, scale) -> the loss under the recipe's own forward, for a Config.program."""
    def local(variables, tokens, seed, step, scale):
        del scale
        draws = Draws(seed, step, jnp.uint32(0))
        return lax.pmean(mean_loss(config, variables, tokens, draws), "data")

    return jax.jit(_on_devices(mesh, local, lambda specs: PartitionSpec()))
