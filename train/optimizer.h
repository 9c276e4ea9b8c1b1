// AdamW over fp32 masters on the device (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019), with
// clipping by the global norm.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/program.h"
#include "graph/tensor_scope.h"
#include "session/runtime.h"

namespace tern::train {

struct AdamwOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double max_grad_norm = 1.0;  // 0: no clipping
};

struct StepResult {
  double grad_norm = 0;  // before clipping
  bool skipped = false;  // the norm isn't finite: nothing was changed, the gradients neither
};

class Optimizer {
 public:
  // Creates gradients (zero) and moments (zero) in the store for each trained parameter. `decays` tells which of them
  // weight decay applies to: matrices, never norms and biases. They go with the optimizer. `arena`: as of
  // Runtime::build.
  Optimizer(std::shared_ptr<graph::TensorStore> store, std::vector<std::string> parameters, const AdamwOptions& options,
            session::Runtime& runtime, std::shared_ptr<graph::Arena> arena = nullptr);

  // Applies the accumulated gradients, which hold `loss_scale` times the loss's, with learning rate `lr` as step `step`
  // (from 1), then zeroes them.
  StepResult step(double lr, std::int64_t step, double loss_scale = 1);
  [[nodiscard]] double gradient_norm();  // of the accumulated gradients, as they are
  void clear_gradients();

  [[nodiscard]] const std::vector<std::string>& parameters() const { return parameters_; }
  [[nodiscard]] const graph::TensorStore& store() const { return *store_; }
  // Stored names of a parameter's moments: what a checkpoint keeps.
  [[nodiscard]] static std::string first_moment(const std::string& parameter) { return "adam_m/" + parameter; }
  [[nodiscard]] static std::string second_moment(const std::string& parameter) { return "adam_v/" + parameter; }

 private:
  [[nodiscard]] graph::Graph norm_graph() const;
  [[nodiscard]] graph::Graph update_graph() const;

  std::shared_ptr<graph::TensorStore> store_;
  graph::TensorScope gradients_;
  graph::TensorScope moments_;
  std::vector<std::string> parameters_;
  AdamwOptions options_;
  std::unique_ptr<graph::Program> norm_;
  std::unique_ptr<graph::Program> update_;
};

}  // namespace tern::train
