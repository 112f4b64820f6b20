# SPDX-License-Identifier: Apache-2.0
"""Two devices on a CPU, which have to be asked for before jax starts. Most of the time would go into compiling: less
optimisation, and what was compiled once is kept."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2 --xla_backend_optimization_level=0")

import jax  # noqa: E402
import pytest  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(tmp_path_factory):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path_factory.mktemp("compiled")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
