// config.json, read and written by the table of its architecture.
#include <algorithm>

#include "base/strings.h"
#include "io/json_field.h"
#include "models/config_read.h"
#include "models/label_head.h"
#include "models/registry.h"
#include "models/rope.h"
#include "models/text_part.h"
#include "models/vision.h"

namespace tern::models {
namespace {

using Json = io::Json;

constexpr const char* kAgain = "take config.json from the model's repository again";
constexpr const char* kOtherModel = "choose another model: this one computes what tern does not";

// The value in the type that the field has.
FieldValue typed(const io::JsonField& value, const FieldValue& like) {
  if (std::holds_alternative<std::int64_t>(like)) return value.integer();
  if (std::holds_alternative<double>(like)) return value.number();
  if (std::holds_alternative<bool>(like)) return value.boolean();
  if (std::holds_alternative<std::string>(like)) return std::string(value.text());
  if (std::holds_alternative<std::vector<std::int64_t>>(like)) return value.integers();
  if (std::holds_alternative<std::vector<double>>(like)) {
    std::vector<double> numbers;
    for (const io::JsonField& each : value.items()) numbers.push_back(each.number());
    return numbers;
  }
  return value.texts();
}

// By its class where config.json names one, else by its model type.
ModelClass class_of(const io::JsonField& json) {
  const std::string type = json.text("model_type", "");
  const auto refuse = [&](const char* key, std::string expected, std::string found) {
    return Failure(json.place().field(key).error(std::move(expected), std::move(found), kOtherModel));
  };
  std::vector<std::string> names;
  if (const auto given = json.find("architectures")) names = given->texts();
  if (names.empty()) {
    if (const Architecture* found = find_model_type(type)) return {found, own_head(*found)};
    throw refuse("model_type", cat("one of ", join(model_types(), ", ")),
                 type.empty() ? "none" : cat("\"", type, "\""));
  }
  const ModelClass of = find_class(names.front());
  const Architecture* found = of.architecture;
  if (found == nullptr) throw refuse("architectures", cat("one of ", join(architecture_names(), ", ")), names.front());
  if (!type.empty() && type != found->model_type) {
    throw refuse("model_type", cat("\"", found->model_type, "\", as ", names.front(), " has"), cat("\"", type, "\""));
  }
  return of;
}

// transformers has two labels where nothing names any.
std::vector<std::string> labels(const io::JsonField& json) {
  const auto given = json.find("id2label");
  if (!given) return {"LABEL_0", "LABEL_1"};
  std::vector<std::string> names(given->object().size());
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = given->at(cat(i)).text();
  if (names.empty()) throw given->wrong("a name for each label");
  return names;
}

// What sentence-transformers puts upon the logit of a reranker's one label, in its older and newer key: whether it is
// the sigmoid, as where nothing says another, or nothing.
bool has_sigmoid(const io::JsonField& json) {
  auto activation = json.find("sbert_ce_default_activation_function");
  if (const auto newer = json.find("sentence_transformers")) activation = newer->find("activation_fn");
  if (!activation || activation->text().ends_with(".Sigmoid")) return true;
  if (activation->text().ends_with(".Identity")) return false;
  throw activation->wrong(R"("torch.nn.modules.activation.Sigmoid" or "torch.nn.modules.linear.Identity")",
                          kOtherModel);
}

// Other words for the same become the field's own.
void use_own_words(const Field::Words& words, FieldValue& value) {
  const auto replace = [&](std::string& text) {
    if (*words.also_no != '\0' && text == words.also_no) text = words.no;
    if (*words.also_yes != '\0' && text == words.also_yes) text = words.yes;
  };
  if (auto* text = std::get_if<std::string>(&value)) replace(*text);
  if (auto* texts = std::get_if<std::vector<std::string>>(&value)) std::for_each(texts->begin(), texts->end(), replace);
}

void read_field(const io::JsonField& json, const std::string& where, const Field& field, ModelConfig& config) {
  const auto find = [&](const char* key) { return *key == '\0' ? nullptr : json.json().find(key); };
  const Json* found = find(field.json);
  const Json* other = find(field.also);
  if (found != nullptr && other != nullptr && !(*found == *other)) {
    throw Failure(json.place()
                      .field(field.also)
                      .error(cat("what \"", field.json, "\" says, ", found->dump()), other->dump(), kAgain));
  }
  const char* key = found != nullptr ? field.json : field.also;
  if (found == nullptr) found = other;
  if (found == nullptr) return stand_in(config, field, field.otherwise.json, where);
  if (found->is_null()) return stand_in(config, field, field.otherwise.null, where);
  FieldValue value = typed(json.at(key), field_type(field));
  use_own_words(field.gguf_words, value);
  set_field(config, field, std::move(value));
}

Json as_json(const ModelConfig& config, const Field& field) {
  const FieldValue value = field_value(config, field);
  if (const auto* none = std::get_if<FieldValue>(&field.otherwise.null);
      field.otherwise.is_null && none != nullptr && *none == value) {
    return nullptr;
  }
  // One end of an answer is a number; lists of a model's own stay lists.
  const auto* ids = std::get_if<std::vector<std::int64_t>>(&value);
  if (ids != nullptr && ids->size() == 1 && !std::holds_alternative<FieldValue>(field.member)) return ids->front();
  return std::visit([](const auto& held) { return Json(held); }, value);
}

Json json_from_table(const ModelConfig& config) {
  const Architecture& architecture = *find_architecture(config.architecture);
  Json json;
  json["architectures"] = {architecture.name};
  json["model_type"] = architecture.model_type;
  for (const Field& field : architecture.fields) {
    if (field.in_rope) continue;
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

void read_fields(const io::JsonField& json, const std::vector<Field>& fields, ModelConfig& config) {
  for (const Field& field : fields) {
    const std::string where = json.place().field(*field.json == '\0' ? field.gguf : field.json).where();
    if (field.in_rope) {
      if (!std::holds_alternative<std::monostate>(field.otherwise.json))
        stand_in(config, field, field.otherwise.json, where);
      continue;
    }
    read_field(json, where, field, config);
    require_law(config, field, where);
  }
}

void refuse_unknown_fields(const io::JsonField& json, const std::vector<Field>& fields,
                           const std::vector<std::string>& others, const std::string& owner) {
  for (const Json::Member& one : json.object()) {
    const auto& [key, value] = one;
    const bool known = std::any_of(fields.begin(), fields.end(),
                                   [&key = key](const Field& field) {
                                     return !field.in_rope && (key == field.json || key == field.also);
                                   }) ||
                       std::find(others.begin(), others.end(), key) != others.end();
    // Null says of a field that there is no such thing.
    if (known || value.is_null() || has_no_effect(key) || is_rope_json_key(key)) continue;
    const char* only = only_value(key);
    if (only == nullptr) {
      throw json.member(one).wrong(
          cat("only fields that ", owner, " has"),
          "if the field changes no number, remove it from config.json; else choose another model");
    }
    if (value == io::parse_json(only, "only").value()) continue;
    throw json.member(one).wrong(only, kOtherModel);
  }
}

ModelConfig config_from_json(const checkpoint::CheckpointSource& source) {
  const std::string file = (source.directory() / "config.json").string();
  const io::JsonField whole(*source.config(), file, kAgain);
  const bool is_part = has_text_part(source);
  auto own = std::make_shared<Json>(is_part ? text_part_json(source) : whole.json());
  const io::JsonField json(*own, is_part ? cat(file, ": text_config") : file, kAgain);
  const ModelClass of = is_part ? ModelClass{&language_model_of(whole, json)} : class_of(json);
  const Architecture& architecture = *of.architecture;
  if (architecture.settle_json != nullptr) architecture.settle_json(json, *own);
  ModelConfig config;
  config.architecture = architecture.name;
  config.model_type = architecture.model_type;
  read_fields(json, architecture.fields, config);
  config.head = of.head;
  if (of.head == ModelHead::classification) {
    config.labels = labels(json);
    if (config.labels.size() == 1) config.label_sigmoid = has_sigmoid(json);
    config.problem_type = json.text("problem_type", "");
  }
  config.torch_dtype = json.text("dtype", json.text("torch_dtype", ""));
  read_rope_json(json, config);
  refuse_unknown_fields(json, architecture.fields, {}, architecture.name);
  if (is_part) config.vision = read_vision(whole, json, config);
  if (is_part) {  // what is written again is the language model alone
    (*own)["architectures"] = {architecture.name};
    (*own)["model_type"] = architecture.model_type;
  }
  config.json = std::move(own);
  return config;
}

Json config_json(const ModelConfig& config, const std::string& torch_dtype) {
  Json json = config.json ? *config.json : json_from_table(config);
  json.erase("quantization_config");
  write_label_head(config, json);
  const bool is_new = json.contains("dtype");  // as transformers 5 names it
  if (is_new) json["dtype"] = torch_dtype;
  if (!is_new || json.contains("torch_dtype")) json["torch_dtype"] = torch_dtype;
  return json;
}

}  // namespace tern::models
