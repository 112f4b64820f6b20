// SPDX-License-Identifier: Apache-2.0
// mxfp8_e4m3 on the device, byte for byte as on the host. One file a format, so that they compile side by
// side.
#include "matches_host.cuh"

TEST_CASE("device: mxfp8_e4m3 equals the host in every form", "[device][mxfp8_e4m3]") {
  fourscale::test::check_device_format<fourscale::mxfp8_e4m3>();
}
