# SPDX-License-Identifier: Apache-2.0
"""What a run says: MaxText's line for each step, a progress bar, JSON lines, a picture."""

import json
import pathlib
import sys

import jax
import tqdm


def flops_per_token(config, parameters):
    """Of a training step: 6 for each weight of a matrix that multiplies, and causal attention."""
    return 6 * parameters + 6 * config.layers * config.sequence * config.width


def multiplying_parameters(params):
    """The weights that multiply: not the embedding, not the norms."""
    return sum(w.size for path, w in jax.tree_util.tree_leaves_with_path(params)
               if w.ndim > 1 and path[0].key != "embedding")


def line(step, seconds, tflops, tokens_per_second, weights, loss):
    """As MaxText prints it, so that what reads its logs reads these. `weights` are target tokens in the batch."""
    return (f"completed step: {step}, seconds: {seconds:.3f}, TFLOP/s/device: {tflops:.3f}, "
            f"Tokens/s/device: {tokens_per_second:.3f}, total_weights: {weights}, loss: {loss:.3f}")


class Log:
    """Writes to the terminal and, if config.out is a folder, to its metrics.jsonl. Only process 0 does."""

    def __init__(self, config, first_step, parameters, devices):
        self.config, self.speaks, self.path = config, config.process == 0, None
        self.flops, self.devices = flops_per_token(config, parameters), devices
        self.bar = tqdm.tqdm(total=config.steps, initial=first_step, unit="step", file=sys.stderr,
                             disable=None if self.speaks else True)  # None: where it is no terminal
        if config.out and self.speaks:
            self.path = pathlib.Path(config.out) / "metrics.jsonl"
            kept = [r for r in read(self.path) if r["step"] < first_step]  # the rest was after the checkpoint
            self.path.write_text("".join(json.dumps(r) + "\n" for r in kept))

    def step(self, step, seconds, metrics):
        tokens = self.config.batch * self.config.sequence
        rate = tokens / self.devices / seconds
        record = {"step": step, "seconds": seconds, "tflops_per_device": rate * self.flops / 1e12,
                  "tokens_per_second_per_device": rate} | metrics
        self.write(record, line(step, seconds, record["tflops_per_device"], rate, tokens, metrics["loss"]))
        self.bar.update()

    def evaluation(self, step, loss):
        self.write({"step": step, "validation_loss": loss}, f"eval after step: {step}, loss: {loss:.4f}")

    def write(self, record, text):
        if not self.speaks:
            return
        self.bar.write(text, file=sys.stdout)
        if self.path:
            with self.path.open("a") as file:
                file.write(json.dumps(record) + "\n")


def read(path):
    """The records of a metrics.jsonl; none if there is no such file."""
    return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []


def plot(folder):
    """loss.png from metrics.jsonl."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    records = read(pathlib.Path(folder) / "metrics.jsonl")
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for name, style in (("loss", "-"), ("validation_loss", "o")):
        points = [(r["step"], r[name]) for r in records if name in r]
        axes.plot(*zip(*points) if points else ([], []), style, label=name.replace("_", " "), markersize=4)
    axes.set(xlabel="step", ylabel="nats per byte")
    axes.legend()
    figure.savefig(pathlib.Path(folder) / "loss.png", dpi=120, bbox_inches="tight")
    pyplot.close(figure)
