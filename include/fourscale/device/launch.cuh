// SPDX-License-Identifier: Apache-2.0
// What launches and kernels share. Of launches: errors, grid sizes, clusters, and views as kernels take
// them. Of kernels: the loads of one block by one thread, tensor scales, and the largest value of a CTA.
#pragma once

#include <cuda_runtime_api.h>

#include "../cta/sink.cuh"
#include "../ptx/ldmatrix.cuh"
#include "../view/dequantized_view.hpp"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

inline constexpr int cta_threads = cta::threads;

/// The result of a launch. cudaGetLastError() still has CUDA's own error.
inline errc launched() { return cudaPeekAtLastError() == cudaSuccess ? errc::ok : errc::cuda_failed; }

/// Whether a kernel has code for the device. In a compilation pass without its instructions the kernel is
/// empty; else it has at least `memory` bytes of static shared memory. For relocatable code the runtime
/// reports no shared memory. Registers tell there: an empty kernel has 4, or 10 in a debug build, and any
/// other kernel 26 or more.
inline bool has_code(cudaFuncAttributes const& a, u64 memory) {
  return a.sharedSizeBytes >= memory || (arch::is_relocatable && a.numRegs > 16);
}

/// Static shared memory of a kernel, which tells has_code() that it is not the empty one. Dynamic memory
/// begins behind it, and in debug builds nvcc aligns that no further; so this takes a whole KiB.
struct alignas(1024) own_kilobyte {
  u32 not_empty;

  FOURSCALE_D void keep() { asm volatile("" ::"r"(ptx::shared_address(this))); }
};

/// An attribute of the current device; 0 if the runtime does not tell.
inline int device_attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  return cudaGetDevice(&device) == cudaSuccess && cudaDeviceGetAttribute(&value, which, device) == cudaSuccess
             ? value
             : 0;
}

/// When a kernel begins. `after`: once all that is before it in the stream is done. `early`: as soon as each
/// CTA of the kernel right before it has called cudaTriggerProgrammaticLaunchCompletion() or ended; the
/// kernel then waits by itself, by cudaGridDependencySynchronize().
enum class begins { after, early };

/// A launch of `clusters` clusters of `ctas` CTAs each. Only the first config.numAttrs attributes have an
/// effect: with two of them the kernel may begin early.
struct cluster_launch {
  cudaLaunchAttribute attributes[2]{};
  cudaLaunchConfig_t config{};

  cluster_launch(i64 clusters, int ctas, int threads, int shared_bytes) {
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim.x = static_cast<unsigned>(ctas);
    attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = dim3(static_cast<unsigned>(clusters * ctas));
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
    config.attrs = attributes;
    config.numAttrs = 1;
  }
  cluster_launch(cluster_launch const&) = delete;  // config points to `attributes`
};

/// Launches `clusters` clusters of `ctas` CTAs each.
template <begins When = begins::after, class Kernel, class... Arguments>
errc launch_clusters(Kernel* kernel, i64 clusters, int ctas, int threads, int shared_bytes,
                     cudaStream_t stream, Arguments const&... arguments) {
  cluster_launch launch(clusters, ctas, threads, shared_bytes);
  launch.config.stream = stream;
  if (When == begins::early) launch.config.numAttrs = 2;
  return cudaLaunchKernelEx(&launch.config, kernel, arguments...) == cudaSuccess ? errc::ok
                                                                                 : errc::cuda_failed;
}

/// How many such clusters the device runs at once, where a CTA takes a whole SM; 0 if it does not tell.
template <class Kernel>
int clusters_that_fit(Kernel* kernel, int ctas, int threads, int shared_bytes) {
  const cluster_launch launch(1, ctas, threads, shared_bytes);
  int clusters = 0;
  if (cudaOccupancyMaxActiveClusters(&clusters, kernel, &launch.config) == cudaSuccess) return clusters;
  static_cast<void>(cudaGetLastError());  // or the next launch would report it as its own
  return 0;
}

/// CTAs for the work of `items` threads, as many as a grid may have. Kernels loop over the rest.
constexpr unsigned grid_for(i64 items) {
  constexpr i64 most = 0x7fff'ffff;
  const i64 ctas = ceil_div<i64>(items, cta_threads);
  return static_cast<unsigned>(ctas < most ? ctas : most);
}

/// A grid for rows of `items` items each, of which a thread takes `each`. Rows go in chunks, so that 31 bits
/// can count the items of a chunk.
struct row_chunks {
  i64 rows;   ///< in a chunk
  dim3 grid;  ///< x: CTAs for the items of a chunk; y: chunks

  static bool can_take(i64 items) { return items < i64{1} << 30; }
  row_chunks(i64 all, i64 items, i64 each) {
    const i64 most = (i64{1} << 31) / items - 1;
    rows = all < most ? all : most;
    grid = dim3(static_cast<unsigned>(ceil_div<i64>(rows * items, cta_threads * each)),
                static_cast<unsigned>(ceil_div(all, rows)));
  }
};

/// CTAs for `items` items: at most a few waves on the largest GPU. A thread then takes many items.
inline unsigned few_ctas(i64 items) {
  constexpr i64 most = 4096;
  const i64 ctas = ceil_div<i64>(items, cta_threads);
  return static_cast<unsigned>(ctas < most ? ctas : most);
}

/// Whether m starts at a multiple of 16 bytes.
template <class T>
bool starts_at_vector(matrix_view<T> const& m) {
  return reinterpret_cast<u64>(m.data) % 16 == 0;
}
/// Whether its rows are multiples of 16 bytes apart.
template <class T>
bool steps_by_vectors(matrix_view<T> const& m) {
  return m.ld * static_cast<i64>(sizeof(T)) % 16 == 0;
}
/// Both: blocks may then be read or written in vectors.
template <class T>
bool rows_are_vectors(matrix_view<T> const& m) {
  return starts_at_vector(m) && steps_by_vectors(m);
}
/// Other views have no rows in memory.
template <class M>
bool rows_are_vectors(M const&) {
  return false;
}

/// Whether codes begin at a multiple of the words in which they are stored.
template <class F, class Layout>
bool codes_are_words(block_scaled_view<F, Layout> const& q) {
  return reinterpret_cast<u64>(q.codes) % cta::code_word<F> == 0;
}

/// The library's own type with the bits of T: bf16 for __nv_bfloat16, and what any other type names in its
/// real_traits; else T itself.
template <class T>
struct own_type {
  using type = T;
};
template <class T>
requires requires { typename real_traits<T>::same_bits; }
struct own_type<T> {
  using type = typename real_traits<T>::same_bits;
};

/// The view as kernels take it: of constants where it is read, and of the library's own types.
template <class M>
M as_input(M const& x) {
  return x;
}
template <class T, class Own = typename own_type<typename matrix_view<T>::value_type>::type>
matrix_view<Own const> as_input(matrix_view<T> const& x) {
  return {reinterpret_cast<Own const*>(x.data), x.rows, x.cols, x.ld};
}
template <class T>
auto as_input(transposed_view<T> const& x) {
  return transposed(as_input(x.base));
}
template <class T, class Own = typename own_type<T>::type>
matrix_view<Own> as_output(matrix_view<T> const& y) {
  return {reinterpret_cast<Own*>(y.data), y.rows, y.cols, y.ld};
}
template <class T>
auto as_output(transposed_view<T> const& y) {
  return transposed(as_output(y.base));
}

/// Loads N consecutive values as floats. `vectors`: they may be read in vectors of 16 bytes.
template <int N, class T>
FOURSCALE_D void load_values(T const* from, bool vectors, float (&x)[N]) {
  if constexpr (N * sizeof(T) % 16 == 0) {
    if (vectors) {
      cta::values<T, N>::load(from).to_floats(x);
      return;
    }
  }
  FOURSCALE_UNROLL
  for (int i = 0; i < N; ++i) x[i] = to_float(from[i]);
}

/// One block of a row as floats: contiguous in a matrix, one value from each of N rows in a transposed one.
template <int N, class T>
FOURSCALE_D void load_block(matrix_view<T const> const& x, i64 row, i64 block, bool vectors,
                            float (&values)[N]) {
  load_values<N>(&x.at(row, block * N), vectors, values);
}
template <int N, matrix_like M>
FOURSCALE_D void load_block(M const& x, i64 row, i64 block, bool, float (&values)[N]) {
  FOURSCALE_UNROLL
  for (int i = 0; i < N; ++i) values[i] = to_float(x.at(row, block * N + i));
}

/// The tensor scale of a matrix. All threads of a CTA call it: one divides, and all share the result.
template <class F>
FOURSCALE_D tensor_scale<F> shared_tensor_scale(tensor_amax<F> const& amax) {
  if constexpr (!F::has_tensor_scale) {
    return {};
  } else {
    __shared__ __align__(8) unsigned char shared[sizeof(tensor_scale<F>)];
    tensor_scale<F>& t = reinterpret_cast<tensor_scale<F>&>(shared);
    if (threadIdx.x == 0) t = amax.scale_of_all();
    __syncthreads();
    return t;
  }
}

/// The tensor scale of a row: that of the tensor, unless each row has an amax of its own.
template <class F>
FOURSCALE_D tensor_scale<F> tensor_scale_of([[maybe_unused]] tensor_amax<F> const& amax,
                                            [[maybe_unused]] i64 row, tensor_scale<F> const& of_tensor) {
  return amax.by_row() ? amax.scale_of_own(row) : of_tensor;
}

/// Raises *largest to the largest `mine` of the CTA, by one integer atomicMax; all threads call it. The
/// order of magnitudes is the order of their bits, so the result does not depend on the order of threads.
FOURSCALE_D inline void raise_by_cta(i32 mine, i32* largest) {
  __shared__ i32 of_warp[cta_threads / 32];
  mine = __reduce_max_sync(0xffff'ffffu, mine);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x < cta_threads / 32) {
    mine = __reduce_max_sync((1u << (cta_threads / 32)) - 1, of_warp[threadIdx.x]);
    if (threadIdx.x == 0) atomicMax(largest, mine);
  }
}

}  // namespace detail
}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
