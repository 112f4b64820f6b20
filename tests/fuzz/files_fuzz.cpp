// SPDX-License-Identifier: Apache-2.0
// Any bytes are a checkpoint that fourscale-inspect reads, measures and prints, or one printable line says
// why not.
#include "input.hpp"
#include "inspect/plot.hpp"
#include "inspect/report.hpp"
#include "inspect/rows.hpp"

using namespace inspect;
using fourscale::fuzz::promise;

extern "C" int LLVMFuzzerTestOneInput(u8 const* data, std::size_t size) {
  const memory_source file({data, size});
  try {
    const checkpoint content = read_checkpoint(file, "x");
    for (tensor_info const& t : content.tensors) promise(t.begin <= t.end && t.end <= size);
    const checkpoint_report report = measure(file, content, true);
    promise(report.tensors.size() + report.skipped.size() == content.tensors.size());
    for (const char c : table_text(report, true) + json_text(report, "x", nullptr))
      promise(c == '\n' || static_cast<unsigned char>(c) >= ' ');
    if (!report.tensors.empty()) promise(plot_svg(report, "x").ends_with("</svg>\n"));
  } catch (file_error const& e) {
    const std::string line = e.what();
    promise(!line.empty() && line.size() < 1000 && printable(line) == line);
  }
  return 0;
}
