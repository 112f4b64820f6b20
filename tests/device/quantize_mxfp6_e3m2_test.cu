// SPDX-License-Identifier: Apache-2.0
// mxfp6_e3m2 on the device, byte for byte as on the host. One file a format, so that they compile side by
// side.
#include "matches_host.cuh"

TEST_CASE("device: mxfp6_e3m2 equals the host in every form", "[device][mxfp6_e3m2]") {
  fourscale::test::check_device_format<fourscale::mxfp6_e3m2>();
}
