# SPDX-License-Identifier: Apache-2.0
"""The loop: batches in, metrics out, checkpoints in between."""

import contextlib
import math
import time

import jax
from jax.sharding import NamedSharding, PartitionSpec

from .checkpoint import Checkpoints
from .data import Text
from .metrics import Log, multiplying_parameters, plot
from .step import initial_state, make_eval_step, make_mesh, make_train_step, put

PROFILED_STEPS = range(3, 6)  # after what is compiled


def train(config):
    """Trains, from the newest checkpoint in config.out if there is one. Returns the last state. ValueError for
    settings that do not fit; FloatingPointError if the loss is not finite and loss scaling is off."""
    if config.coordinator:
        jax.distributed.initialize(config.coordinator, config.processes, config.process)
    mesh, text = make_mesh(config), Text(config.text, config.sequence)
    checkpoints = Checkpoints(config)
    state = checkpoints.restore(initial_state(config, mesh))
    first = int(state.step)
    log = Log(config, first, multiplying_parameters(state.variables["params"]), jax.device_count())
    steps = range(first, min(config.stop or config.steps, config.steps))
    with contextlib.closing(checkpoints), contextlib.closing(log.bar), _Trace(config) as trace:
        state = _run(config, mesh, text, checkpoints, state, steps, log, trace)
    if config.out and config.process == 0:
        plot(config.out)
    return state


def batch(config, mesh, text, step):
    """The tokens of a step, spread over the mesh."""
    return put(text.batch(config.seed, step, config.batch), NamedSharding(mesh, PartitionSpec("data")))


def _run(config, mesh, text, checkpoints, state, steps, log, trace):
    train_step, evaluate = make_train_step(config.program, mesh), evaluation(config, mesh, text)
    pending, begun = None, time.perf_counter()
    for step in steps:
        trace.step(step)
        state, metrics = train_step(state, batch(config, mesh, text, step))
        begun = _report(config, log, pending, begun)  # of the step before, while this one runs
        pending = step, metrics
        done = step + 1
        saves, evaluates = (every and done % every == 0 for every in (config.save_every, config.eval_every))
        if saves or evaluates or done == steps.stop:
            _report(config, log, pending, begun)
            pending = None
            if evaluates or done == config.steps:
                log.evaluation(step, evaluate(state))
            if saves or config.save_every and done == config.steps:
                checkpoints.save(state)
            begun = time.perf_counter()
    return state


def _report(config, log, pending, begun):
    """Waits for a step, and logs it. Returns when it was done."""
    if pending is None:
        return begun
    step, metrics = pending
    metrics = {name: float(value) for name, value in jax.device_get(metrics).items()}
    now = time.perf_counter()
    log.step(step, now - begun, metrics)
    if not config.loss_scaling and not math.isfinite(metrics["loss"] + metrics["gradient_norm"]):
        raise FloatingPointError(f"step {step}: the loss is {metrics['loss']}, the gradient's norm "
                                 f"{metrics['gradient_norm']}")
    return now


def evaluation(config, mesh, text):
    """A function of the state: the mean loss of the sequences held out, in batches as in training."""
    eval_step, rows = make_eval_step(config.program, mesh), NamedSharding(mesh, PartitionSpec("data"))
    size = config.batch // config.microbatches
    tokens = text.validation(max(config.eval_sequences // size, 1) * size)

    def evaluate(state):
        parts = [put(tokens[at:at + size], rows) for at in range(0, len(tokens), size)]
        return sum(float(eval_step(state.variables, part, state.seed, state.step, 1.0)) for part in parts) / len(parts)

    return evaluate


class _Trace:
    """A profiler trace of PROFILED_STEPS, if the config names a folder."""

    def __init__(self, config):
        self.folder, self.runs = config.profile if config.process == 0 else "", False

    def step(self, step):
        if self.folder and (step in PROFILED_STEPS) != self.runs:
            self.runs = not self.runs
            jax.profiler.start_trace(self.folder) if self.runs else jax.profiler.stop_trace()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.step(PROFILED_STEPS.stop)
