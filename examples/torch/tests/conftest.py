# SPDX-License-Identifier: Apache-2.0
"""The tests for a GPU where there is one."""

import torch

collect_ignore = [] if torch.cuda.is_available() else ["test_gpu.py"]
