#include "train/tasks/task.h"

#include <stdexcept>

#include "chat/rerank_prompt.h"
#include "data/pooled_encoder.h"
#include "train/tasks/classification_loss.h"

namespace tern::train {

std::shared_ptr<const data::RowEncoder> task_encoder(const Task& task, const models::ModelConfig& config,
                                                     std::shared_ptr<const data::ChatEncoder> texts) {
  switch (task.type) {
    case TaskType::causal_lm:
      return texts;
    case TaskType::seq_cls: {
      data::ClassificationEncoderOptions options;
      options.num_labels = static_cast<std::int64_t>(config.labels.size());
      options.problem_type = data::parse_problem_type(config.problem_type).value();
      return data::ClassificationEncoder::create(std::move(texts), options).value();
    }
    case TaskType::embedding: {
      data::EmbeddingEncoderOptions options;
      options.takes_negatives = task.embedding.type == EmbeddingLossType::infonce;
      return data::EmbeddingEncoder::create(std::move(texts), options).value();
    }
    case TaskType::reranker:
    case TaskType::generative_reranker:
      return data::RerankerEncoder::create(std::move(texts), task.documents).value();
  }
  throw std::logic_error("a task of no kind");
}

TrainingGraphOptions::Pooled pooled_of(const Task& task, const tokenizer::Tokenizer& tokenizer) {
  switch (task.type) {
    case TaskType::seq_cls:
    case TaskType::reranker:
      return {models::Pooling::last, models::PooledOutput::labels};
    case TaskType::embedding:
      return {task.pooling, models::PooledOutput::hidden};
    case TaskType::generative_reranker: {
      const chat::Verdicts verdicts = chat::verdict_ids(tokenizer).value();
      return {models::Pooling::last, models::PooledOutput::verdict, verdicts.yes, verdicts.no};
    }
    default:
      throw std::logic_error("a task without pooled outputs");
  }
}

std::shared_ptr<const PooledLoss> loss_of(const Task& task, const models::ModelConfig& config) {
  switch (task.type) {
    case TaskType::seq_cls:
      return classification_loss(data::parse_problem_type(config.problem_type).value());
    case TaskType::embedding:
      return embedding_loss(task.embedding);
    case TaskType::reranker:
    case TaskType::generative_reranker:
      return reranker_loss(task.reranker);
    default:
      throw std::logic_error("a task without pooled outputs");
  }
}

}  // namespace tern::train
