// SPDX-License-Identifier: Apache-2.0
// Linear layers in NVFP4: linear_bench.cuh says what is measured. By accumulate::blackwell, with its
//   decoding   percent of the step: packed operands to bf16
// /native/: by accumulate::native without a plan; /cublasLt/: by its plans.
#include "linear_bench/linear_bench.cuh"

using namespace bench;

namespace {

/// One of the three GEMMs by Blackwell's bits, from packed operands: A * B^T to D.
template <class F, class L, class T>
struct packed_gemm {
  static constexpr bool adds = sizeof(T) == 4;
  buffer<u8> workspace;  ///< of its own, so that what it decodes stays
  f4::device::detail::wgmma_call<F, L, F, L, T> ours;

  packed_gemm(f4::block_scaled_view<F, L> const& a, f4::block_scaled_view<F, L> const& b,
              matrix_view<T> const& to)
      : workspace(f4::device::gemm_workspace_bytes(a.rows, b.rows, a.cols)),
        ours(a, b, to, {1.0f, adds ? 1.0f : 0.0f}, workspace.data(), nullptr) {}
  void decode() const { require(ours.decode(nullptr)); }
  void multiply() const { require(ours.multiply(nullptr)); }
};

/// The same by Blackwell's bits, with the parts of its GEMMs.
template <f4::linear_recipe R, class Weight>
void measure_parts(benchmark::State& state, linear_shape s) {
  trial<R, Weight, by_blackwell> x(s);
  auto const& t = x.ours.t;
  const packed_gemm fprop(t.x.rowwise, t.w.rowwise, x.m.y.view()),
      dgrad(t.dy.rowwise, t.w.columnwise, x.m.dx.view());
  const packed_gemm wgrad(t.dy.columnwise, t.x.columnwise, x.m.dw.view());
  std::vector<launch> launches = x.launches();
  launches.push_back([&](i64) { fprop.decode(), dgrad.decode(), wgrad.decode(); });
  launches.push_back([&](i64) { fprop.multiply(), dgrad.multiply(), wgrad.multiply(); });
  for (auto _ : state) {
    const std::vector<double> times = medians(launches, 21, 1);
    x.report(state, times);
    state.counters["decoding"] = 100 * times[4] / times[1];
    state.counters["GEMMs_of_bf16"] = times[5] / times[0];
  }
}

template <f4::linear_recipe R, class Weight>
void add_step(std::string const& name, linear_shape s) {
  add_one(name, &measure_parts<R, Weight>, s);
  add_one(name + "/native", &measure<R, Weight, by_native>, s);
  add_one(name + "/cublasLt", &measure<R, Weight, by_cublaslt>, s);
}

const bool registered = [] {
  constexpr f4::linear_recipe te = f4::presets::te_nvfp4().linear,
                              no_rht = f4::presets::te_nvfp4_no_rht().linear;
  for (const linear_shape s : {linear_shape{8192, 4096, 14336}, {8192, 14336, 4096}}) {
    add_step<te, bf16>("te_nvfp4", s);
    add_step<no_rht, bf16>("te_nvfp4_no_rht", s);
    add_step<te, float>("te_nvfp4_fp32_weights", s);
  }
  return true;
}();

}  // namespace
