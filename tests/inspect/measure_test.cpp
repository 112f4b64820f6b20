// SPDX-License-Identifier: Apache-2.0
// The numbers of the table, against a tensor worked out by hand, and the tensors that have no numbers.
#include <nlohmann/json.hpp>

#include "../support/catch.hpp"
#include "files.hpp"
#include "inspect/plot.hpp"
#include "inspect/report.hpp"
#include "inspect/rows.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace inspect::test {

namespace {

checkpoint_report measured(bytes const& file, bool with_histograms = false) {
  const memory_source source(file);
  return measure(source, read_checkpoint(source, "x"), with_histograms);
}

/// Two rows of 16 with amax 2688, which makes the tensor scale of NVFP4 one.
std::vector<float> tiny() {
  std::vector<float> x(32, 0.0f);
  x[0] = 2688, x[1] = 1120, x[2] = 100, x[16] = 6.3f;
  return x;
}

/// One row that begins so.
bytes row_of(std::vector<float> x) {
  x.resize(16, 0.0f);
  return file_of(x, 1, 16);
}

/// What tiny() became: its four values, in order.
struct expected {
  double q[4];
  u64 flushed, saturated;
  double bits;
};

constexpr expected by_hand[] = {
    {{2688, 896, 0, 6}, 1, 1, 5.5},       // scales 448 and 1 (of 1.05); 1120 / 448 = 2.5, a tie, goes to even
    {{2688, 896, 0, 0}, 2, 0, 5.5},       // one scale, 448, for both rows
    {{3072, 1024, 0, 6}, 1, 0, 8.5},      // scales 512 and 2; rows padded to 32
    {{2560, 1152, 96, 6.5}, 0, 0, 16.5},  // scales 8 and 2^-6; 2688 / 8 = 336 and 100 / 8 = 12.5 are ties
    {{2688, 1152, 96, 6}, 0, 0, 9},       // scale 6: 448, 186.7, 16.7, 1.05
};

u64 bits_of(double x) { return fourscale::bit_cast<u64>(x); }

}  // namespace

TEST_CASE("every number of a tiny tensor is the one worked out by hand", "[inspect]") {
  const checkpoint_report report = measured(file_of(tiny(), 2, 16));
  REQUIRE(report.tensors.size() == 1);
  CHECK(report.tensors[0].amax == 2688.0f);
  const double x[4] = {2688, 1120, 100, static_cast<double>(6.3f)};
  for (std::size_t f = 0; f < formats.size(); ++f) {
    INFO(formats[f].key);
    tally const& t = report.tensors[0].by_format[f];
    double signal = 0, noise = 0, product = 0;
    for (int i = 0; i < 4; ++i) {
      const double q = by_hand[f].q[i];
      signal += x[i] * x[i], noise += (x[i] - q) * (x[i] - q), product += x[i] * q;
    }
    // 2^-20: dequantization rounds a few times.
    CHECK(t.sums.sum_xx == signal);
    CHECK(std::abs(t.sums.sum_ee - noise) <= noise * 0x1p-20 + 0x1p-20);
    CHECK(std::abs(t.sums.sum_xq - product) <= product * 0x1p-20);
    CHECK(std::abs(t.sums.sqnr_db() - 10 * std::log10(signal / noise)) < 1e-5);
    CHECK(t.sums.dead_zone == by_hand[f].flushed);
    CHECK(t.sums.clipped == by_hand[f].saturated);
    CHECK(t.bits_per_value() == by_hand[f].bits);
    CHECK(t.values == 32);
  }
}

TEST_CASE("the largest value of a tensor never saturates", "[inspect]") {
  for (int i = 1; i < 300; ++i) {
    const checkpoint_report r = measured(row_of({1.0f / static_cast<float>(i)}));
    for (tally const& t : r.total) CHECK(t.sums.clipped == 0);
  }
}

TEST_CASE("tensors without numbers are named, and nothing crashes", "[inspect]") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x = tiny();
  x[5] = nan, x[6] = -nan, x[20] = -inf;
  const checkpoint_report odd = measured(file_of(x, 2, 16), true), even = measured(file_of(tiny(), 2, 16));
  CHECK(odd.tensors[0].nan == 2);
  CHECK(odd.tensors[0].inf == 1);
  CHECK(odd.tensors[0].by_format[0].values == 29);
  CHECK(odd.tensors[0].by_format[0].sums.sum_ee == even.tensors[0].by_format[0].sums.sum_ee);
  CHECK(table_text(odd, false).find("2 NaN and 1 infinite") != std::string::npos);

  const checkpoint_report zeros = measured(file_of(std::vector<float>(64, 0.0f), 2, 32), true);
  CHECK(table_text(zeros, true).find("exact") != std::string::npos);
  CHECK(nlohmann::json::parse(json_text(zeros, "x", nullptr))["total"]["formats"]["nvfp4_1x16"]["gain"]
            .is_null());
  CHECK(plot_svg(zeros, "x").ends_with("</svg>\n"));

  const checkpoint_report all_nan = measured(file_of(std::vector<float>(16, nan), 1, 16), true);
  CHECK(table_text(all_nan, true).find("16 NaN") != std::string::npos);
  CHECK(plot_svg(all_nan, "<&>").find("&lt;&amp;&gt;") != std::string::npos);

  const checkpoint_report empty = measured(file_of({}, 0, 16));
  CHECK(empty.tensors.empty());
  CHECK(table_text(empty, false).find("1 skipped, empty: x") != std::string::npos);
  CHECK(table_text(measured(file_of("{}", 0)), false).find("no tensor to quantize") != std::string::npos);
}

TEST_CASE("a matrix narrower than a block is left alone: its rows would be mostly padding", "[inspect]") {
  const checkpoint_report report = measured(file_of(std::vector<float>(30, 1.0f), 2, 15));
  CHECK(report.tensors.empty());
  CHECK(table_text(report, false).find("1 skipped, fewer than 16 columns: x") != std::string::npos);
}

TEST_CASE("a band has about a million values, padding included", "[inspect]") {
  for (const u64 cols : {16u, 33u, 1000u, 1u << 20}) {
    const tensor_info x{"x", find_dtype("F32"), {1u << 24, cols}};
    const memory_source nothing({});
    const i64 rows = row_reader(nothing, x).rows_at_once(), padded = (static_cast<i64>(cols) + 31) / 32 * 32;
    CHECK(rows % 32 == 0);
    CHECK((rows == 32 || rows * padded <= 1 << 20));
    CHECK(rows * padded > 1 << 19);
  }
}

TEST_CASE("the largest and smallest floats are survived", "[inspect]") {
  for (const float size : {0x1p-149f, 0x1p-126f, 0x1p127f, 0x1.fffffep127f}) {
    const checkpoint_report r = measured(row_of({size, -size / 2, 0, size}), true);
    CHECK(r.tensors[0].amax == size);
    CHECK(!table_text(r, true).empty());
    CHECK(!json_text(r, "x", nullptr).empty());
    CHECK(plot_svg(r, "x").find("nan") == std::string::npos);
  }
}

TEST_CASE("sums do not depend on the number of threads", "[inspect]") {
#ifdef _OPENMP
  std::vector<float> x(300 * 700);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i) * 0.7f);
  const bytes file = file_of(x, 300, 700);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const checkpoint_report one = measured(file, true);
  omp_set_num_threads(3);
  const checkpoint_report three = measured(file, true);
  omp_set_num_threads(threads);
  for (std::size_t f = 0; f < formats.size(); ++f) {
    CHECK(bits_of(one.total[f].sums.sum_ee) == bits_of(three.total[f].sums.sum_ee));
    CHECK(bits_of(one.total[f].sums.sum_xq) == bits_of(three.total[f].sums.sum_xq));
    CHECK(one.errors[f].counts == three.errors[f].counts);
  }
#endif
}

TEST_CASE("histograms count every value once", "[inspect]") {
  std::vector<float> x(40 * 33);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  const checkpoint_report r = measured(file_of(x, 40, 33), true);
  for (error_histogram const& h : r.errors) {
    u64 sum = h.exact;
    for (const u64 n : h.counts) sum += n;
    CHECK(sum == x.size());
  }
}

TEST_CASE("JSON has a number for each tensor and format", "[inspect]") {
  const auto json =
      nlohmann::json::parse(json_text(measured(file_of(tiny(), 2, 16)), "a \"b\"\xff", nullptr));
  CHECK(json["tensors"][0]["name"] == "x");
  CHECK(json["tensors"][0]["shape"] == nlohmann::json{2, 16});
  for (format_info const& f : formats)
    for (char const* key : {"bits_per_value", "sqnr_db", "gain", "flushed", "saturated"})
      CHECK(json["tensors"][0]["formats"][f.key][key].is_number());
  CHECK(json["tensors"][0]["formats"]["nvfp4_1x16"]["flushed"] == 1.0 / 32);
}

TEST_CASE("each line of the table is as wide as the others", "[inspect]") {
  std::vector<output_tensor> tensors;
  for (std::string const& name :
       {std::string(300, 'w'), std::string("\xe9\x87\x8d.weight"), std::string("a\nb")})
    tensors.push_back({name, "F32", {1, 16}, 64});
  bytes file = bytes_of(make_header(tensors, {}));
  file.resize(file.size() + 3 * 64, 0x3f);
  const std::string table = table_text(measured(file), false);
  const std::size_t first = table.find("\n---") + 1, width = table.find('\n', first) - first;
  CHECK(width <= 110);
  std::size_t at = table.find('\n', first) + 1;
  for (int row = 0; row < 3; ++row) {
    const std::size_t end = table.find('\n', at);
    CHECK(columns(table.substr(at, end - at)) == static_cast<int>(width));
    at = end + 1;
  }
}

}  // namespace inspect::test
