# SPDX-License-Identifier: Apache-2.0
"""The experiments: those that take seconds are repeated; of the others, what turns losses into verdicts."""

import csv
import math
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "experiments"))

import analysis  # noqa: E402
import estimators  # noqa: E402
import ladder  # noqa: E402


def test_interval_is_students():
    gap = analysis.paired([0.01, 0.02, 0.03])
    assert math.isclose(gap.mean, 0.02) and math.isclose(gap.half, 4.302653 * 0.01 / 3**0.5, rel_tol=1e-6)
    assert analysis.paired([0.01]).half == math.inf and analysis.is_greater(analysis.paired([0.01])) == "INCONCLUSIVE"


@pytest.mark.parametrize("mean, half, greater, within", [
    (0.02, 0.01, "PASS", "FAIL"), (0.02, 0.03, "INCONCLUSIVE", "INCONCLUSIVE"), (-0.02, 0.01, "FAIL", "FAIL"),
    (0.001, 0.002, "INCONCLUSIVE", "PASS"), (0.003, 0.002, "PASS", "INCONCLUSIVE"),
    (math.nan, math.inf, "INCONCLUSIVE", "INCONCLUSIVE")])
def test_verdicts(mean, half, greater, within):
    interval = analysis.Interval(mean, half)
    assert (analysis.is_greater(interval), analysis.is_within(interval, 0.005)) == (greater, within)


@pytest.mark.parametrize("claim", [estimators.bias, estimators.chain_rule, estimators.shrinkage])
def test_estimators(claim):
    measured, holds = claim()
    assert holds, measured


def test_bias_that_does_not_average_out_is_seen(monkeypatch):
    """Gradients that saturate: the same claim does not hold."""
    saturating = estimators.normal((estimators.TOKENS, estimators.OUT), 1) * 100
    monkeypatch.setattr(estimators, "unsaturated_gradients", lambda: estimators.as_bfloat16(saturating))
    assert not estimators.bias()[1]


def test_one_dimensional_scales_break_the_chain_rule(monkeypatch):
    real = estimators.quantize
    monkeypatch.setattr(estimators, "quantize", lambda x, role="activation", **o: real(x, role="activation", **o))
    assert not estimators.chain_rule()[1]


def test_ladder_reads_pairs_only(tmp_path):
    losses = {recipe: 1.0 + 0.01 * i for i, recipe in enumerate(ladder.RECIPES)}
    records = [{"recipe": r, "seed": s, "train": loss + 0.1 * s + 0.001 * (s == i % 3), "validation": loss}
               for i, (r, loss) in enumerate(losses.items()) for s in range(3)]
    unpaired = {"recipe": "mxfp4", "seed": 9, "train": 100.0, "validation": 100.0}
    rows = {row["claim"]: row for row in ladder.claim_rows([*records, unpaired])}
    assert math.isclose(rows["mxfp4 > te_nvfp4"]["gap"], 0.03) and rows["mxfp4 > te_nvfp4"]["verdict"] == "PASS"
    assert rows["|mxfp8 - bf16| < 0.005"]["verdict"] == "FAIL"
    analysis.write_csv(tmp_path / "ladder.csv", ladder.ladder_rows(records))
    table = list(csv.DictReader((tmp_path / "ladder.csv").open()))
    assert len(table) == 16 and float(table[0]["gap"]) == 0.0 and math.isclose(float(table[3]["gap_percent"]), 1.0)


def test_ladder_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    runs = []

    def run(folder, config):
        runs.append((config.quantization, config.seed))
        (folder / "checkpoints").mkdir(parents=True)
        if len(runs) == 5:
            raise KeyboardInterrupt
        return {"recipe": config.quantization, "seed": config.seed, "train": 1.0, "validation": 1.0}

    monkeypatch.setattr(ladder, "run", run)
    with pytest.raises(KeyboardInterrupt):
        ladder.main(["--out", str(tmp_path)])
    (tmp_path / "te_nvfp4_0" / "checkpoints").rmdir()
    ladder.main(["--out", str(tmp_path)])
    first, second = ([(recipe, seed) for recipe in ladder.RECIPES] for seed in range(2))
    assert runs == first[:5] + first[4:] + second
    assert (tmp_path / "claims.csv").exists()
