# SPDX-License-Identifier: Apache-2.0
"""All that a run depends on. Its fields are options of the command line, and are saved with the checkpoints."""

import argparse
import dataclasses

import fourscale_jax

GROUPS = {"attention": ("qkv", "out"), "mlp": ("gate_up", "down")}
KIND = {projection: kind for kind, group in GROUPS.items() for projection in group}
PROJECTIONS = tuple(KIND)


def option(default, help):
    return dataclasses.field(default=default, metadata={"help": help})


@dataclasses.dataclass(frozen=True)
class Config:
    """ValueError for values that do not go together."""

    quantization: str = option("bf16", f"the recipe: {', '.join(fourscale_jax.recipes())}")
    quantize: str = option("attention,mlp", "the projections that follow it: qkv, out, gate_up, down, or groups of "
                           "them, attention and mlp; the rest is BF16")
    gemms: str = option("fprop,dgrad,wgrad", "the GEMMs of those that multiply quantized operands; the rest is BF16")
    accumulate: str = option("blackwell", "how 4-bit GEMMs sum: blackwell, with its bits, or native, as XLA likes")
    first_in_bf16: int = option(0, "transformer layers at the beginning that stay in BF16, at least")
    last_in_bf16: int = option(0, "the same at the end")

    layers: int = option(2, "transformer layers")
    width: int = option(128, "of the residual stream")
    heads: int = option(4, "of attention; width / heads must be even")
    hidden: int = option(384, "width of the MLP inside SwiGLU")

    attention: str = option("xla", "who computes softmax(q k^T) v: xla, or cudnn, faster on GPUs and not deterministic")

    text: str = option("", "a file of any kind, read as bytes; generated sentences if empty")
    sequence: int = option(128, "bytes in a sequence")
    batch: int = option(16, "sequences in a step, on all devices together")
    microbatches: int = option(1, "parts that a device works on one after the other")

    steps: int = option(200, "of the whole schedule")
    stop: int = option(0, "end after so many, without a checkpoint, as if interrupted; 0: never")
    learning_rate: float = option(2e-3, "between warmup and decay")
    warmup: float = option(0.02, "share of the steps with a rising learning rate")
    decay: float = option(0.2, "share of the steps with a falling one")
    final: float = option(0.01, "the last learning rate as a share of the highest")
    weight_decay: float = option(0.1, "AdamW's, for matrices")
    clip: float = option(1.0, "largest norm of the gradient")
    loss_scaling: bool = option(False, "dynamic, from 2^15; a step whose gradient is not finite is skipped")
    seed: int = option(0, "initial weights, order of the data and stochastic rounding follow from it")

    tensor: int = option(1, "devices that share each matrix; the others share the batch")
    remat: bool = option(False, "compute norms, SwiGLU and attention again in backward; GEMMs and quantization are not")
    coordinator: str = option("", "host:port of process 0, for several processes (jax.distributed)")
    processes: int = option(1, "their number")
    process: int = option(0, "which one this is")

    out: str = option("", "folder for metrics.jsonl, loss.png and checkpoints; resumes what it finds there")
    save_every: int = option(0, "steps between checkpoints; 0: none")
    eval_every: int = option(0, "steps between evaluations; 0: only at the end")
    eval_sequences: int = option(64, "held-out sequences of an evaluation")
    profile: str = option("", "folder for a profiler trace of three steps")

    def __post_init__(self):
        self.recipe(0, "qkv")
        fourscale_jax.check_layers(self.quantization, self.layers)
        if self.width % self.heads or self.width // self.heads % 2:
            raise ValueError(f"{self.heads} heads of an even size do not fit in a width of {self.width}")
        if self.heads % self.tensor or self.hidden % self.tensor:
            raise ValueError(f"{self.heads} heads, {self.hidden} hidden values do not divide by tensor={self.tensor}")
        if not 0 <= self.warmup <= 1 - self.decay <= 1:
            raise ValueError("warmup and decay are shares of the steps, together 1 at most")
        if self.save_every and not self.out:
            raise ValueError("checkpoints need a folder: --out")

    @property
    def program(self):
        """The config less what a compiled step does not depend on: runs of several seeds share one."""
        others = PLACES + ("seed", "text")
        return dataclasses.replace(self, **{f.name: f.default for f in dataclasses.fields(self) if f.name in others})

    def recipe(self, layer, projection):
        """Of one linear layer: the recipe's own policy, less what stays in BF16 here."""
        chosen = {p for name in self.quantize.split(",") for p in GROUPS.get(name, (name,)) if name}
        if unknown := chosen - set(PROJECTIONS):
            raise ValueError(f"there is no projection {', '.join(sorted(unknown))}; there are {', '.join(PROJECTIONS)}")
        in_bf16 = (projection not in chosen or layer < self.first_in_bf16 or layer >= self.layers - self.last_in_bf16 or
                   not fourscale_jax.quantizes(self.quantization, KIND[projection], layer, self.layers))
        return "bf16" if in_bf16 else self.quantization


# What may differ between a run and its resumption without changing a bit of it.
PLACES = ("stop", "out", "save_every", "eval_every", "eval_sequences", "profile", "coordinator", "process")


def parse(arguments):
    """A Config from the command line."""
    parser = argparse.ArgumentParser(prog="fourscale_jax.trainer", description="Trains a small language model.",
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for field in dataclasses.fields(Config):
        flag = "--" + field.name.replace("_", "-")
        if field.type is bool:
            parser.add_argument(flag, action="store_true", help=field.metadata["help"])
        else:
            parser.add_argument(flag, type=field.type, default=field.default, help=field.metadata["help"])
    return Config(**vars(parser.parse_args(arguments)))
