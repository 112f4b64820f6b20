# SPDX-License-Identifier: Apache-2.0
"""The peers: how each is imported, and how a user of it calls it. A peer that cannot be imported says why."""
import importlib
import importlib.metadata

import torch


def _fouroversix():
    import fouroversix
    from fouroversix.kernels.triton import ops, rht
    from fouroversix.quantize.utils import get_rht_matrix
    return dict(package=fouroversix, ops=ops, rht=rht, matrix=get_rht_matrix)


def _comfy():
    from comfy_kitchen.backends import cuda
    if cuda._C is None:
        raise ImportError("its CUDA backend did not load")
    return dict(quantize=cuda.quantize_nvfp4)


def _torchao():
    from torchao.prototype.mx_formats import nvfp4_tensor
    return dict(quantize=nvfp4_tensor.nvfp4_quantize, to_scale=nvfp4_tensor.per_tensor_amax_to_scale)


def _modelopt():
    from modelopt.torch.kernels.quantization.gemm import fp4_fake_quant_block
    return dict(round_trip=fp4_fake_quant_block)


def _hadamard():
    return dict(transform=importlib.import_module("fast_hadamard_transform").hadamard_transform)


LOADERS = {"fouroversix": _fouroversix, "comfy-kitchen": _comfy, "torchao": _torchao, "nvidia-modelopt": _modelopt,
           "fast-hadamard-transform": _hadamard}


class Missing(Exception):
    pass


class Peers:
    def __init__(self):
        self.found, self.missing, self.versions = {}, {}, {}
        for name, load in LOADERS.items():
            try:
                self.found[name] = load()
                self.versions[name] = importlib.metadata.version(name)
            except Exception as e:  # whatever a package does when it is imported must not end the run
                self.missing[name] = f"{type(e).__name__}: {e}".splitlines()[0]

    def __getitem__(self, name):
        if name in self.missing:
            raise Missing(self.missing[name])
        return self.found[name]

    def fouroversix(self, amax, rule="static_6", style="nearest", hadamard=False, **options):
        """(kernel, call): with amax given, and as documented, where it computes amax itself."""
        peer = self["fouroversix"]
        package = peer["package"]
        config = package.QuantizationConfig(backend="triton", scale_rule=rule, round_style=style, rht=hadamard,
                                            **options)
        given = dict(dtype=package.DataType.nvfp4, round_style=package.RoundStyle(style),
                     scale_rule=package.ScaleRule(rule), **options)

        def kernel(x):
            if hadamard:  # two kernels, as in its quantize_to_fp4, without the amax between them
                x = _fouroversix_hadamard(peer, x)
                return peer["ops"].quantize_to_fp4(x, amax, **{**given, "transpose": False})[:2]
            return peer["ops"].quantize_to_fp4(x, amax, **given)[:2]

        def call(x):
            q = package.quantize_to_fp4(x, config)
            return q.values, q.scale_factors
        return kernel, call

    def comfy(self, amax):
        quantize, scale = self["comfy-kitchen"]["quantize"], amax / (448 * 6)

        def call(x):  # amax as in its TensorCoreNVFP4Layout
            return quantize(x, (torch.amax(x.abs()) / (448 * 6)).float(), hi_first=False)
        return lambda x: quantize(x, scale, hi_first=False), call

    def torchao(self, amax):
        peer = self["torchao"]
        scale = peer["to_scale"](amax)

        def with_scale(x, s):
            scales, codes = peer["quantize"](x, 16, s)
            return codes, scales

        def whole(x):
            return with_scale(x, peer["to_scale"](torch.max(torch.abs(x))))
        tuned = dict(mode="max-autotune-no-cudagraphs", dynamic=False)
        compiled = torch.compile(with_scale, **tuned)
        return lambda x: compiled(x, scale), torch.compile(whole, **tuned)

    def modelopt(self, amax, x):
        """(kernel, call, the fastest of the tilings that it can be given)."""
        round_trip = self["nvidia-modelopt"]["round_trip"]
        tilings = [dict(tile_rows=r, tile_cols=c, num_warps=w) for r, c in ((16, 64), (16, 128), (32, 64), (8, 256))
                   for w in (4, 8)]

        def time(tiling):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            round_trip(x, amax, **tiling)
            begin.record()
            for _ in range(3):
                round_trip(x, amax, **tiling)
            end.record()
            end.synchronize()
            return begin.elapsed_time(end)
        best = min(tilings, key=time)
        said = "tile {tile_rows}x{tile_cols}, {num_warps} warps".format(**best)
        return lambda x: round_trip(x, amax, **best), lambda x: round_trip(x, x.abs().amax(), **best), said

    def hadamard(self, size):
        transform = self["fast-hadamard-transform"]["transform"]
        return lambda x: transform(x.view(-1, size), size ** -0.5)


def _fouroversix_hadamard(peer, x):
    """The columnwise copy of x, transformed, by fouroversix's kernel as its ops.py launches it."""
    describe, matrix = peer["ops"].TensorDescriptor.from_tensor, peer["matrix"]()
    y = torch.empty(x.shape[::-1], device=x.device, dtype=torch.bfloat16)
    rows, cols = 16, 64
    peer["rht"].rht_kernel[(y.shape[0] // rows, y.shape[1] // cols)](
        describe(x, block_shape=[cols, rows]), describe(matrix, block_shape=[16, 16]),
        describe(y, block_shape=[rows, cols]), BLOCK_SIZE_M=rows, BLOCK_SIZE_N=cols, TRANSPOSE=True)
    return y
