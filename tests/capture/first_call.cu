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
  cudaStream_t stream;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  cudaGraph_t graph;
  cudaGraphExec_t step;
  REQUIRE(cudaStreamBeginCapture(stream, mode) == cudaSuccess);
  const errc forward = d.forward(stream), backward = d.backward(1.0f, stream);
  const cudaError_t failed = cudaPeekAtLastError();
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  INFO(cudaGetErrorString(failed));
  REQUIRE(forward == errc::ok);
  REQUIRE(backward == errc::ok);
  REQUIRE(cudaGraphInstantiate(&step, graph, 0) == cudaSuccess);
  for (int microbatch = 0; microbatch < 2; ++microbatch) {
    REQUIRE(cudaGraphLaunch(step, stream) == cudaSuccess);
    REQUIRE(h.forward() == errc::ok);
    REQUIRE(h.backward(1.0f) == errc::ok);
  }
  d.check_same();
  cudaGraphExecDestroy(step);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
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
