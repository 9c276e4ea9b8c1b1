// Runs the built program as a user types it.
#pragma once

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace tern::e2e {

struct Outcome {
  int status = -1;  // exit status; 128 + signal where one ended it
  std::string out;
  std::string err;

  // The last line of stderr without newline.
  [[nodiscard]] std::string last_error_line() const;
};

struct Options {
  std::string input;                             // stdin
  std::map<std::string, std::string> variables;  // set on top of a clean environment (PATH, HOME, TERN_HOME kept)
  std::filesystem::path folder;                  // working directory; empty: this one
  std::vector<int> closed;                       // of stdin, stdout and stderr: what `<&-`, `>&-` and `2>&-` close
  std::string stdout_path;                       // stdout goes to this file (`/dev/full`) instead of `out`
  int seconds = 300;                             // a run that takes longer is killed: status 128 + 9
  std::function<bool()> signal_when;             // asked every millisecond; at the first true `signal` is sent
  std::string signal_after;                      // ... or once stdout or stderr holds this
  int signal = SIGKILL;
  std::uint64_t largest_file = 0;   // bytes that a file may have (RLIMIT_FSIZE): as if the disk were full; 0: any
  std::uint64_t address_space = 0;  // bytes of it (RLIMIT_AS): as if memory were short; 0: any
};

[[nodiscard]] Outcome run(const std::vector<std::string>& words, const Options& options = {});

// Whether `part` is in the text.
[[nodiscard]] bool has(const std::string& text, const std::string& part);

// Whether script/bootstrap has fetched smollm2-135m.
[[nodiscard]] bool has_real_model();

using Scratch = test::TempDir;

}  // namespace tern::e2e
