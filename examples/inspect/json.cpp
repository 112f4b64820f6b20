// SPDX-License-Identifier: Apache-2.0
// The report as JSON. Shares are fractions of 1; what is not a finite number is null.
#include <nlohmann/json.hpp>

#include "report.hpp"

namespace inspect {

namespace {

using json = nlohmann::ordered_json;

json numbers(std::array<tally, formats.size()> const& by_format) {
  json all = json::object();
  for (std::size_t i = 0; i < formats.size(); ++i) {
    tally const& t = by_format[i];
    all[formats[i].key] = {{"bits_per_value", t.bits_per_value()},
                           {"sqnr_db", t.sums.sqnr_db()},
                           {"gain", t.sums.gain()},
                           {"flushed", t.flushed_share()},
                           {"saturated", t.saturated_share()}};
  }
  return all;
}

json skipped_list(std::vector<skipped_tensor> const& skipped) {
  json list = json::array();
  for (skipped_tensor const& s : skipped)
    list.push_back(
        {{"name", s.info.name}, {"dtype", s.info.type->name}, {"shape", s.info.shape}, {"reason", s.reason}});
  return list;
}

}  // namespace

std::string json_text(checkpoint_report const& report, std::string const& path, written_file const* written) {
  json tensors = json::array();
  for (tensor_report const& t : report.tensors)
    tensors.push_back({{"name", t.name},
                       {"dtype", t.type},
                       {"shape", {t.rows, t.cols}},
                       {"amax", t.amax},
                       {"nan", t.nan},
                       {"inf", t.inf},
                       {"formats", numbers(t.by_format)}});
  json all = {{"file", path},
              {"bytes", report.file_bytes},
              {"fourscale", version_text()},
              {"tensors", std::move(tensors)},
              {"total", {{"values", report.total[0].stored_values}, {"formats", numbers(report.total)}}},
              {"skipped", skipped_list(report.skipped)}};
  if (written)
    all["written"] = {{"file", written->path},
                      {"bytes", written->bytes},
                      {"packed", written->packed},
                      {"copied", skipped_list(written->copied)}};
  // ASCII only: names come from an untrusted file, and this may be read on a terminal.
  return all.dump(2, ' ', true, json::error_handler_t::replace) + '\n';
}

}  // namespace inspect
