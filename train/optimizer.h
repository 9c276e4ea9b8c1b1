// What changes trained parameters by their accumulated gradients: fp32 masters on the device, clipping by the global
// norm, and one of several rules (train/optimizers).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/program.h"
#include "graph/tensor_scope.h"
#include "session/runtime.h"
#include "train/optimizers/options.h"

namespace tern::train {

class UpdateRule;

struct StepResult {
  double grad_norm = 0;  // before clipping
  bool skipped = false;  // the norm isn't finite: nothing was changed, the gradients neither
};

class Optimizer {
 public:
  // Creates the rule's states in the store for each trained parameter, and gradients (zero) of those that the first
  // steps change. They go with the optimizer. `arena`: as of Runtime::build.
  Optimizer(std::shared_ptr<graph::TensorStore> store, std::vector<std::string> parameters,
            const OptimizerOptions& options, session::Runtime& runtime, std::shared_ptr<graph::Arena> arena = nullptr);
  ~Optimizer();

  // Applies the accumulated gradients, which hold `loss_scale` times the loss's, with learning rate `lr` as step `step`
  // (from 1), then zeroes them.
  StepResult step(double lr, std::int64_t step, double loss_scale = 1);
  // From the next step on only these change, of which there are gradients (zero) then. The others keep their values and
  // states, and a step that isn't theirs isn't counted as one: of AdamW they go on where they were, as in PyTorch where
  // a gradient is None. Programs that add to gradients are to be gone. `missed`: such steps so far, by parameter.
  // Throws Failure (device) where memory does not suffice.
  void train_only(std::vector<std::string> parameters, std::map<std::string, std::int64_t> missed);
  [[nodiscard]] double gradient_norm();  // of the accumulated gradients, as they are
  void clear_gradients();

  // That the next step changes.
  [[nodiscard]] const std::vector<std::string>& parameters() const { return parameters_; }
  [[nodiscard]] const graph::TensorStore& store() const { return *store_; }
  // Stored names of all that a checkpoint keeps beside the parameters.
  [[nodiscard]] std::vector<std::string> states() const;
  // AdamW's moments of a parameter.
  [[nodiscard]] static std::string first_moment(const std::string& parameter) { return "adam_m/" + parameter; }
  [[nodiscard]] static std::string second_moment(const std::string& parameter) { return "adam_v/" + parameter; }

 private:
  [[nodiscard]] graph::Graph norm_graph() const;

  std::shared_ptr<graph::TensorStore> store_;
  OptimizerOptions options_;
  session::Runtime& runtime_;
  std::shared_ptr<graph::Arena> arena_;
  std::unique_ptr<graph::TensorScope> gradients_;
  std::vector<std::string> parameters_;
  std::unique_ptr<graph::Program> norm_;
  std::vector<std::unique_ptr<UpdateRule>> rules_;
};

}  // namespace tern::train
