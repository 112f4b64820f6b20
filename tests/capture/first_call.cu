// SPDX-License-Identifier: Apache-2.0
// A training step captured in a graph as the first thing that a process asks of the library: kernels are
// loaded, attributes set and the driver asked for its encoder while the stream captures. Memory is there
// before, and nothing has run. One test case a process: see CMakeLists.txt.
#include "device/linear_case.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr linear_recipe te = presets::te_nvfp4().linear;

void check_first_call(cudaStreamCaptureMode mode) {
  if (!gpu_or_warn()) return;
  linear_case<te> h({272, 144, 400});
  linear_on_device<te> d(h);
  const captured_step step([&d](cudaStream_t stream) { return d.step(1.0f, stream); }, mode);
  for (int microbatch = 0; microbatch < 2; ++microbatch) {
    step.launch();
    REQUIRE(h.forward() == errc::ok);
    REQUIRE(h.backward(1.0f) == errc::ok);
  }
  check_same_as_host(d);
}

}  // namespace

TEST_CASE("a step captured first of all, no other thread may call what is unsafe", "[global]") {
  check_first_call(cudaStreamCaptureModeGlobal);
}
TEST_CASE("a step captured first of all, this thread may not", "[thread_local]") {
  check_first_call(cudaStreamCaptureModeThreadLocal);
}
TEST_CASE("a step captured first of all, all may", "[relaxed]") {
  check_first_call(cudaStreamCaptureModeRelaxed);
}
