// SPDX-License-Identifier: Apache-2.0
// UTF-8 by code points. Widths follow the wide ranges that terminals agree on.
#include "text.hpp"

#include <fmt/format.h>

#include <vector>

namespace inspect {

namespace {

struct code_point {
  char32_t value = 0;
  std::size_t bytes = 1;  // of the text it was read from
  bool valid = false;
};

code_point next(std::string_view s) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || s.size() < bytes) return {};
  char32_t value = lead & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3fu);
  }
  constexpr char32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < smallest[bytes] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return {};
  return {value, bytes, true};
}

bool in(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }

/// Control characters, and those that reorder or hide their neighbours.
bool is_unsafe(char32_t c) {
  return c < 0x20 || in(c, 0x7f, 0x9f) || c == 0xad || c == 0x61c || in(c, 0x200b, 0x200f) ||
         in(c, 0x2028, 0x202e) || in(c, 0x2060, 0x206f) || c == 0xfeff || in(c, 0xfff9, 0xfffb) ||
         in(c, 0xe0000, 0xe007f);
}

int width_of(char32_t c) {
  if (in(c, 0x300, 0x36f)) return 0;  // combining marks
  const bool wide = in(c, 0x1100, 0x115f) || in(c, 0x2e80, 0xa4cf) || in(c, 0xac00, 0xd7a3) ||
                    in(c, 0xf900, 0xfaff) || in(c, 0xfe30, 0xfe6f) || in(c, 0xff00, 0xff60) ||
                    in(c, 0xffe0, 0xffe6) || in(c, 0x1f300, 0x1faff) || in(c, 0x20000, 0x3fffd);
  return wide ? 2 : 1;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const code_point c = next(text);
    if (c.valid && !is_unsafe(c.value))
      out += text.substr(0, c.bytes);
    else
      out += '?';
    text.remove_prefix(c.bytes);
  }
  return out;
}

int columns(std::string_view text) {
  int sum = 0;
  while (!text.empty()) {
    const code_point c = next(text);
    sum += width_of(c.value);
    text.remove_prefix(c.bytes);
  }
  return sum;
}

std::string shortened(std::string_view text, int width) {
  // Cut first: the name of a tensor may be as long as its file.
  constexpr std::size_t ends = 2000;
  std::string clean = text.size() > 2 * ends
                          ? printable(text.substr(0, ends)) + printable(text.substr(text.size() - ends))
                          : printable(text);
  if (columns(clean) <= width) return clean;
  struct character {
    std::size_t at;
    int width;
  };
  std::vector<character> all;
  for (std::size_t at = 0; at < clean.size();) {
    const code_point c = next(std::string_view(clean).substr(at));
    all.push_back({at, width_of(c.value)});
    at += c.bytes;
  }
  int left = (width - 3) / 2, right = width - 3 - left;
  std::size_t head = 0, tail = all.size();
  while (head < tail && all[head].width <= left) left -= all[head++].width;
  while (tail > head && all[tail - 1].width <= right) right -= all[--tail].width;
  return clean.substr(0, all[head].at) + "..." + (tail < all.size() ? clean.substr(all[tail].at) : "");
}

std::string in_quotes(std::string_view name) { return fmt::format("'{}'", shortened(name, 60)); }

std::string padded_right(std::string_view text, int width) {
  const int missing = width - columns(text);
  return std::string(text) + std::string(static_cast<std::size_t>(missing > 0 ? missing : 0), ' ');
}

std::string padded_left(std::string_view text, int width) {
  const int missing = width - columns(text);
  return std::string(static_cast<std::size_t>(missing > 0 ? missing : 0), ' ') + std::string(text);
}

std::string with_prefix(double count) {
  constexpr char const* prefixes[] = {"", " k", " M", " G", " T", " P", " E"};
  std::size_t i = 0;
  for (; count >= 999.5 && i < 6; ++i) count /= 1000;
  return i == 0 ? fmt::format("{:.0f}", count) : fmt::format("{:.3g}{}", count, prefixes[i]);
}

}  // namespace inspect
