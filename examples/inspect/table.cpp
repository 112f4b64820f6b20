// SPDX-License-Identifier: Apache-2.0
// The table: formats are columns, tensors are rows. Of a tensor it shows one number, SQNR, which says how
// well a format fits. The rows at the end give all five numbers for the whole checkpoint.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report.hpp"

namespace inspect {

namespace {

constexpr int number_width = 8, line_width = 110;

/// A quantity that a row shows for every format.
struct metric {
  char const* label;
  std::string (*text)(tally const&);
};

std::string sqnr_text(tally const& t) {
  const double db = t.sums.sqnr_db();
  return std::isnan(db)                                  ? "-"
         : db == std::numeric_limits<double>::infinity() ? "exact"
                                                         : fmt::format("{:.2f}", db);
}
std::string gain_text(tally const& t) {
  return std::isfinite(t.sums.gain()) ? fmt::format("{:.4f}", t.sums.gain()) : "-";
}
std::string bits_text(tally const& t) { return fmt::format("{:.2f}", t.bits_per_value()); }
std::string percent_text(double share) {
  if (std::isnan(share)) return "-";
  if (share == 0) return "0";
  return share < 0.00005 ? "<0.01" : fmt::format("{:.2f}", 100 * share);
}
std::string flushed_text(tally const& t) { return percent_text(t.flushed_share()); }
std::string saturated_text(tally const& t) { return percent_text(t.saturated_share()); }

constexpr metric sqnr{"SQNR, dB", sqnr_text};
constexpr metric others[] = {{"bits per value", bits_text},
                             {"gain", gain_text},
                             {"flushed to zero, %", flushed_text},
                             {"saturated, %", saturated_text}};

class table {
 public:
  table(checkpoint_report const& report, bool with_details) : report_(report), with_details_(with_details) {
    int longest = 12;
    for (tensor_report const& t : report.tensors) {
      longest = std::max(longest, columns(shortened(t.name, line_width)));
      shape_width_ = std::max(shape_width_, columns(shape(t)) + 2);
    }
    name_width_ = std::min(longest, line_width - left_width(0));
  }

  std::string text() {
    if (report_.tensors.empty()) return "no tensor to quantize\n";
    header();
    for (tensor_report const& t : report_.tensors) row(t);
    total();
    return std::move(out_);
  }

 private:
  static std::string shape(tensor_report const& t) { return fmt::format("{}x{}", t.rows, t.cols); }
  int left_width(int name_width) const {
    return name_width + shape_width_ + amax_width + static_cast<int>(formats.size()) * number_width;
  }
  void rule() { out_ += std::string(static_cast<std::size_t>(left_width(name_width_)), '-') + '\n'; }

  void line(std::string_view name, std::string_view shape, std::string_view amax) {
    out_ +=
        padded_right(name, name_width_) + padded_left(shape, shape_width_) + padded_left(amax, amax_width);
  }
  void numbers(std::array<tally, formats.size()> const& by_format, metric const& m) {
    for (tally const& t : by_format) out_ += padded_left(m.text(t), number_width);
    out_ += '\n';
  }
  void labelled(std::array<tally, formats.size()> const& by_format, metric const& m) {
    out_ += padded_left(m.label, name_width_ + shape_width_ + amax_width);
    numbers(by_format, m);
  }

  void header() {
    if (!with_details_) {
      constexpr std::string_view dashes = "--------------";
      line("", "", "");
      out_ += fmt::format("  {} {} {}\n", dashes, sqnr.label, dashes);
    }
    line("", "", "");
    for (format_info const& f : formats) out_ += padded_left(f.name, number_width);
    out_ += '\n';
    line("tensor", "shape", "amax");
    for (format_info const& f : formats) out_ += padded_left(f.block, number_width);
    out_ += '\n';
    rule();
  }

  void row(tensor_report const& t) {
    line(shortened(t.name, name_width_), shape(t), fmt::format("{:.4g}", static_cast<double>(t.amax)));
    if (with_details_) {
      out_ += '\n';
      labelled(t.by_format, sqnr);
      for (metric const& m : others) labelled(t.by_format, m);
    } else {
      numbers(t.by_format, sqnr);
    }
  }

  void total() {
    rule();
    const std::string what =
        report_.tensors.size() == 1 ? "the tensor" : fmt::format("all {} tensors", report_.tensors.size());
    const std::string label(sqnr.label);
    const int rest = name_width_ + shape_width_ + amax_width - static_cast<int>(label.size());
    out_ += padded_right(fmt::format("{}, {} values", what,
                                     with_prefix(static_cast<double>(report_.total[0].stored_values))),
                         rest) +
            label;
    numbers(report_.total, sqnr);
    for (metric const& m : others) labelled(report_.total, m);
  }

  static constexpr int amax_width = 11;
  checkpoint_report const& report_;
  bool with_details_;
  int name_width_ = 0, shape_width_ = 10;
  std::string out_;
};

/// "layer.11.bias" as "layer.*.bias", which makes ten names of 60.
std::string pattern_of(std::string const& name) {
  std::string pattern;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool digit = name[i] >= '0' && name[i] <= '9';
    const bool starts_part = i == 0 || name[i - 1] == '.' || (digit && pattern.back() == '*');
    if (digit && starts_part)
      pattern += pattern.empty() || pattern.back() != '*' ? "*" : "";
    else
      pattern += name[i];
  }
  return pattern;
}

/// Items joined by ", ", broken before the line gets too long.
std::string paragraph(std::string const& start, std::vector<std::string> const& items) {
  std::string out = start;
  int at = columns(start);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string item = ' ' + items[i] + (i + 1 < items.size() ? "," : "");
    if (at + columns(item) > line_width && i > 0) {
      out += "\n ";
      at = 1;
    }
    out += item;
    at += columns(item);
  }
  return out + '\n';
}

std::string skipped_text(std::vector<skipped_tensor> const& skipped, bool with_details) {
  std::map<std::string, std::map<std::string, u64>> by_reason;
  for (skipped_tensor const& s : skipped)
    ++by_reason[s.reason][shortened(with_details ? s.info.name : pattern_of(s.info.name), line_width - 16)];
  std::string out;
  for (auto const& [reason, names] : by_reason) {
    constexpr std::size_t most = 40;
    u64 count = 0, named = 0;
    std::vector<std::string> items;
    for (auto const& [name, times] : names) {
      count += times;
      if (items.size() == most && !with_details) continue;
      items.push_back(times > 1 ? fmt::format("{} ({}x)", name, times) : name);
      named += times;
    }
    if (named < count) items.push_back(fmt::format("and {} more (--details names them)", count - named));
    out += paragraph(fmt::format("{} skipped, {}:", count, reason), items);
  }
  return out;
}

std::string non_finite_text(std::vector<tensor_report> const& tensors) {
  std::string out;
  for (tensor_report const& t : tensors)
    if (t.nan + t.inf > 0)
      out += fmt::format("{} holds {} NaN and {} infinite values; the numbers are about the others\n",
                         in_quotes(t.name), t.nan, t.inf);
  return out;
}

constexpr char const* legend =
    "SQNR: 10 log10(sum x^2 / sum (x - Q)^2), higher is better; 6 dB less is twice the error.\n"
    "gain: <x, Q> / <x, x>, best at 1. flushed: x != 0 became 0. saturated: clipped at its block's largest "
    "value.\n"
    "bits per value: codes, scales and tensor scale as they are stored, padding of the last block "
    "included.\n";

}  // namespace

std::string table_text(checkpoint_report const& report, bool with_details) {
  std::string out = table(report, with_details).text();
  if (!report.tensors.empty()) out += '\n' + std::string(legend);
  const std::string notes = non_finite_text(report.tensors) + skipped_text(report.skipped, with_details);
  return notes.empty() ? out : out + '\n' + notes;
}

std::string written_text(written_file const& written) {
  std::string out =
      fmt::format("\n{}: {}B, {} tensors in NVFP4\n", printable(written.path),
                  with_prefix(static_cast<double>(written.bytes)) + (written.bytes < 1000 ? " " : ""),
                  written.packed.size());
  for (skipped_tensor const& s : written.copied)
    out += fmt::format("  {} copied as it is: {}\n", in_quotes(s.info.name), s.reason);
  return out;
}

std::string version_text() {
  return fmt::format("{}.{}.{}", FOURSCALE_VERSION_MAJOR, FOURSCALE_VERSION_MINOR, FOURSCALE_VERSION_PATCH);
}

}  // namespace inspect
