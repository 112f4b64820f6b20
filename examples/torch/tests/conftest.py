# SPDX-License-Identifier: Apache-2.0
"""The tests for a GPU where there is one."""

import os

import pytest
import torch
from fourscale_torch import _library

GPU = torch.cuda.is_available()
collect_ignore = [] if GPU else ["test_gpu.py"]


def pytest_sessionstart():
    """`./run gpu` asks for this, so that tests for a GPU are not left out in silence."""
    if os.environ.get("FOURSCALE_NEEDS_GPU") and not (GPU and _library.cuda):
        lacks = "this build of fourscale_torch has no library for GPUs" if GPU else "PyTorch sees no GPU"
        pytest.exit(f"FOURSCALE_NEEDS_GPU is set, and {lacks}", 1)


def pytest_terminal_summary(terminalreporter):
    if GPU:
        ran = sum("test_gpu.py" in report.nodeid for report in terminalreporter.getreports("passed"))
        terminalreporter.write_line(f"on {torch.cuda.get_device_name()}; {ran} passed of test_gpu.py")
