# SPDX-License-Identifier: Apache-2.0
"""Experiment A: the format ladder. Trains one model per recipe and seed; runs of one seed share initial weights and
batches. Claims and margins are in plan.md, written before any run.

    python examples/jax/experiments/ladder.py --size xs --seeds 5 --text english.txt.xz --out results/ladder_xs

The same command goes on where it was interrupted. With --analyse it only reads what is there.
"""

import argparse
import dataclasses
import json
import pathlib
import shutil
import statistics

from analysis import is_greater, is_within, paired, write_csv
from fourscale_jax.trainer import Config, train
from fourscale_jax.trainer.metrics import read

RECIPES = ("bf16", "fp8_current", "fp8_delayed", "mxfp8", "te_nvfp4", "te_nvfp4_no_rht", "mlp_only", "mxfp4")
SIZES = {
    "tiny": dict(layers=1, width=128, heads=2, hidden=128, sequence=64, batch=8, steps=20, eval_sequences=8),
    "xs": dict(layers=6, width=256, heads=4, hidden=640, sequence=256, batch=128, steps=4000, learning_rate=2e-3),
    "s": dict(layers=8, width=512, heads=8, hidden=1408, sequence=512, batch=128, steps=2000, learning_rate=1e-3),
}
EQUIVALENT = 0.005  # nats per byte
# Claims: that the first recipe's loss is greater than the second's; or, with a margin, that they are equivalent.
CLAIMS = [("te_nvfp4", "bf16"), ("te_nvfp4_no_rht", "bf16"), ("te_nvfp4", "fp8_current"), ("te_nvfp4", "mxfp8"),
          ("mxfp4", "te_nvfp4"), ("te_nvfp4", "mlp_only"), ("fp8_current", "bf16", EQUIVALENT),
          ("fp8_delayed", "bf16", EQUIVALENT), ("mxfp8", "bf16", EQUIVALENT),
          ("te_nvfp4", "te_nvfp4_no_rht", EQUIVALENT)]
METRICS = ("train", "validation")


def run(folder, config):
    """The losses of a finished run in nats per byte: the mean of the last fifth of the steps, on batches that all
    recipes see; and on the text held out."""
    train(config)
    records = read(folder / "metrics.jsonl")
    tail = [r["loss"] for r in records if "loss" in r and r["step"] >= config.steps - config.steps // 5]
    validation = [r["validation_loss"] for r in records if "validation_loss" in r]
    losses = {"train": statistics.fmean(tail), "validation": validation[-1]}
    return {"recipe": config.quantization, "seed": config.seed} | losses


def run_all(arguments):
    """All runs that are not in results.jsonl yet, seed by seed, so that each stop leaves whole pairs. Each run's own
    metrics stay; its checkpoints go when it is done."""
    results = arguments.out / "results.jsonl"
    done = {(r["recipe"], r["seed"]) for r in read(results)}
    for seed in range(arguments.seeds):
        for recipe in RECIPES:
            if (recipe, seed) in done:
                continue
            folder = arguments.out / f"{recipe}_{seed}"
            size = SIZES[arguments.size]
            config = Config(quantization=recipe, seed=seed, text=arguments.text, out=str(folder),
                            save_every=max(size["steps"] // 8, 1), **{"eval_sequences": 4096} | size)
            record = run(folder, config) | {"size": arguments.size, "config": dataclasses.asdict(config)}
            with results.open("a") as file:
                file.write(json.dumps(record) + "\n")
            shutil.rmtree(folder / "checkpoints")


def gaps(records, recipe, baseline, metric):
    """Differences of runs that share a seed."""
    of = {(r["recipe"], r["seed"]): r[metric] for r in records}
    seeds = sorted({s for _, s in of if {(recipe, s), (baseline, s)} <= of.keys()})
    return [of[recipe, s] - of[baseline, s] for s in seeds]


def ladder_rows(records):
    """Each recipe's losses, and gaps to BF16 with 95 % intervals; relative ones too, which papers quote."""
    rows = []
    for recipe in RECIPES:
        for metric in METRICS:
            values = [r[metric] for r in records if r["recipe"] == recipe]
            gap = paired(gaps(records, recipe, "bf16", metric))
            base = statistics.fmean(r[metric] for r in records if r["recipe"] == "bf16")
            rows.append({"recipe": recipe, "metric": metric, "runs": len(values), "loss": statistics.fmean(values),
                         "gap": gap.mean, "half_width": gap.half, "gap_percent": 100 * gap.mean / base})
    return rows


def claim_rows(records):
    """On the training metric, the more precise one. Equivalence is tested at 5 % on each side."""
    rows = []
    for greater, than, *margin in CLAIMS:
        gap = paired(gaps(records, greater, than, "train"), 0.90 if margin else 0.95)
        verdict = is_within(gap, *margin) if margin else is_greater(gap)
        claim = f"|{greater} - {than}| < {margin[0]}" if margin else f"{greater} > {than}"
        rows.append({"claim": claim, "gap": gap.mean, "half_width": gap.half, "verdict": verdict})
    return rows


def analyse(folder):
    """Writes ladder.csv and claims.csv, and prints them."""
    records = read(folder / "results.jsonl")
    if missing := set(RECIPES) - {r["recipe"] for r in records}:
        raise SystemExit(f"not analysed: there is no run of {', '.join(sorted(missing))} yet")
    for name, rows in (("ladder", ladder_rows(records)), ("claims", claim_rows(records))):
        write_csv(folder / f"{name}.csv", rows)
        print("  ".join(f"{key:>16}" for key in rows[0]))
        for row in rows:
            print("  ".join(f"{v:>16.5f}" if isinstance(v, float) else f"{v:>16}" for v in row.values()))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--text", default="", help="bytes to learn; generated sentences if empty")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--analyse", action="store_true")
    arguments = parser.parse_args(arguments)
    arguments.out.mkdir(parents=True, exist_ok=True)
    if not arguments.analyse:
        run_all(arguments)
    analyse(arguments.out)


if __name__ == "__main__":
    main()
