# SPDX-License-Identifier: Apache-2.0
"""Reads the runs of run.py: losses and gaps, verdicts, the tokens that MXFP4 needs, and pictures of them; and what
estimators.py, speed.py, gpus.py, bits.py and spread.py wrote, where it is there. So RESULTS is the folder of one size,
or the one of experiments E to H.

    python examples/jax/experiments/tables.py RESULTS [--pictures docs]
"""

import argparse
import json
import math
import pathlib
import statistics

from analysis import holm, is_greater, is_within, p_value, paired, write_csv
from arms import ARMS, EXPERIMENTS
from gpus import summary as summary_of_places
from run import CURVE, records
from spread import summary as summary_of_spread

METRICS = ("train", "validation")


def gaps(runs, arm, baseline, metric, relative=False):
    """Differences of runs that share a seed; in percent of the baseline's if `relative`."""
    of = {(r["arm"], r["seed"]): r[metric] for r in runs}
    seeds = sorted({s for _, s in of if {(arm, s), (baseline, s)} <= of.keys()})
    return [(of[arm, s] - of[baseline, s]) * (100 / of[baseline, s] if relative else 1) for s in seeds]


def gap_rows(runs, experiment):
    """Each arm's losses, and gaps to the experiment's first arm with 95 % intervals; in percent too, as papers do."""
    rows, present = [], {r["arm"] for r in runs}
    for arm in (a for a in experiment.arms if a in present):
        for metric in METRICS:
            pairs = gaps(runs, arm, experiment.arms[0], metric)
            gap, percent = paired(pairs), paired(gaps(runs, arm, experiment.arms[0], metric, relative=True))
            rows.append({"arm": arm, "metric": metric, "pairs": len(pairs),
                         "loss": statistics.fmean(r[metric] for r in runs if r["arm"] == arm), "gap": gap.mean,
                         "half_width": gap.half, "percent": percent.mean, "percent_half_width": percent.half})
    return rows


def verdict(pairs, claim):
    """Of a claim by differences of pairs, and its interval. Equivalence is tested at 5 % on each side."""
    gap = paired(pairs, 0.90 if claim.margin else 0.95)
    return gap, "NOT RUN" if not pairs else is_within(gap, claim.margin) if claim.margin else is_greater(gap)


def claim_rows(runs, experiment):
    """On the training metric, which the plan decides by, and on held-out text. `p` and `holm`: of claims of order, by
    themselves and corrected for all that the plan has of them, see corrected(); `holm_verdict`: what that leaves."""
    rows, holms = [], corrected(runs)
    for claim in experiment.claims:
        pairs = gaps(runs, claim.greater, claim.than, "train")
        gap, decided = verdict(pairs, claim)
        held_out, confirmed = verdict(gaps(runs, claim.greater, claim.than, "validation"), claim)
        p = "" if claim.margin else p_value(pairs)
        rows.append({"claim": str(claim), "planned": claim.planned, "pairs": len(pairs), "gap": gap.mean,
                     "half_width": gap.half, "verdict": decided, "p": p, "holm": (holm_p := holms.get(claim, "")),
                     "holm_verdict": "" if holm_p == "" else decided if holm_p < 0.05 else "INCONCLUSIVE",
                     "held_out": held_out.mean, "held_out_half_width": held_out.half, "held_out_verdict": confirmed})
    return rows


def corrected(runs):
    """Holm's p-value of each planned claim of order that was run, in any experiment."""
    claims = {c: gaps(runs, c.greater, c.than, "train") for e in EXPERIMENTS.values() for c in e.claims
              if c.planned and not c.margin}
    claims = {c: pairs for c, pairs in claims.items() if len(pairs) > 1}
    return dict(zip(claims, holm([p_value(pairs) for pairs in claims.values()])))


def tokens_to_equal(runs, slower="mxfp4", target="te_nvfp4"):
    """How many times the target's tokens the slower recipe needs for its loss, by seed: linear in the logarithm of the
    tokens between two runs; beyond the longest run, no number."""
    factors = {}
    for seed in sorted({r["seed"] for r in runs if r["arm"] == target}):
        wanted = next(r["train"] for r in runs if (r["arm"], r["seed"]) == (target, seed))
        points = sorted((ARMS[r["arm"]].length, r["train"]) for r in runs
                        if r["arm"].startswith(slower) and r["seed"] == seed)
        for (a, loss_a), (b, loss_b) in zip(points, points[1:]):
            if loss_a >= wanted > loss_b:
                factors[seed] = a * (b / a) ** ((loss_a - wanted) / (loss_a - loss_b))
    return factors


def _figure(width=7, height=4):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    matplotlib.rcParams.update({"svg.hashsalt": "fourscale", "font.size": 9, "axes.spines.top": False,
                                "axes.spines.right": False, "figure.constrained_layout.use": True})
    return pyplot.subplots(figsize=(width, height))


def _save(figure, path):
    figure.savefig(path, metadata={"Date": None})
    path.write_text("".join(line.rstrip() + "\n" for line in path.read_text().splitlines()))


def draw_gaps(runs, experiment, path):
    """A dot for each pair, the mean and its 95 % interval."""
    arms = [a for a in experiment.arms[1:] if gaps(runs, a, experiment.arms[0], "train")][::-1]
    figure, axes = _figure(7, 0.7 + 0.32 * len(arms))
    for at, arm in enumerate(arms):
        pairs = gaps(runs, arm, experiment.arms[0], "train")
        mean = paired(pairs)
        if math.isfinite(mean.half):
            axes.plot([mean.low, mean.high], [at, at], color="#1f77b4", linewidth=5, alpha=0.35, solid_capstyle="butt")
        axes.plot(pairs, [at] * len(pairs), ".", color="#555555", markersize=5)
        axes.plot([mean.mean], [at], "|", color="#1f77b4", markersize=13, markeredgewidth=2)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(arms)), arms)
    axes.set_ylim(-0.6, len(arms) - 0.4)
    axes.set_xlabel(f"training loss less that of {experiment.arms[0]}, nats per byte")
    _save(figure, path)


def draw_curves(runs, experiment, path):
    """The mean over seeds of the differences of curves to the first arm's, from where they part."""
    figure, axes = _figure()
    of = {(r["arm"], r["seed"]): r["curve"] for r in runs if "curve" in r}
    for arm in experiment.arms[1:]:
        pairs = [(of[arm, s], of[experiment.arms[0], s]) for a, s in of if a == arm and (experiment.arms[0], s) in of]
        if pairs:
            difference = [statistics.fmean(x) for x in zip(*([a - b for a, b in zip(*pair)] for pair in pairs))]
            first = max(int(ARMS[arm].at * len(difference)) - 1, 1)  # steps before are the same, or all beginning
            steps = [CURVE * (i + 0.5) for i in range(len(difference))]
            axes.plot(steps[first:], difference[first:], label=arm, linewidth=1.2)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set(xlabel="step", ylabel=f"loss less that of {experiment.arms[0]}, nats per byte")
    figure.legend(frameon=False, ncols=4, loc="outside upper center")
    _save(figure, path)


def show(rows):
    print("  ".join(f"{key:>18}" for key in rows[0]))
    for row in rows:
        print("  ".join(f"{v:>18.5f}" if isinstance(v, float) else f"{v!s:>18}" for v in row.values()))


def speed_rows(measured):
    """Of experiment F: a linear layer through JAX and by the same calls without it, with the verdict on the plan's 5 %;
    and steps of a model, with the share of quantization."""
    layers = [{**{key: r.get(key, "") for key in ("recipe", "accumulate", "median_ms", "cpp_median_ms",
                                                  "overhead_percent", "same_bits")},
               "verdict": "" if "overhead_percent" not in r else "PASS" if r["overhead_percent"] <= 5 else "FAIL"}
              for r in measured if "layer" in r]
    steps = [{**{key: r[key] for key in ("recipe", "accumulate", "tokens_per_second", "ms")},
              "quantization_percent": round(100 * r["kernels_ms"].get("quantization", 0) / r["ms"], 1)}
             for r in measured if "kernels_ms" in r]
    return layers, steps


def show_others(folder):
    """E to H, of what is in a folder."""
    read = lambda name: [json.loads(line) for line in path.read_text().splitlines()] if (
        path := folder / f"{name}.jsonl").exists() else []
    if measured := read("estimators"):
        print("\nE. Estimators")
        show(measured)
    if measured := read("speed"):
        print("\nF. A linear layer, and steps of a model")
        for rows in filter(None, speed_rows(measured)):
            show(rows)
    if runs := read("gpus"):
        print("\nG. Two GPUs")
        columns = ("recipe", "place", "runs", "tokens_per_second", "efficiency_percent", "loss", "gap", "half_width",
                   "verdict")
        rows = list(summary_of_places(runs))
        write_csv(folder / "gpus.csv", rows)
        show([{column: row.get(column, "") for column in columns} for row in rows])
    if steps := read("bits"):
        print(f"\nG. The same bits: {sum(row['holds'] for row in steps)} of {len(steps)} steps")
    if gemms := read("spread"):
        print("\nH. Outputs of steps that are made again, percent")
        show(summary_of_spread(gemms))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--pictures", type=pathlib.Path, help="a folder for convergence_*.svg")
    arguments = parser.parse_args(arguments)
    runs = records(arguments.results)
    show_others(arguments.results)
    for name, experiment in EXPERIMENTS.items():
        if not any(gaps(runs, arm, experiment.arms[0], "train") for arm in experiment.arms[1:]):
            continue
        print(f"\n{name}. {experiment.title}")
        for kind, rows in (("gaps", gap_rows(runs, experiment)), ("claims", claim_rows(runs, experiment))):
            write_csv(arguments.results / f"{kind}_{name}.csv", rows)
            show(rows)
        if name == "C" and (factors := tokens_to_equal(runs)):
            write_csv(arguments.results / "tokens_C.csv", [{"seed": s, "factor": f} for s, f in factors.items()])
            print(f"tokens to equal loss: {', '.join(f'{f:.3f}' for f in factors.values())}; mean and half width of "
                  f"the 95 % interval {paired(list(factors.values()))}")
        if arguments.pictures:
            again = "_again" if min(r["seed"] for r in runs) > 0 else ""
            picture = arguments.pictures / f"convergence_{name}{again}"
            draw_gaps(runs, experiment, picture.with_suffix(".svg"))
            if name in ("A", "B"):
                draw_curves(runs, experiment, picture.with_name(f"{picture.name}_curves.svg"))


if __name__ == "__main__":
    main()
