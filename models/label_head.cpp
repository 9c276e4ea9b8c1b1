#include "models/label_head.h"

#include <algorithm>
#include <vector>

#include "base/philox.h"
#include "base/strings.h"
#include "checkpoint/safetensors.h"
#include "io/json.h"
#include "models/adapter.h"
#include "models/adapter_file.h"
#include "models/registry.h"

namespace tern::models {
namespace {

constexpr std::uint64_t kStream = 0x73636f7265;  // "score": apart from what else is drawn of the seed
constexpr double kUsualRange = 0.02;             // transformers' initializer_range where a config says none

double initializer_range(const ModelConfig& config) {
  const io::Json* found = config.json ? config.json->find("initializer_range") : nullptr;
  return found != nullptr && found->is_number() ? found->get<double>() : kUsualRange;
}

}  // namespace

Status add_label_head(ModelConfig& config, const LabelHead& head) {
  const auto known = static_cast<std::int64_t>(config.labels.size());
  if (config.head == ModelHead::classification) {
    if (head.num_labels > 0 && head.num_labels != known) {
      return usage_error(cat("--num_labels is ", head.num_labels, ", and the model has ", known, " labels"),
                         "remove the flag, or choose the language model that it was made of");
    }
  } else if (find_architecture(config.architecture)->encoder) {
    return usage_error(cat(config.architecture, " is an encoder without a head for labels"),
                       "choose one for sequence classification, or a language model");
  } else if (head.num_labels <= 0) {
    return usage_error("a language model gets a new head for its labels, and nobody says how many there are",
                       "give --num_labels N");
  } else {
    config.head = ModelHead::classification;
    config.label_head_is_new = true;
    config.labels.clear();
    for (std::int64_t i = 0; i < head.num_labels; ++i) config.labels.push_back(cat("LABEL_", i));
  }
  if (!head.problem_type.empty()) config.problem_type = head.problem_type;
  if (config.problem_type.empty())
    config.problem_type = config.labels.size() == 1 ? "regression" : "single_label_classification";
  return Unit{};
}

Result<std::optional<LabelHead>> label_head_of_adapter(const std::filesystem::path& adapter) {
  return catching([&]() -> std::optional<LabelHead> {
    if (read_adapter_config(adapter).value().task_type != kClassification) return std::nullopt;
    const auto file = checkpoint::Safetensors::open_directory(adapter, "adapter_model").value();
    const std::string name = cat(kPeftPrefix, kScoreWeight);
    const auto* score = file.tensor(name);
    if (score == nullptr || score->shape.size() != 2) {
      throw Failure(data_error(cat((adapter / "adapter_model.safetensors").string(), ": tensor ", name),
                               "the head of a classification", score == nullptr ? "none" : "another shape",
                               "take the adapter from its source again"));
    }
    return LabelHead{score->shape[0], {}};
  });
}

void init_label_head(graph::TensorStore& store, const ModelConfig& config, std::uint64_t seed) {
  const double range = initializer_range(config);
  std::vector<float> values(static_cast<std::size_t>(num_elements(store.at(kScoreWeight).desc)));
  const std::uint64_t key = mix_key(seed, kStream);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto block = philox(key, {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), 0, 0});
    values[i] = static_cast<float>(normals(block[0], block[1], range)[0]);
  }
  store.upload(kScoreWeight, std::as_bytes(std::span(values)));
}

void write_label_head(const ModelConfig& config, io::Json& json) {
  if (config.head != ModelHead::classification || find_architecture(config.architecture)->encoder) return;
  constexpr std::string_view kLanguage = "ForCausalLM";
  std::string name = config.architecture;
  if (name.ends_with(kLanguage)) name.resize(name.size() - kLanguage.size());
  json["architectures"] = {cat(name, "ForSequenceClassification")};
  io::Json names = io::Json::object();
  io::Json numbers = io::Json::object();
  for (std::size_t i = 0; i < config.labels.size(); ++i) {
    names[cat(i)] = config.labels[i];
    numbers[config.labels[i]] = i;
  }
  json["id2label"] = std::move(names);
  json["label2id"] = std::move(numbers);
  if (!config.problem_type.empty()) json["problem_type"] = config.problem_type;
  // transformers pools the last token that isn't padding, and must know which that is.
  if (config.pad_token_id >= 0) json["pad_token_id"] = config.pad_token_id;
}

}  // namespace tern::models
