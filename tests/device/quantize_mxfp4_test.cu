// SPDX-License-Identifier: Apache-2.0
// mxfp4 on the device, byte for byte as on the host. One file a format, so that they compile side by side.
#include "matches_host.cuh"

TEST_CASE("device: mxfp4 equals the host in every form", "[device][mxfp4]") {
  fourscale::test::check_device_format<fourscale::mxfp4>();
}
