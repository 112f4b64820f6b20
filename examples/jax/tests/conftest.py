# SPDX-License-Identifier: Apache-2.0
"""Two devices of the CPU, for sharding."""

import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
