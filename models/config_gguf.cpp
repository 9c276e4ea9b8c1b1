// The metadata of a GGUF, read and written by the table of its architecture.
#include <algorithm>
#include <charconv>
#include <functional>

#include "base/strings.h"
#include "models/config_read.h"
#include "models/gguf_names.h"
#include "models/registry.h"
#include "models/rope.h"
#include "models/text_part.h"

namespace tern::models {
namespace {

constexpr const char* kAgain = "what describes the model is damaged: take it from its repository again";
constexpr const char* kOtherModel = "choose another model: this one computes what tern does not";

constexpr std::int64_t kMostLabels = 65536;

bool is_named_whole(const char* key) { return std::string_view(key).starts_with("tokenizer."); }

// `name`: the file's own for its architecture.
std::string full_key(const std::string& name, const char* key) {
  return is_named_whole(key) ? std::string(key) : cat(name, ".", key);
}

std::string name_of(const checkpoint::Gguf& gguf) { return std::string(gguf.text("general.architecture").value()); }

// Whether `key`, which the architecture's table has not, says nothing: it is of a part that the model has none of, as
// conversions write where a model is made as a larger kind is, or says another key's number again.
bool says_nothing(const checkpoint::Gguf& gguf, const std::string& prefix, const std::string& key) {
  const auto is_zero = [&](const std::string& whole) {
    const checkpoint::GgufValue* value = gguf.find(whole);
    const auto number = value != nullptr ? value->integer() : std::nullopt;
    return number && *number == 0;
  };
  if (key.starts_with("expert_")) return is_zero(prefix + key) || is_zero(prefix + "expert_count");
  if (key == "nextn_predict_layers") return is_zero(prefix + key);
  // The same of layers with a window as of all.
  if (key == "rope.freq_base_swa")
    return gguf.number(prefix + key).value() == gguf.number_or(prefix + "rope.freq_base", 10000.0).value();
  const auto& tensors = gguf.tensors();
  return key.starts_with("ssm.") && std::none_of(tensors.begin(), tensors.end(), [](const auto& tensor) {
           return tensor.name.find(".ssm_") != std::string::npos;
         });
}

// Keys of the file below "<architecture>." that neither the table nor anything else knows.
std::vector<std::string> unknown_keys(const checkpoint::Gguf& gguf, const Architecture& architecture) {
  std::vector<std::string> unknown;
  const std::string prefix = name_of(gguf) + ".";
  for (const auto& [key, value] : gguf.metadata()) {
    if (!key.starts_with(prefix)) continue;
    const std::string last = key.substr(prefix.size());
    const bool known = std::any_of(architecture.fields.begin(), architecture.fields.end(),
                                   [&](const Field& field) { return last == field.gguf || last == field.gguf_less; });
    if (known || is_rope_gguf_key(last) || gguf_key_has_no_effect(last) || says_nothing(gguf, prefix, last)) continue;
    unknown.push_back(key);
  }
  return unknown;
}

// Several architectures may share a name in GGUF: the first whose table knows every key is the one.
const Architecture& architecture_of(const checkpoint::Gguf& gguf) {
  const std::string name = name_of(gguf);
  const std::string part = part_of_gguf(name);
  std::string unknown;
  for (const Architecture& architecture : architectures()) {
    if (architecture.gguf != part || (architecture.is_gguf != nullptr && !architecture.is_gguf(gguf))) continue;
    const auto keys = unknown_keys(gguf, architecture);
    if (keys.empty()) return architecture;
    unknown = keys.front();
  }
  if (!unknown.empty()) {
    throw Failure(data_error(cat(gguf.path(), ": key \"", unknown, "\""), cat("only fields that ", name, " has"),
                             "one that it has not", kOtherModel));
  }
  throw Failure(data_error(cat(gguf.path(), ": key \"general.architecture\""), cat("one of ", join(gguf_names(), ", ")),
                           cat("\"", name, "\""), kOtherModel));
}

// Metadata holds fp32: 1e-05 is meant where the nearest fp32 of it is held.
double as_meant(double value) {
  const auto narrow = static_cast<float>(value);
  return static_cast<double>(narrow) == value ? shortest(narrow) : value;
}

std::vector<std::int64_t> integers(const checkpoint::Gguf& gguf, const std::string& key) {
  if (const auto list = gguf.find(key)->integers()) return *list;
  return {gguf.integer(key).value()};
}

// A GGUF's list goes on with layers that only speculation reads.
FieldValue layer_texts(const checkpoint::Gguf& gguf, const std::string& key, const Field& field, ModelConfig& config) {
  const checkpoint::GgufValue& value = *gguf.find(key);
  const bool has_numbers = field.gguf_words.number != nullptr;
  const auto refuse = [&] {
    return Failure(data_error(cat(gguf.path(), ": key \"", key, "\""),
                              has_numbers ? "a list of numbers, one a layer, which are 0 or the same"
                                          : "a list of true and false, one a layer",
                              "another value", kAgain));
  };
  std::vector<std::int64_t> numbers;
  if (has_numbers) {
    numbers = integers(gguf, key);
    if (!value.is_array()) numbers.resize(static_cast<std::size_t>(config.num_hidden_layers), numbers.front());
  } else if (value.is_array() && value.element == checkpoint::GgufValueType::boolean) {
    for (const std::byte each : value.raw) numbers.push_back(each == std::byte{0} ? 0 : 1);
  } else {
    throw refuse();
  }
  std::vector<std::string> texts;
  std::int64_t most = 0;
  for (const std::int64_t number : numbers) {
    if (texts.size() == static_cast<std::size_t>(config.num_hidden_layers)) break;
    if (number != 0 && most != 0 && number != most) throw refuse();
    if (number != 0) most = number;
    texts.emplace_back(number == 0 ? field.gguf_words.no : field.gguf_words.yes);
  }
  if (has_numbers) config.*field.gguf_words.number = most;
  return texts;
}

FieldValue word(const checkpoint::Gguf& gguf, const std::string& key, const Field& field) {
  return std::string(gguf.boolean(key).value() ? field.gguf_words.yes : field.gguf_words.no);
}

// Of a number that differs from layer to layer: the first is the field's, and the list is kept for what follows from
// it.
FieldValue number_of_layers(const checkpoint::Gguf& gguf, const std::string& key, const Field& field,
                            ModelConfig& config) {
  std::vector<std::int64_t> list = integers(gguf, key);
  const std::int64_t first = list.empty() ? 0 : list.front();
  config.own[field.gguf] = std::move(list);
  return first;
}

// Once all fields are read, they give the lists again.
void require_lists(const checkpoint::Gguf& gguf, const Architecture& architecture, const ModelConfig& config) {
  for (const Field& field : architecture.fields) {
    const auto list = field.gguf_of_layer != nullptr ? config.own.find(field.gguf) : config.own.end();
    if (list == config.own.end()) continue;
    const auto& numbers = std::get<std::vector<std::int64_t>>(list->second);
    const std::string where = cat(gguf.path(), ": key \"", full_key(name_of(gguf), field.gguf), "\"");
    if (numbers.size() != static_cast<std::size_t>(config.num_hidden_layers)) {
      throw Failure(data_error(where, cat("a number for each of ", config.num_hidden_layers, " layers"),
                               cat(numbers.size()), kAgain));
    }
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      const std::int64_t found = numbers[static_cast<std::size_t>(layer)];
      const std::int64_t expected = field.gguf_of_layer(config, layer);
      if (found == expected) continue;
      throw Failure(data_error(cat(where, ", layer ", layer), cat(expected), cat(found), kOtherModel));
    }
  }
}

FieldValue typed(const checkpoint::Gguf& gguf, const std::string& key, const FieldValue& like) {
  if (std::holds_alternative<double>(like)) return as_meant(gguf.number(key).value());
  if (std::holds_alternative<bool>(like)) return gguf.boolean(key).value();
  if (std::holds_alternative<std::string>(like)) return gguf.text(key).value();
  const auto list = gguf.find(key)->integers();
  if (std::holds_alternative<std::vector<std::int64_t>>(like)) return integers(gguf, key);
  // One for each layer.
  const bool is_even =
      list && !list->empty() &&
      std::count(list->begin(), list->end(), list->front()) == static_cast<std::ptrdiff_t>(list->size());
  return is_even ? list->front() : gguf.integer(key).value();
}

FieldValue said_by_tensor(const checkpoint::CheckpointSource& source, const GgufTensorSays& says) {
  if (says.what != GgufTensorSays::What::rows) {
    return (source.find(says.tensor) != nullptr) == (says.what == GgufTensorSays::What::present);
  }
  const checkpoint::SourceTensor* table = source.require(says.tensor).value();
  if (table->shape.size() != 2) {
    throw Failure(data_error(cat(source.path().string(), ": tensor ", says.tensor), "a matrix",
                             cat(table->shape.size(), " dimensions"), kAgain));
  }
  return table->shape[0];
}

// A GGUF names further ends of an answer beside eos: of a turn, and of a message that calls a tool.
void add_end_ids(const checkpoint::Gguf& gguf, std::vector<std::int64_t>& ids) {
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    const std::int64_t id = gguf.integer_or(key, -1).value();
    if (id >= 0 && std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
}

void write_value(const std::string& key, const Field& field, const ModelConfig& config, const FieldValue& value,
                 checkpoint::GgufMetadata& metadata) {
  if (const auto* number = std::get_if<double>(&value)) {
    metadata.set(key, static_cast<float>(*number));
  } else if (const auto* truth = std::get_if<bool>(&value)) {
    metadata.set(key, *truth);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    if (*field.gguf_words.yes == '\0') return metadata.set(key, *text);
    metadata.set(key, *text == field.gguf_words.yes);
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    std::vector<bool> list;
    for (const std::string& each : *texts) list.push_back(each == field.gguf_words.yes);
    if (field.gguf_words.number == nullptr) return metadata.set(key, list);
    std::vector<std::int32_t> numbers;
    for (const bool each : list)
      numbers.push_back(each ? static_cast<std::int32_t>(config.*field.gguf_words.number) : 0);
    metadata.set(key, numbers);
  } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
    metadata.set(key, std::vector<std::int32_t>(list->begin(), list->end()));
  } else {
    metadata.set(key, static_cast<std::uint32_t>(std::get<std::int64_t>(value)));
  }
}

// Of a number that is not the same in each layer.
bool write_layers(const std::string& key, const Field& field, const ModelConfig& config,
                  checkpoint::GgufMetadata& metadata) {
  std::vector<std::int32_t> numbers;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    numbers.push_back(static_cast<std::int32_t>(field.gguf_of_layer(config, layer)));
  const bool differ = std::adjacent_find(numbers.begin(), numbers.end(), std::not_equal_to<>()) != numbers.end();
  if (differ) metadata.set(key, numbers);
  return differ;
}

// What a head that ranks or classifies is made of: its last layer's rows are the labels.
void read_head(const checkpoint::CheckpointSource& source, const Architecture& architecture, ModelConfig& config) {
  const checkpoint::SourceTensor* output = source.find(kGgufLabels);
  if (output == nullptr) return;
  const checkpoint::Gguf& gguf = *source.gguf();
  config.head = ModelHead::classification;
  const std::int64_t rows = output->shape.size() > 1 ? output->shape.front() : 1;
  const std::string key = full_key(name_of(gguf), "classifier.output_labels");
  if (gguf.find(key) != nullptr) {
    for (const std::string_view label : gguf.texts(key).value()) config.labels.emplace_back(label);
  } else {
    for (std::int64_t i = 0; i < std::min<std::int64_t>(rows, kMostLabels); ++i)
      config.labels.push_back(cat("LABEL_", i));
  }
  if (const auto labels = static_cast<std::int64_t>(config.labels.size()); labels != rows) {
    throw Failure(data_error(cat(gguf.path(), ": key \"", key, "\""),
                             cat(rows, " labels, as ", kGgufLabels, " has rows"), cat(labels), kAgain));
  }
  if (architecture.encoder && source.find("cls.weight") == nullptr) {
    throw Failure(data_error(cat(gguf.path(), ": tensor cls.weight"), "the layer below the labels",
                             "none: llama.cpp's converter leaves BERT's out, and then computes something else",
                             "use the model's own directory"));
  }
}

}  // namespace

ModelConfig config_from_gguf(const checkpoint::CheckpointSource& source) {
  const checkpoint::Gguf& gguf = *source.gguf();
  const Architecture& architecture = architecture_of(gguf);
  const std::string name = name_of(gguf);
  ModelConfig config;
  config.architecture = architecture.name;
  config.model_type = architecture.model_type;
  config.head = own_head(architecture);
  for (const Field& field : architecture.fields) {
    const bool has_key = *field.gguf != '\0' && !is_implied(field);
    const std::string key = has_key ? full_key(name, field.gguf) : field.json;
    const std::string where = cat(gguf.path(), ": key \"", key, "\"");
    if (field.tensor.what != GgufTensorSays::What::nothing) {
      set_field(config, field, said_by_tensor(source, field.tensor));
    } else if (has_key && gguf.find(key) != nullptr) {
      const FieldValue like = field_type(field);
      const bool has_words = *field.gguf_words.yes != '\0';
      const bool has_layers = field.gguf_of_layer != nullptr && gguf.find(key)->is_array();
      FieldValue value = has_words && std::holds_alternative<std::string>(like) ? word(gguf, key, field)
                         : has_words                                            ? layer_texts(gguf, key, field, config)
                         : has_layers ? number_of_layers(gguf, key, field, config)
                                      : typed(gguf, key, like);
      if (*field.gguf_less != '\0') {
        auto& count = std::get<std::int64_t>(value);
        const std::int64_t less = gguf.integer_or(full_key(name, field.gguf_less), 0).value();
        count = less >= 0 && less <= count ? count - less : 0;
      }
      set_field(config, field, std::move(value));
    } else {
      stand_in(config, field, field.otherwise.gguf, where);
    }
    require_law(config, field, where);
  }
  require_lists(gguf, architecture, config);
  add_end_ids(gguf, config.eos_token_ids);
  read_rope_gguf(source, architecture, config);
  read_head(source, architecture, config);
  return config;
}

void set_gguf_config(const ModelConfig& config, checkpoint::GgufMetadata& metadata) {
  const Architecture& architecture = *find_architecture(config.architecture);
  for (const Field& field : architecture.fields) {
    if (field.tensor.what != GgufTensorSays::What::nothing || is_implied(field) || is_named_whole(field.gguf)) continue;
    if (*field.gguf == '\0') {
      require_default(config, field, field.otherwise.gguf, field.json, "a GGUF", "keep this model as a directory");
      continue;
    }
    const FieldValue value = field_value(config, field);
    const auto* none = std::get_if<FieldValue>(&field.otherwise.null);
    if (field.otherwise.is_null && none != nullptr && *none == value) {  // said by leaving the key out
      require_default(config, field, field.otherwise.gguf, field.json, "a GGUF", "keep this model as a directory");
      continue;
    }
    if (field.gguf_of_layer != nullptr &&
        write_layers(full_key(architecture.gguf, field.gguf), field, config, metadata))
      continue;
    write_value(full_key(architecture.gguf, field.gguf), field, config, value, metadata);
  }
  metadata.set(cat(architecture.gguf, ".vocab_size"), static_cast<std::uint32_t>(config.vocab_size));
  write_rope_gguf(config, architecture, metadata);
}

}  // namespace tern::models
