// One way to change parameters by their gradients, and the states that it keeps of each.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/program.h"
#include "graph/tensor_scope.h"
#include "session/runtime.h"
#include "train/optimizers/options.h"

namespace tern::train {

struct OptimizerStep {
  double lr = 0;
  std::int64_t number = 1;  // from 1
  double grad_scale = 1;    // what a stored gradient is multiplied by: clipping and loss scaling
};

// Parameters that share their hyper-parameters. Matrices decay, norms and biases don't.
struct ParameterGroup {
  double lr_ratio = 1;
  double weight_decay = 0;
  bool operator<(const ParameterGroup& other) const {
    return std::pair(lr_ratio, weight_decay) < std::pair(other.lr_ratio, other.weight_decay);
  }
};
[[nodiscard]] ParameterGroup group_of(const std::string& parameter, const graph::TensorStore& store,
                                      const OptimizerOptions& options);

struct RuleContext {
  std::shared_ptr<graph::TensorStore> store;
  const OptimizerOptions& options;
  session::Runtime& runtime;
  std::shared_ptr<graph::Arena> arena;
};

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  UpdateRule(const UpdateRule&) = delete;
  UpdateRule& operator=(const UpdateRule&) = delete;

  virtual void apply(const OptimizerStep& step) = 0;
  // Stored names of what a checkpoint keeps.
  [[nodiscard]] const std::vector<std::string>& states() const { return states_; }

 protected:
  explicit UpdateRule(std::shared_ptr<graph::TensorStore> store);

  // A state of zeroes.
  void create_state(const std::string& name, const TensorDesc& desc);
  // A constant of the graphs that no checkpoint needs.
  void create_constant(const std::string& name, const std::vector<float>& values);
  [[nodiscard]] graph::TensorStore& store() const { return *store_; }
  [[nodiscard]] ops::Value resource(graph::Graph& graph, const std::string& name) const;
  [[nodiscard]] ops::Value constant(graph::Graph& graph, const std::string& name) const;
  [[nodiscard]] ops::Value gradient(graph::Graph& graph, const std::string& parameter) const;

 private:
  std::shared_ptr<graph::TensorStore> store_;
  graph::TensorScope scope_;
  std::vector<std::string> states_;
};

// A rule that is one op a parameter, all in one program: a derived class creates its states, then calls build().
class OneOpRule : public UpdateRule {
 public:
  void apply(const OptimizerStep& step) final;

 protected:
  explicit OneOpRule(const RuleContext& context) : UpdateRule(context.store) {}
  void build(const RuleContext& context, const std::vector<std::string>& parameters);

  // The op, whose hyper-parameters are `hyper`, [the size that hyper() gives] f32.
  virtual void emit(graph::Graph& graph, const std::string& parameter, ops::Value hyper) const = 0;
  [[nodiscard]] virtual std::vector<float> hyper(const OptimizerStep& step, const ParameterGroup& group) const = 0;

 private:
  std::map<ParameterGroup, std::string> groups_;  // the input that holds its hyper-parameters
  std::unique_ptr<graph::Program> program_;
};

// The rules of an optimizer, each over some of the parameters.
[[nodiscard]] std::vector<std::unique_ptr<UpdateRule>> make_rules(const RuleContext& context,
                                                                  const std::vector<std::string>& parameters);

// One kind each.
using RuleMaker = std::unique_ptr<UpdateRule>(const RuleContext& context, const std::vector<std::string>& parameters);
RuleMaker adamw_rule;
RuleMaker adamw_8bit_rule;
RuleMaker sgd_rule;
RuleMaker lion_rule;
RuleMaker adafactor_rule;
RuleMaker muon_rule;
RuleMaker galore_rule;

}  // namespace tern::train
