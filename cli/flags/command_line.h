// From the words that the user typed to a command and its typed flags.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cli/flags/arguments.h"

namespace tern::cli {

// The value of an environment variable, or none.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

struct Invocation {
  Arguments arguments;
  bool help = false;
  std::vector<std::pair<std::string, std::string>> exports;  // of the config file's `ENV:`
};

// Reads `words`, the first of which is the command's name. Precedence: command line, config file, environment, default.
// Errors are of kind usage (exit 2).
[[nodiscard]] Result<Invocation> parse_command_line(const std::vector<std::string>& words,
                                                    const Environment& environment);

}  // namespace tern::cli
