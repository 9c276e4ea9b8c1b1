// What a model makes of whole texts: vectors of them, the logits of its labels, or those of some next tokens.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "graph/program.h"
#include "models/loader.h"
#include "models/pooled_output.h"
#include "nn/context.h"
#include "nn/token_inputs.h"
#include "session/pooling_config.h"
#include "session/runtime.h"

namespace tern::engine {

using session::Pooling;

using models::PooledOutput;  // of a mean of `hidden`, the sum over the tokens divided by their number

struct PoolerOptions {
  std::int64_t max_tokens = 2048;  // of one run
  std::int64_t max_texts = 1;      // of one run
  Pooling pooling = Pooling::last;
  PooledOutput output = PooledOutput::hidden;
  nn::Numerics numerics;
  std::map<std::string, nn::LoraLayer> adapters;
};

class Pooler {
 public:
  // Throws Failure (device) where memory does not suffice. `labels` is of a model with ModelHead::classification.
  Pooler(models::LoadedModel& model, const PoolerOptions& options, session::Runtime& runtime);

  // A row of numbers for each text, of Pooling::each one for each of its tokens, joined, of which there are at most
  // max_texts; they have a token at least and at most max_tokens together. `token_types`: of each text one number a
  // token, or none, where all are 0; empty: none has any.
  [[nodiscard]] std::vector<std::vector<float>> run(std::span<const std::span<const std::int32_t>> texts,
                                                    std::span<const std::span<const std::int32_t>> token_types = {});

  [[nodiscard]] const PoolerOptions& options() const { return options_; }
  [[nodiscard]] const graph::Program& program() const { return *program_; }

 private:
  [[nodiscard]] bool divides_in_graph() const;
  void add_text(std::span<const std::int32_t> text, nn::TokenColumns& columns) const;

  PoolerOptions options_;
  models::ModelConfig config_;
  const models::Encoder* encoder_;  // null: the model is none
  accel::Trace* trace_;             // the runtime's; null: no run is traced
  std::int64_t runs_ = 0;
  std::unique_ptr<graph::Program> program_;
};

}  // namespace tern::engine
