# SPDX-License-Identifier: Apache-2.0
"""Experiment F: tokens a second of a training step by recipe, and what the GPU spends it on; and a linear layer
called through JAX, in turns with the same calls of the C++ library without JAX.

    python examples/jax/experiments/speed.py --out results
"""

import argparse
import gzip
import json
import pathlib
import statistics
import tempfile
import time

import fourscale_jax
import jax
import jax.numpy as jnp
import numpy as np
from analysis import write_csv
from calls import Layer, synchronize
from fourscale_jax.quantized import key_words
from fourscale_jax.trainer import Config
from fourscale_jax.trainer.data import Text
from fourscale_jax.trainer.loop import batch
from fourscale_jax.trainer.step import initial_state, make_mesh, make_train_step

MODEL = dict(layers=4, width=2048, heads=16, hidden=5632, sequence=2048, batch=8, attention="cudnn")
RECIPES = (("bf16", "native"), ("fp8_current", "native"), ("fp8_block", "native"), ("mxfp8", "native"),
           ("te_nvfp4", "native"), ("te_nvfp4", "blackwell"), ("te_nvfp4_no_rht", "native"), ("mxfp4", "native"))
WARM, TIMED, TRACED = 10, 20, 3
LAYER = 8192, 4096, 14336  # tokens, in, out, as device_linear_bench has them
LAYERS = (("bf16", "native"), ("te_nvfp4", "blackwell"), ("te_nvfp4", "native"), ("fp8_current", "native"),
          ("fp8_block", "native"))
KINDS = (("decoding for a GEMM", ("dequantize", "decode")), ("GEMM", ("gemm", "nvjet", "cutlass", "cublas", "dot")),
         ("quantization", ("quantize", "amax", "transpose_kernel")), ("attention", ("cudnn", "sdpa", "fmha", "flash")))


def kernels(folder):
    """(name, microseconds) of each kernel in a profiler trace."""
    path, = pathlib.Path(folder).rglob("*.trace.json.gz")
    events = json.loads(gzip.open(path).read())["traceEvents"]
    gpus = {e["pid"] for e in events if e.get("name") == "process_name" and "GPU" in e["args"]["name"]}
    streams = {(e["pid"], e["tid"]) for e in events
               if e.get("name") == "thread_name" and "Stream" in e["args"]["name"] and e["pid"] in gpus}
    return [(e["name"], e["dur"]) for e in events if e.get("ph") == "X" and (e["pid"], e.get("tid")) in streams]


def kind_of(name):
    name = name.split("<")[0].lower()  # template arguments name other things
    return next((kind for kind, words in KINDS if any(word in name for word in words)), "the rest")


def shares(folder):
    """Milliseconds a step by kind of kernel."""
    sums = {}
    for name, microseconds in kernels(folder):
        sums[kind_of(name)] = sums.get(kind_of(name), 0.0) + microseconds / 1000 / TRACED
    return {kind: round(ms, 3) for kind, ms in sorted(sums.items())}


def step_of(recipe, accumulate, text):
    config = Config(quantization=recipe, accumulate=accumulate, **MODEL)
    mesh, text = make_mesh(config), Text(text, config.sequence)
    train_step, state = make_train_step(config.program, mesh), initial_state(config, mesh)

    def run(count):
        nonlocal state
        for step in range(int(state.step), int(state.step) + count):
            state, metrics = train_step(state, batch(config, mesh, text, step))
        return float(metrics["loss"])

    run(WARM)
    begun = time.perf_counter()
    run(TIMED)
    seconds = (time.perf_counter() - begun) / TIMED
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            run(TRACED)
        spent = shares(folder)
    tokens = config.batch * config.sequence / seconds
    return {"recipe": recipe, "accumulate": accumulate, "ms": round(1000 * seconds, 2),
            "tokens_per_second": round(tokens), "kernels_ms": spent, "device": jax.devices()[0].device_kind}


def multiplies_by_library(recipe, accumulate):
    """Whether all GEMMs of dense() are calls of the library, so that there is something to compare with."""
    return recipe != "bf16" and (accumulate == "blackwell" or recipe.startswith("fp8_"))


def layer_of(recipe, accumulate, repeats=10, turns=15):
    """Milliseconds of forward and backward of one linear layer on random data, through JAX and by the same calls
    without it, in turns: the least and the median of the turns, without the first."""
    tokens, in_, out = LAYER
    cases = ((tokens, in_), jnp.bfloat16), ((in_, out), jnp.float32), ((tokens, out), jnp.bfloat16)
    x, w, dy = (jax.random.normal(jax.random.key(i), *case) for i, case in enumerate(cases))

    @jax.jit
    def step(x, w, dy, seed):
        layer = lambda x, w: fourscale_jax.dense(x, w, recipe=recipe, seed=seed, accumulate=accumulate)
        y, backward = jax.vjp(layer, x, w)
        return y, *backward(dy)

    def timed(run, wait):
        begun = time.perf_counter()
        for _ in range(repeats):
            results = run()
        wait(results)
        return 1000 * (time.perf_counter() - begun) / repeats

    seed = fourscale_jax.draw_key(1)
    sides = {"": (lambda: step(x, w, dy, seed), jax.block_until_ready)}
    if multiplies_by_library(recipe, accumulate):
        layer = Layer(recipe, x, w, dy, key_words(seed))
        sides["cpp_"] = (layer.run, lambda _: synchronize())
    turns = [{side: timed(*how) for side, how in sides.items()} for _ in range(turns)][1:]
    row = {"layer": LAYER, "recipe": recipe, "accumulate": accumulate, "device": jax.devices()[0].device_kind}
    for side in sides:
        times = [turn[side] for turn in turns]
        row |= {f"{side}ms": round(min(times), 3), f"{side}median_ms": round(statistics.median(times), 3)}
    if "cpp_" in sides:
        ratios = [turn[""] / turn["cpp_"] for turn in turns]
        row |= {"overhead_percent": round(100 * statistics.median(ratios) - 100, 2),
                "same_bits": all(np.array_equal(np.asarray(a).view(np.uint8), np.asarray(b).view(np.uint8))
                                 for a, b in zip(step(x, w, dy, seed), layer.results))}
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", default="", help="bytes to learn; generated sentences if empty")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--steps", nargs="+", metavar="RECIPE:SUMS", help="only these training steps, and no layer")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows, layers, steps = [], LAYERS, RECIPES
    if arguments.steps:
        layers, steps = (), [tuple(name.split(":")) for name in arguments.steps]
        for unknown in set(steps) - set(RECIPES):
            parser.error(f"--steps {':'.join(unknown)}: one of {', '.join(':'.join(r) for r in RECIPES)}")
    with (arguments.out / "speed.jsonl").open("w") as file:
        for measure, cases in ((layer_of, layers), (step_of, [(*r, arguments.text) for r in steps])):
            for case in cases:
                rows.append(measure(*case))
                file.write(json.dumps(rows[-1]) + "\n")
                file.flush()
                print(rows[-1], flush=True)
    write_csv(arguments.out / "speed.csv", rows)


if __name__ == "__main__":
    main()
