// SPDX-License-Identifier: Apache-2.0
// fourscale-inspect: what NVFP4, MXFP4, MXFP8 and FP8 do to the weights of a checkpoint.
// The parts are in inspect/: readers (safetensors, npy), measure, and what is made of it (table, json, plot,
// pack).
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "inspect/example.hpp"
#include "inspect/pack.hpp"
#include "inspect/plot.hpp"
#include "inspect/report.hpp"

namespace {

using namespace inspect;

struct arguments {
  std::string file, plot, write, example;
  bool json = false, details = false;
};

constexpr char const* description =
    "Quantizes each 2-D tensor of a checkpoint to NVFP4, MXFP4, MXFP8 and FP8,\n"
    "and tells what that costs: error, bits, values lost to zero or to saturation.\n";
constexpr char const* footer =
    "\n--json: {file, bytes, fourscale, tensors: [{name, dtype, shape, amax, nan, inf, formats}],\n"
    "  total: {values, formats}, skipped: [{name, dtype, shape, reason}], written?}, where formats maps\n"
    "  nvfp4_1x16, nvfp4_16x16, mxfp4_1x32, mxfp8_1x32, fp8_tensor to {bits_per_value, sqnr_db, gain,\n"
    "  flushed, saturated}; shares are fractions of 1, and what is not finite is null.\n"
    "Exit code: 0; 1 for a wrong command line; 2 for a file that cannot be read or written.";

void declare(CLI::App& app, arguments& a) {
  app.set_version_flag("--version", "fourscale-inspect " + version_text());
  app.footer(footer);
  app.add_option("FILE", a.file, "A .safetensors or .npy file; values of type F64, F32, F16 or BF16");
  app.add_option("--plot", a.plot, "Draw the distribution of errors")->type_name("OUT.svg");
  app.add_flag("--json", a.json, "Print JSON instead of the table");
  app.add_flag("--details", a.details, "All numbers for each tensor, and the names of all skipped ones");
  app.add_option("--write", a.write,
                 "Store the checkpoint with its 2-D tensors in NVFP4, as compressed-tensors does")
      ->type_name("OUT.safetensors");
  app.add_option("--make-example", a.example, "Write a small checkpoint to try this on")
      ->type_name("OUT.safetensors");
}

/// "[ 37/104] name" on one line of a terminal, gone at the end.
class progress_line {
 public:
  void operator()(std::size_t done, std::size_t count, std::string const& name) {
    if (!is_terminal_) return;
    const std::size_t width = fmt::formatted_size("{}", count);
    fmt::print(stderr, "\r[{:>{}}/{}] {}\x1b[K", done + 1, width, count, shortened(name, 60));
    std::fflush(stderr);
  }
  ~progress_line() {
    if (is_terminal_) fmt::print(stderr, "\r\x1b[K");
  }

 private:
  bool is_terminal_ = ::isatty(STDERR_FILENO) != 0;
};

checkpoint_report measure_with_progress(byte_source const& file, checkpoint const& content, bool histograms) {
  progress_line line;
  return measure(file, content, histograms, std::ref(line));
}

void print(std::string const& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw file_error("cannot be written", "standard output");
}

void inspect_file(arguments const& a) {
  const file_source file(a.file);
  const checkpoint content = read_checkpoint(file, a.file);
  const checkpoint_report report = measure_with_progress(file, content, !a.plot.empty());
  if (!a.plot.empty()) {
    if (report.tensors.empty()) throw file_error("there is nothing to plot: no tensor was quantized");
    output_file plot(a.plot);
    plot.write(0, plot_svg(report, a.file));
    plot.commit();
  }
  written_file written;
  if (!a.write.empty()) written = write_packed(file, content, report, a.write);
  if (a.json)
    print(json_text(report, a.file, a.write.empty() ? nullptr : &written));
  else
    print(table_text(report, a.details) + (a.write.empty() ? "" : written_text(written)));
}

int fail(std::string const& file, std::string_view what) {
  fmt::print(stderr, "fourscale-inspect: {}: {}\n", printable(file), printable(what));
  return 2;
}

}  // namespace

int main(int count, char** values) {
  arguments a;
  CLI::App app(description, "fourscale-inspect");
  declare(app, a);
  try {
    app.parse(count, values);
    if (a.file.empty() && a.example.empty()) throw CLI::RequiredError("FILE");
  } catch (CLI::ParseError const& e) {
    return app.exit(e) == 0 ? 0 : 1;
  }
  try {
    if (!a.example.empty()) write_example(a.example);
    if (!a.file.empty()) inspect_file(a);
    return 0;
  } catch (file_error const& e) {
    return fail(e.path.empty() ? a.file : e.path, e.what());
  } catch (std::bad_alloc const&) {
    return fail(a.file, "not enough memory");
  } catch (std::exception const& e) {
    return fail(a.file, e.what());
  }
}
