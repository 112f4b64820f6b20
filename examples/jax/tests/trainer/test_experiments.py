# SPDX-License-Identifier: Apache-2.0
"""The experiments: those that take seconds are repeated; of the others, what turns losses into verdicts."""

import argparse
import csv
import gzip
import math
import pathlib
import shutil
import sys
from collections import Counter

import numpy as np
import pytest
from fourscale_jax import linear

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "experiments"))

import analysis  # noqa: E402
import arms  # noqa: E402
import corpus  # noqa: E402
import estimators  # noqa: E402
import gpus  # noqa: E402
import run  # noqa: E402
import spread  # noqa: E402
import tables  # noqa: E402


def test_interval_is_students():
    gap = analysis.paired([0.01, 0.02, 0.03])
    assert math.isclose(gap.mean, 0.02) and math.isclose(gap.half, 4.302653 * 0.01 / 3**0.5, rel_tol=1e-6)
    assert analysis.paired([0.01]).half == math.inf and analysis.is_greater(analysis.paired([0.01])) == "INCONCLUSIVE"


def test_holm_is_the_textbooks():
    assert analysis.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert analysis.holm([0.9, 0.8]) == [1.0, 1.0] and analysis.holm([]) == []
    assert analysis.p_value([1.0, 2.0, 3.0]) == pytest.approx(0.0742, rel=1e-3)  # t = 3.464 with 2 degrees
    assert analysis.p_value([1.0]) == 1.0


def test_unpaired_interval_is_welchs():
    interval = analysis.unpaired([1.0, 2.0, 3.0], [0.0, 1.0, 2.0])
    assert interval.mean == pytest.approx(1)
    assert interval.half == pytest.approx(2.776445 * math.sqrt(2 / 3), rel=1e-6)  # Student's t at 0.975 for 4 degrees
    assert math.isinf(analysis.unpaired([1.0, 2.0, 3.0], [2.0]).half)


def test_places_are_compared_with_one_device():
    rows = [{"recipe": "te_nvfp4", "place": place, "loss": loss, "tokens_per_second": rate} for place, rate, losses in
            (("one", 50, (1.0, 1.002, 1.001)), ("two, data", 80, (1.001, 1.0, 1.002)),
             ("two, tensor", 40, (1.1, 1.101, 1.102))) for loss in losses]
    one, data, tensor = gpus.summary(rows)
    assert one["efficiency_percent"] == 100 and "verdict" not in one and one["loss"] == pytest.approx(1.001)
    assert (data["place"], data["verdict"], data["efficiency_percent"]) == ("two, data", "PASS", 80)
    assert (tensor["place"], tensor["verdict"], tensor["efficiency_percent"]) == ("two, tensor", "FAIL", 40)


def test_tables_have_a_column_for_all_that_a_row_has(tmp_path):
    analysis.write_csv(tmp_path / "t.csv", [{"a": 1, "curve": [1, 2]}, {"a": 2, "ms": {"GEMM": 3, "the rest": 4}}])
    assert (tmp_path / "t.csv").read_text() == "a,ms GEMM,ms the rest\n1,,\n2,3,4\n"


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


def run_of(arm, seed, loss):
    return {"arm": arm, "seed": seed, "train": loss, "validation": loss, "curve": [loss, loss]}


def test_tables_read_pairs_only(tmp_path):
    of = {arm: 1.0 + 0.01 * i for i, arm in enumerate(arms.EXPERIMENTS["A"].arms)}
    runs = [run_of(arm, s, loss + 0.1 * s + 0.001 * (s == i % 3))
            for i, (arm, loss) in enumerate(of.items()) for s in range(3)]
    runs.append(run_of("mxfp4", 9, 100.0))
    rows = {row["claim"]: row for row in tables.claim_rows(runs, arms.EXPERIMENTS["A"])}
    assert math.isclose(rows["mxfp4 > te_nvfp4"]["gap"], 0.03) and rows["mxfp4 > te_nvfp4"]["verdict"] == "PASS"
    assert rows["|mxfp8 - bf16| < 0.005"]["verdict"] == "FAIL" and rows["|mxfp8 - bf16| < 0.005"]["p"] == ""
    assert rows["mxfp4 > te_nvfp4"]["held_out_verdict"] == "PASS"
    orders = [c for c in arms.EXPERIMENTS["A"].claims if not c.margin]
    assert len(tables.corrected(runs)) == len(orders)  # those of C among them, which has one of A's
    assert all(row["holm"] == "" or row["p"] <= row["holm"] <= len(orders) * row["p"] for row in rows.values())
    assert {row["verdict"] for row in tables.claim_rows(runs, arms.EXPERIMENTS["D"])} == {"NOT RUN"}
    analysis.write_csv(tmp_path / "gaps.csv", tables.gap_rows(runs, arms.EXPERIMENTS["A"]))
    table = list(csv.DictReader((tmp_path / "gaps.csv").open()))
    assert len(table) == 18 and float(table[0]["gap"]) == 0.0
    # Of 0.009 / 1.001, 0.011 / 1.1 and 0.010 / 1.2; Student's t at 0.975 for 2 degrees is 4.302653.
    for row in table[2:4]:  # training and held-out loss
        assert float(row["percent"]) == pytest.approx(0.9108114, rel=1e-6)
        assert float(row["percent_half_width"]) == pytest.approx(0.2085388, rel=1e-5)


def test_a_corpus_is_paragraphs_of_english(tmp_path):
    page = "<head><title>no</title></head><p>Training in 4 bits loses little, as long as <b>scales</b> are good.</p>" \
           "<script>no no no no no no no no no no no no no no no</script><p>short</p><pre>1 2 3 4 5 6 7 8 9 " \
           "10 11 12 13 14 15 16 17 18 19 20</pre><p>A caf&eacute; is no ASCII, and so it is left out of all this.</p>"
    (tmp_path / "a.html.gz").write_bytes(gzip.compress(page.encode()))
    (tmp_path / "b.so").write_text("A file of another kind is no text, whatever it says in its lines.")
    assert list(corpus.paragraphs(corpus.text_of(tmp_path / "a.html.gz"))) == [
        "Training in 4 bits loses little, as long as scales are good."]
    assert corpus.text_of(tmp_path / "b.so") == ""


RESULTS = pathlib.Path(tables.__file__).parent / "results"


def test_committed_tables_follow_from_committed_results(tmp_path, capsys):
    """Up to the last digits, which differ between versions of NumPy and SciPy."""
    shutil.copytree(RESULTS, tmp_path / "results")
    written = {RESULTS / folder / name for folder in ("", "xs", "xs_again", "s", "third_plan") for name in
               ("gpus.csv", "tokens_C.csv", *(f"{kind}_{e}.csv" for kind in ("gaps", "claims") for e in "ABCD"))}
    for path in written:
        (tmp_path / "results" / path.relative_to(RESULTS)).unlink(missing_ok=True)
    for folder in (".", "xs", "xs_again", "s", "third_plan"):
        tables.main([str(tmp_path / "results" / folder)])
    printed = capsys.readouterr().out
    assert all(f"\n{experiment}. " in printed for experiment in "ABCDEFGH") and "The same bits: 20 of 20" in printed
    compared = 0
    for path in filter(pathlib.Path.exists, written):
        both = tmp_path / "results" / path.relative_to(RESULTS), path
        ours, theirs = (list(csv.reader(file.open())) for file in both)
        assert [len(row) for row in ours] == [len(row) for row in theirs], path
        for a, b in ((a, b) for rows in zip(ours, theirs) for a, b in zip(*rows)):
            assert a == b or float(a) == pytest.approx(float(b), rel=1e-6, abs=1e-9), (path, a, b)
        compared += 1
    assert compared == 18


def test_holm_takes_a_pass_away():
    """Of D, each PASS by itself is none among all claims, which docs/convergence.md says."""
    rows = tables.claim_rows(run.records(RESULTS / "xs"), arms.EXPERIMENTS["D"])
    verdicts = [(row["verdict"], row["holm_verdict"]) for row in rows if row["planned"]]
    assert verdicts == 2 * [("INCONCLUSIVE", "INCONCLUSIVE")] + 2 * [("PASS", "INCONCLUSIVE")]


def test_d_once_more_keeps_its_passes():
    """With seeds that no other run has had; among the claims of that plan."""
    again = run.records(RESULTS / "xs_again")
    assert not {r["seed"] for r in again} & {r["seed"] for r in run.records(RESULTS / "xs")}
    rows = {row["claim"]: row for row in tables.claim_rows(again, arms.EXPERIMENTS["D"])}
    for better in ("te_nvfp4_last", "quartet2", "quartet2_last"):
        row = rows[f"te_nvfp4 > {better}"]
        assert (row["pairs"], row["verdict"], row["holm_verdict"]) == (5, "PASS", "PASS")
    assert rows["te_nvfp4 > four_over_six"]["verdict"] == "NOT RUN"


def test_tokens_to_equal_loss_are_interpolated():
    runs = [run_of("te_nvfp4", 0, 1.0), run_of("mxfp4", 0, 1.06), run_of("mxfp4_1.2", 0, 1.02),
            run_of("mxfp4_1.7", 0, 0.98), run_of("te_nvfp4", 1, 1.0), run_of("mxfp4", 1, 1.06)]
    (seed, factor), = tables.tokens_to_equal(runs).items()
    assert seed == 0 and math.isclose(factor, (1.2 * 1.7) ** 0.5)


def test_each_claim_is_about_arms_of_its_experiment():
    for experiment in arms.EXPERIMENTS.values():
        for claim in experiment.claims:
            assert {claim.greater, claim.than} <= set(experiment.arms) <= set(arms.ARMS)
    for arm in arms.ARMS.values():
        run.config_of(arm, "s", 0)
        assert not arm.trunk or arm.trunk in arms.ARMS and 0 < arm.at < 1


def test_runs_go_on_where_they_were_interrupted(tmp_path, monkeypatch):
    """By a stand-in for the trainer, whose state is the list of arms that made it, and whose loss is its number."""
    stopped = []

    class Trainer:
        size = "tiny"

        def __init__(self, size, text):
            pass

        def run(self, arm, seed, state=None, stop=None):
            name = next(n for n in arms.ARMS if arms.ARMS[n] is arm)
            before, end = (state or []), stop or 20
            if len(before) == 0 and name == "te_nvfp4" and seed == 1 and not stopped:
                stopped.append(name)
                raise KeyboardInterrupt
            return before + [name] * (end - len(before)), [float(i) for i in range(len(before), end)]

        def validation(self, arm, seed, state):
            return state.count("te_nvfp4")

    monkeypatch.setattr(run, "Trainer", Trainer)
    command = ["B", "--seeds", "2", "--out", str(tmp_path)]
    with pytest.raises(KeyboardInterrupt):
        run.main(command)
    assert {r["seed"] for r in run.records(tmp_path)} == {0}
    run.main(command)
    with pytest.raises(SystemExit, match="of size tiny: each size needs a folder"):
        run.main(command + ["--size", "xs"])
    runs = run.records(tmp_path)
    assert len(runs) == 16 and {(r["arm"], r["seed"]) for r in runs} == {
        (a, s) for a in arms.EXPERIMENTS["B"].arms for s in range(2)}
    for r in runs:  # branches have the trunk's first 14 steps; the last fifth is steps 16 to 19
        assert r["validation"] == (20 if r["arm"] == "te_nvfp4" else 14) and r["train"] == 17.5 and r["curve"] == [9.5]


def test_a_repetition_has_other_seeds_and_all_of_them():
    """An arm of three seeds at most has five there, of the experiment only what is named, and pairs first."""
    chosen = argparse.Namespace(experiments=["D"], only=["quartet2", "te_nvfp4"], first_seed=5, seeds=5)
    assert list(run.work(chosen)) == [(arm, [arm], seed) for seeds in ((5, 6), (7, 8, 9))
                                      for arm in ("te_nvfp4", "quartet2") for seed in seeds]
    chosen.only, chosen.first_seed = None, 0
    work = list(run.work(chosen))
    assert {trunk for trunk, _, _ in work} == set(arms.EXPERIMENTS["D"].arms)
    assert {seed for trunk, names, seed in work if "quartet2" in names} == {0, 1, 2}


def test_a_branch_goes_on_from_the_trunk_on_its_batches():
    """A branch that changes nothing has the losses of the trunk."""
    trainer = run.Trainer("tiny", "")
    whole = [float(x) for x in trainer.run(arms.ARMS["te_nvfp4"], 3)[1]]
    state, first = trainer.run(arms.ARMS["te_nvfp4"], 3, None, 14)
    for _ in range(2):  # a state can be used again
        _, second = trainer.run(arms.ARMS["te_nvfp4"]._replace(trunk="te_nvfp4", at=0.7), 3, state)
        assert [float(x) for x in first + second] == whole


def test_spread_certifies_only_sums_that_are_exact():
    random = np.random.Generator(np.random.Philox(1))
    shares = []
    for wide in (0, 1, 2):  # the spread of block scales, in bits
        a, b = (spread.values(random.integers(0, 256, (64, 128), dtype=np.uint8),
                              np.exp2(np.rint(wide * random.standard_normal((64, 16)))).astype(
                                  spread.ml_dtypes.float8_e4m3fn).view(np.uint8)) for _ in range(2))
        units = [spread.in_lowest_bits(x) for x in (a, b)]
        largest = np.einsum("iks,jks->kij", *units).reshape(4, 8, 8, 8, 8).max(axis=(2, 4))
        certified = spread.certified(a, b)
        assert np.all(largest[certified] < 2**24)
        shares.append(spread.not_exact(a, b))
    assert shares[0] == shares[1] == 0 and 0.1 < shares[2] < 0.9, shares


def test_spread_knows_the_three_gemms(monkeypatch):
    monkeypatch.setattr(linear, "scaled_matmul", linear.scaled_matmul)  # what it replaces comes back
    rows = spread.record((1,), "", layers=1, width=64, heads=2, hidden=128, sequence=64, batch=2)
    assert Counter(row["gemm"] for row in rows) == {"fprop": 4, "dgrad": 4, "wgrad": 4}
    assert all(row["k"] == 128 for row in rows if row["gemm"] == "wgrad")  # tokens
    assert [row["gemms"] for row in spread.summary(rows)] == [4, 4, 4]
