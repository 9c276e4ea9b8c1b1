// What a model learns: to go on with a text, or something of texts as a whole.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "data/chat_encoder.h"
#include "data/text_groups.h"
#include "models/config.h"
#include "train/tasks/embedding_loss.h"
#include "train/tasks/pooled_loss.h"
#include "train/tasks/reranker_loss.h"
#include "train/training_graph.h"

namespace tern::train {

enum class TaskType {
  causal_lm,
  seq_cls,              // labels, by a head of their own
  embedding,            // vectors that are close where texts are
  reranker,             // how relevant a document is, by a head of one label
  generative_reranker,  // the same, by how much likelier the language model's next token is yes than no
};

struct Task {
  TaskType type = TaskType::causal_lm;
  EmbeddingLossOptions embedding;
  models::Pooling pooling = models::Pooling::last;  // of embeddings
  RerankerLossOptions reranker;
  data::RerankerEncoderOptions documents;

  [[nodiscard]] bool is_pooled() const { return type != TaskType::causal_lm; }
};

// What makes samples of rows, given how texts become tokens. `config` is the model's, with the task's head (LabelHead).
// Throws Failure.
[[nodiscard]] std::shared_ptr<const data::RowEncoder> task_encoder(const Task& task, const models::ModelConfig& config,
                                                                   std::shared_ptr<const data::ChatEncoder> texts);

// What the graph makes of each text, and the loss of it; not of TaskType::causal_lm. Throws Failure.
[[nodiscard]] TrainingGraphOptions::Pooled pooled_of(const Task& task, const tokenizer::Tokenizer& tokenizer);
[[nodiscard]] std::shared_ptr<const PooledLoss> loss_of(const Task& task, const models::ModelConfig& config);

}  // namespace tern::train
