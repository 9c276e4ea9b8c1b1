// YAML to the same value as JSON, so that a configuration may be written in either. Scalars follow YAML 1.2's core
// schema (null, true/false, integers, floats, else text; a quoted scalar is text). Aliases are expanded within a bound.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/status.h"
#include "io/json_fwd.h"

namespace tern::io {

// One document; errors are placed `name:line:column`.
[[nodiscard]] Result<Json> parse_yaml(std::string_view text, const std::string& name);
[[nodiscard]] Result<Json> read_yaml_file(const std::filesystem::path& path);

}  // namespace tern::io
