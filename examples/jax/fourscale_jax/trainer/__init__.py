# SPDX-License-Identifier: Apache-2.0
"""A trainer for a small language model in any of fourscale's recipes: `python -m fourscale_jax.trainer --help`."""

from .config import Config, parse
from .loop import train

__all__ = ["Config", "parse", "train"]
