# SPDX-License-Identifier: Apache-2.0
"""Whole runs: the loss falls, a run resumed has the bits of one that was never interrupted, and says what it did."""

import dataclasses
import json
import math
import pathlib
import re

import jax
import numpy as np
import pytest
from fourscale_jax.trainer import checkpoint, loop, train
from fourscale_jax.trainer.data import Text
from fourscale_jax.trainer.metrics import read
from fourscale_jax.trainer.step import make_mesh
from trainer_case import RESUMED, same_bits, tiny


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, train(tiny(out=str(folder), **RESUMED))


def losses(folder):
    return [r["loss"] for r in read(folder / "metrics.jsonl") if "loss" in r]


def test_loss_falls_below_what_frequencies_tell(whole):
    counts = np.bincount(Text("", 32).training)
    shares = counts[counts > 0] / counts.sum()
    entropy = -(shares * np.log(shares)).sum()
    of = losses(whole[0])
    assert len(of) == 24 and of[0] > math.log(256) > entropy > of[-1]


def test_a_run_resumed_has_the_same_bits(whole, tmp_path):
    train(tiny(out=str(tmp_path), stop=11, **RESUMED))  # three steps after its checkpoint
    assert len(losses(tmp_path)) == 11
    state = train(tiny(out=str(tmp_path), **RESUMED))
    assert int(state.step) == 24 and same_bits(state, whole[1])
    assert losses(tmp_path) == losses(whole[0])


def test_another_run_is_not_resumed(whole):
    with pytest.raises(ValueError, match="another quantization, seed"):
        train(tiny(out=str(whole[0]), **RESUMED | dict(quantization="mxfp4", seed=1)))


def test_a_run_is_not_resumed_on_another_number_of_devices(tmp_path):
    config = tiny(out=str(tmp_path), **RESUMED)
    checkpoint.Checkpoints(config).close()
    saved = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(saved | {"devices": saved["devices"] + 1}))
    with pytest.raises(ValueError, match="another devices"):
        checkpoint.Checkpoints(config)


def test_a_folder_is_claimed_whole_or_not_at_all(monkeypatch, tmp_path):
    """A process that is killed while it writes, or is still writing, has not claimed it."""
    config = tiny(out=str(tmp_path), **RESUMED)

    def killed(path, text):
        with path.open("w") as file:
            file.write(text[:9])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(pathlib.Path, "write_text", killed)
        checkpoint.Checkpoints(config)
    for _ in range(2):
        checkpoint.Checkpoints(config).close()


@pytest.mark.parametrize("options", [
    dict(quantization="fp8_block"), dict(quantization="nemotron3", layers=2),
    dict(quantization="paper", layers=11, width=32, heads=1, hidden=32)], ids=lambda options: options["quantization"])
def test_presets_that_no_experiment_trains(options, tmp_path):
    """The loss falls, and the forward quantizes: evaluated with all in BF16, which would be the same program if it did
    not, the model that was trained has another loss. fp8_block needs 128 tokens on each of two devices."""
    config = tiny(**dict(batch=8, eval_sequences=8, steps=2, out=str(tmp_path)) | options)
    state = train(config)
    first, second = losses(tmp_path)
    assert math.log(256) < first < math.inf and 0 < second < first
    quantized, = (r["validation_loss"] for r in read(tmp_path / "metrics.jsonl") if "validation_loss" in r)
    plain = dataclasses.replace(config, quantization="bf16")
    text = Text(config.text, config.sequence)
    assert 0 < quantized < first and quantized != loop.evaluation(plain, make_mesh(config), text)(state)


def test_what_a_run_leaves(whole):
    evaluations = [r for r in read(whole[0] / "metrics.jsonl") if "validation_loss" in r]
    assert [r["step"] for r in evaluations] == [23] and 0 < evaluations[0]["validation_loss"] < math.log(256)
    assert (whole[0] / "loss.png").stat().st_size > 5000
    assert all(r["loss_scale"] == 2.0**15 for r in read(whole[0] / "metrics.jsonl") if "loss" in r)


def test_each_step_prints_maxtexts_line(capsys, tmp_path):
    train(tiny(steps=5, profile=str(tmp_path)))
    lines = capsys.readouterr().out.splitlines()
    number = r"\d+\.\d{3}"
    for step in range(5):
        assert re.fullmatch(f"completed step: {step}, seconds: {number}, TFLOP/s/device: {number}, "
                            f"Tokens/s/device: {number}, total_weights: 128, loss: {number}", lines[step])
    assert len(lines) == 6 and re.fullmatch(r"eval after step: 4, loss: \d\.\d{4}", lines[5])
    assert list(tmp_path.rglob("*.xplane.pb"))


def test_a_loss_that_is_no_number_ends_the_run(monkeypatch):
    real = loop.make_train_step

    def spoiled(config, mesh):
        step = real(config, mesh)
        return lambda state, tokens: step(jax.tree.map(lambda x: x * np.nan if x.ndim else x, state), tokens)

    monkeypatch.setattr(loop, "make_train_step", spoiled)
    with pytest.raises(FloatingPointError, match="step 0: the loss is nan"):
        train(tiny(steps=5))
