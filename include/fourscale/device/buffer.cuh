// SPDX-License-Identifier: Apache-2.0
// A quantized matrix that owns its memory on the GPU, and copy() of codes and scales. Opt-in, because it
// allocates.
#pragma once

#include <cuda_runtime_api.h>

#include "../view/validate.hpp"

namespace FOURSCALE_NAMESPACE {

/// Owns the codes and scales of a rows x cols matrix in format F: uninitialised, in one allocation on the
/// current device. It also holds the amax, but does not own the memory that this may refer to. Device
/// functions take its view(). If there is no memory, status() says why: a rule of validate(), or cuda_failed.
/// The pointers of the view are then null, and every function refuses it. Making and destroying a buffer may
/// wait for the device, as cudaMalloc and cudaFree do: do not do it in each step of a training loop.
template <block_format F, scale_layout Layout = linear>
class device_buffer {
 public:
  i64 rows = 0, cols = 0;
  tensor_amax<F> amax{};  ///< set it at any time before view()

  device_buffer() = default;
  device_buffer(i64 r, i64 c, tensor_amax<F> a = {}) : rows(r), cols(c), amax(a), status_(allocate()) {}
  ~device_buffer() {
    if (codes_ != nullptr) cudaFree(codes_);
  }
  device_buffer(device_buffer&& other) noexcept : device_buffer() { swap(other); }
  device_buffer& operator=(device_buffer&& other) noexcept {
    device_buffer old(static_cast<device_buffer&&>(other));
    swap(old);
    return *this;
  }

  /// ok if the buffer has memory.
  errc status() const { return status_; }

  /// Valid until the buffer is destroyed, moved from or assigned to. It has the value of `amax` at the time
  /// of the call.
  block_scaled_view<F, Layout> view() { return with_capacities(block_scaled_view<F, Layout>()); }
  block_scaled_view<F, Layout, u8 const> view() const {
    return with_capacities(block_scaled_view<F, Layout, u8 const>());
  }

  /// The bytes of codes and scales together.
  i64 bytes() const {
    return codes_ == nullptr ? 0 : code_bytes<F>(rows, cols) + scale_bytes<F, Layout>(rows, cols);
  }

 private:
  errc allocate() {
    if (const errc e = detail::check_shape(rows, cols); e != errc::ok) return e;
    if (cols % F::block_size != 0) return errc::partial_block;
    const i64 bytes = scales_at() + scale_bytes<F, Layout>(rows, cols);
    if (cudaMalloc(reinterpret_cast<void**>(&codes_), static_cast<u64>(bytes)) == cudaSuccess)
      return errc::ok;
    codes_ = nullptr;
    return errc::cuda_failed;
  }
  /// The offset of the scales: aligned like memory of cudaMalloc, so that TMA can read them.
  i64 scales_at() const { return round_up<i64>(code_bytes<F>(rows, cols), 256); }

  template <class View>
  View with_capacities(View q) const {
    q.rows = rows, q.cols = cols, q.amax = amax;
    if (codes_ == nullptr) return q;
    q.codes = codes_;
    q.scales = codes_ + scales_at();
    q.code_capacity = code_bytes<F>(rows, cols);
    q.scale_capacity = scale_bytes<F, Layout>(rows, cols);
    return q;
  }

  void swap(device_buffer& other) {
    exchange(rows, other.rows), exchange(cols, other.cols), exchange(amax, other.amax);
    exchange(codes_, other.codes_), exchange(status_, other.status_);
  }
  template <class T>
  static void exchange(T& a, T& b) {
    const T old = a;
    a = b;
    b = old;
  }

  u8* codes_ = nullptr;
  errc status_ = errc::empty_matrix;
};

}  // namespace FOURSCALE_NAMESPACE

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

/// Copies codes and scales; either view may be in memory of the host or of a device. The amax is not copied:
/// it may be a pointer. As asynchronous as cudaMemcpyAsync; never allocates. Errors: null_pointer,
/// shape_mismatch, overlap, and others of validate(); `to` is then untouched.
template <class F, class Layout, class Byte>
errc copy(block_scaled_view<F, Layout, Byte> from, block_scaled_view<F, Layout> to,
          cudaStream_t stream = nullptr) {
  from.amax = unit_scale, to.amax = unit_scale;
  if (const errc e = validate(from); e != errc::ok) return e;
  if (const errc e = validate(to); e != errc::ok) return e;
  if (from.rows != to.rows || from.cols != to.cols) return errc::shape_mismatch;
  if (fourscale::detail::overlaps(from, to)) return errc::overlap;
  const auto copied = [stream](u8* destination, u8 const* source, i64 bytes) {
    return bytes == 0 || cudaMemcpyAsync(destination, source, static_cast<u64>(bytes), cudaMemcpyDefault,
                                         stream) == cudaSuccess;
  };
  const bool ok = copied(to.codes, from.codes, code_bytes<F>(to.rows, to.cols)) &&
                  copied(to.scales, from.scales, scale_bytes<F, Layout>(to.rows, to.cols));
  return ok ? errc::ok : errc::cuda_failed;
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
