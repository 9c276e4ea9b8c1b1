// A .yaml, .yml or .json file of flags, as the first argument after the command.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tern::cli {

struct ConfigEntry {
  std::string key;
  std::vector<std::string> words;  // empty: null, the flag stays as it is
  std::string where;               // `train.yaml:3: learning_rate`
};

struct ConfigFile {
  std::vector<ConfigEntry> entries;
  std::vector<std::pair<std::string, std::string>> exports;  // from `ENV:`
};

[[nodiscard]] bool is_config_name(std::string_view word);

// A map under a key is given to its flag as JSON text. Errors: usage where the file is absent or no map of flags.
[[nodiscard]] Result<ConfigFile> read_config_file(const std::string& path);

// The same from text; `name` stands for the file in errors.
[[nodiscard]] Result<ConfigFile> parse_config(const std::string& text, const std::string& name);

}  // namespace tern::cli
