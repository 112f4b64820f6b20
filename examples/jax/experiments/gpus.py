# SPDX-License-Identifier: Apache-2.0
"""Experiment G, the curves: the same run on one device, on two that share the batch, and on two that share each matrix.

    python examples/jax/experiments/gpus.py --text english.txt.xz --out results
"""

import argparse
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
from fourscale_jax.trainer.step import initial_state, make_train_step
from jax.sharding import Mesh

STEPS, POINT = 400, 20
# What is shared, as [data, tensor], and the parts that a device works on in turn. The second is the yardstick: all that
# differs from the first is the order of sums and which random bits are drawn.
PLACES = {"one": (1, 1, 1), "one, two microbatches": (1, 1, 2), "two, data": (2, 1, 1), "two, tensor": (1, 2, 1)}


def run(text, recipe, accumulate, data, tensor, microbatches, size):
    """Losses by point, tokens a second of the last half."""
    options = SIZES[size] | dict(quantization=recipe, accumulate=accumulate, tensor=tensor, microbatches=microbatches)
    config = Config(**options | dict(steps=STEPS if size != "tiny" else 40))
    mesh = Mesh(np.array(jax.devices()[:data * tensor]).reshape(data, tensor), AXES)
    state, train_step, losses = initial_state(config, mesh), make_train_step(config.program, mesh), []
    for step in range(config.steps):
        if step == config.steps // 2:
            begun = jax.block_until_ready(state) and time.perf_counter()
        state, metrics = train_step(state, batch(config, mesh, text, step))
        losses[-1:] = map(float, losses[-1:])  # waits for the step before
        losses.append(metrics["loss"])
    losses = [float(x) for x in losses]
    rate = config.batch * config.sequence * (config.steps // 2) / (time.perf_counter() - begun)
    return [statistics.fmean(losses[i:i + POINT]) for i in range(0, config.steps, POINT)], rate


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
            curves = {}
            for place, mesh in PLACES.items():
                curves[place], rate = run(text, recipe, accumulate, *mesh, arguments.size)
                half = len(curves[place]) // 2
                gap = paired([b - a for a, b in zip(curves["one"][half:], curves[place][half:])], 0.90)
                row = {"recipe": recipe, "accumulate": accumulate, "place": place, "tokens_per_second": round(rate),
                       "gap": gap.mean, "half_width": gap.half, "verdict": is_within(gap, EQUIVALENT),
                       "device": jax.devices()[0].device_kind, "curve": [round(x, 4) for x in curves[place]]}
                file.write(json.dumps(row) + "\n")
                file.flush()
                print({k: v for k, v in row.items() if k != "curve"}, flush=True)


if __name__ == "__main__":
    main()
