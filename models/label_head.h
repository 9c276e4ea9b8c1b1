// The head of a classification on a language model: score.weight [labels, hidden_size], which stands in the place of
// the language model's own head, as transformers' ...ForSequenceClassification has it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/status.h"
#include "graph/tensor_store.h"
#include "models/config.h"

namespace tern::models {

struct LabelHead {
  std::int64_t num_labels = 0;  // 0: as the model has; of one that has none, an error
  std::string problem_type;     // as transformers names it; "": as the model says, else by the number of labels
};

// Makes of a language model's configuration that of a classification whose head nobody has trained yet
// (ModelConfig::label_head_is_new); a classification's own takes the problem type. Errors (usage): another number of
// labels than the model has, none for a new head, an encoder without a head.
[[nodiscard]] Status add_label_head(ModelConfig& config, const LabelHead& head);

// The head that an adapter's file holds; none where it is no classification's. Errors (data): the adapter's files.
[[nodiscard]] Result<std::optional<LabelHead>> label_head_of_adapter(const std::filesystem::path& adapter);

// As transformers begins a new head: normal with the model's initializer_range. Bits are Philox keyed by the seed.
void init_label_head(graph::TensorStore& store, const ModelConfig& config, std::uint64_t seed);

// Says in config.json that the model is a classification; nothing of an encoder, whose file says it already.
void write_label_head(const ModelConfig& config, io::Json& json);

}  // namespace tern::models
