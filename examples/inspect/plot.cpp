// SPDX-License-Identifier: Apache-2.0
// Two panels. Left: the share of values whose error is smaller than x. Right: the SQNR of each tensor.
// Colours are those of Okabe and Ito, which colour-blind readers can tell apart; dashes and the order of rows
// also tell the formats apart.
#include "plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace inspect {

namespace {

struct style {
  char const *color, *dash;
};
constexpr std::array<style, formats.size()> styles = {
    {{"#0072b2", ""}, {"#56b4e9", ""}, {"#d55e00", "9 3"}, {"#009e73", ""}, {"#cc79a7", "6 4"}}};
constexpr char const* ink = "#222";
constexpr char const* grey = "#666";
constexpr char const* grid = "#e4e4e4";
constexpr int width = 1120, height = 560;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

std::string label_of(std::size_t f) {
  const std::string_view block(formats[f].block);
  return fmt::format("{} {}{}", formats[f].name, block == "tensor" ? "per " : "", block);
}

/// Where a panel is drawn, and what its axes show.
struct panel {
  double left, top, right, bottom;
  double x_first, x_last;  // in dB, or as log10

  double x(double value) const { return left + (value - x_first) / (x_last - x_first) * (right - left); }
  double y(double share) const { return bottom - share * (bottom - top); }
};

class drawing {
 public:
  void text(double x, double y, std::string_view words, char const* anchor, int size = 13,
            char const* color = ink, char const* more = "") {
    svg_ += fmt::format("<text x='{:.1f}' y='{:.1f}' font-size='{}' fill='{}' text-anchor='{}'{}>{}</text>\n",
                        x, y, size, color, anchor, more, escaped(words));
  }
  void line(double x1, double y1, double x2, double y2, char const* color, double thickness,
            char const* dash = "") {
    svg_ += fmt::format(
        "<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' stroke='{}' stroke-width='{:.1f}' "
        "stroke-dasharray='{}'/>\n",
        x1, y1, x2, y2, color, thickness, *dash ? dash : "none");
  }
  void curve(std::string_view points, style const& s) {
    svg_ += fmt::format(
        "<polyline points='{}' fill='none' stroke='{}' stroke-width='2.5' stroke-linejoin='round' "
        "stroke-dasharray='{}'/>\n",
        points, s.color, *s.dash ? s.dash : "none");
  }
  void dot(double x, double y, double radius, char const* color) {
    svg_ += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='{:.1f}' fill='{}' fill-opacity='0.55'/>\n", x, y,
                        radius, color);
  }
  /// The SVG document. Its background is white, so that it can be read on a dark page, too.
  std::string document() const {
    return fmt::format(
               "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1}' viewBox='0 0 {0} {1}' "
               "font-family='Helvetica, Arial, DejaVu Sans, sans-serif'>\n<rect width='{0}' height='{1}' "
               "fill='white'/>\n",
               width, height) +
           svg_ + "</svg>\n";
  }

 private:
  std::string svg_;
};

/// The error below which a share of all values lies.
double quantile(error_histogram const& h, u64 values, double share) {
  u64 sum = h.exact;
  for (int i = 0; i < error_histogram::bins; ++i) {
    if (static_cast<double>(sum) >= share * static_cast<double>(values)) return error_histogram::edge(i);
    sum += h.counts[static_cast<std::size_t>(i)];
  }
  return error_histogram::edge(error_histogram::bins);
}

/// The panel of errors. Its x axis begins where the first curve rises above 5 %, and ends where the last one
/// reaches 99.95 %, rounded outwards.
panel error_panel(checkpoint_report const& report) {
  double first = 1e9, last = 0;
  for (std::size_t f = 0; f < formats.size(); ++f) {
    const u64 values = report.total[f].values;
    first = std::min(first, quantile(report.errors[f], values, 0.05));
    last = std::max(last, quantile(report.errors[f], values, 0.9995));
  }
  first = std::floor(std::log10(first) * 2) / 2;
  last = std::max(std::ceil(std::log10(last) * 4) / 4, first + 1);
  return {76, 104, 560, 430, first, last};
}

void draw_error_axes(drawing& d, panel const& p) {
  for (int percent = 0; percent <= 100; percent += 20) {
    const double y = p.y(percent / 100.0);
    d.line(p.left, y, p.right, y, grid, 1);
    d.text(p.left - 8, y + 4, fmt::format("{}%", percent), "end", 12, grey);
  }
  for (int decade = static_cast<int>(std::floor(p.x_first)); decade <= p.x_last; ++decade)
    for (int digit = 1; digit < 10; ++digit) {
      const double value = digit * std::pow(10.0, decade), x = p.x(std::log10(value));
      if (x < p.left - 0.5 || x > p.right + 0.5) continue;
      const bool has_label = digit == 1 || (digit == 3 && p.x_last - p.x_first < 3.6);
      if (digit == 1) d.line(x, p.top, x, p.bottom, grid, 1);
      d.line(x, p.bottom, x, p.bottom + (has_label ? 6 : 3), grey, 1);
      if (has_label) d.text(x, p.bottom + 20, fmt::format("{:.6g}", value), "middle", 12, grey);
    }
  d.line(p.left, p.bottom, p.right, p.bottom, grey, 1);
  d.text((p.left + p.right) / 2, p.bottom + 42, "error of a value, |x \xe2\x88\x92 Q| / rms of its tensor",
         "middle");
  d.text(p.left, p.top - 14, "share of all values whose error is smaller", "start");
}

void draw_errors(drawing& d, checkpoint_report const& report) {
  const panel p = error_panel(report);
  draw_error_axes(d, p);
  for (std::size_t f = 0; f < formats.size(); ++f) {  // a dashed curve comes after the one it may lie on
    error_histogram const& h = report.errors[f];
    std::string points;
    u64 sum = h.exact;
    for (int i = 0; i <= error_histogram::bins; ++i) {
      const double x = std::log10(error_histogram::edge(i));
      const double share =
          static_cast<double>(sum) / static_cast<double>(std::max<u64>(report.total[f].values, 1));
      if (x >= p.x_first && x <= p.x_last + 1e-9) points += fmt::format("{:.1f},{:.1f} ", p.x(x), p.y(share));
      if (i < error_histogram::bins) sum += h.counts[static_cast<std::size_t>(i)];
    }
    d.curve(points, styles[f]);
  }
  const double x = p.right - 150, top = p.bottom - 22.0 * static_cast<double>(formats.size()) - 2;
  for (std::size_t f = 0; f < formats.size(); ++f) {
    const double y = top + 22.0 * static_cast<double>(f) + 8;
    d.line(x, y, x + 26, y, styles[f].color, 2.5, styles[f].dash);
    d.text(x + 34, y + 4, label_of(f), "start");
  }
}

bool has_place(double db) { return std::isfinite(db); }

panel sqnr_panel(checkpoint_report const& report) {
  double first = 1e9, last = -1e9;
  const auto widen = [&](double db) {
    if (!has_place(db)) return;
    first = std::min(first, db);
    last = std::max(last, db);
  };
  for (std::size_t f = 0; f < formats.size(); ++f) {
    widen(report.total[f].sums.sqnr_db());
    for (tensor_report const& t : report.tensors) widen(t.by_format[f].sums.sqnr_db());
  }
  if (first > last) first = 0, last = 10;  // all tensors are exact, or none is finite
  first = std::floor((first - 0.5) / 5) * 5;
  last = std::ceil((last + 0.5) / 5) * 5;
  return {714, 104, 1020, 430, first, last};
}

void draw_sqnr_axes(drawing& d, panel const& p) {
  const double step = p.x_last - p.x_first > 120 ? 50 : p.x_last - p.x_first > 40 ? 10 : 5;
  for (double db = std::ceil(p.x_first / step) * step; db <= p.x_last; db += step) {
    d.line(p.x(db), p.top, p.x(db), p.bottom, grid, 1);
    d.line(p.x(db), p.bottom, p.x(db), p.bottom + 6, grey, 1);
    d.text(p.x(db), p.bottom + 20, fmt::format("{:.0f}", db), "middle", 12, grey);
  }
  d.line(p.left, p.bottom, p.right, p.bottom, grey, 1);
  d.text((p.left + p.right) / 2, p.bottom + 42, "SQNR in dB: more is better, 6 dB is half the error",
         "middle");
  d.text(p.left, p.top - 14, "each dot is a tensor, the bar is all of them", "start");
}

/// At most this many dots for a format. If there are more tensors, every second, third, ... gets a dot.
constexpr std::size_t most_dots = 2000;
std::size_t stride_of(checkpoint_report const& report) {
  return (report.tensors.size() + most_dots - 1) / most_dots;
}

void draw_sqnr(drawing& d, checkpoint_report const& report) {
  const panel p = sqnr_panel(report);
  draw_sqnr_axes(d, p);
  const double row = (p.bottom - p.top) / static_cast<double>(formats.size());
  const double radius = report.tensors.size() > 300 ? 2.0 : 3.5;
  for (std::size_t f = 0; f < formats.size(); ++f) {
    const double middle = p.top + row * (static_cast<double>(f) + 0.5), reach = row * 0.34;
    char const* color = styles[f].color;
    if (f > 0) d.line(p.left, middle - row / 2, p.right, middle - row / 2, grid, 1);
    d.text(p.left - 12, middle - 2, label_of(f), "end");
    d.text(p.left - 12, middle + 14, fmt::format("{:.2f} bits", report.total[f].bits_per_value()), "end", 12,
           grey);
    const std::size_t count = report.tensors.size();
    for (std::size_t i = 0; i < count; i += stride_of(report)) {
      const double db = report.tensors[i].by_format[f].sums.sqnr_db();
      const double y = count < 2 ? 0 : static_cast<double>(i) / static_cast<double>(count - 1) * 2 - 1;
      if (has_place(db)) d.dot(p.x(db), middle + y * reach, radius, color);
    }
    const double all = report.total[f].sums.sqnr_db();
    if (has_place(all)) d.line(p.x(all), middle - row * 0.42, p.x(all), middle + row * 0.42, ink, 2);
    d.text(p.right + 10, middle + 5,
           has_place(all) ? fmt::format("{:.1f} dB", all)
           : all > 0      ? "exact"
                          : "-",
           "start");
  }
}

}  // namespace

std::string plot_svg(checkpoint_report const& report, std::string const& path) {
  drawing d;
  const std::string name = shortened(std::filesystem::path(path).filename().string(), 60);
  d.text(24, 38, fmt::format("What quantization does to {}", name), "start", 21, ink, " font-weight='bold'");
  d.text(24, 62,
         fmt::format("{} values in {} matrices",
                     with_prefix(static_cast<double>(report.total[0].stored_values)), report.tensors.size()),
         "start", 14, grey);
  draw_errors(d, report);
  draw_sqnr(d, report);
  d.text(24, 512,
         "How to read it. Left: a curve further left is better; it tells how many of all values come back "
         "with an "
         "error below x.",
         "start", 13, grey);
  std::string right =
      "Right: within a row, the first tensor of the file is at the top and the last at the bottom";
  if (const std::size_t n = stride_of(report); n > 1) right += fmt::format(", of {} shown one", n);
  d.text(24, 532, right + "; bits count codes and scales.", "start", 13, grey);
  return d.document();
}

}  // namespace inspect
