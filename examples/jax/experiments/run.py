# SPDX-License-Identifier: Apache-2.0
"""Trains the arms of experiments, see arms.py and plan.md: all arms of a seed start from the same weights and read the
same batches.

    python examples/jax/experiments/run.py --size xs --seeds 5 --text english.txt.xz --out results/xs A B

A line of results.jsonl is a finished run; the same command goes on after the last one. Several processes, one for each
GPU, can share a folder: each takes what no other has. --seconds ends before a run that would not be done by then.
"""

import argparse
import fcntl
import json
import pathlib
import statistics
import time

import jax
from arms import ARMS, EXPERIMENTS, SIZES
from fourscale_jax.trainer import Config
from fourscale_jax.trainer.data import Text
from fourscale_jax.trainer.loop import batch, evaluation
from fourscale_jax.trainer.metrics import read
from fourscale_jax.trainer.step import initial_state, make_mesh, make_train_step

CURVE = 50  # steps in a point of the curve


def config_of(arm, size, seed):
    options = {"eval_sequences": 4096} | SIZES[size] | arm.options
    return Config(**options | dict(steps=round(options["steps"] * arm.length), seed=seed))


class Trainer:
    """Runs of one size, without files; a run can go on from where another was."""

    def __init__(self, size, text):
        self.size, self.texts, self.path = size, {}, text

    def _text(self, config):
        if config.sequence not in self.texts:
            self.texts[config.sequence] = Text(self.path, config.sequence)
        return self.texts[config.sequence]

    def run(self, arm, seed, state=None, stop=None):
        """Trains on to step `stop`, or to the end. The state, the losses by step on the device."""
        config = config_of(arm, self.size, seed)
        mesh, text = make_mesh(config), self._text(config)
        train_step = make_train_step(config.program, mesh)
        if state is None:
            state = initial_state(config, mesh)
        else:  # which the step uses up; what the arm does not have, or the trunk has not, is its own
            state = jax.tree.map(jax.numpy.copy, state)
        losses = []
        for step in range(int(state.step), stop or config.steps):
            state, metrics = train_step(state, batch(config, mesh, text, step))
            losses.append(metrics["loss"])
        return state, losses

    def validation(self, arm, seed, state):
        config = config_of(arm, self.size, seed)
        mesh = make_mesh(config)
        return evaluation(config, mesh, self._text(config))(state)


def records(folder):
    """Of all finished runs."""
    return [r for path in sorted(pathlib.Path(folder).glob("results*.jsonl")) for r in read(path)]


def summary(losses, steps):
    """Nats per byte: the mean of the last fifth of the schedule, on batches that all arms share, and the curve."""
    losses = [float(x) for x in losses]
    points = [statistics.fmean(losses[i:i + CURVE]) for i in range(0, len(losses), CURVE)]
    return {"train": statistics.fmean(losses[-(steps // 5):]), "curve": [round(x, 4) for x in points]}


def work(arguments):
    """(trunk or arm, arms, seed) whose runs belong together: a trunk with its branches. By arm, so that a process
    compiles few of them."""
    wanted = list(dict.fromkeys(name for e in arguments.experiments for name in EXPERIMENTS[e].arms
                                if name in (arguments.only or ARMS)))
    trunks = list(dict.fromkeys(ARMS[name].trunk or name for name in wanted))
    all_seeds, repeated = range(arguments.first_seed, arguments.first_seed + arguments.seeds), arguments.first_seed > 0
    for seeds in (all_seeds[:2], all_seeds[2:]):
        for trunk in trunks:
            arms = [name for name in wanted if trunk in (name, ARMS[name].trunk)]
            for seed in seeds:
                yield trunk, [name for name in arms if repeated or seed < ARMS[name].seeds], seed


def train_all(arguments):
    end = time.monotonic() + arguments.seconds
    if sizes := {r["size"] for r in records(arguments.out)} - {arguments.size}:
        raise SystemExit(f"{arguments.out} has runs of size {', '.join(sizes)}: each size needs a folder of its own")
    trainer, taken = Trainer(arguments.size, arguments.text), arguments.out / "taken"
    taken.mkdir(parents=True, exist_ok=True)
    slowest = {}
    for trunk, arms, seed in work(arguments):
        with (taken / f"{trunk}_{seed}").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # which ends with the process, too
            except BlockingIOError:
                continue
            done = {(r["arm"], r["seed"]) for r in records(arguments.out)}
            missing = [a for a in arms if (a, seed) not in done]
            begun = time.monotonic()
            if not missing or begun + slowest.get(trunk, 0) > end:
                continue
            for record in run_together(trainer, trunk, missing, seed):
                with (arguments.out / f"results_{arguments.process}.jsonl").open("a") as file:
                    file.write(json.dumps(record) + "\n")
                print({k: v for k, v in record.items() if k != "curve"}, flush=True)
            slowest[trunk] = max(slowest.get(trunk, 0), time.monotonic() - begun)


def run_together(trainer, trunk, arms, seed):
    """Records of a trunk's run and of the runs that branch from it."""
    config, branches = config_of(ARMS[trunk], trainer.size, seed), [a for a in arms if a != trunk]
    state, losses = None, []
    for at in sorted({round(config.steps * ARMS[a].at) for a in branches}):
        state, more = trainer.run(ARMS[trunk], seed, state, at)
        losses += more
        for name in branches:
            if round(config.steps * ARMS[name].at) == at:
                yield finish(trainer, name, seed, state, losses)
    if trunk in arms:
        yield finish(trainer, trunk, seed, state, losses)


def finish(trainer, name, seed, state, before):
    """Runs an arm to its end; the record of it."""
    arm, begun = ARMS[name], time.monotonic()
    state, losses = trainer.run(arm, seed, state)
    validation, steps = trainer.validation(arm, seed, state), config_of(arm, trainer.size, seed).steps
    seconds = (time.monotonic() - begun) / len(losses)
    return {"arm": name, "seed": seed, "size": trainer.size, "steps": steps, "device": jax.devices()[0].device_kind,
            "validation": validation, "seconds_per_step": round(seconds, 5)} | summary(before + losses, steps)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="+", choices=EXPERIMENTS)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0, help="above 0, all arms have all seeds: a repetition")
    parser.add_argument("--only", nargs="+", choices=ARMS, metavar="ARM", help="of the experiments' arms, these")
    parser.add_argument("--text", default="", help="bytes to learn; generated sentences if empty")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--process", default="0", help="a name for this process's results")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    train_all(parser.parse_args(arguments))


if __name__ == "__main__":
    main()
