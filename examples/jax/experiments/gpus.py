# SPDX-License-Identifier: Apache-2.0
"""Experiment G, the curves: the same run on one device, on two that share the batch, and on two that share each matrix.

    python examples/jax/experiments/gpus.py --text english.txt.xz --out results
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import time

import jax
import numpy as np
from analysis import is_within, paired
from arms import EQUIVALENT, SIZES
from fourscale_jax.trainer import Config
from fourscale_jax.trainer.data import Text
from fourscale_jax.trainer.layers import AXES
from fourscale_jax.trainer.loop import batch
from fourscale_jax.trainer.step import initial_state, make_eval_step, make_train_step, put
from jax.sharding import Mesh, NamedSharding, PartitionSpec

STEPS, POINT, CHECKED = 400, 20, 100
# What is shared, as [data, tensor], and the parts that a device works on in turn. The second is the yardstick: all that
# differs from the first is the order of sums and which random bits are drawn.
PLACES = {"one": (1, 1, 1), "one, two microbatches": (1, 1, 2), "two, data": (2, 1, 1), "two, tensor": (1, 2, 1)}


def mesh_of(data, tensor):
    return Mesh(np.array(jax.devices()[:data * tensor]).reshape(data, tensor), AXES)


def check(config, mesh, state, text):
    """The forward draws nothing, so the loss of a state is that on one device, up to the order of sums; and what all
    devices have is the same on each."""
    step = int(state.step)
    alone = dataclasses.replace(config, tensor=1, microbatches=1)
    variables = jax.tree.map(np.asarray, state.variables)
    there = jax.tree.map(lambda x: put(x, NamedSharding(mesh_of(1, 1), PartitionSpec())), variables)
    draws = np.uint32(config.seed), np.uint32(step)
    losses = [float(make_eval_step(c.program, on)(of, batch(c, on, text, step), *draws, 1.0))
              for c, on, of in ((config, mesh, state.variables), (alone, mesh_of(1, 1), there))]
    bits = {}
    for x in jax.tree.leaves(state.variables):
        for shard in x.addressable_shards:
            bits.setdefault((id(x), str(shard.index)), set()).add(np.asarray(shard.data).tobytes())
    return {"step": step, "loss_here": losses[0], "loss_on_one": losses[1],
            "replicas_equal": all(len(of) == 1 for of in bits.values())}


def run(text, recipe, accumulate, data, tensor, microbatches, size):
    """Losses, checks, tokens a second between the last two checks."""
    options = SIZES[size] | dict(quantization=recipe, accumulate=accumulate, tensor=tensor, microbatches=microbatches)
    config = Config(**options | dict(steps=STEPS))
    mesh, losses, checks = mesh_of(data, tensor), [], []
    state, train_step = initial_state(config, mesh), make_train_step(config.program, mesh)
    for step in range(config.steps):
        if step % CHECKED == 0:
            checks.append(check(config, mesh, state, text))
            begun = time.perf_counter()
        state, metrics = train_step(state, batch(config, mesh, text, step))
        losses[-1:] = map(float, losses[-1:])  # waits for the step before
        losses.append(metrics["loss"])
    losses[-1:] = map(float, losses[-1:])
    rate = config.batch * config.sequence * CHECKED / (time.perf_counter() - begun)
    return losses, checks + [check(config, mesh, state, text)], rate


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", default="", help="bytes to learn; generated sentences if empty")
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = Text(arguments.text, SIZES[arguments.size]["sequence"])
    with (arguments.out / "gpus.jsonl").open("w") as file:
        for recipe, accumulate in (("bf16", "native"), ("te_nvfp4", "native")):
            points = {}
            for place, mesh in PLACES.items():
                losses, checks, rate = run(text, recipe, accumulate, *mesh, arguments.size)
                points[place] = [statistics.fmean(losses[i:i + POINT]) for i in range(STEPS // 2, STEPS, POINT)]
                gap = paired([b - a for a, b in zip(points["one"], points[place])], 0.90)
                row = {"recipe": recipe, "accumulate": accumulate, "place": place, "tokens_per_second": round(rate),
                       "gap": float(gap.mean), "half_width": float(gap.half), "verdict": is_within(gap, EQUIVALENT),
                       "checks": checks, "device": jax.devices()[0].device_kind,
                       "losses": [round(x, 4) for x in losses]}
                file.write(json.dumps(row) + "\n")
                file.flush()
                print({k: v for k, v in row.items() if k != "losses"}, flush=True)


if __name__ == "__main__":
    main()
