// SPDX-License-Identifier: Apache-2.0
// Text for people: what a name from an untrusted file may print, how wide it is, and how it is shortened.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace inspect {

/// What is wrong with a file, in one line. `path` names the file where it is not the one under inspection.
struct file_error : std::runtime_error {
  explicit file_error(std::string const& what, std::string file = {})
      : std::runtime_error(what), path(std::move(file)) {}
  std::string path;
};

/// UTF-8 without what could move the cursor or hide text; ill-formed bytes become '?' as well.
std::string printable(std::string_view text);

/// Terminal columns that printable text takes.
int columns(std::string_view text);

/// At most `width` columns of printable(text), with "..." in the middle where something was left out.
std::string shortened(std::string_view text, int width);

/// Printable, short and in quotes: for messages.
std::string in_quotes(std::string_view name);

/// `text` with spaces after it (padded_right) or before it (padded_left), up to `width` columns.
std::string padded_right(std::string_view text, int width);
std::string padded_left(std::string_view text, int width);

/// 22700000 as "22.7 M", 999 as "999".
std::string with_prefix(double count);

}  // namespace inspect
