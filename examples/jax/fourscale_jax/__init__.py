# SPDX-License-Identifier: Apache-2.0
"""Training in 4 bits with JAX: fourscale's recipes, on CPUs and GPUs, with the same bits."""

import jax  # before our libraries: it loads its own C++ and CUDA runtimes first, in each program in the same order

from ._library import check_layers, is_stochastic, quantizes, recipes
from .linear import GEMMS, SAVED, delayed_state, dense
from .quantized import Quantized, dequantize, draw_key, quantize, scaled_matmul

__all__ = [
    "GEMMS", "SAVED", "Quantized", "check_layers", "delayed_state", "dense", "dequantize", "draw_key", "is_stochastic",
    "quantize", "quantizes", "recipes", "scaled_matmul"
]
