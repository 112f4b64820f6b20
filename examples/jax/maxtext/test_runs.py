# SPDX-License-Identifier: Apache-2.0
"""Whole runs of MaxText on a CPU, about ten seconds each. Needs MaxText, as test_train.py does."""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("maxtext")
TRAIN = pathlib.Path(__file__).with_name("train.py")
BASE = pathlib.Path(importlib.util.find_spec("maxtext").submodule_search_locations[0]) / "configs/base.yml"
MODEL = dict(
    hardware="cpu", skip_jax_distributed_system=True, dataset_type="synthetic", enable_checkpointing=False,
    attention="dot_product", decoder_block="llama2", base_emb_dim=128, base_num_decoder_layers=2, base_mlp_dim=256,
    base_num_query_heads=4, base_num_kv_heads=4, head_dim=32, vocab_size=512, max_target_length=128,
    per_device_batch_size=1, enable_tensorboard=False, enable_goodput_recording=False, monitor_goodput=False,
    log_config=False)
EXPERTS = dict(decoder_block="mixtral", num_experts=4, num_experts_per_tok=2, base_moe_mlp_dim=256, sparse_matmul=False)


def run(folder, recipe, steps, **settings):
    """What MaxText prints, and its metrics of each step."""
    metrics = folder / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    settings = MODEL | dict(run_name="run", base_output_directory=folder, metrics_file=metrics, quantization=recipe,
                            steps=steps) | settings
    result = subprocess.run([sys.executable, TRAIN, BASE, *(f"{key}={value}" for key, value in settings.items())],
                            env=os.environ | {"DECOUPLE_GCLOUD": "TRUE", "JAX_PLATFORMS": "cpu"}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    assert result.returncode == 0, result.stdout[-4000:]
    return result.stdout, [json.loads(line) for line in metrics.read_text().splitlines()]


def losses(metrics):
    return [row["learning/loss"] for row in metrics]


@pytest.mark.parametrize("model", [{}, EXPERTS], ids=["dense", "experts"])
def test_a_recipe_learns_what_bf16_learns_with_other_bits(tmp_path, model):
    printed, quantized = run(tmp_path, "te_nvfp4", 4, **model)
    lines = re.findall(r"completed step: (\d+), seconds: [\d.]+, TFLOP/s/device: [\d.]+, Tokens/s/device: [\d.]+, "
                       r"total_weights: 128, loss: ([\d.]+)", printed)
    assert [int(step) for step, _ in lines] == [0, 1, 2, 3]
    assert [float(loss) for _, loss in lines] == [round(x, 3) for x in losses(quantized)]
    bf16 = losses(run(tmp_path, "bf16", 4, **model)[1])
    assert losses(quantized)[-1] < losses(quantized)[0] and bf16[-1] < bf16[0]
    assert all(a != b and abs(a - b) < 0.1 for a, b in zip(losses(quantized), bf16, strict=True))


@pytest.mark.parametrize("scan", [True, False])
def test_each_step_draws_anew(tmp_path, scan):
    """One batch again and again at a learning rate of zero: a recipe that draws has other gradients at each step, one
    that rounds to nearest has the same."""
    for recipe, different in (("te_nvfp4", 4), ("te_nvfp4_no_sr", 1)):
        metrics = run(tmp_path, recipe, 4, learning_rate=0.0, scan_layers=scan)[1]
        assert len({row["learning/raw_grad_norm"] for row in metrics}) == different


@pytest.mark.parametrize("recipe", ["te_nvfp4", "fp8_delayed"])
def test_a_run_that_is_restored_has_the_losses_of_one_that_went_on(tmp_path, recipe):
    saved = dict(enable_checkpointing=True, async_checkpointing=False, checkpoint_period=2,
                 learning_rate_schedule_steps=5)
    whole = losses(run(tmp_path, recipe, 5, run_name="whole", **saved)[1])
    first = losses(run(tmp_path, recipe, 3, run_name="parts", **saved)[1])
    rest = run(tmp_path, recipe, 5, run_name="parts", **saved)[1]
    assert first == whole[:3]
    assert losses(rest) == whole[-len(rest):] and 0 < len(rest) < 5
