// SPDX-License-Identifier: Apache-2.0
// --write: what is read back is what was measured, and a failure leaves nothing behind.
#include "inspect/pack.hpp"

#include <fourscale/fourscale.hpp>
#include <map>

#include "../support/catch.hpp"
#include "files.hpp"
#include "inspect/example.hpp"
#include "inspect/rows.hpp"

namespace inspect::test {

namespace {

/// write_packed() to a file that is then there.
written_file write_to(std::string const& path, byte_source const& file, checkpoint const& content,
                      checkpoint_report const& report) {
  output_file out(path);
  const written_file written = write_packed(file, content, report, out);
  out.commit();
  return written;
}

bytes read_all(byte_source const& file, tensor_info const& t) {
  bytes all(t.end - t.begin);
  file.read(t.begin, all);
  return all;
}

std::map<std::string, tensor_info> by_name(checkpoint const& c) {
  std::map<std::string, tensor_info> all;
  for (tensor_info const& t : c.tensors) all[t.name] = t;
  return all;
}

float f32(bytes const& b) {
  float x;
  std::memcpy(&x, b.data(), sizeof x);
  return x;
}

/// sum (x - code * (scale / global_scale))^2, the way compressed-tensors reads it.
double noise_of(byte_source const& in, tensor_info const& x, byte_source const& out,
                std::map<std::string, tensor_info> const& parts) {
  using namespace fourscale;
  const bytes packed = read_all(out, parts.at(x.name + "_packed")),
              scale = read_all(out, parts.at(x.name + "_scale"));
  const float global = f32(read_all(out, parts.at(x.name + "_global_scale")));
  const u64 values = x.shape[0] * x.shape[1];
  std::vector<float> v(values);
  row_reader(in, x).read(0, static_cast<i64>(x.shape[0]), v.data(), static_cast<i64>(x.shape[1]));
  double noise = 0;
  for (u64 i = 0; i < values; ++i) {
    const u8 code = static_cast<u8>(packed[i / 2] >> (i % 2 * 4) & 0xf);
    const double y = static_cast<double>(decode(e2m1{code})) *
                     static_cast<double>(decode(e4m3{scale[i / 16]})) / static_cast<double>(global);
    noise += (static_cast<double>(v[i]) - y) * (static_cast<double>(v[i]) - y);
  }
  return noise;
}

/// A disk that fails after some reads.
class failing_source : public byte_source {
 public:
  failing_source(byte_source const& file, int reads) : file_(file), left_(reads) {}
  u64 size() const override { return file_.size(); }
  void read(u64 offset, std::span<u8> to) const override {
    if (left_-- == 0) throw file_error("cannot be read: the disk failed");
    file_.read(offset, to);
  }

 private:
  byte_source const& file_;
  mutable int left_;
};

}  // namespace

TEST_CASE("what --write stores is what was measured", "[inspect]") {
  const temporary_folder folder;
  write_example(folder.file("in"));
  const file_source in(folder.file("in"));
  const checkpoint content = read_checkpoint(in, "in");
  const checkpoint_report report = measure(in, content, false);
  const written_file written = write_to(folder.file("out"), in, content, report);
  const file_source out(folder.file("out"));
  const checkpoint result = read_checkpoint(out, "out");
  const auto parts = by_name(result);
  CHECK(written.bytes == out.size());
  CHECK(folder.count() == 2);
  CHECK(result.metadata.at("format") == "pt");
  CHECK(result.metadata.at("quantization") == "nvfp4-pack-quantized");
  CHECK(result.metadata.at("fourscale") == version_text());
  CHECK(result.metadata.at("made_by") == content.metadata.at("made_by"));
  CHECK(written.packed.size() == 5);
  REQUIRE(written.copied.size() == 1);
  CHECK(written.copied[0].reason.find("680") != std::string::npos);

  const auto originals = by_name(content);
  for (tensor_report const& t : report.tensors) {
    if (parts.contains(t.name)) continue;
    INFO(t.name);
    CHECK(parts.at(t.name + "_packed").shape == std::vector<u64>{t.rows, t.cols / 2});
    CHECK(parts.at(t.name + "_scale").type->name == "F8_E4M3");
    CHECK(parts.at(t.name + "_global_scale").shape == std::vector<u64>{1});
    CHECK(f32(read_all(out, parts.at(t.name + "_global_scale"))) == 2688.0f / t.amax);
    const double noise = noise_of(in, originals.at(t.name), out, parts);
    CHECK(std::abs(noise - t.by_format[0].sums.sum_ee) < 1e-5 * noise);
  }
  for (tensor_info const& t : content.tensors)
    if (parts.contains(t.name)) CHECK(read_all(in, t) == read_all(out, parts.at(t.name)));
}

TEST_CASE("values that are not finite are copied as they are", "[inspect]") {
  const temporary_folder folder;
  const bytes file = file_of(std::vector<float>(16, std::numeric_limits<float>::infinity()), 1, 16);
  const memory_source source(file);
  const checkpoint content = read_checkpoint(source, "x");
  const written_file written = write_to(folder.file("out"), source, content, measure(source, content, false));
  CHECK(written.packed.empty());
  CHECK(written.copied.at(0).reason.find("NaN or infinity") != std::string::npos);
  const file_source out(folder.file("out"));
  CHECK(read_all(out, read_checkpoint(out, "out").tensors.at(0)) == read_all(source, content.tensors.at(0)));
}

TEST_CASE("a write that fails leaves no file", "[inspect]") {
  const temporary_folder folder;
  const bytes file = file_of(std::vector<float>(64, 1.0f), 2, 32);
  const memory_source source(file);
  const checkpoint content = read_checkpoint(source, "x");
  const checkpoint_report report = measure(source, content, false);
  CHECK_THROWS_AS(write_to(folder.file("out"), failing_source(source, 0), content, report), file_error);
  CHECK(folder.count() == 0);
  CHECK_THROWS_AS(write_to(folder.file("no/folder"), source, content, report), file_error);
  CHECK(folder.count() == 0);
}

TEST_CASE("two outputs of one name are refused", "[inspect]") {
  const temporary_folder folder;
  const bytes file = file_of(R"({"x":{"dtype":"BF16","shape":[1,16],"data_offsets":[0,32]},)"
                             R"("x_scale":{"dtype":"U8","shape":[1],"data_offsets":[32,33]}})",
                             33);
  const memory_source source(file);
  const checkpoint content = read_checkpoint(source, "x");
  CHECK_THROWS_AS(write_to(folder.file("out"), source, content, measure(source, content, false)), file_error);
  CHECK(folder.count() == 0);
}

}  // namespace inspect::test
