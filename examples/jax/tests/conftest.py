# SPDX-License-Identifier: Apache-2.0
"""Two devices of the CPU, for sharding; the tests for a GPU where there is one. What surrounds the library's calls on
a CPU is compiled without optimization, which would take longer than it runs; what was compiled once is kept."""

import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + (
    " --xla_force_host_platform_device_count=2 --xla_backend_optimization_level=0")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402
import pytest  # noqa: E402
from fourscale_jax import _library  # noqa: E402

GPU = any(device.platform == "gpu" for device in jax.devices())
collect_ignore = [] if GPU else ["test_gpu.py"]


def pytest_sessionstart():
    """`./run gpu` asks for this, so that tests for a GPU are not left out in silence."""
    if os.environ.get("FOURSCALE_NEEDS_GPU") and not (GPU and _library.cuda):
        lacks = "this build of fourscale_jax has no library for GPUs" if GPU else \
            "JAX sees no GPU: pip install 'jax[cuda13]'"
        pytest.exit(f"FOURSCALE_NEEDS_GPU is set, and {lacks}", 1)


def pytest_terminal_summary(terminalreporter):
    if GPU:
        ran = sum("test_gpu.py" in report.nodeid for report in terminalreporter.getreports("passed"))
        of_gpu = f"; {ran} passed of test_gpu.py" if ran else ""  # the trainer has tests of its own
        terminalreporter.write_line(f"on {jax.devices()[0].device_kind}{of_gpu}")


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(tmp_path_factory):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path_factory.mktemp("compiled")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
