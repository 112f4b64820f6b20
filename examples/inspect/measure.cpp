// SPDX-License-Identifier: Apache-2.0
// Two passes over each matrix, band by band; a band is some of its rows. The first finds the amax, which
// tensor scales need. The second takes each band to every format and back.
#include "measure.hpp"

#include <algorithm>
#include <cmath>

#include "round_trip.hpp"

namespace inspect {

namespace {

/// What the first pass finds.
struct scan_result {
  float amax = 0;
  u64 nan = 0, inf = 0;
  double signal = 0;
};

scan_result scan_row(float const* x, i64 cols) {
  scan_result s;
  for (i64 i = 0; i < cols; ++i) {
    const float magnitude = std::fabs(x[i]);
    if (std::isfinite(magnitude)) {
      s.amax = std::max(s.amax, magnitude);
      s.signal += static_cast<double>(magnitude) * static_cast<double>(magnitude);
    } else {
      ++(std::isnan(magnitude) ? s.nan : s.inf);
    }
  }
  return s;
}

template <class Action>
void for_each_band(row_reader& reader, Action action) {
  band b;
  b.cols = reader.cols();
  b.ld = fourscale::round_up<i64>(b.cols, 32);
  const i64 most = std::min(reader.rows_at_once(), reader.rows());
  b.values.assign(static_cast<u64>(most * b.ld), 0.0f);
  for (i64 first = 0; first < reader.rows(); first += b.rows) {
    b.rows = std::min(most, reader.rows() - first);
    reader.read(first, b.rows, b.values.data(), b.ld);
    action(b);
  }
}

scan_result scan(row_reader reader) {
  scan_result all;
  std::vector<scan_result> rows;
  for_each_band(reader, [&](band& b) {
    rows.resize(static_cast<u64>(b.rows));
#ifdef _OPENMP
#pragma omp parallel for if (b.rows * b.cols > 65536)
#endif
    for (i64 r = 0; r < b.rows; ++r) rows[static_cast<u64>(r)] = scan_row(b.values.data() + r * b.ld, b.cols);
    for (scan_result const& s : rows) {
      all.amax = std::max(all.amax, s.amax);
      all.nan += s.nan, all.inf += s.inf, all.signal += s.signal;
    }
  });
  return all;
}

void add_errors(band const& b, rounded_band const& q, float inverse_rms, error_histogram& all) {
#ifdef _OPENMP
#pragma omp parallel if (b.rows * b.cols > 65536)
#endif
  {
    error_histogram mine;
#ifdef _OPENMP
#pragma omp for nowait
#endif
    for (i64 r = 0; r < b.rows; ++r)
      for (i64 c = 0; c < b.cols; ++c) {
        const u64 i = static_cast<u64>(r * b.ld + c);
        mine.add(std::fabs(b.values[i] - q.values[i]) * inverse_rms);
      }
#ifdef _OPENMP
#pragma omp critical
#endif
    all += mine;
  }
}

void round_trip_as(std::size_t format, band const& b, float amax, bool with_values, rounded_band& q) {
  using namespace fourscale;
  switch (format) {
    case 0:
      return round_trip<nvfp4>(b, amax, blocks_1d{}, with_values, q);
    case 1:
      return round_trip<nvfp4>(b, amax, blocks_2d<16, 16>{}, with_values, q);
    case 2:
      return round_trip<mxfp4>(b, amax, blocks_1d{}, with_values, q);
    case 3:
      return round_trip<mxfp8>(b, amax, blocks_1d{}, with_values, q);
    default:
      return round_trip<fp8_e4m3>(b, amax, blocks_1d{}, with_values, q);
  }
}

constexpr bool has_tensor_scale(std::size_t format) { return format != 2 && format != 3; }

tensor_report measure_tensor(byte_source const& file, tensor_info const& info,
                             std::array<error_histogram, formats.size()>* errors) {
  row_reader reader(file, info);
  const scan_result found = scan(reader);
  tensor_report report{
      info.name, std::string(info.type->name), info.shape[0], info.shape[1], found.amax, found.nan, found.inf,
      {}};
  const u64 left_out = found.nan + found.inf, values = report.rows * report.cols;
  const double rms = std::sqrt(found.signal / static_cast<double>(std::max<u64>(values - left_out, 1)));
  const float inverse_rms = rms > 0 ? static_cast<float>(std::min(1 / rms, 1e38)) : 0.0f;

  rounded_band q;
  for_each_band(reader, [&](band& b) {
    if (left_out > 0)  // NaN and infinity would spoil their whole block; a zero is in no sum
      for (float& x : b.values)
        if (!std::isfinite(x)) x = 0;
    for (std::size_t f = 0; f < formats.size(); ++f) {
      round_trip_as(f, b, found.amax, errors != nullptr, q);
      report.by_format[f] += q.lost;
      if (errors) add_errors(b, q, inverse_rms, (*errors)[f]);
    }
  });
  for (std::size_t f = 0; f < formats.size(); ++f) {
    tally& t = report.by_format[f];
    t.values = values - left_out;
    t.stored_values = values;
    if (has_tensor_scale(f)) t.stored_bits += 32;
    if (errors) (*errors)[f].exact -= left_out;
  }
  return report;
}

}  // namespace

checkpoint_report measure(byte_source const& file, checkpoint const& content, bool with_histograms,
                          progress_function const& progress) {
  checkpoint_report report;
  report.file_bytes = file.size();
  std::vector<tensor_info const*> matrices;
  for (tensor_info const& t : content.tensors) {
    const std::string reason = reason_to_skip(t);
    if (reason.empty())
      matrices.push_back(&t);
    else
      report.skipped.push_back({t, reason});
  }
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    if (progress) progress(i, matrices.size(), matrices[i]->name);
    report.tensors.push_back(measure_tensor(file, *matrices[i], with_histograms ? &report.errors : nullptr));
    for (std::size_t f = 0; f < formats.size(); ++f) report.total[f] += report.tensors.back().by_format[f];
  }
  return report;
}

}  // namespace inspect
