// The graph of one micro-batch: forward, loss, and (for training) the backward into gradient accumulators.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "models/loader.h"
#include "models/pooled_output.h"
#include "nn/context.h"

namespace tern::train {

// Where the actual number of supervised positions lies in tern_host_args.counts.
inline constexpr std::uint8_t kLossRows = nn::kRows;

inline constexpr const char* kDftLoss = "dft";  // of loss.h: tokens count by their probability

inline constexpr const char* kRowMax = "row_max";
inline constexpr const char* kRowSum = "row_sum";
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
  bool row_losses = false;                        // tells what each row's loss is made of, too
  double router_aux_loss_coef = 0;                // of the experts' balance (expert_balance.h); 0: none
  bool routes_only = false;                       // no loss: which experts the tokens go to, before a step's gradients
  bool gradient_checkpointing = false;            // layers are computed again in the backward
  bool dropout = false;                           // draw dropout at all
  double neftune_noise_alpha = 0;                 // of the noise on embeddings; 0: none. Evaluation has none
  // What is made of each sequence in the place of a loss: the host computes that of them (tasks/pooled_loss.h).
  struct Pooled {
    models::Pooling pooling = models::Pooling::last;
    models::PooledOutput output = models::PooledOutput::hidden;
    std::int32_t yes = 0;  // of a verdict
    std::int32_t no = 0;
  };
  std::optional<Pooled> pooled = std::nullopt;
};

// As models::pooled_output takes it.
[[nodiscard]] models::PooledOutputOptions pooled_options(const TrainingGraphOptions& options);

// Inputs: ids, positions [tokens] i32; cu_seqlens [sequences + 1] i32; loss_rows [rows] i32 (which tokens predict a
// supervised one), targets [rows] i32, loss_weights [rows] f32; dropout_keys [tokens] i64 where dropout is drawn;
// embedding_noise [tokens, hidden] f32 where there is noise.
// Outputs: loss [1], the sum over rows of weight * cross entropy; row_max and row_target [rows] f32, where the loss has
// them: a row's largest logit and that of its target; with row_losses row_sum [rows] f32: of exp(logit - row_max).
// Gradients are added to the resources `gradient_name(trainable)`.
// With router_aux_loss_coef: the inputs and outputs of expert_balance.h beside these.
// With pooled outputs: the input rows [sequences] i32 (of a mean, what models::pooled_output says) in the place of the
// loss's, and the output pooled [sequences, width] f32. The input pooled_gradient, of that shape, is what the loss's
// gradient by them is, of a graph that trains something.
[[nodiscard]] graph::Graph build_training_graph(const models::LoadedModel& model, const TrainingGraphOptions& options);

// Whether a run with these options has noise on its embeddings.
[[nodiscard]] bool has_noise(const TrainingGraphOptions& options);

[[nodiscard]] std::string gradient_name(const std::string& parameter);

}  // namespace tern::train
