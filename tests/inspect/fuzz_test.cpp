// SPDX-License-Identifier: Apache-2.0
// Valid files, damaged at random from a fixed seed. Each is either read, and then everything in it lies where
// it says, or refused with one printable line. What was read is also measured.
#include "../support/catch.hpp"
#include "../support/data.hpp"
#include "files.hpp"
#include "inspect/report.hpp"

namespace inspect::test {

namespace {

class random_numbers {
 public:
  explicit random_numbers(u64 seed) : state_(seed << 32) {}
  u64 below(u64 n) { return fourscale::test::mix(state_++) % n; }

 private:
  u64 state_;
};

constexpr std::string_view words[] = {"{",
                                      "}",
                                      "[",
                                      "]",
                                      ":",
                                      ",",
                                      "\"",
                                      "\\",
                                      "\\u0000",
                                      "\\ud800",
                                      "null",
                                      "true",
                                      "-1",
                                      "1e5",
                                      "0",
                                      "1",
                                      "2",
                                      "3",
                                      "4294967296",
                                      "9007199254740993",
                                      "18446744073709551615",
                                      "99999999999999999999",
                                      "\"x\"",
                                      "\"dtype\"",
                                      "\"shape\"",
                                      "\"data_offsets\"",
                                      "\"__metadata__\"",
                                      "\"F32\"",
                                      "\"BF16\"",
                                      "\"F4\"",
                                      "\xff",
                                      "\xc3",
                                      "\n",
                                      " ",
                                      "{'descr': '<f4',",
                                      "'fortran_order': True",
                                      "'shape': (1,",
                                      "(",
                                      ")",
                                      "'"};

/// One piece of damage. Only the first 400 bytes, where the header is, get more than bit flips and cuts.
void damage(std::string& file, random_numbers& r) {
  const auto somewhere = [&] { return r.below(std::min<u64>(file.size(), 400) + 1); };
  const u64 kind = r.below(7);
  if (kind == 0 && !file.empty()) {
    file[r.below(file.size())] ^= static_cast<char>(1 << r.below(8));
  } else if (kind == 1) {
    file.resize(r.below(file.size() + 1));
  } else if (kind == 2) {
    file.append(r.below(40), static_cast<char>(r.below(256)));
  } else if (kind == 3 && !file.empty()) {
    file[r.below(std::min<u64>(file.size(), 400))] = static_cast<char>(r.below(256));
  } else if (kind == 4) {
    file.insert(somewhere(), words[r.below(std::size(words))]);
  } else if (kind == 5) {
    file.erase(somewhere(), r.below(20));
  } else {
    const u64 from = somewhere();
    const std::string piece = file.substr(from, r.below(60));
    file.insert(somewhere(), piece);
  }
}

/// Makes the header length fit where a header seems to end, so that damage within it gets past the first
/// check.
void repair_length(std::string& file) {
  const std::size_t end = file.rfind('}', 4000);
  if (file.size() < 8 || end == std::string::npos || end < 8) return;
  for (u64 i = 0; i < 8; ++i) file[i] = static_cast<char>((end - 7) >> (8 * i) & 0xff);
}

bool is_one_line(std::string const& s) { return !s.empty() && s.size() < 1000 && printable(s) == s; }

/// The promise of read_checkpoint().
bool is_consistent(checkpoint const& c, u64 file_bytes) {
  u64 at = c.tensors.empty() ? 0 : c.tensors[0].begin;
  for (tensor_info const& t : c.tensors) {
    u64 bits = t.type->bits;
    for (const u64 n : t.shape) bits *= n;
    if (t.begin != at || t.end < t.begin || t.end > file_bytes || (t.end - t.begin) * 8 != bits) return false;
    at = t.end;
  }
  return c.tensors.empty() || at == file_bytes;
}

struct outcome {
  int read = 0, refused = 0;
};

/// False if the reader broke its promise.
bool try_file(std::string const& file, std::string const& path, outcome& sum) {
  const memory_source source({reinterpret_cast<u8 const*>(file.data()), file.size()});
  try {
    const checkpoint c = read_checkpoint(source, path);
    if (!is_consistent(c, file.size())) return false;
    const checkpoint_report report = measure(source, c, false);
    ++sum.read;
    return !table_text(report, false).empty() &&
           report.tensors.size() + report.skipped.size() == c.tensors.size();
  } catch (file_error const& e) {
    ++sum.refused;
    return is_one_line(e.what());
  }
}

void fuzz(std::string const& valid, std::string const& path, int rounds) {
  outcome sum;
  REQUIRE(try_file(valid, path, sum));
  REQUIRE(sum.read == 1);
  for (int i = 0; i < rounds; ++i) {
    random_numbers r(static_cast<u64>(i));
    std::string file = valid;
    for (u64 n = 1 + r.below(3); n > 0; --n) damage(file, r);
    if (path != "x.npy" && r.below(2) == 0) repair_length(file);
    CAPTURE(i);
    if (!try_file(file, path, sum)) FAIL("the reader broke its promise");
  }
  CHECK(sum.read > rounds / 100);  // or the damage is so coarse that nothing behind the first check is seen
  CHECK(sum.refused > rounds / 4);
}

}  // namespace

TEST_CASE("damaged safetensors files are read right or refused", "[inspect]") {
  const bytes valid = file_of(
      R"({"__metadata__":{"format":"pt"},"a.weight":{"dtype":"F32","shape":[2,20],"data_offsets":[0,160]},)"
      R"("b":{"dtype":"BF16","shape":[2,16],"data_offsets":[160,224]},)"
      R"("c":{"dtype":"I64","shape":[],"data_offsets":[224,232]}} )",
      232);
  fuzz(std::string(valid.begin(), valid.end()), "x.safetensors", 12000);
}

TEST_CASE("damaged npy files are read right or refused", "[inspect]") {
  std::string text("\x93NUMPY\1\0\x46\0", 10);
  text += "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n";
  text += std::string(24, '\1');
  fuzz(text, "x.npy", 12000);
}

TEST_CASE("every truncation of a file is refused", "[inspect]") {
  const bytes whole = file_of(std::vector<float>(12, 1.0f), 3, 4);
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK(error_of(bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))));
}

}  // namespace inspect::test
