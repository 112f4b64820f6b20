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
from analysis import is_within, unpaired, write_csv
from arms import EQUIVALENT, SIZES
from fourscale_jax.trainer import Config
from fourscale_jax.trainer.data import Text
from fourscale_jax.trainer.layers import AXES
from fourscale_jax.trainer.loop import batch
from fourscale_jax.trainer.step import initial_state, make_eval_step, make_train_step, put
from jax.sharding import Mesh, NamedSharding, PartitionSpec

CHECKED = 100  # after as many steps
# What is shared, as [data, tensor], and the parts that a device works on in turn. Two microbatches are the yardstick: they
# differ from one by the order of sums, and by which random bits are drawn.
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


def run(config, data, text, draw, with_checks):
    """From the same weights on the same batches, by draw number `draw`. Losses, checks, tokens a second between the
    last two checks."""
    mesh, losses, checks = mesh_of(data, config.tensor), [], []
    state, train_step = initial_state(config, mesh), make_train_step(config.program, mesh)
    state = state._replace(seed=put(np.uint32(config.seed + draw), NamedSharding(mesh, PartitionSpec())))
    for step in range(config.steps):
        if step % CHECKED == 0:
            checks += [check(config, mesh, state, text)] if with_checks else []
            begun = time.perf_counter()
        state, metrics = train_step(state, batch(config, mesh, text, step))
        losses[-1:] = map(float, losses[-1:])  # waits for the step before
        losses.append(metrics["loss"])
    losses[-1:] = map(float, losses[-1:])
    rate = config.batch * config.sequence * CHECKED / (time.perf_counter() - begun)
    return losses, checks + ([check(config, mesh, state, text)] if with_checks else []), rate


def experiment(recipe, draws, places, size, steps, text):
    """Rows, a run each; its loss is the mean of the last fifth of its steps."""
    for place in places:
        data, tensor, microbatches = PLACES[place]
        config = Config(**SIZES[size] | dict(quantization=recipe, accumulate="native", tensor=tensor,
                                             microbatches=microbatches, steps=steps))
        for draw in range(draws):
            losses, checks, rate = run(config, data, text, draw, draw == 0)
            yield {"recipe": recipe, "place": place, "draw": draw, "tokens_per_second": round(rate), "checks": checks,
                   "loss": statistics.fmean(losses[-(steps // 5):]), "device": jax.devices()[0].device_kind,
                   "losses": [round(x, 4) for x in losses]}


def summary(rows):
    """Of a recipe's runs in each place: the median of tokens per second, and that in percent of as many devices by
    themselves; the mean loss, and its difference to one device with 90 % intervals: of the means of independent runs,
    or of a single pair without an interval."""
    of = {}
    for row in rows:
        of.setdefault((row["recipe"], row["place"]), []).append(row)
    for (recipe, place), runs in of.items():
        losses, alone = ([row["loss"] for row in x] for x in (runs, of[recipe, "one"]))
        rate, rate_alone = (statistics.median(row["tokens_per_second"] for row in x) for x in (runs, of[recipe, "one"]))
        devices = PLACES[place][0] * PLACES[place][1]
        row = {"recipe": recipe, "place": place, "runs": len(runs), "tokens_per_second": rate,
               "efficiency_percent": round(100 * rate / (devices * rate_alone), 1), "loss": statistics.fmean(losses)}
        if place != "one":
            gap = unpaired(losses, alone, 0.90)
            row |= {"gap": gap.mean, "half_width": gap.half, "verdict": is_within(gap, EQUIVALENT)}
        yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", default="", help="bytes to learn; generated sentences if empty")
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--draws", type=int, default=8, help="runs of te_nvfp4 in each place, with other random bits")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = Text(arguments.text, SIZES[arguments.size]["sequence"])
    rows = []
    with (arguments.out / "gpus.jsonl").open("w") as file:
        for recipe, draws, places in (("bf16", 1, PLACES),
                                      ("te_nvfp4", arguments.draws, ("one", "two, data", "two, tensor"))):
            for row in experiment(recipe, draws, places, arguments.size, arguments.steps, text):
                rows.append(row)
                file.write(json.dumps(row) + "\n")
                file.flush()
                print({k: v for k, v in row.items() if k != "losses"}, flush=True)
    places = list(summary(rows))
    write_csv(arguments.out / "gpus.csv", places)
    for row in places:
        print(row)


if __name__ == "__main__":
    main()
