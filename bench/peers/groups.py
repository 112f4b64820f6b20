# SPDX-License-Identifier: Apache-2.0
"""What is compared with what: a group is one task, with the bytes that it must move and who performs it."""
import collections
import functools

import torch

from measure import differing_bytes, differing_values

# kernel(x): with amax given; call(x): what a user calls, amax included, or None where there is no amax;
# differs(output): how much of kernel's output is not fourscale's host result, as a text.
Entry = collections.namedtuple("Entry", "kernel call amax_by differs note", defaults=("",))
Row = collections.namedtuple("Row", "name package make")
# `written`: bytes of output for the 32 bytes of 16 bf16, scales apart: the ceiling's key.
Group = collections.namedtuple("Group", "title written bytes_per_value amax rows")


class Task:
    """The data of one shape, and fourscale's host results for them."""

    def __init__(self, lib, peers, xs):
        self.lib, self.peers, self.xs, self.x = lib, peers, xs, xs[0]
        self.amax = torch.zeros(1, device="cuda")
        lib.amax(self.x, self.amax)
        self.amax_hadamard = torch.zeros(1, device="cuda")
        lib.amax_hadamard(self.x, self.amax_hadamard)
        self.on_host = self.x.cpu()
        self.results = {}

    def amax_of(self, recipe):
        return self.amax_hadamard if recipe == "columnwise_hadamard" else self.amax

    def host(self, recipe):
        if recipe not in self.results:
            codes, scales = self.lib.quantize_on_host(recipe, self.on_host, self.amax_of(recipe).cpu())
            self.results[recipe] = codes.cuda(), scales.cuda()
        return self.results[recipe]

    def differs(self, *recipes):
        """For outputs codes, scales of each recipe in turn."""
        def count(outputs):
            expected = [t for r in recipes for t in self.host(r)]
            bytes_ = [differing_bytes(a, b) for a, b in zip(outputs, expected, strict=True)]
            return f"{sum(bytes_[0::2])}, {sum(bytes_[1::2])}"
        return count

    def buffers(self, copies=1):
        n = self.x.numel()
        return [torch.full((size,), 0xA5, dtype=torch.uint8, device="cuda") for _ in range(copies)
                for size in (n // 2, n // 16)]

    def ours_of(self, quantize, find, given, amax_by, recipes, note=""):
        """quantize(x, amax, codes, scales, ...) under a `given` amax, and after find(x, amax)."""
        out, own = self.buffers(len(recipes)), torch.zeros(1, device="cuda")

        def kernel(x):
            quantize(x, given, *out)
            return out

        def call(x):
            find(x, own)
            quantize(x, own, *out)
        return Entry(kernel, call, amax_by, self.differs(*recipes), note)

    def fourscale(self, recipe):
        find = self.lib.amax_hadamard if recipe == "columnwise_hadamard" else self.lib.amax
        quantize = functools.partial(self.lib.quantize, recipe)
        return lambda: self.ours_of(quantize, find, self.amax_of(recipe), "device::amax", [recipe])

    def fouroversix(self, recipe, **options):
        def make():
            kernel, call = self.peers.fouroversix(self.amax_of(recipe), **options)
            if options.get("style") == "stochastic":
                return Entry(kernel, call, "itself, torch abs, max", None, "other random numbers")
            if recipe == "rowwise":  # it divides amax by 6 first, as Transformer Engine did before 2.14
                note = f"from that of TE before 2.14: {self.differs('rowwise_division')(kernel(self.x))}"
                return Entry(kernel, call, "itself, torch abs, max", self.differs(recipe), note)
            return Entry(kernel, call, "itself, torch abs, max", self.differs(recipe))
        return Row("fouroversix, Triton", "fouroversix", make)

    def ours(self, recipe, name="fourscale"):
        return Row(name, None, self.fourscale(recipe))


def rowwise(t):
    def plain():
        return t.ours_of(t.lib.plain_quantize, t.lib.plain_amax, t.amax, "a plain kernel", ["rowwise_linear"],
                         "linear scales")

    def comfy():
        kernel, call = t.peers.comfy(t.amax)
        return Entry(kernel, call, "caller, torch abs, amax", t.differs("rowwise"), "kernel: and zeroing of scales")

    def torchao():
        kernel, call = t.peers.torchao(t.amax)
        return Entry(kernel, call, "caller, compiled with it", t.differs("rowwise_linear"), "linear scales")
    linear = t.ours("rowwise_linear", "fourscale, linear scales")
    return Group("NVFP4 rowwise, nearest", 8, 2.5625, True, [
        linear, t.ours("rowwise", "fourscale, swizzled scales"), t.fouroversix("rowwise"),
        Row("plain kernel, cuda_fp4.h", None, plain), Row("comfy-kitchen, CUDA", "comfy-kitchen", comfy),
        Row("torchao, torch.compile", "torchao", torchao)])


def simple(title, recipe, bytes_per_value=2.5625, **options):
    return lambda t: Group(title, 8, bytes_per_value, True, [t.ours(recipe), t.fouroversix(recipe, **options)])


def both(t):
    def ours():
        return t.ours_of(t.lib.quantize_both, t.lib.amax, t.amax, "device::amax", ["rowwise", "columnwise"], "one pass")

    def fouroversix():
        row, row_call = t.peers.fouroversix(t.amax)
        column, column_call = t.peers.fouroversix(t.amax, transpose=True)

        def call(x):
            row_call(x)
            column_call(x)
        return Entry(lambda x: [*row(x), *column(x)], call, "itself, in each call", t.differs("rowwise", "columnwise"),
                     "two calls: it has no pass for both")
    return Group("NVFP4 rowwise and columnwise, nearest", 16, 3.125, True,
                 [Row("fourscale", None, ours), Row("fouroversix, Triton", "fouroversix", fouroversix)])


def round_trip(t):
    def expected():
        codes, scales = t.host("rowwise_linear")
        y = torch.empty_like(t.x)
        t.lib.dequantize(codes, scales, t.amax, y)
        return y

    def differs(outputs):
        return str(differing_values(outputs, expected()))

    def ours():
        y, own = torch.empty_like(t.x), torch.zeros(1, device="cuda")

        def kernel(x):
            t.lib.round_trip(x, t.amax, y)
            return y

        def call(x):
            t.lib.amax(x, own)
            t.lib.round_trip(x, own, y)
        return Entry(kernel, call, "device::amax", differs)

    def modelopt():
        kernel, call, tiling = t.peers.modelopt(t.amax, t.x)
        return Entry(kernel, call, "caller, torch abs, amax", differs, f"best of 8 tilings: {tiling}")
    return Group("NVFP4 round trip to bf16 (fake quantization)", 32, 4, True,
                 [Row("fourscale, quantize_block()", None, ours),
                  Row("modelopt, Triton", "nvidia-modelopt", modelopt)])


def hadamard(size):
    def group(t):
        y = torch.empty_like(t.x)

        def kernel(x):
            t.lib.hadamard(size, x, y)
            return y

        def differs(outputs):
            return str(differing_values(outputs, t.lib.hadamard_on_host(size, t.on_host).cuda()))
        return Group(f"Hadamard transform of {size}, bf16 to bf16", 32, 4, False, [
            Row("fourscale", None, lambda: Entry(kernel, None, "", differs)),
            Row("fast-hadamard-transform", "fast-hadamard-transform",
                lambda: Entry(t.peers.hadamard(size), None, "", differs))])
    return group


def amax(t):
    out = torch.zeros(1, device="cuda")

    def entry(find):
        # torch returns bf16 where fourscale writes float: the same value
        def value(x):
            result = find(x)
            return out if result is None else result
        return lambda: Entry(value, None, "", lambda a: str(int(float(a) != float(t.amax))))

    def compiled():
        find = torch.compile(lambda x: x.abs().max(), mode="max-autotune-no-cudagraphs", dynamic=False)
        return entry(find)()
    return Group("amax of a tensor", 0, 2, False, [
        Row("fourscale", None, entry(lambda x: t.lib.amax(x, out))),
        Row("plain kernel", None, entry(lambda x: t.lib.plain_amax(x, out))),
        Row("torch x.abs().max()", None, entry(lambda x: x.abs().max())),
        Row("the same, torch.compile", None, compiled),
        Row("torch vector_norm(x, inf)", None,
            entry(lambda x: torch.linalg.vector_norm(x, float("inf"))))])


ALL = [
    rowwise,
    simple("NVFP4 rowwise, stochastic", "rowwise_stochastic", style="stochastic"),
    simple("NVFP4 rowwise, four over six (MSE)", "rowwise_four_over_six", rule="mse"),
    simple("NVFP4 16x16, rowwise copy", "rowwise_16x16", block_scale_2d=True),
    simple("NVFP4 columnwise, nearest", "columnwise", transpose=True),
    simple("NVFP4 columnwise, Hadamard 16, nearest", "columnwise_hadamard", hadamard=True, transpose=True),
    both,
    round_trip,
    hadamard(16),
    hadamard(128),
    amax,
]
