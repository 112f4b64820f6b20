# SPDX-License-Identifier: Apache-2.0
"""Two devices of the CPU, for sharding; the tests for a GPU where there is one."""

import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402

collect_ignore = [] if any(device.platform == "gpu" for device in jax.devices()) else ["test_gpu.py"]
