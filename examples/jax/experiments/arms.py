# SPDX-License-Identifier: Apache-2.0
"""What is trained, and what is claimed of it. plan.md says why, and was written before the runs."""

import typing

EQUIVALENT = 0.005  # nats per byte
SIZES = {
    "tiny": dict(layers=1, width=128, heads=2, hidden=128, sequence=64, batch=8, steps=20, eval_sequences=8),
    "xs": dict(layers=6, width=256, heads=4, hidden=640, sequence=256, batch=128, steps=3200, learning_rate=2e-3,
               attention="cudnn"),
    "s": dict(layers=8, width=512, heads=8, hidden=1408, sequence=512, batch=128, steps=2000, learning_rate=1e-3,
              attention="cudnn"),
}


class Arm(typing.NamedTuple):
    """One way to train: options of the trainer's Config. With a trunk, from the state that the trunk's run has after
    the share `at` of its steps."""

    options: dict
    length: float = 1.0  # steps of its schedule, as a multiple of the size's
    trunk: str = ""
    at: float = 0.0
    seeds: int = 5  # at most, in runs that begin with seed 0


class Claim(typing.NamedTuple):
    """That the loss of one arm is greater than the other's; or, with a margin, that they are equivalent."""

    greater: str
    than: str
    margin: float = 0.0
    planned: bool = True  # before the runs

    def __str__(self):
        return f"|{self.greater} - {self.than}| < {self.margin}" if self.margin else f"{self.greater} > {self.than}"


class Experiment(typing.NamedTuple):
    title: str
    arms: tuple  # their names; gaps are to the first one
    claims: tuple


def _recipe(name, **options):
    return Arm(dict(quantization=name, accumulate="native") | options)


def _branch(**options):
    return Arm(dict(quantization="te_nvfp4", accumulate="native") | options, trunk="te_nvfp4", at=0.7)


ARMS = {name: _recipe(name) for name in ("bf16", "fp8_current", "fp8_delayed", "mxfp8", "te_nvfp4", "te_nvfp4_no_rht",
                                         "mlp_only", "mxfp4")} | {
    "te_nvfp4_blackwell": _recipe("te_nvfp4", accumulate="blackwell")._replace(seeds=2),
    "four_over_six": _recipe("four_over_six")._replace(seeds=3),
    "quartet2": _recipe("quartet2")._replace(seeds=3),
    "te_nvfp4_last": _recipe("te_nvfp4", last_in_bf16=1)._replace(seeds=3),
    "quartet2_last": _recipe("quartet2", last_in_bf16=1)._replace(seeds=3),
    "mxfp4_1.2": _recipe("mxfp4")._replace(length=1.2, seeds=3),
    "mxfp4_1.4": _recipe("mxfp4")._replace(length=1.4, seeds=3),
    "mxfp4_1.7": _recipe("mxfp4")._replace(length=1.7, seeds=3),
    "then_no_sr": _branch(quantization="te_nvfp4_no_sr"),
    "then_no_rht": _branch(quantization="te_nvfp4_no_rht"),
    "then_no_2d": _branch(quantization="te_nvfp4_no_2d"),
    "then_last": _branch(last_in_bf16=1),
    "then_forward_bf16": _branch(gemms="dgrad,wgrad"),
    "then_backward_bf16": _branch(gemms="fprop"),
    "then_bf16": _branch(quantization="bf16"),
}

EXPERIMENTS = {
    "A": Experiment(
        "Format ladder",
        ("bf16", "fp8_current", "fp8_delayed", "mxfp8", "te_nvfp4", "te_nvfp4_no_rht", "mlp_only", "mxfp4",
         "te_nvfp4_blackwell"),
        (Claim("te_nvfp4", "bf16"), Claim("te_nvfp4_no_rht", "bf16"), Claim("te_nvfp4", "fp8_current"),
         Claim("te_nvfp4", "mxfp8"), Claim("mxfp4", "te_nvfp4"), Claim("te_nvfp4", "mlp_only"),
         Claim("fp8_current", "bf16", EQUIVALENT), Claim("fp8_delayed", "bf16", EQUIVALENT),
         Claim("mxfp8", "bf16", EQUIVALENT), Claim("te_nvfp4", "te_nvfp4_no_rht", EQUIVALENT),
         Claim("te_nvfp4", "te_nvfp4_blackwell", EQUIVALENT))),
    "B": Experiment(
        "What each part of te_nvfp4 buys",
        ("te_nvfp4", "then_no_sr", "then_no_rht", "then_no_2d", "then_last", "then_forward_bf16", "then_backward_bf16",
         "then_bf16"),
        (Claim("then_no_sr", "te_nvfp4"), Claim("then_no_rht", "te_nvfp4"), Claim("then_no_2d", "te_nvfp4"),
         Claim("te_nvfp4", "then_last"), Claim("te_nvfp4", "then_forward_bf16"),
         Claim("te_nvfp4", "then_backward_bf16"), Claim("then_backward_bf16", "then_forward_bf16"),
         Claim("te_nvfp4", "then_bf16"))),
    "C": Experiment(
        "Tokens to equal loss",
        ("te_nvfp4", "mxfp4", "mxfp4_1.2", "mxfp4_1.4", "mxfp4_1.7"),
        (Claim("mxfp4", "te_nvfp4"), Claim("mxfp4_1.2", "te_nvfp4"), Claim("mxfp4_1.4", "te_nvfp4"),
         Claim("te_nvfp4", "mxfp4_1.7"))),
    "D": Experiment(
        "Better than the te_nvfp4 preset",
        ("te_nvfp4", "four_over_six", "quartet2", "te_nvfp4_last", "quartet2_last"),
        (Claim("te_nvfp4", "four_over_six"), Claim("te_nvfp4", "quartet2"), Claim("te_nvfp4", "te_nvfp4_last"),
         Claim("te_nvfp4", "quartet2_last"), Claim("te_nvfp4_last", "quartet2_last", planned=False))),
}
