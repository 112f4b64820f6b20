# SPDX-License-Identifier: Apache-2.0
"""What needs no training: schedule, policy, data, loss scale, the line of a step."""

import lzma
import re

import fourscale_jax
import jax.numpy as jnp
import numpy as np
import pytest
from fourscale_jax.trainer import metrics
from fourscale_jax.trainer.config import PROJECTIONS, parse
from fourscale_jax.trainer.data import Text, generated
from fourscale_jax.trainer.optimizer import GROWTH_STEPS, LossScale, schedule
from trainer_case import tiny


def test_schedule_warms_up_stays_and_decays():
    rate = schedule(tiny(steps=100, warmup=0.1, decay=0.2, final=0.01, learning_rate=1.0))
    rates = [float(rate(step)) for step in range(101)]
    np.testing.assert_allclose(rates[:10], (np.arange(10) + 1.0) / 11, rtol=1e-6)
    assert rates[10:81] == [1.0] * 71
    np.testing.assert_allclose(rates[80:], np.linspace(1.0, 0.01, 21), rtol=1e-6)


def test_policies_of_presets_hold():
    def recipes(layers, **options):
        config = tiny(layers=layers, **options)
        return [[config.recipe(layer, p) for p in PROJECTIONS] for layer in range(layers)]

    assert recipes(2, quantization="bf16") == 2 * [4 * ["bf16"]]
    assert recipes(2, quantization="te_nvfp4") == 2 * [4 * ["te_nvfp4"]]
    assert recipes(2, quantization="mlp_only") == 2 * [["bf16", "bf16", "mlp_only", "mlp_only"]]
    assert [r[2] for r in recipes(12, quantization="paper")] == 2 * ["bf16"] + 2 * ["paper"] + 8 * ["bf16"]
    assert recipes(7, quantization="nemotron3") == 5 * [2 * ["bf16"] + 2 * ["nemotron3"]] + 2 * [4 * ["bf16"]]


def test_flags_take_away_from_a_policy():
    config = tiny(layers=6, quantization="te_nvfp4", first_in_bf16=1, last_in_bf16=2, quantize="qkv,mlp")
    assert [config.recipe(layer, "down") for layer in range(6)] == ["bf16"] + 3 * ["te_nvfp4"] + 2 * ["bf16"]
    assert [config.recipe(2, p) for p in PROJECTIONS] == ["te_nvfp4", "bf16", "te_nvfp4", "te_nvfp4"]
    assert tiny(quantization="mlp_only", quantize="attention").recipe(0, "down") == "bf16"


@pytest.mark.parametrize("options, sentence", [
    (dict(quantization="fp3"), 'no recipe "fp3"'), (dict(quantize="qkv,typo"), "no projection typo"),
    (dict(heads=3), "heads"), (dict(tensor=3), "divide by tensor=3"), (dict(save_every=2), "--out"),
    (dict(warmup=0.9, decay=0.2), "shares"), (dict(quantization="paper"), "all 1 layers in bf16: it needs 11")])
def test_what_does_not_fit_is_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        tiny(**options)


def test_command_line_is_the_config():
    assert parse([]) == tiny(**vars(parse([])))
    assert parse(["--loss-scaling", "--first-in-bf16", "2", "--decay", "0.3"]) == tiny(
        **vars(parse([])) | dict(loss_scaling=True, first_in_bf16=2, decay=0.3))


def test_a_text_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "text.xz").write_text("not packed")
    for name, sentence in (("missing", "No such file"), ("text.xz", "format not supported"), ("", "directory")):
        with pytest.raises(ValueError, match=f"text cannot be read: .*{sentence}"):
            Text(str(tmp_path / name), 32)


def test_each_preset_is_a_quantization():
    for recipe in fourscale_jax.recipes():
        config = tiny(layers=16, quantization=recipe)
        assert any(config.recipe(layer, "down") == recipe for layer in range(16))


def test_batches_follow_from_seed_and_step():
    text = Text("", 32)
    assert np.array_equal(text.batch(1, 5, 8), text.batch(1, 5, 8))
    assert not np.array_equal(text.batch(1, 5, 8), text.batch(1, 6, 8))
    assert not np.array_equal(text.batch(1, 5, 8), text.batch(2, 5, 8))
    joined = bytes(text.training)
    assert all(bytes(row.astype(np.uint8)) in joined for row in text.batch(1, 5, 8))


def test_held_out_text_is_not_trained_on(tmp_path):
    file = tmp_path / "text"
    file.write_bytes(bytes(range(100)) * 20 + bytes([200]) * 105)
    text = Text(str(file), 32)
    assert max(text.training) < 200 and set(text.validation(3).ravel()) <= set(range(100)) | {200}
    assert text.validation(3)[-1].tolist() == 33 * [200]
    (tmp_path / "text.xz").write_bytes(lzma.compress(file.read_bytes()))
    assert np.array_equal(Text(str(tmp_path / "text.xz"), 32).training, text.training)
    with pytest.raises(ValueError, match="too few"):
        Text(str(file), 2000)


def test_generated_text_is_true():
    sums = re.findall(r"(\w+) and (\w+) make (\S+)\.", generated(20000).decode())
    small = "zero one two three four five six seven eight nine ten".split()
    checked = [(a.lower(), b, c) for a, b, c in sums if {a.lower(), b, c} <= set(small)]
    assert len(checked) > 3 and all(small.index(a) + small.index(b) == small.index(c) for a, b, c in checked)


def test_loss_scale_halves_and_doubles():
    config = tiny(loss_scaling=True)
    scale = LossScale.initial(config)
    assert scale.after(jnp.bool_(False), config) == LossScale(2.0**14, 0)
    before = LossScale(scale.value, jnp.int32(GROWTH_STEPS - 1))
    assert before.after(jnp.bool_(True), config) == LossScale(2.0**16, 0)
    assert scale.after(jnp.bool_(True), config) == LossScale(2.0**15, 1)
    assert LossScale.initial(tiny()).after(jnp.bool_(False), tiny()) == LossScale(1.0, 0)


def test_line_is_maxtexts():
    assert metrics.line(3, 1.23456, 2017.04, 40000.0, 8192, 2.5) == (
        "completed step: 3, seconds: 1.235, TFLOP/s/device: 2017.040, Tokens/s/device: 40000.000, "
        "total_weights: 8192, loss: 2.500")


def test_flops_count_what_multiplies():
    config = tiny()
    params = {"embedding": jnp.zeros((256, 64)), "head": jnp.zeros((64, 256)),
              "layer_0": {"qkv": {"w": jnp.zeros((64, 3, 64))}, "before_mlp": {"scale": jnp.zeros(64)}}}
    assert metrics.multiplying_parameters(params) == 64 * 256 + 3 * 64 * 64
    assert metrics.flops_per_token(config, 1000) == 6000 + 6 * 32 * 128
