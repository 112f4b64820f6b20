// SPDX-License-Identifier: Apache-2.0
// fourscale-inspect: a command that measures what NVFP4, MXFP4, MXFP8 and FP8 do to the weights of a
// checkpoint. This file is its command line. The parts are in inspect/: readers (safetensors, npy), the
// measurement (measure), and what is made of it (table, json, plot, pack).
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <optional>
#include <sstream>

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
  const auto output = [&](char const* option, std::string& path, char const* type, char const* what) {
    app.add_option(option, path, what)->type_name(type)->check([](std::string const& given) {
      return given.empty() ? "the name of the file is empty" : "";
    });
  };
  app.set_version_flag("--version", "fourscale-inspect " + version_text());
  app.footer(footer);
  app.add_option("FILE", a.file, "A .safetensors or .npy file; values of type F64, F32, F16 or BF16");
  output("--plot", a.plot, "OUT.svg", "Draw the distribution of errors");
  app.add_flag("--json", a.json, "Print JSON instead of the table");
  app.add_flag("--details", a.details, "All numbers for each tensor, and the names of all skipped ones");
  output("--write", a.write, "OUT.safetensors",
         "Store the checkpoint with its 2-D tensors in NVFP4, as compressed-tensors does");
  output("--make-example", a.example, "OUT.safetensors", "Write a small checkpoint to try this on");
}

/// Throws if an output would replace the input or another output. --make-example may write FILE itself, which
/// is then inspected.
void check_paths(arguments const& a) {
  const auto differ = [](char const* what, std::string const& path, char const* other_what,
                         std::string const& other) {
    if (!path.empty() && !other.empty() && is_same_file(path, other))
      throw CLI::ValidationError(what, fmt::format("would overwrite {}", other_what));
  };
  differ("--plot", a.plot, "FILE", a.file);
  differ("--write", a.write, "FILE", a.file);
  differ("--write", a.write, "what --plot draws", a.plot);
  differ("--plot", a.plot, "what --make-example writes", a.example);
  differ("--write", a.write, "what --make-example writes", a.example);
}

/// Writes to stderr by stdio, which throws nothing when nobody can read it.
void say(std::string const& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

/// Shows "[ 37/104] name" on one line of a terminal, and erases it in the end.
class progress_line {
 public:
  void operator()(std::size_t done, std::size_t count, std::string const& name) {
    if (!is_terminal_) return;
    const std::size_t width = fmt::formatted_size("{}", count);
    say(fmt::format("\r[{:>{}}/{}] {}\x1b[K", done + 1, width, count, shortened(name, 60)));
  }
  ~progress_line() {
    if (is_terminal_) say("\r\x1b[K");
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

/// Reads, measures and writes what the arguments ask for. Output files get their names after everything else
/// has worked, so that a failure leaves none of them.
void inspect_file(arguments const& a) {
  const file_source file(a.file);
  const checkpoint content = read_checkpoint(file, a.file);
  std::optional<output_file> plot, packed;
  if (!a.plot.empty()) plot.emplace(a.plot);
  if (!a.write.empty()) packed.emplace(a.write);
  const checkpoint_report report = measure_with_progress(file, content, !a.plot.empty());
  if (plot) {
    if (report.tensors.empty()) throw file_error("there is nothing to plot: no tensor was quantized");
    plot->write(0, plot_svg(report, a.file));
    plot->finish();
  }
  written_file written;
  if (packed) written = write_packed(file, content, report, *packed);
  if (a.json)
    print(json_text(report, a.file, packed ? &written : nullptr));
  else
    print(table_text(report, a.details) + (packed ? written_text(written) : ""));
  if (plot) plot->commit();
  if (packed) packed->commit();
}

int fail(std::string const& file, std::string_view what) {
  say(fmt::format("fourscale-inspect: {}: {}\n", printable(file), printable(what)));
  return 2;
}

/// Prints help, version, or what is wrong with the command line. Returns the exit code.
int answer(CLI::App const& app, CLI::ParseError const& e) {
  std::ostringstream out, err;
  const int code = app.exit(e, out, err) == 0 ? 0 : 1;
  say(err.str());
  print(out.str());
  return code;
}

int run(int count, char** values) {
  arguments a;
  CLI::App app(description, "fourscale-inspect");
  declare(app, a);
  try {
    try {
      app.parse(count, values);
      if (a.file.empty() && a.example.empty()) throw CLI::RequiredError("FILE");
      check_paths(a);
    } catch (CLI::ParseError const& e) {
      return answer(app, e);
    }
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

}  // namespace

int main(int count, char** values) {
  // If a standard stream is closed, the next file to be opened would take its number, and get its text. So
  // open /dev/null in its place.
  for (int descriptor = 0; descriptor <= STDERR_FILENO;)
    if ((descriptor = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0) return 2;
  std::signal(SIGPIPE, SIG_IGN);  // so a closed pipe is an error, which leaves no files behind
  return run(count, values);
}
