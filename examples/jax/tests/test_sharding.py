# SPDX-License-Identifier: Apache-2.0
"""Two devices have the bits of one, except for sums over devices."""

import functools

import fourscale_jax as fj
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fourscale_jax import _library, quantized
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from support import FP8, draw_key, linear_case, random_matrix, same_bits, step, whole_case

MESH = jax.make_mesh((2,), ("d",), axis_types=(AxisType.Auto,), devices=jax.devices("cpu")[:2])

# How x, w and dy are split, and which of y, dx, dw is a sum over devices.
LAYERS = {
    "data": ((P("d", None), P(), P("d", None)), 2),
    "column": ((P(), P(None, "d"), P(None, "d")), 1),
    "row": ((P(None, "d"), P("d", None), P()), 0),
}


@pytest.fixture(autouse=True)
def only_the_cpu():
    with jax.default_device(MESH.devices[0]):
        yield


def on_mesh(spec, m):
    return jax.device_put(m, NamedSharding(MESH, spec))


def close(got, want):
    got, want = (np.asarray(m, np.float32) for m in (got, want))
    return np.abs(got - want).max() <= 2.0**-7 * np.abs(want).max()


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("recipe", ["te_nvfp4", "mxfp4", "four_over_six", "quartet2", "fp8_current", "fp8_block"])
def test_jit_splits_a_layer(recipe, layer):
    case = linear_case(256, 256, 256)
    specs, summed = LAYERS[layer]
    whole = jax.jit(functools.partial(step, recipe))
    run = whole.lower(*map(on_mesh, specs, case), draw_key()).compile()
    assert "all-gather" not in run.as_text()  # no device gets what another one has
    for i, (got, want) in enumerate(zip(run(*map(on_mesh, specs, case), draw_key()), whole(*case, draw_key()))):
        assert close(got, want) if i == summed else same_bits(got, want)


def test_a_sum_over_two_devices_is_that_of_two_halves():
    a, b = (fj.quantize(random_matrix(64, 256, i)) for i in (1, 2))
    halves = [fj.scaled_matmul(*(fj.Quantized(q.codes[:, 64 * i:64 * i + 64], q.scales[:, 8 * i:8 * i + 8], q.amaxes,
                                              q.copy) for q in (a, b)), jnp.float32) for i in (0, 1)]
    split = jax.tree.map(lambda m: on_mesh(P(None, "d") if m.ndim == 2 else P(), m), (a, b))
    got = jax.jit(functools.partial(fj.scaled_matmul, dtype=jnp.float32))(*split)
    assert same_bits(got, halves[0] + halves[1])


def test_parts_that_are_no_whole_blocks_are_gathered():
    x, w, dy = linear_case(16, 32, 48)  # half of 16 tokens is no block; 48 outputs are three blocks
    specs = (P("d", None), P(None, "d"), P("d", None))
    got = jax.jit(functools.partial(step, "te_nvfp4"))(*map(on_mesh, specs, (x, w, dy)), draw_key())
    for g, want in zip(got, step("te_nvfp4", x, w, dy, draw_key())):
        assert same_bits(g, want)


@pytest.mark.parametrize("recipe", ("te_nvfp4", "quartet2"))
@pytest.mark.parametrize("layer", LAYERS)
def test_each_tensor_may_have_its_own_axis_names(layer, recipe):
    """The bits are those of one name for all; tensors that no devices share need no collective."""
    case, (specs, summed) = linear_case(256, 256, 256), LAYERS[layer]
    own = {role: "d" if "d" in spec else () for role, spec in zip(("activation", "weight", "gradient"), specs)}
    outputs = tuple(P("d") if i != summed else P() for i in range(3))

    def mapped(axis_name):
        part = lambda x, w, dy: tuple(step(recipe, x, w, dy, draw_key(), axis_name=axis_name))
        return jax.jit(jax.shard_map(part, mesh=MESH, in_specs=specs, out_specs=outputs, check_vma=False))

    for got, want in zip(mapped(own)(*case), mapped("d")(*case)):
        assert same_bits(got, want)
    count = lambda axis_name: mapped(axis_name).lower(*case).as_text().count("all_reduce")
    assert count(own) == count("d") * sum(map(bool, own.values())) // 3 > 0


@pytest.mark.parametrize("layer", LAYERS)
def test_shard_map_with_axis_name(layer):
    """Each device draws by position in its own part; so only what draws nothing has the bits of one device."""
    case = linear_case(64, 64, 64)
    specs, summed = LAYERS[layer]
    results = (P("d", None), P("d", None), P()), (P(None, "d"), P(), P(None, "d")), (P(), P(None, "d"), P("d", None))
    outputs = results[list(LAYERS).index(layer)]

    def part(x, w, dy):
        all_ = list(step("te_nvfp4", x, w, dy, draw_key(), axis_name="d"))
        all_[summed] = jax.lax.psum(all_[summed], "d")
        return tuple(all_)

    mapped = jax.jit(jax.shard_map(part, mesh=MESH, in_specs=specs, out_specs=outputs, check_vma=False))
    got, want = mapped(*case), step("te_nvfp4", *case, draw_key())
    same = [same_bits(g, w) for g, w in zip(got, want)]
    assert same[0] or (summed == 0 and close(got[0], want[0]))
    if layer == "row":
        assert same[1] and same[2]
    else:
        assert all(np.abs(np.asarray(g, np.float32) - np.asarray(w, np.float32)).mean() <
                   0.3 * np.abs(np.asarray(w, np.float32)).mean() for g, w in zip(got, want))


@pytest.fixture
def by_the_library(monkeypatch):
    """FP8 is multiplied by the library's call, as on Hopper GPUs, here by its CPU's code. The formats of each call."""
    calls = []

    def multiply(a, b, dtype):
        calls.append((a.copy.format, b.copy.format))
        return quantized._by_library(a, b, dtype)

    monkeypatch.setattr(_library, "has_fp8_gemm", lambda: True)
    monkeypatch.setattr(quantized, "_by_xla", multiply)
    return calls


FORMATS = {"fp8_current": ("fp8_e4m3", "fp8_e5m2"), "fp8_delayed": ("fp8_e4m3", "fp8_e5m2"),
           "fp8_block": ("fp8_block_e4m3", "fp8_block_e4m3")}  # of x and w, of dy


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("recipe", FP8)
def test_jit_splits_the_gemm_of_fp8(recipe, layer, by_the_library):
    """What is summed over devices is close on Gaussians; of whole numbers, whose sums are exact, it has the bits."""
    specs, summed = LAYERS[layer]
    whole = jax.jit(functools.partial(step, recipe))
    for case, is_exact in ((linear_case(256, 256, 256), False), (whole_case(256, 256, 256), True)):
        split = *map(on_mesh, specs, case), draw_key()
        run = whole.lower(*split).compile()
        text = run.as_text()
        assert "all-gather" not in text and text.count('custom_call_target="fourscale_gemm"') == 3
        for i, (got, want) in enumerate(zip(run(*split), whole(*case, draw_key()))):
            assert close(got, want) if i == summed and not is_exact else same_bits(got, want)
    x_w, dy = FORMATS[recipe]
    assert set(by_the_library) == {(x_w, x_w), (dy, x_w), (x_w, dy)}


@pytest.mark.parametrize("recipe", ["fp8_current", "fp8_block"])
def test_a_sum_of_fp8_over_two_devices_is_that_of_two_halves(recipe, by_the_library):
    a, b = (fj.quantize(random_matrix(128, 512, i), recipe=recipe, role=role)
            for i, role in ((1, "gradient"), (2, "activation")))

    def half(q, i):
        codes, scales = (m[:, i * m.shape[1] // 2:(i + 1) * m.shape[1] // 2] for m in (q.codes, q.scales))
        return fj.Quantized(codes, scales, q.amaxes, q.copy)

    halves = [fj.scaled_matmul(half(a, i), half(b, i), jnp.float32) for i in (0, 1)]
    split = jax.tree.map(lambda m: on_mesh(P(None, "d") if m.ndim == 2 and m.shape[1] else P(), m), (a, b))
    got = jax.jit(functools.partial(fj.scaled_matmul, dtype=jnp.float32))(*split)
    assert same_bits(got, halves[0] + halves[1]) and len(by_the_library) == 3


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("recipe", FP8)
def test_shard_map_of_fp8_has_the_bits_of_one_device(recipe, layer, by_the_library):
    """FP8 draws nothing; so all but sums over devices is the same, and those are of whole numbers."""
    case, (specs, summed) = whole_case(256, 256, 256), LAYERS[layer]
    outputs = {"data": (P("d"), P("d"), P()), "column": (P(None, "d"), P(), P(None, "d")),
               "row": (P(), P(None, "d"), P("d"))}[layer]

    def part(*case):
        results = list(step(recipe, *case, draw_key(), axis_name="d"))
        results[summed] = jax.lax.psum(results[summed].astype(jnp.float32), "d").astype(results[summed].dtype)
        return tuple(results)

    mapped = jax.jit(jax.shard_map(part, mesh=MESH, in_specs=specs, out_specs=outputs, check_vma=False))
    for i, (got, want) in enumerate(zip(mapped(*case), step(recipe, *case, draw_key()))):
        assert close(got, want) if i == summed and got.dtype == jnp.bfloat16 else same_bits(got, want)


@pytest.mark.parametrize("how", ["jit", "shard_map"])
def test_amaxes_of_fp8_are_the_largest_of_both_devices(how):
    """Each tensor has its largest value on the second device; the state of delayed scaling records it."""
    x, w, dy = (m.at[-1, -1].set(size) for m, size in zip(whole_case(64, 64, 64), (96, 160, 320)))
    state, specs = fj.delayed_state(4), (P("d"), P("d"), P("d"))

    def next_state(x, w, dy, state, axis_name=()):
        _, backward = jax.vjp(lambda s: fj.dense(x, w, recipe="fp8_delayed", seed=draw_key(), state=s,
                                                 axis_name=axis_name), state)
        return backward(dy)[0]

    if how == "jit":
        run = jax.jit(next_state).lower(*map(on_mesh, specs, (x, w, dy)), state).compile()
        got = run(*map(on_mesh, specs, (x, w, dy)), state)
    else:
        part = lambda *tensors: next_state(*tensors, state, "d")[None]
        parts = P("d"), P(None, "d"), P(None, "d")
        mapped = jax.jit(jax.shard_map(part, mesh=MESH, in_specs=parts, out_specs=P("d"), check_vma=False))
        first, got = mapped(jnp.concatenate([jnp.ones_like(x), x]), w, dy)  # each device has all tokens of its own x
        assert same_bits(first, got)
    assert got[:, 1].tolist() == [96, 160, 320] and got[:, 0].tolist() == [96, 160, 320]
    assert same_bits(got, next_state(x, w, dy, state))
