#include "cli/json_text.h"

#include "base/strings.h"
#include "io/json.h"
#include "io/yaml.h"

namespace tern::cli {
namespace {

using Json = io::Json;

std::string as_word(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

Field field(const std::string& key, const Json& value) {
  Field out{key, {}, value.is_object()};
  if (value.is_array()) {
    for (const auto& word : value) out.words.push_back(as_word(word));
  } else if (!value.is_null()) {
    out.words.push_back(as_word(value));
  }
  return out;
}

}  // namespace

bool is_json_object(std::string_view text) {
  const auto value = io::parse_json(text, "value");
  return value && value->is_object();
}

std::string json_quote(std::string_view text) { return Json(std::string(text)).dump(); }

Result<std::vector<Field>> read_fields(std::string_view text, const std::string& name) {
  const bool yaml = name.ends_with(".yaml") || name.ends_with(".yml");
  const auto object = yaml ? io::parse_yaml(text, name) : io::parse_json(text, name);
  if (!object) return object.error();
  std::vector<Field> fields;
  if (yaml && object->is_null()) return fields;
  if (!object->is_object())
    return data_error(name, "a map from flags to values", cat("a single ", object->type_name()),
                      "write each flag as name: value");
  for (const auto& [key, value] : object->items()) fields.push_back(field(key, value));
  return fields;
}

}  // namespace tern::cli
