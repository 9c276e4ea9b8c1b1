#include "cli/flags/config_file.h"

#include <fstream>
#include <sstream>

#include "base/strings.h"
#include "cli/json_text.h"

namespace tern::cli {
namespace {

constexpr std::size_t kLargest = std::size_t{1} << 20;

// The fields, or the reader's error as one of usage: a file of flags is part of the command line.
std::vector<Field> fields_of(std::string_view text, const std::string& name) {
  auto fields = read_fields(text, name);
  if (fields) return std::move(fields).value();
  auto error = fields.error();
  error.kind = ErrorKind::usage;
  throw Failure(error);
}

// `train.yaml:3: learning_rate`; without the line where the key cannot be found as typed.
std::string place(const std::string& name, const std::string& key, const std::vector<std::string_view>& lines) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    auto line = trim(lines[i]);
    const bool quoted = line.starts_with('"') || line.starts_with('\'');
    if (quoted) line.remove_prefix(1);
    if (!line.starts_with(key)) continue;
    line = trim(line.substr(key.size() + (quoted && line.size() > key.size() ? 1 : 0)));
    if (line.starts_with(':')) return cat(name, ":", i + 1, ": ", key);
  }
  return cat(name, ": ", key);
}

ConfigFile parse(const std::string& text, const std::string& name) {
  ConfigFile file;
  const auto lines = split(text, '\n');
  for (const auto& field : fields_of(text, name)) {
    const auto where = place(name, field.key, lines);
    if (field.key != "ENV") {
      file.entries.push_back({field.key, field.words, where});
      continue;
    }
    if (field.words.empty()) continue;
    if (!field.is_object)
      throw Failure(usage_error(cat(where, " must be a map of variables"), "write lines NAME: value below it"));
    for (const auto& variable : fields_of(field.words[0], where)) {
      const bool named = !variable.key.empty() && variable.key.find('=') == std::string::npos;
      if (!named || variable.is_object || variable.words.size() != 1) {
        throw Failure(usage_error(cat(where, ": ", variable.key, " must be a variable's name with one value"),
                                  "write NAME: value"));
      }
      file.exports.emplace_back(variable.key, variable.words[0]);
    }
  }
  return file;
}

}  // namespace

bool is_config_name(std::string_view word) {
  return word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json");
}

Result<ConfigFile> parse_config(const std::string& text, const std::string& name) {
  return catching([&] { return parse(text, name); });
}

Result<ConfigFile> read_config_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  if (!stream || !(text << stream.rdbuf())) {
    return usage_error(cat(path, " cannot be read as a file of flags"), "check the path");
  }
  if (text.view().size() > kLargest) {
    return usage_error(cat(path, " is larger than ", human_bytes(kLargest), ", the most that a file of flags may have"),
                       "check the path");
  }
  return parse_config(text.str(), path);
}

}  // namespace tern::cli
