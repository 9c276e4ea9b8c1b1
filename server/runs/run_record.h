// What this server keeps of a run that it started, beside the run's own files: so that a later server knows it too.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/status.h"
#include "io/json.h"
#include "server/runs/run_process.h"

namespace tern::server {

inline constexpr const char* kRunRecord = "web-ui.json";
inline constexpr const char* kRunOutput = "web-ui.log";  // what the run printed

struct RunRecord {
  std::string command;  // as a user would type it
  io::Json flags;       // what the form held: {"model": "a", "dataset": ["b"]}
  ProcessMark process;
  bool stopping = false;      // it was asked to stop
  std::optional<int> status;  // its exit status, where a server saw it end
};

// None where there is none that can be read.
[[nodiscard]] std::optional<RunRecord> read_record(const std::filesystem::path& folder);
[[nodiscard]] Status write_record(const std::filesystem::path& folder, const RunRecord& record);

}  // namespace tern::server
