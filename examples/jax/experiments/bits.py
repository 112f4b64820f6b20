# SPDX-License-Identifier: Apache-2.0
"""Experiment G, the bits: every GEMM of 20 training steps with its operands as they were, multiplied again by the CPU
and by two devices that share the rows; and a run that is interrupted and goes on in a new process.

    XLA_FLAGS=--xla_gpu_deterministic_ops=true python examples/jax/experiments/bits.py --out results
"""

import argparse
import hashlib
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import fourscale_jax
import jax
import numpy as np
from analysis import write_csv
from fourscale_jax import linear
from fourscale_jax.trainer import Config
from fourscale_jax.trainer.checkpoint import Checkpoints
from fourscale_jax.trainer.data import Text
from fourscale_jax.trainer.layers import AXES
from fourscale_jax.trainer.loop import batch
from fourscale_jax.trainer.step import initial_state, make_train_step
from jax.sharding import Mesh, NamedSharding, PartitionSpec

STEPS, SAVED, INTERRUPTED = 20, 10, 13
MODEL = dict(quantization="te_nvfp4", layers=2, width=256, hidden=640, sequence=128, batch=16, steps=STEPS)


def hash_of(*arrays):
    return hashlib.sha256(b"".join(np.ascontiguousarray(x).tobytes() for x in arrays)).hexdigest()[:16]


class Recorder:
    """Keeps the operands and the product of each GEMM, by its number in the traced program."""

    def __init__(self):
        self.seen, self.numbers, self.real = {}, itertools.count(), linear.scaled_matmul
        linear.scaled_matmul = self

    def __call__(self, a, b, dtype=jax.numpy.bfloat16, **options):
        number, d = next(self.numbers), self.real(a, b, dtype, **options)

        def keep(d, *operands):
            self.seen[number] = operands, np.asarray(d), (a.copy, b.copy)

        jax.debug.callback(keep, d, a.codes, a.scales, a.amaxes, b.codes, b.scales, b.amaxes)
        return d


def again(placed, operands, copies, dtype):
    """The product of recorded operands; `placed` says where those of A and of B lie."""
    a, b = (fourscale_jax.Quantized(*jax.device_put(operands[3 * i:3 * i + 3], place), copy)
            for i, (place, copy) in enumerate(zip(placed, copies)))
    return np.asarray(jax.jit(fourscale_jax.scaled_matmul, static_argnums=2)(a, b, dtype))


def train(folder, stop, text, check):
    """Runs from the newest checkpoint to step `stop`. For each step hashes of operands, and of products by machine."""
    config, recorder = Config(out=folder, text=text, save_every=SAVED, **MODEL), Recorder()
    mesh, text = Mesh(np.array(jax.devices()[:1]).reshape(1, 1), AXES), Text(text, config.sequence)
    checkpoints = Checkpoints(config)
    state = checkpoints.restore(initial_state(config, mesh))
    train_step = make_train_step(config.program, mesh)
    jax.effects_barrier()
    recorder.seen.clear()  # of what flax multiplied to find shapes
    rows = []
    for step in range(int(state.step), stop):
        state, metrics = train_step(state, batch(config, mesh, text, step))
        jax.block_until_ready(state)
        jax.effects_barrier()
        gemms = [recorder.seen[number] for number in sorted(recorder.seen)]
        row = {"step": step, "loss": float(metrics["loss"]), "gemms": len(gemms),
               "operands": hash_of(*(x for operands, _, _ in gemms for x in operands)),
               jax.devices()[0].device_kind: hash_of(*(d for _, d, _ in gemms))}
        for machine, placed in machines() if check else ():
            row[machine] = hash_of(*(again(placed, operands, copies, d.dtype) for operands, d, copies in gemms))
        rows.append(row)
        recorder.seen.clear()
        if step + 1 == SAVED:
            checkpoints.save(state)
    checkpoints.close()
    return rows


def machines():
    """The CPU, and two devices that share the rows of A and have all of B."""
    if jax.default_backend() != "cpu":
        yield "cpu", 2 * (jax.devices("cpu")[0],)
    if jax.device_count() > 1:
        mesh = Mesh(np.array(jax.devices()[:2]), ("rows",))
        whole, by_rows = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((), ("rows",)))
        yield "two devices", ((by_rows, by_rows, whole), whole)


def in_new_process(folder, stop, text, check):
    command = [sys.executable, __file__, "--child", folder, str(stop), str(int(check)), "--text", text, "--out", "."]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", default="", help="bytes to learn; generated sentences if empty")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        folder, stop, check = arguments.child
        return print(json.dumps(train(folder, int(stop), arguments.text, check == "1")))
    with tempfile.TemporaryDirectory() as folder:
        whole = in_new_process(f"{folder}/whole", STEPS, arguments.text, True)
        first = in_new_process(f"{folder}/interrupted", INTERRUPTED, arguments.text, False)
        second = in_new_process(f"{folder}/interrupted", STEPS, arguments.text, False)
    for row, resumed in zip(whole, first[:SAVED] + second, strict=True):
        row["resumed"] = resumed["operands"] == row["operands"] and resumed["loss"] == row["loss"]
        products = {row[name] for name in row if name not in ("step", "loss", "gemms", "operands", "resumed")}
        row["holds"] = len(products) == 1 and row["resumed"]
        print(row)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "bits.jsonl").write_text("".join(json.dumps(row) + "\n" for row in whole))
    write_csv(arguments.out / "bits.csv", whole)
    held = sum(row["holds"] for row in whole)
    print(f"{'PASS' if held == STEPS else 'FAIL'}: {held} of {STEPS} steps")


if __name__ == "__main__":
    main()
