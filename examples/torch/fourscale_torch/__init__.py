# SPDX-License-Identifier: Apache-2.0
"""Training in 4 bits with PyTorch: fourscale's recipes, on CPUs and GPUs, with the same bits."""

from ._library import is_stochastic, quantizes, recipes
from .linear import delayed_state, dense
from .quantized import Quantized, dequantize, draw_key, quantize, scaled_matmul

__all__ = [
    "Quantized", "delayed_state", "dense", "dequantize", "draw_key", "is_stochastic", "quantize", "quantizes",
    "recipes", "scaled_matmul"
]
