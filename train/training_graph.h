// The graph of one micro-batch: forward, loss, and (for training) the backward into gradient accumulators.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "models/loader.h"
#include "nn/context.h"

namespace tern::train {

// Where the actual number of supervised positions lies in tern_host_args.counts.
inline constexpr std::uint8_t kLossRows = nn::kRows;

inline constexpr const char* kRowMax = "row_max";
inline constexpr const char* kRowTarget = "row_target";

// The largest micro-batch that a program is planned for.
struct Capacity {
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;
  std::int64_t loss_rows = 0;   // supervised positions
  std::int64_t max_seqlen = 0;  // of one sequence
};

struct TrainingGraphOptions {
  Capacity capacity;
  std::int64_t typical_tokens = 0;  // of most micro-batches; 0: unknown
  nn::Numerics numerics;
  float lora_dropout = 0.0F;
  std::map<std::string, nn::LoraLayer> adapters;  // by module
  std::vector<std::string> trainable;             // stored names whose gradient is taken; empty: evaluation
  std::string loss = "cross_entropy";             // by name (loss.h)
  bool gradient_checkpointing = false;            // layers are computed again in the backward
  bool dropout = false;                           // draw dropout at all
  double neftune_noise_alpha = 0;                 // of the noise on embeddings; 0: none. Evaluation has none
};

// Inputs: ids, positions [tokens] i32; cu_seqlens [sequences + 1] i32; loss_rows [rows] i32 (which tokens predict a
// supervised one), targets [rows] i32, loss_weights [rows] f32; dropout_keys [tokens] i64 where dropout is drawn;
// embedding_noise [tokens, hidden] f32 where there is noise.
// Outputs: loss [1], the sum over rows of weight * cross entropy; row_max and row_target [rows] f32, where the loss has
// them: a row's largest logit and that of its target. Gradients are added to the resources
// `gradient_name(trainable)`.
[[nodiscard]] graph::Graph build_training_graph(const models::LoadedModel& model, const TrainingGraphOptions& options);

// Whether a run with these options has noise on its embeddings.
[[nodiscard]] bool has_noise(const TrainingGraphOptions& options);

[[nodiscard]] std::string gradient_name(const std::string& parameter);

}  // namespace tern::train
