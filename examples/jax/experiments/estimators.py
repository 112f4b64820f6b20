# SPDX-License-Identifier: Apache-2.0
"""Experiment E: what makes the gradients of a recipe right. Three claims, proven on estimators in seconds, where
training would need many runs. plan.md derives the margins.

    python examples/jax/experiments/estimators.py [--out FOLDER]
"""

import argparse
import functools
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from analysis import write_csv
from fourscale_jax import dense, dequantize, quantize

TOKENS, IN, OUT, DRAWS = 256, 64, 64, 256
AMAX = 2688.0  # 6 * 448: NVFP4's tensor scale is then 1, and a block with this amax has the scale 448, without rounding
RECIPE = "te_nvfp4_no_rht"


def normal(shape, seed):
    return np.random.Generator(np.random.Philox(seed)).standard_normal(shape).astype(np.float32)


def as_bfloat16(x):
    return np.asarray(jnp.asarray(x, jnp.bfloat16), np.float32)


def unsaturated_gradients():
    """[TOKENS, OUT], the amax in every 16th token: all blocks along tokens have the scale 448, and none saturates."""
    dy = np.clip(as_bfloat16(normal((TOKENS, OUT), 1) * 0.125 * AMAX), -AMAX, AMAX)
    dy[::16] = AMAX
    return dy


def activations_on_grid():
    """[TOKENS, IN] that NVFP4 represents: codes times 448."""
    codes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    x = codes[np.random.Generator(np.random.Philox(2)).integers(0, 8, (TOKENS, IN))] * 448
    x *= np.sign(normal((TOKENS, IN), 3))
    x[::16] = AMAX
    return x


@functools.partial(jax.jit, static_argnums=2)
def weight_gradients(x, dy, draws):
    """[draws, IN, OUT]: dW of a linear layer under independent draws."""
    def one(draw):
        key = jnp.stack([jnp.uint32(1), jnp.uint32(0), jnp.uint32(0), draw])
        w = jnp.zeros((IN, OUT), jnp.float32)
        return jax.vjp(lambda w: dense(x, w, recipe=RECIPE, seed=key), w)[1](dy)[0]

    return jax.lax.map(one, jnp.arange(draws, dtype=jnp.uint32))


def relative_square(error, of):
    return float(np.sum(np.square(error, dtype=np.float64)) / np.sum(np.square(of, dtype=np.float64)))


def bias():
    """The mean of K estimates of dW: its error falls as 1 / K under stochastic rounding; under nearest it cannot."""
    x, dy = activations_on_grid(), unsaturated_gradients()
    exact = x.astype(np.float64).T @ dy
    estimates = weight_gradients(jnp.asarray(x, jnp.bfloat16), jnp.asarray(dy, jnp.bfloat16), DRAWS)
    estimates = np.asarray(estimates, np.float64)
    nearest = dequantize(quantize(jnp.asarray(dy), recipe=RECIPE, role="activation", columnwise=True), jnp.float32)
    of_nearest = relative_square(x.astype(np.float64).T @ np.asarray(nearest).T - exact, exact)
    errors = {k: relative_square(estimates[:k].mean(0) - exact, exact) for k in (1, 4, 16, 64, 256)}
    fall = errors[1] / errors[DRAWS]
    measured = {f"stochastic, mean of {k}": error for k, error in errors.items()} | {"nearest, any mean": of_nearest}
    return measured | {"fall": fall}, 0.75 * DRAWS < fall < DRAWS / 0.75 and errors[DRAWS] < of_nearest


def chain_rule():
    """With 2-D weight scales dX is the gradient of the forward that was computed: the columnwise copy is the transpose
    of the rowwise one in every bit, and dX of unit gradients is that copy."""
    w = as_bfloat16(normal((IN, OUT), 4) * 300).clip(-AMAX, AMAX)
    w[0, 0] = AMAX

    def copies(role):
        return [np.asarray(dequantize(quantize(jnp.asarray(w.T), recipe=RECIPE, role=role, columnwise=c), jnp.float32))
                for c in (False, True)]

    (forward, backward), (one_d, one_d_t) = copies("weight"), copies("activation")
    layer = functools.partial(dense, w=jnp.asarray(w), recipe=RECIPE, seed=jnp.zeros(4, jnp.uint32))
    _, dgrad = jax.vjp(layer, jnp.zeros((OUT, IN), jnp.bfloat16))
    dx = np.asarray(dgrad(jnp.asarray(AMAX * np.eye(OUT), jnp.bfloat16))[0], np.float32)
    differing = {"2-D, of both copies": int(np.sum(forward != backward.T)),
                 "2-D, of dX and the forward's weights": int(np.sum(dx != as_bfloat16(AMAX * forward)))}
    distance = {"1-D, relative distance of both copies": relative_square(one_d - one_d_t.T, w) ** 0.5}
    return differing | distance, not any(differing.values()) and distance["1-D, relative distance of both copies"] > 0


def shrinkage():
    """Rounding to nearest shrinks what it rounds: the gain <x, Q(x)> / <x, x> of normal values is below 1."""
    x = normal((1024, 1024), 5)

    def gain(recipe, role="activation"):
        q = dequantize(quantize(jnp.asarray(x), recipe=recipe, role=role, seed=jnp.ones(4, jnp.uint32)), jnp.float32)
        ratios = np.sum(x * np.asarray(q), 1, np.float64) / np.sum(np.square(x), 1, np.float64)
        return ratios.mean(), ratios.std() / ratios.size**0.5  # rows are independent

    gains = {"nvfp4 1x16": gain(RECIPE), "nvfp4 1x16, four over six": gain("four_over_six"),
             "nvfp4 16x16": gain(RECIPE, "weight"), "mxfp4 1x32": gain("mxfp4")}
    stochastic = gain(RECIPE, "gradient")
    measured = {name: float(mean) for name, (mean, _) in (gains | {"nvfp4 1x16, stochastic": stochastic}).items()}
    return measured, all(mean + 5 * error < 1 for mean, error in gains.values())


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    folder, rows = parser.parse_args(arguments).out, []
    for claim in (bias, chain_rule, shrinkage):
        measured, holds = claim()
        print(f"{'PASS' if holds else 'FAIL'}  {' '.join(claim.__doc__.split())}")
        for name, value in measured.items():
            print(f"      {name:40} {value:.6g}")
            rows.append({"claim": claim.__name__, "verdict": "PASS" if holds else "FAIL", "what": name, "value": value})
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        write_csv(folder / "estimators.csv", rows)
        (folder / "estimators.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return all(row["verdict"] == "PASS" for row in rows)


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
