// SPDX-License-Identifier: Apache-2.0
// Two linear layers split over two GPUs (tensor parallelism), in one process, by NCCL: the first by columns
// (W1 along its outputs), the second by rows (W2 along its inputs), as in an MLP of Megatron. Between amax()
// and quantize(), the ranks reduce the amaxes of the tensors that they share. The program checks which
// results then have the bits of one GPU:
// - Codes and scales of W1, W2 and H, and the outputs that no sum over ranks enters (H, dH, dW2), have the
//   bits of one GPU with the whole layers.
// - Y and dX are sums over ranks of FP32 partial sums. A tensor core adds along K in one chain, which ranks
//   would have to hand on to each other to keep its bits. The sum of two ranks has the bits of one GPU that
//   multiplies the two halves of K one after the other, the second one with beta = 1.
// - dH is quantized by stochastic rounding, on each rank under a key of its own. So dX and dW1 have the bits
//   of one GPU that does the work of both ranks, not those of the whole layer.
//
// nvcc -std=c++20 -O3 -arch=native -Iinclude examples/17_tensor_parallel.cu -lnccl -o tensor_parallel
#include <nccl.h>

#include <fourscale/recipe/linear.cuh>
#include <fourscale/recipe/presets.hpp>
#include <memory>
#include <vector>

#include "support/gpu.cuh"

namespace f4 = fourscale;
using f4::bf16, f4::i64, f4::u8;

namespace {

using example::require;
using layer = f4::device::linear_layer<f4::presets::te_nvfp4().linear>;
constexpr i64 tokens = 256, model = 384, hidden = 512;

void require(ncclResult_t e) {
  if (e == ncclSuccess) return;
  std::printf("NCCL: %s\n", ncclGetErrorString(e));
  std::exit(1);
}

/// Zeroed memory of the device that is current in the constructor.
template <class T>
struct buffer {
  T* data = nullptr;
  i64 count;

  explicit buffer(i64 n) : count(n) {
    require(cudaMalloc(reinterpret_cast<void**>(&data), static_cast<size_t>(n) * sizeof(T)));
    require(cudaMemset(data, 0, static_cast<size_t>(n) * sizeof(T)));
  }
  explicit buffer(std::vector<T> const& v) : buffer(static_cast<i64>(v.size())) { set(v); }
  ~buffer() { cudaFree(data); }
  buffer(buffer const&) = delete;

  void set(std::vector<T> const& v) {
    require(cudaMemcpy(data, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  std::vector<T> get() const { return copy_of(data, count); }
  static std::vector<T> copy_of(T const* from, i64 n) {
    std::vector<T> v(static_cast<size_t>(n));
    require(cudaMemcpy(v.data(), from, v.size() * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
  }
};

/// A row-major matrix on the host.
template <class T>
struct matrix {
  i64 rows, cols;
  std::vector<T> values;

  matrix(i64 r, i64 c) : rows(r), cols(c), values(static_cast<size_t>(r * c)) {}
  T& operator()(i64 r, i64 c) { return values[static_cast<size_t>(r * cols + c)]; }
  T operator()(i64 r, i64 c) const { return values[static_cast<size_t>(r * cols + c)]; }

  /// The part of rank number `rank` of `ranks`, split along rows or along columns.
  matrix part(int rank, int ranks, bool along_rows) const {
    matrix p(along_rows ? rows / ranks : rows, along_rows ? cols : cols / ranks);
    for (i64 r = 0; r < p.rows; ++r)
      for (i64 c = 0; c < p.cols; ++c)
        p(r, c) = (*this)(along_rows ? rank * p.rows + r : r, along_rows ? c : rank * p.cols + c);
    return p;
  }
};

template <class T>
matrix<T> random_matrix(i64 rows, i64 cols, float size, f4::u32 seed) {
  matrix<T> m(rows, cols);
  for (T& v : m.values) {
    seed = seed * 1664525u + 1013904223u;
    v = f4::from_float<T>(static_cast<float>(static_cast<f4::i32>(seed)) * 0x1p-31f * size);
  }
  return m;
}

/// The whole model and a batch, from which each rank takes its part.
struct problem {
  matrix<bf16> x = random_matrix<bf16>(tokens, model, 2.0f, 1),
               dy = random_matrix<bf16>(tokens, model, 1e-3f, 2);
  matrix<float> w1 = random_matrix<float>(hidden, model, 0.1f, 3),
                w2 = random_matrix<float>(model, hidden, 0.1f, 4);
};

/// The part of a layer that one rank has, and its memory.
struct layer_part {
  f4::linear_shape shape;
  f4::linear_bytes need = layer::bytes(shape);
  buffer<u8> weights{need.weights}, saved{need.saved}, workspace{need.workspace};
  layer::tensors t;

  explicit layer_part(f4::linear_shape s) : shape(s) {
    require(layer::place(s, {weights.data, need.weights}, {saved.data, need.saved},
                         {workspace.data, need.workspace}, &t));
  }
};

/// A rank: its device, its parts of both layers, and its matrices. Y and dX are partial sums until they are
/// reduced.
struct rank {
  int device, index, of;
  i64 mine = hidden / of;
  cudaStream_t stream = nullptr;
  std::unique_ptr<layer_part> one, two;
  std::unique_ptr<buffer<bf16>> x, h, dy, dh;
  std::unique_ptr<buffer<float>> w1, w2, y, dx, dw1, dw2;

  rank(int on, int i, int n, problem const& p) : device(on), index(i), of(n) {
    use();
    require(cudaStreamCreate(&stream));
    one = std::make_unique<layer_part>(f4::linear_shape{tokens, model, mine});
    two = std::make_unique<layer_part>(f4::linear_shape{tokens, mine, model});
    x = std::make_unique<buffer<bf16>>(p.x.values);
    dy = std::make_unique<buffer<bf16>>(p.dy.values);
    w1 = std::make_unique<buffer<float>>(p.w1.part(i, n, true).values);
    w2 = std::make_unique<buffer<float>>(p.w2.part(i, n, false).values);
    h = std::make_unique<buffer<bf16>>(tokens * mine);
    dh = std::make_unique<buffer<bf16>>(tokens * mine);
    y = std::make_unique<buffer<float>>(tokens * model);
    dx = std::make_unique<buffer<float>>(tokens * model);
    dw1 = std::make_unique<buffer<float>>(mine * model);
    dw2 = std::make_unique<buffer<float>>(mine * model);
  }
  void use() const { require(cudaSetDevice(device)); }
  /// Keys of the random bits. The second layer has one key on all ranks, so that W2 and dY are rounded alike.
  /// The first layer has a key for each rank, which rounds the columns of dH of that rank.
  f4::draw_key key_of_one() const { return {42, static_cast<f4::u32>(16 + index), 7, 0}; }
  static f4::draw_key key_of_two() { return {42, 1, 7, 0}; }

  f4::matrix_view<bf16> h_view() const { return {h->data, tokens, mine}; }
  f4::matrix_view<bf16> dh_view() const { return {dh->data, tokens, mine}; }
  f4::matrix_view<bf16> x_view() const { return {x->data, tokens, model}; }
  f4::matrix_view<bf16> dy_view() const { return {dy->data, tokens, model}; }
  f4::matrix_view<float> w1_view() const { return {w1->data, mine, model}; }
  f4::matrix_view<float> w2_view() const { return {w2->data, model, mine}; }
  f4::matrix_view<float> y_view() const { return {y->data, tokens, model}; }
  f4::matrix_view<float> dx_view() const { return {dx->data, tokens, model}; }
};

/// A set of ranks, and how they reduce: by NCCL, or on the host if all of them are on one GPU.
struct world {
  std::vector<std::unique_ptr<rank>> ranks;
  std::vector<ncclComm_t> comms;

  world(std::vector<int> const& devices, bool by_nccl, problem const& p) {
    const int n = static_cast<int>(devices.size());
    for (int i = 0; i < n; ++i)
      ranks.push_back(std::make_unique<rank>(devices[static_cast<size_t>(i)], i, n, p));
    if (!by_nccl) return;
    comms.resize(devices.size());
    require(ncclCommInitAll(comms.data(), n, devices.data()));
  }
  ~world() {
    for (ncclComm_t c : comms) ncclCommDestroy(c);
  }

  template <class Call>
  void each(Call call) const {
    for (auto const& r : ranks) {
      r->use();
      call(*r);
    }
  }
  void synchronize() const {
    each([](rank const& r) { require(cudaStreamSynchronize(r.stream)); });
  }

  /// All-reduce: replaces the `count` floats at where(rank) of every rank by their largest, or their sum.
  template <class Where>
  void reduce(Where where, i64 count, ncclRedOp_t op) const {
    if (comms.empty()) return reduce_on_host(where, count, op);
    require(ncclGroupStart());
    for (size_t i = 0; i < ranks.size(); ++i)
      require(ncclAllReduce(where(*ranks[i]), where(*ranks[i]), static_cast<size_t>(count), ncclFloat, op,
                            comms[i], ranks[i]->stream));
    require(ncclGroupEnd());
  }
  template <class Where>
  void reduce_on_host(Where where, i64 count, ncclRedOp_t op) const {
    synchronize();
    std::vector<float> all = buffer<float>::copy_of(where(*ranks[0]), count);
    for (size_t i = 1; i < ranks.size(); ++i) {
      const std::vector<float> other = buffer<float>::copy_of(where(*ranks[i]), count);
      for (size_t j = 0; j < all.size(); ++j)
        all[j] = op == ncclSum ? all[j] + other[j] : all[j] > other[j] ? all[j] : other[j];
    }
    each([&](rank const& r) {
      require(cudaMemcpy(where(r), all.data(), all.size() * sizeof(float), cudaMemcpyHostToDevice));
    });
  }

  void forward() const {
    each([](rank& r) {
      const layer run(r.stream);
      require(run.amax(r.x_view(), r.key_of_one(), r.one->t.x));  // all of X is on each rank
      require(run.amax(r.w1_view(), r.key_of_one(), r.one->t.w));
      require(run.amax(r.w2_view(), r.key_of_two(), r.two->t.w));
    });
    reduce([](rank const& r) { return r.one->t.w.amax; }, 1, ncclMax);
    reduce([](rank const& r) { return r.two->t.w.amax; }, 1, ncclMax);
    each([](rank& r) {
      const layer run(r.stream);
      require(run.quantize(r.x_view(), r.key_of_one(), &r.one->t.x));
      require(run.quantize(r.w1_view(), r.key_of_one(), &r.one->t.w));
      require(run.quantize(r.w2_view(), r.key_of_two(), &r.two->t.w));
      require(run.fprop(r.one->t, r.h_view()));
      require(run.amax(r.h_view(), r.key_of_two(), r.two->t.x));
    });
    reduce([](rank const& r) { return r.two->t.x.amax; }, 2, ncclMax);  // of H and of H transformed
    each([](rank& r) {
      const layer run(r.stream);
      require(run.quantize(r.h_view(), r.key_of_two(), &r.two->t.x));
      require(run.fprop(r.two->t, r.y_view()));
    });
  }
  void sum_outputs() const {
    reduce([](rank const& r) { return r.y->data; }, tokens * model, ncclSum);
  }
  void backward() const {
    each([](rank& r) {
      const layer run(r.stream);
      require(run.amax(r.dy_view(), r.key_of_two(), r.two->t.dy));
      require(run.quantize(r.dy_view(), r.key_of_two(), &r.two->t.dy));
      require(run.dgrad(r.two->t, r.dh_view()));
      require(run.wgrad(r.two->t, f4::matrix_view<float>{r.dw2->data, model, r.mine}, 0.0f));
      require(run.amax(r.dh_view(), r.key_of_one(), r.one->t.dy));
    });
    reduce([](rank const& r) { return r.one->t.dy.amax; }, 2, ncclMax);
    each([](rank& r) {
      const layer run(r.stream);
      require(run.quantize(r.dh_view(), r.key_of_one(), &r.one->t.dy));
      require(run.dgrad(r.one->t, r.dx_view()));
      require(run.wgrad(r.one->t, f4::matrix_view<float>{r.dw1->data, r.mine, model}, 0.0f));
    });
    reduce([](rank const& r) { return r.dx->data; }, tokens * model, ncclSum);
  }
};

bool good = true;
void check(char const* what, bool same) {
  std::printf("%-68s %s\n", what, same ? "equal" : "DIFFERENT");
  good &= same;
}

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() && __builtin_memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}
template <class T>
matrix<T> on_host(buffer<T> const& b, i64 cols) {
  matrix<T> m(b.count / cols, cols);
  m.values = b.get();
  return m;
}

/// True if `part` has the codes and scales of those rows of `all` that begin at `row`.
template <class View>
bool same_rows(View const& part, View const& all, i64 row) {
  const auto bytes = [](u8 const* from, i64 count) { return buffer<u8>::copy_of(from, count); };
  const i64 code_row = all.cols / 2, scale_row = all.cols / 16;
  return same_bits(bytes(part.codes, part.rows * code_row),
                   bytes(all.codes + row * code_row, part.rows * code_row)) &&
         same_bits(bytes(part.scales, part.rows * scale_row),
                   bytes(all.scales + row * scale_row, part.rows * scale_row));
}

/// Compares two ranks with one that has the whole layers.
void compare_with_whole(world const& two, rank const& whole) {
  bool codes = true, h = true, dh = true, dw2 = true;
  for (auto const& r : two.ranks) {
    codes &= same_rows(r->one->t.w.rowwise, whole.one->t.w.rowwise, r->index * r->mine);
    codes &= same_rows(r->two->t.w.columnwise, whole.two->t.w.columnwise, r->index * r->mine);
    codes &= same_rows(r->two->t.x.columnwise, whole.two->t.x.columnwise, r->index * r->mine);
    const auto part = [&](auto const& all) { return all.part(r->index, r->of, false).values; };
    h &= same_bits(r->h->get(), part(on_host(*whole.h, hidden)));
    dh &= same_bits(r->dh->get(), part(on_host(*whole.dh, hidden)));
    dw2 &= same_bits(r->dw2->get(), part(on_host(*whole.dw2, hidden)));
  }
  check("codes and scales of W1, W2 and H: whole layers on one GPU", codes);
  check("H, split by columns: whole layers on one GPU", h);
  check("dH: whole layers on one GPU", dh);
  check("dW2: whole layers on one GPU", dw2);
  double error = 0, all = 0;
  const std::vector<float> y = two.ranks[0]->y->get(), of_whole = whole.y->get();
  for (size_t i = 0; i < y.size(); ++i) {
    const double e = static_cast<double>(y[i]) - static_cast<double>(of_whole[i]);
    error += e * e, all += static_cast<double>(of_whole[i]) * static_cast<double>(of_whole[i]);
  }
  std::printf("%-68s %.1e\n", "Y, relative square error against one chain along K", error / all);
  good &= error / all < 1e-10;
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices < 2) {
    std::printf("This needs two GPUs, and there are %d: nothing was run.\n", devices);
    return 0;
  }
  const problem p;
  const world two({0, 1}, true, p), shared({0, 0}, false, p), whole({0}, false, p);
  for (world const* w : {&two, &shared, &whole}) {
    w->forward();
    w->synchronize();
  }
  // On one GPU: adds the product of the second half of K to that of the first half.
  rank& first = *shared.ranks[0];
  first.use();
  const buffer<float> chained(first.y->get());
  require(layer(first.stream)
              .fprop(shared.ranks[1]->two->t, f4::matrix_view<float>{chained.data, tokens, model}, 1.0f));
  for (world const* w : {&two, &shared, &whole}) {
    w->sum_outputs();
    w->backward();
    w->synchronize();
  }
  compare_with_whole(two, *whole.ranks[0]);
  check("Y: one GPU, half of K after half of K with beta = 1",
        same_bits(two.ranks[0]->y->get(), chained.get()));
  bool dx = true, dw1 = true;
  for (size_t i = 0; i < 2; ++i) {
    dx &= same_bits(two.ranks[i]->dx->get(), shared.ranks[i]->dx->get());
    dw1 &= same_bits(two.ranks[i]->dw1->get(), shared.ranks[i]->dw1->get());
  }
  check("dX: both ranks on one GPU", dx);
  check("dW1: both ranks on one GPU", dw1);
  return good ? 0 : 1;
}
