# SPDX-License-Identifier: Apache-2.0
"""An NVFP4 operand as torch tensors: what every path of gemm.py is given."""
import torch

DATA = {"gaussian": "Gaussian values", "blocks": "Gaussian values, blocks of 16 times exp(1.5 N)"}
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


class Operand:
    """codes: [rows, cols / 2] bytes, the first value in the low half. scales: [rows, cols / 16] E4M3.
    tensor_scale: amax / 2688."""

    def __init__(self, codes, scales, amax):
        self.codes, self.scales, self.amax = codes, scales, amax
        self.rows, self.cols = codes.shape[0], 2 * codes.shape[1]
        self.tensor_scale = amax / 2688

    @staticmethod
    def random(rows, cols, seed, device, data="gaussian"):
        """Values of DATA, quantized to nearest; any legal codes would do, since all paths get the same."""
        generator = torch.Generator(device).manual_seed(seed)
        x = torch.randn(rows, cols, generator=generator, device=device)
        if data == "blocks":
            sizes = torch.randn(rows, cols // 16, generator=generator, device=device)
            x *= (1.5 * sizes).exp().repeat_interleave(16, 1)
        amax = float(x.abs().max())
        blocks = x.view(rows, cols // 16, 16) / (amax / 2688)
        scales = (blocks.abs().amax(2) / 6).to(torch.float8_e4m3fn)
        magnitudes = blocks.abs() / scales.float().clamp(min=2.0 ** -9).unsqueeze(2)
        between = torch.tensor([(low + high) / 2 for low, high in zip(E2M1, E2M1[1:])], device=device)
        codes = torch.bucketize(magnitudes, between).to(torch.uint8) | (blocks < 0).to(torch.uint8) << 3
        codes = codes.view(rows, cols // 2, 2)
        return Operand(codes[..., 0] | codes[..., 1] << 4, scales, amax)

    def values(self):
        """Codes times block scales in f32, which is exact; without the tensor scale. [rows, cols]"""
        return values(self.codes, self.scales)


def values(codes, scales, dtype=torch.float32):
    """The same for tensors; dtype bf16 is exact too."""
    table = torch.tensor(E2M1 + [-x for x in E2M1], dtype=dtype, device=codes.device)
    pairs = torch.stack((codes & 15, codes >> 4), 2).view(*scales.shape, 16)
    return (table[pairs.int()] * scales.to(dtype).unsqueeze(2)).view(codes.shape[0], -1)
