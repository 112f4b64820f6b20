# SPDX-License-Identifier: Apache-2.0
"""Two devices of the CPU, for sharding; the tests for a GPU where there is one. What surrounds the library's calls on
a CPU is compiled without optimization, which would take longer than it runs; what was compiled once is kept."""

import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + (
    " --xla_force_host_platform_device_count=2 --xla_backend_optimization_level=0")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402
import pytest  # noqa: E402

collect_ignore = [] if any(device.platform == "gpu" for device in jax.devices()) else ["test_gpu.py"]


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(tmp_path_factory):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path_factory.mktemp("compiled")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
