# SPDX-License-Identifier: Apache-2.0
"""AdamW with float32 masters under a WSD schedule, and dynamic loss scaling."""

import typing

import jax
import jax.numpy as jnp
import optax

GROWTH_STEPS = 2000


def schedule(config):
    """Warmup, stable, decay (WSD): linear up, flat, linear down to `final`. Of the step, from 0."""
    up, down = round(config.warmup * config.steps), round(config.decay * config.steps)
    peak = config.learning_rate
    return optax.join_schedules(
        [optax.linear_schedule(peak / (up + 1), peak, up), optax.constant_schedule(peak),
         optax.linear_schedule(peak, peak * config.final, down)], [up, config.steps - down])


def adamw(config):
    """Decays matrices only."""
    return optax.chain(
        optax.clip_by_global_norm(config.clip),
        optax.adamw(schedule(config), b1=0.9, b2=0.95, eps=1e-8, weight_decay=config.weight_decay,
                    mask=lambda params: jax.tree.map(lambda w: w.ndim > 1, params)))


class LossScale(typing.NamedTuple):
    """Powers of two, so that scaling alone rounds nothing."""

    value: jax.Array  # float32
    good_steps: jax.Array  # int32, since it changed

    @classmethod
    def initial(cls, config):
        return cls(jnp.float32(2.0**15 if config.loss_scaling else 1.0), jnp.int32(0))

    def after(self, finite, config):
        """Half after a gradient that is not finite, double after GROWTH_STEPS that were."""
        if not config.loss_scaling:
            return self
        good = jnp.where(finite, self.good_steps + 1, 0)
        grown = jnp.where(good == GROWTH_STEPS, jnp.minimum(self.value * 2, 2.0**24), self.value)
        return LossScale(jnp.where(finite, grown, jnp.maximum(self.value / 2, 1.0)), good % GROWTH_STEPS)
