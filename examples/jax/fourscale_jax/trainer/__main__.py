# SPDX-License-Identifier: Apache-2.0
"""The command line."""

import sys

from . import parse, train

try:
    train(parse(sys.argv[1:]))
except ValueError as error:
    sys.exit(f"fourscale_jax.trainer: {error}")
