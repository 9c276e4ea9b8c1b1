// config.json, read and written by the table of its architecture.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "models/config_read.h"
#include "models/registry.h"
#include "models/rope.h"

namespace tern::models {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kAgain = "take config.json from the model's repository again";
constexpr const char* kOtherModel = "choose another model: this one computes what tern does not";

std::string shown(const Json& value) { return value.dump().substr(0, 80); }

[[noreturn]] void refuse(const std::string& where, const std::string& expected, const std::string& found) {
  throw Failure(data_error(where, expected, found, kAgain));
}

std::vector<std::int64_t> integers(const Json& value, const std::string& where) {
  if (value.is_number_integer()) return {value.get<std::int64_t>()};
  const bool is_list = value.is_array() && std::all_of(value.begin(), value.end(),
                                                       [](const Json& each) { return each.is_number_integer(); });
  if (!is_list) refuse(where, "an integer or a list of integers", shown(value));
  return value.get<std::vector<std::int64_t>>();
}

// `value` in the type that the field has.
FieldValue typed(const Json& value, const FieldValue& like, const std::string& where) {
  if (std::holds_alternative<std::int64_t>(like)) {
    if (!value.is_number_integer()) refuse(where, "an integer", shown(value));
    return value.get<std::int64_t>();
  }
  if (std::holds_alternative<double>(like)) {
    if (!value.is_number()) refuse(where, "a number", shown(value));
    return value.get<double>();
  }
  if (std::holds_alternative<bool>(like)) {
    if (!value.is_boolean()) refuse(where, "true or false", shown(value));
    return value.get<bool>();
  }
  if (std::holds_alternative<std::string>(like)) {
    if (!value.is_string()) refuse(where, "a string", shown(value));
    return value.get<std::string>();
  }
  if (std::holds_alternative<std::vector<std::int64_t>>(like)) return integers(value, where);
  const bool is_list =
      value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& each) { return each.is_string(); });
  if (!is_list) refuse(where, "a list of strings", shown(value));
  return value.get<std::vector<std::string>>();
}

std::string text_or_empty(const Json& json, const char* key, const std::string& file) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return {};
  if (!found->is_string()) refuse(cat(file, ": key \"", key, "\""), "a string", shown(*found));
  return found->get<std::string>();
}

// By its class where config.json names one, else by its model type.
const Architecture& architecture_of(const Json& json, const std::string& file) {
  const std::string type = text_or_empty(json, "model_type", file);
  std::string name;
  if (const auto names = json.find("architectures"); names != json.end() && !names->is_null()) {
    if (!names->is_array() || (!names->empty() && !(*names)[0].is_string())) {
      refuse(cat(file, ": key \"architectures\""), "a list of strings", shown(*names));
    }
    if (!names->empty()) name = (*names)[0].get<std::string>();
  }
  if (name.empty()) {
    if (const Architecture* found = find_model_type(type)) return *found;
    throw Failure(data_error(cat(file, ": key \"model_type\""), cat("one of ", join(model_types(), ", ")),
                             type.empty() ? "none" : cat("\"", type, "\""), kOtherModel));
  }
  const Architecture* found = find_architecture(name);
  if (found == nullptr) {
    throw Failure(data_error(cat(file, ": key \"architectures\""), cat("one of ", join(architecture_names(), ", ")),
                             name, kOtherModel));
  }
  if (!type.empty() && type != found->model_type) {
    throw Failure(data_error(cat(file, ": key \"model_type\""), cat("\"", found->model_type, "\", as ", name, " has"),
                             cat("\"", type, "\""), kOtherModel));
  }
  return *found;
}

void read_field(const Json& json, const std::string& where, const Field& field, ModelConfig& config) {
  const auto found = *field.json == '\0' ? json.end() : json.find(field.json);
  if (found == json.end()) return stand_in(config, field, field.otherwise.json, where);
  if (found->is_null()) return stand_in(config, field, field.otherwise.null, where);
  set_field(config, field, typed(*found, field_type(field), where));
}

void refuse_unknown(const Json& json, const Architecture& architecture, const std::string& file) {
  for (const auto& [key, value] : json.items()) {
    const bool known = std::any_of(architecture.fields.begin(), architecture.fields.end(),
                                   [&key = key](const Field& field) { return key == field.json; });
    if (known || has_no_effect(key) || is_rope_json_key(key)) continue;
    const char* only = only_value(key);
    if (only == nullptr) {
      throw Failure(data_error(
          cat(file, ": key \"", key, "\""), cat("only fields that ", architecture.name, " has"), shown(value),
          "if the field changes no number, remove it from config.json; else choose another model"));
    }
    if (value.is_null() || value == Json::parse(only)) continue;
    throw Failure(data_error(cat(file, ": key \"", key, "\""), only, shown(value), kOtherModel));
  }
}

Json as_json(const ModelConfig& config, const Field& field) {
  const FieldValue value = field_value(config, field);
  if (const auto* none = std::get_if<FieldValue>(&field.otherwise.null);
      field.otherwise.is_null && none != nullptr && *none == value) {
    return nullptr;
  }
  if (const auto* ids = std::get_if<std::vector<std::int64_t>>(&value); ids != nullptr && ids->size() == 1)
    return ids->front();
  return std::visit([](const auto& held) { return Json(held); }, value);
}

Json json_from_table(const ModelConfig& config) {
  const Architecture& architecture = *find_architecture(config.architecture);
  Json json;
  json["architectures"] = {architecture.name};
  json["model_type"] = architecture.model_type;
  for (const Field& field : architecture.fields) {
    if (*field.json != '\0') {
      json[field.json] = as_json(config, field);
    } else {
      require_default(config, field, field.otherwise.json, field.gguf, "config.json", "keep this model as a GGUF");
    }
  }
  write_rope_json(config, json);
  return json;
}

}  // namespace

ModelConfig config_from_json(const checkpoint::CheckpointSource& source) {
  const Json& json = *source.config();
  const std::string file = (source.directory() / "config.json").string();
  const Architecture& architecture = architecture_of(json, file);
  ModelConfig config;
  config.architecture = architecture.name;
  config.model_type = architecture.model_type;
  for (const Field& field : architecture.fields) {
    const std::string where = cat(file, ": key \"", *field.json == '\0' ? field.gguf : field.json, "\"");
    read_field(json, where, field, config);
    require_law(config, field, where);
  }
  config.torch_dtype = text_or_empty(json, "dtype", file);
  if (config.torch_dtype.empty()) config.torch_dtype = text_or_empty(json, "torch_dtype", file);
  read_rope_json(json, file, config);
  refuse_unknown(json, architecture, file);
  config.json = std::make_shared<const Json>(json);
  return config;
}

Json config_json(const ModelConfig& config, const std::string& torch_dtype) {
  Json json = config.json ? *config.json : json_from_table(config);
  json.erase("quantization_config");
  const bool is_new = json.contains("dtype");  // as transformers 5 names it
  if (is_new) json["dtype"] = torch_dtype;
  if (!is_new || json.contains("torch_dtype")) json["torch_dtype"] = torch_dtype;
  return json;
}

}  // namespace tern::models
