# SPDX-License-Identifier: Apache-2.0
"""Experiment H: of which GEMMs of a training step sums of 64 products are proved exact on Hopper, by the certificates of
docs/exact_gemm.md, for operands as they were. Where they are not, Blackwell's bits take longer (docs/gemm_speed.md).

    python examples/jax/experiments/spread.py --text TEXT --out results
"""

import argparse
import json
import pathlib

import jax
import ml_dtypes
import numpy as np
from analysis import write_csv
from bits import Recorder
from fourscale_jax.trainer import Config
from fourscale_jax.trainer.data import Text
from fourscale_jax.trainer.layers import AXES
from fourscale_jax.trainer.loop import batch
from fourscale_jax.trainer.step import initial_state, make_train_step
from jax.sharding import Mesh

STEPS = 1, 10, 30, 100, 300
MODEL = dict(quantization="te_nvfp4", accumulate="native", layers=2, width=512, heads=4, hidden=1408, sequence=512,
             batch=4)
ROWS, SAMPLED = 512, 16  # of an operand, the first; steps along K, evenly
STEP, GROUP = 64, 8  # values of a step of the MMA; rows that share a certificate
UNIT = 2.0**-10  # all values are multiples of it: half of the least E4M3
BY_BLOCKS = 180  # eighths of a bit: the kernel's least_widths


def values(codes, scales):
    """[rows, steps, 64] without the tensor scale."""
    codes = np.stack([codes & 15, codes >> 4], -1).reshape(len(codes), -1).view(ml_dtypes.float4_e2m1fn)
    scales = scales.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    x = codes.astype(np.float64) * np.repeat(scales, 16, axis=1)
    pad = -x.shape[1] % STEP
    return np.pad(x, ((0, -len(x) % GROUP), (0, pad))).reshape(-1, (x.shape[1] + pad) // STEP, STEP)


def in_lowest_bits(x):
    """The magnitudes of each row and step over the lowest bit that any of them has; where all are zero, over 1."""
    units = np.abs(x / UNIT).astype(np.int64)
    bits = np.bitwise_or.reduce(units, axis=-1, keepdims=True)
    return units / np.maximum(bits & -bits, 1)


def of_groups(x):
    """The largest of each eight rows."""
    return x.reshape(-1, GROUP, *x.shape[1:]).max(axis=1)


def mean_width(x):
    """Mean of what step_bounds::width is in eights of rows: eighths of a bit."""
    norms = np.sqrt(np.square(in_lowest_bits(x)).sum(axis=-1))
    return float(np.ceil(8 * np.log2(np.maximum(of_groups(norms), 1))).mean())


def certified(a, b):
    """For each step, 8 rows of A and 8 of B, whether sums are exact: of magnitudes that step_magnitudes codes."""
    with np.errstate(invalid="ignore", over="ignore"):
        a, b = ((of_groups(in_lowest_bits(x)) / 512).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) for x in (a, b))
        return np.einsum("iks,jks->kij", a, b) < 56.5  # NaN: no


def not_exact(a, b):
    """The share of 16 x 8 outputs of a step that are made again, by blocks."""
    exact = certified(a, b)
    exact = exact[:, :exact.shape[1] // 2 * 2]
    return 1 - float((exact[:, ::2] & exact[:, 1::2]).mean())


def kind_of(a, b):
    """By the copies of A and B: only gradients draw random bits, and only weights share scales between rows."""
    return "fprop" if not a.draws and not b.draws else "dgrad" if b.rows > 1 else "wgrad"


def row_of(step, operands, copies):
    a, b = (values(np.asarray(codes)[:ROWS], np.asarray(scales)[:ROWS])
            for codes, scales in (operands[:2], operands[3:5]))
    width = mean_width(a) + mean_width(b)
    sampled = np.unique(np.linspace(0, a.shape[1] - 1, SAMPLED).astype(int))
    return {"step": step, "gemm": kind_of(*copies), "m": operands[0].shape[0], "n": operands[3].shape[0],
            "k": operands[0].shape[1] * 2, "width": round(width, 1), "by_blocks": width >= BY_BLOCKS,
            "not_exact_percent": round(100 * not_exact(a[:, sampled], b[:, sampled]), 2)}


def record(steps, text, **model):
    """Rows of all GEMMs in these steps of a new model; step 1 is the first."""
    config, recorder = Config(**MODEL | model), Recorder()
    mesh, text = Mesh(np.array(jax.devices()[:1]).reshape(1, 1), AXES), Text(text, config.sequence)
    train_step, state = make_train_step(config.program, mesh), initial_state(config, mesh)
    rows = []
    for step in range(1, max(steps) + 1):
        recorder.seen.clear()
        state, metrics = train_step(state, batch(config, mesh, text, step - 1))
        jax.block_until_ready(state)
        jax.effects_barrier()
        if step in steps:
            gemms = [recorder.seen[number] for number in sorted(recorder.seen)]
            rows += [row_of(step, operands, copies) for operands, _, copies in gemms]
            print(f"step {step}, loss {float(metrics['loss']):.3f}")
    return rows


def summary(rows):
    """By step and kind: how many GEMMs, and the least, the mean and the largest share that is made again."""
    table = {}
    for row in rows:
        table.setdefault((row["step"], row["gemm"]), []).append(row)
    return [{"step": step, "gemm": kind, "gemms": len(of), "by_blocks": sum(row["by_blocks"] for row in of),
             "least": min(shares), "mean": round(sum(shares) / len(of), 2), "largest": max(shares)}
            for (step, kind), of in table.items() for shares in [[row["not_exact_percent"] for row in of]]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", default="", help="bytes to learn; generated sentences if empty")
    parser.add_argument("--steps", type=int, nargs="+", default=STEPS)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    rows = record(arguments.steps, arguments.text)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "spread.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_csv(arguments.out / "spread.csv", rows)
    for row in summary(rows):
        print(row)


if __name__ == "__main__":
    main()
