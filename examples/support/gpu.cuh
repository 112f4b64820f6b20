// SPDX-License-Identifier: Apache-2.0
// What the GPU examples share: an error ends the example with a sentence; memory that both host and device
// see; copying quantized matrices to the host and comparing them.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <fourscale/device/buffer.cuh>
#include <fourscale/host/buffer.hpp>

namespace example {

inline void require(cudaError_t e) {
  if (e == cudaSuccess) return;
  std::printf("CUDA: %s\n", cudaGetErrorString(e));
  std::exit(1);
}

inline void require(fourscale::errc e) {
  if (e == fourscale::errc::ok) return;
  std::printf("fourscale: %s\n", message(e));
  std::exit(1);
}

/// Ends the example, without an error, if there is no GPU.
inline void need_gpu() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) return;
  std::printf("There is no GPU here, so there is nothing to compare.\n");
  std::exit(0);
}

/// Memory that both the host and the device see.
template <class T>
struct array {
  T* data = nullptr;
  fourscale::i64 count;

  explicit array(fourscale::i64 n) : count(n) {
    require(cudaMallocManaged(&data, static_cast<std::size_t>(n) * sizeof(T)));
  }
  array(array const&) = delete;
  ~array() { cudaFree(data); }
  T& operator[](fourscale::i64 i) const { return data[i]; }
};

/// Copies q to the host, after all work launched before, and waits for it.
template <class F, class Layout>
fourscale::host_buffer<F, Layout> to_host(fourscale::device_buffer<F, Layout> const& q) {
  fourscale::host_buffer<F, Layout> copy(q.rows, q.cols);
  require(fourscale::device::copy(q.view(), copy.view()));
  require(cudaDeviceSynchronize());
  return copy;
}

/// True if codes and scales are equal in every bit. The amaxes are not compared.
template <class F, class Layout>
bool equal(fourscale::host_buffer<F, Layout> const& a, fourscale::host_buffer<F, Layout> const& b) {
  return a.codes == b.codes && a.scales == b.scales;
}

}  // namespace example
