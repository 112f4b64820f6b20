// SPDX-License-Identifier: Apache-2.0
// Many packed matrices in one launch, compared with the ceiling of the same traffic: experts with ragged
// numbers of tokens, as a router leaves them, some with none.
#include "quantizers.cuh"

using namespace bench;

namespace {

struct packed_shape {
  i64 groups, rows, cols;
};
constexpr packed_shape shapes[] = {
    {64, 16384, 4096}, {512, 16384, 4096}, {64, 65536, 2048}, {512, 65536, 2048}};

/// All rows over the groups, by shares between 0 and 1; every eighth group is empty.
std::vector<i64> ragged(packed_shape s) {
  std::vector<double> shares;
  double sum = 0;
  for (i64 g = 0; g < s.groups; ++g) {
    const u64 r = f4::test::mix(static_cast<u64>(g));
    shares.push_back(r % 8 == 0 ? 0.0 : static_cast<double>(r >> 32) * 0x1p-32);
    sum += shares.back();
  }
  std::vector<i64> offsets{0};
  double before = 0;
  for (const double share : shares) {
    before += share;
    offsets.push_back(static_cast<i64>(before / sum * static_cast<double>(s.rows) + 0.5));
  }
  return offsets;
}

struct groups_on_device {
  std::vector<i64> offsets;
  buffer<i64> copy;

  explicit groups_on_device(packed_shape s) : offsets(ragged(s)), copy(s.groups + 1) {
    require(cudaMemcpy(copy.data(), offsets.data(), copy.bytes(), cudaMemcpyHostToDevice));
  }
  f4::row_groups on_host() const { return {offsets.data(), static_cast<i64>(offsets.size()) - 1}; }
  f4::row_groups on_device() const { return {copy.data(), static_cast<i64>(offsets.size()) - 1}; }
};

template <class F, class Layout, class Quantizer = f4::quantizer<>>
void quantize(benchmark::State& state, packed_shape s, Quantizer const& recipe = {}) {
  inputs<f4::bf16> x(s.rows, s.cols);
  const groups_on_device groups(s);
  buffer<u8> codes(f4::code_bytes<F>(s.rows, s.cols));
  buffer<u8> scales(f4::grouped_scale_bytes<F, Layout>(s.rows, s.cols, s.groups));
  buffer<float> amax(s.groups);
  f4::block_scaled_view<F, Layout> q{codes.data(), scales.data(), s.rows, s.cols};
  q.amax = {f4::amax_of_groups(amax.data()), recipe};
  require(f4::device::amax_grouped(x.view(0), groups.on_device(), amax.data()));
  const launch run = [&](i64 i) {
    require(f4::device::quantize_grouped(x.view(i), q, groups.on_device(), recipe));
  };
  run(0);
  const std::vector<f4::bf16> host = x.matrices[0].to_host();
  std::vector<float> want_amax(static_cast<size_t>(s.groups));
  std::vector<u8> c(codes.bytes(), 0xa5), sc(scales.bytes(), 0xa5);
  const f4::matrix_view<f4::bf16 const> m{host, s.rows, s.cols};
  require(f4::host::amax_grouped(m, groups.on_host(), want_amax.data()));
  f4::block_scaled_view<F, Layout> h{c, sc, s.rows, s.cols};
  h.amax = {f4::amax_of_groups(want_amax.data()), recipe};
  require(f4::host::quantize_grouped(m, h, groups.on_host(), recipe));
  require(amax.to_host() == want_amax, "an amax differs from the host's");
  require(codes.to_host() == c, "the codes differ from the host's");
  require(scales.to_host() == sc, "the scales differ from the host's");
  // Scales without padding.
  using written = traffic<F, 1>;
  buffer<u8> other(s.rows * s.cols / 16 * written::scales / written::sharing);
  report(state, static_cast<double>(2 * s.rows * s.cols) + static_cast<double>(codes.bytes() + other.bytes()),
         run, ceiling<written::codes, written::scales, written::sharing>(x, codes, other));
}

void amax(benchmark::State& state, packed_shape s) {
  inputs<f4::bf16> x(s.rows, s.cols);
  const groups_on_device groups(s);
  buffer<float> out(s.groups);
  buffer<u8> nothing(s.rows * s.cols / 16);
  report(
      state, 2.0 * static_cast<double>(s.rows * s.cols),
      [&](i64 i) { require(f4::device::amax_grouped(x.view(i), groups.on_device(), out.data())); },
      ceiling<0, 0>(x, nothing, nothing));
}

template <class Run>
void add_shapes(std::string const& what, Run run) {
  for (const packed_shape s : shapes)
    add(what + "/" + std::to_string(s.groups) + "/" + to_string({s.rows, s.cols}),
        [=](benchmark::State& state) { run(state, s); });
}

const bool registered = [] {
  using f4::linear, f4::swizzled_128x4;
  add_shapes("grouped_amax", amax);
  add_shapes("grouped_nvfp4", [](auto& state, packed_shape s) { quantize<f4::nvfp4, linear>(state, s); });
  add_shapes("grouped_nvfp4_swizzled",
             [](auto& state, packed_shape s) { quantize<f4::nvfp4, swizzled_128x4>(state, s); });
  add_shapes("grouped_nvfp4_stochastic", [](auto& state, packed_shape s) {
    quantize<f4::nvfp4, linear>(state, s, f4::quantizer{f4::stochastic{f4::philox{1234, 1}}});
  });
  add_shapes("grouped_mxfp4_swizzled",
             [](auto& state, packed_shape s) { quantize<f4::mxfp4, swizzled_128x4>(state, s); });
  add_shapes("grouped_mxfp8", [](auto& state, packed_shape s) { quantize<f4::mxfp8, linear>(state, s); });
  add_shapes("grouped_mxfp8_swizzled",
             [](auto& state, packed_shape s) { quantize<f4::mxfp8, swizzled_128x4>(state, s); });
  return true;
}();

}  // namespace
