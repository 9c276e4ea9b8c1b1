#include "models/config.h"

#include "base/strings.h"
#include "models/config_read.h"
#include "models/registry.h"

namespace tern::models {
namespace {

// So that the elements can be counted, and offsets into them.
void require_countable(const ModelConfig& config, const std::string& file) {
  double total = 0;
  for (const auto& spec : parameters_of(config)) {
    double elements = 1;
    for (const std::int64_t size : spec.shape) elements *= static_cast<double>(size);
    total += elements;
  }
  if (total <= 0x1p62) return;
  throw Failure(data_error(cat(file, ": sizes of the model"), "fewer than 2^62 parameters", "more",
                           "what describes the model is damaged: take it from its repository again"));
}

}  // namespace

std::int64_t ModelConfig::num_parameters() const {
  std::int64_t total = 0;
  for (const auto& spec : parameters_of(*this)) {
    if (spec.is_buffer) continue;
    std::int64_t elements = 1;
    for (const std::int64_t size : spec.shape) elements *= size;
    total += elements;
  }
  return total;
}

Result<ModelConfig> read_config(const checkpoint::CheckpointSource& source, Heads heads) {
  return catching([&] {
    if (source.gguf() == nullptr && source.config() == nullptr) {
      throw Failure(data_error(source.directory().string(), "a config.json beside the weights", "none",
                               "put it there from the model's repository"));
    }
    ModelConfig config = source.gguf() != nullptr ? config_from_gguf(source) : config_from_json(source);
    if (heads == Heads::language && config.head != ModelHead::language) {
      const char* key =
          source.gguf() != nullptr ? R"(key "general.architecture")" : R"(config.json: field "architectures")";
      throw Failure(
          data_error(cat(source.path().string(), ": ", key), "a language model",
                     config.head == ModelHead::classification          ? "a classification"
                     : find_architecture(config.architecture)->encoder ? cat("an encoder, ", config.architecture)
                                                                       : std::string("one without a head"),
                     "it answers in tern infer and tern deploy with --task_type embedding, reranker or seq_cls alone"));
    }
    require_countable(config, source.path().string());
    return config;
  });
}

FieldValue field_type(const Field& field) {
  return std::visit(
      [](const auto& member) -> FieldValue {
        if constexpr (std::is_same_v<std::decay_t<decltype(member)>, FieldValue>) {
          return member;
        } else {
          return ModelConfig().*member;
        }
      },
      field.member);
}

void stand_in(ModelConfig& config, const Field& field, const Stand& stand, const std::string& where) {
  if (const auto* value = std::get_if<FieldValue>(&stand)) return set_field(config, field, *value);
  if (const auto* follows = std::get_if<FieldValue (*)(const ModelConfig&)>(&stand)) {
    return set_field(config, field, (*follows)(config));
  }
  throw Failure(data_error(where, "a value", "none", "take what describes the model from its repository again"));
}

void require_default(const ModelConfig& config, const Field& field, const Stand& stand, const char* key,
                     const char* form, const char* mend) {
  ModelConfig other = config;
  stand_in(other, field, stand, key);
  if (field_value(other, field) == field_value(config, field)) return;
  throw Failure(data_error(cat("key \"", key, "\""),
                           cat(value_text(field_value(other, field)), ", as ", form, " has no word for it"),
                           value_text(field_value(config, field)), mend));
}

}  // namespace tern::models
