// JSON text to a value, with the place of every error. RFC 8259; a duplicate key is an error (the last one winning
// silently hides a mistake), depth is bounded, and so is work: linear in the text.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tern::io {

inline constexpr int kMaxNesting = 256;

// `name` stands for the text in errors: `name:line:column`. Keys keep their order; looking one up is linear in the
// object's size, so iterate over large objects (a vocabulary, a weight map) instead.
[[nodiscard]] Result<nlohmann::ordered_json> parse_json(std::string_view text, const std::string& name);
[[nodiscard]] Result<nlohmann::ordered_json> read_json_file(const std::filesystem::path& path);

// Pretty (two spaces) and with a final newline, as Hugging Face writes its configurations; not escaped beyond need.
[[nodiscard]] std::string write_json(const nlohmann::ordered_json& value);

}  // namespace tern::io
