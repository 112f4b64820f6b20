// SPDX-License-Identifier: Apache-2.0
// Draws a few curves over logarithmic axes, as an SVG file that needs no other file.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace example {

struct curve {
  std::string name;
  char const *color, *dash;  ///< dash: "", or an SVG stroke-dasharray such as "7 4"
  std::vector<double> y;     ///< at each x of the plot
};

struct plot {
  std::string title, subtitle, x_name, y_name;
  double lowest, highest;  ///< ends of the y axis, powers of ten
  std::vector<double> x;
  std::vector<curve> curves = {};

  /// Writes the file; false if it cannot.
  bool write(char const* path) const {
    std::FILE* f = std::fopen(path, "w");
    if (f == nullptr) return false;
    std::fprintf(f,
                 "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' "
                 "font-family='Helvetica, Arial, DejaVu Sans, sans-serif' fill='#222'>\n"
                 "<rect width='100%%' height='100%%' fill='white'/>\n",
                 width, height, width, height);
    text(f, left, 34, "start", 19, title);
    text(f, left, 57, "start", 13, subtitle);
    text(f, (left + right) / 2, height - 16, "middle", 14, x_name);
    std::fprintf(f, "<g transform='rotate(-90 22 %g)'>", (top + bottom) / 2);
    text(f, 22, (top + bottom) / 2, "middle", 14, y_name);
    std::fprintf(f, "</g>\n");
    axes(f);
    for (std::size_t i = 0; i < curves.size(); ++i)
      draw(f, curves[i], top + 12 + 26 * static_cast<double>(i));
    std::fprintf(f, "</svg>\n");
    return std::fclose(f) == 0;
  }

 private:
  static constexpr int width = 1000, height = 520;
  static constexpr double left = 90, right = 620, top = 84, bottom = 450;

  double at_x(double v) const {
    return left + std::log(v / x.front()) / std::log(x.back() / x.front()) * (right - left);
  }
  double at_y(double v) const {
    return bottom - std::log(v / lowest) / std::log(highest / lowest) * (bottom - top);
  }
  static void text(std::FILE* f, double px, double py, char const* anchor, int size,
                   std::string const& words) {
    std::fprintf(f, "<text x='%.1f' y='%.1f' text-anchor='%s' font-size='%d'>%s</text>\n", px, py, anchor,
                 size, words.c_str());
  }
  static void line(std::FILE* f, double x1, double y1, double x2, double y2, char const* style) {
    std::fprintf(f, "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' %s/>\n", x1, y1, x2, y2, style);
  }

  void axes(std::FILE* f) const {
    for (double y = lowest; y < highest * 1.01; y *= 10) {
      line(f, left, at_y(y), right, at_y(y), "stroke='#ddd'");
      char label[16];
      std::snprintf(label, sizeof label, "%g", y);
      text(f, left - 8, at_y(y) + 4, "end", 13, label);
    }
    for (const double v : x) {
      line(f, at_x(v), top, at_x(v), bottom, "stroke='#eee'");
      text(f, at_x(v), bottom + 20, "middle", 13, std::to_string(static_cast<int>(v)));
    }
  }

  /// The curve with its dots, and its line in the legend.
  void draw(std::FILE* f, curve const& c, double legend_y) const {
    std::fprintf(
        f,
        "<g stroke='%s' fill='%s'>\n<polyline fill='none' stroke-width='2.5' stroke-dasharray='%s' points='",
        c.color, c.color, *c.dash ? c.dash : "none");
    for (std::size_t i = 0; i < x.size(); ++i) std::fprintf(f, "%.1f,%.1f ", at_x(x[i]), at_y(c.y[i]));
    std::fprintf(f, "'/>\n");
    for (std::size_t i = 0; i < x.size(); ++i)
      std::fprintf(f, "<circle cx='%.1f' cy='%.1f' r='3'/>\n", at_x(x[i]), at_y(c.y[i]));
    const std::string style =
        std::string("stroke-width='2.5' stroke-dasharray='") + (*c.dash ? c.dash : "none") + "'";
    line(f, right + 24, legend_y, right + 60, legend_y, style.c_str());
    std::fprintf(f, "</g>\n");
    text(f, right + 68, legend_y + 5, "start", 13, c.name);
  }
};

}  // namespace example
