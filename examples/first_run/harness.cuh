// SPDX-License-Identifier: Apache-2.0
// What the probes of 20_first_blackwell_run.cu share: memory, deterministic inputs, and the question itself:
// for which of n inputs does this GPU differ from the definition, and at which one first? A probe is a type
// with two functions: possible() says at compile time whether it can be asked, ask(i) returns the outcome of
// input i.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fourscale/fourscale.cuh>

namespace first_run {

namespace f4 = fourscale;
using f4::i64, f4::u16, f4::u32, f4::u64, f4::u8;

/// Probes that differ, and probes that need an instruction which this GPU lacks.
inline int differences = 0, not_possible = 0;

inline void require(cudaError_t e) {
  if (e == cudaSuccess) return;
  std::printf("\nCUDA: %s. The report ends here; please send it all the same.\n", cudaGetErrorString(e));
  std::exit(1);
}

inline void require(f4::errc e) {
  if (e == f4::errc::ok) return;
  std::printf("\nfourscale: %s. The report ends here; please send it all the same.\n", message(e));
  std::exit(1);
}

/// Memory that host and device both see. Each of its bytes is 0xa5 at first.
template <class T>
struct shared_array {
  T* data = nullptr;
  i64 count;
  explicit shared_array(i64 n) : count(n) {
    require(cudaMallocManaged(&data, static_cast<size_t>(n) * sizeof(T)));
    std::memset(static_cast<void*>(data), 0xa5, static_cast<size_t>(n) * sizeof(T));
  }
  ~shared_array() { cudaFree(data); }
  shared_array(shared_array const&) = delete;
  T& operator[](i64 i) { return data[i]; }
};

FOURSCALE_HD inline u32 random_word(u64 i, u32 which) {
  return f4::philox4x32(static_cast<u32>(i), static_cast<u32>(i >> 32), which, 0, 2024).words[0];
}
FOURSCALE_HD inline float as_float(u32 bits) { return f4::bit_cast<float>(bits); }

/// An input, what the definition gives for it, and what this GPU gives (`here`).
struct outcome {
  u64 input, definition, here;
};
/// The number of inputs that differ, and the first of them.
struct tally {
  unsigned long long different, first;
};

template <class Probe>
__global__ void count_kernel(u64 n, tally* t) {
  if constexpr (Probe::possible()) {
    for (u64 i = blockIdx.x * u64{256} + threadIdx.x; i < n; i += gridDim.x * u64{256}) {
      const outcome o = Probe::ask(i);
      if (o.definition == o.here) continue;
      atomicAdd(&t->different, 1ull);
      atomicMin(&t->first, static_cast<unsigned long long>(i));
    }
  }
}
template <class Probe>
__global__ void show_kernel(u64 i, outcome* o) {
  if constexpr (Probe::possible()) *o = Probe::ask(i);
}

inline void print_verdict(char const* what, u64 count, u64 different) {
  std::printf("  %-9s %-46s %llu inputs", different == 0 ? "equal" : "DIFFERENT", what,
              static_cast<unsigned long long>(count));
  if (different != 0) std::printf(", %llu differ", static_cast<unsigned long long>(different));
  differences += different != 0;
}
inline void print_not_possible(char const* what, char const* needs) {
  std::printf("  %-9s %-46s needs %s\n", "-", what, needs);
  ++not_possible;
}

/// Asks a probe about inputs 0 to n - 1 and prints the verdict. `can`: whether the code of this GPU has what
/// the probe is about; `needs` names the targets that have it.
template <class Probe>
void run(char const* what, u64 n, bool can = true, char const* needs = "") {
  if (!can) return print_not_possible(what, needs);
  shared_array<tally> t(1);
  t[0] = {0, ~0ull};
  count_kernel<Probe><<<4096, 256>>>(n, t.data);
  require(cudaGetLastError());
  require(cudaDeviceSynchronize());
  print_verdict(what, n, t[0].different);
  if (t[0].different != 0) {
    shared_array<outcome> o(1);
    show_kernel<Probe><<<1, 1>>>(t[0].first, o.data);
    require(cudaDeviceSynchronize());
    std::printf("\n            first: input 0x%016llx, definition 0x%llx, here 0x%llx",
                static_cast<unsigned long long>(o[0].input), static_cast<unsigned long long>(o[0].definition),
                static_cast<unsigned long long>(o[0].here));
  }
  std::printf("\n");
}

}  // namespace first_run
