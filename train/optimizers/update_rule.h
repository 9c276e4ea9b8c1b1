// One way to change parameters by their gradients, and the states that it keeps of each.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
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
  std::int64_t number = 1;  // from 1, of parameters that missed none
  double grad_scale = 1;    // what a stored gradient is multiplied by: clipping and loss scaling
};

// Parameters that share their hyper-parameters. Matrices decay, norms and biases don't.
struct ParameterGroup {
  double lr_ratio = 1;
  double weight_decay = 0;
  std::int64_t missed = 0;  // steps that weren't theirs
  auto operator<=>(const ParameterGroup&) const = default;
  // The step as such a parameter counts and takes it.
  [[nodiscard]] OptimizerStep own(OptimizerStep step) const {
    step.lr *= lr_ratio;
    step.number -= missed;
    return step;
  }
};

struct RuleContext {
  std::shared_ptr<graph::TensorStore> store;
  const OptimizerOptions& options;
  session::Runtime& runtime;
  std::shared_ptr<graph::Arena> arena;
  std::map<std::string, std::int64_t> missed = {};  // steps, by parameter; not named: none
};
[[nodiscard]] ParameterGroup group_of(const std::string& parameter, const RuleContext& context);

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  UpdateRule(const UpdateRule&) = delete;
  UpdateRule& operator=(const UpdateRule&) = delete;

  // Makes ready to change those of its parameters that `active` names, and no others: these keep what is kept of them.
  void aim(const RuleContext& context, const std::set<std::string>& active);
  // Nothing is aimed at from here on: what the programs held is free.
  void release();
  // Aimed it is.
  void apply(const OptimizerStep& step);
  // Stored names of what a checkpoint keeps.
  [[nodiscard]] const std::vector<std::string>& states() const { return states_; }

 protected:
  UpdateRule(std::shared_ptr<graph::TensorStore> store, std::vector<std::string> parameters);

  // Programs for some of the parameters, at least one; these have gradients.
  virtual void build(const RuleContext& context, const std::vector<std::string>& parameters) = 0;
  virtual void drop_programs() = 0;
  virtual void run(const OptimizerStep& step) = 0;

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
  std::vector<std::string> parameters_;
  std::vector<std::string> states_;
  bool is_built_ = false;
};

// A rule that is one op a parameter, all in one program: a derived class creates its states.
class OneOpRule : public UpdateRule {
 protected:
  OneOpRule(const RuleContext& context, std::vector<std::string> parameters)
      : UpdateRule(context.store, std::move(parameters)) {}
  void build(const RuleContext& context, const std::vector<std::string>& parameters) final;
  void drop_programs() final { program_.reset(); }
  void run(const OptimizerStep& step) final;

  // The op, whose hyper-parameters are `hyper`, [the size that hyper() gives] f32.
  virtual void emit(graph::Graph& graph, const std::string& parameter, ops::Value hyper) const = 0;
  [[nodiscard]] virtual std::vector<float> hyper(const OptimizerStep& step, const ParameterGroup& group) const = 0;

 private:
  std::map<ParameterGroup, std::string> groups_;  // the input that holds its hyper-parameters
  std::unique_ptr<graph::Program> program_;
};

// The rules of an optimizer, each over some of the parameters, with their states; none is aimed yet.
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
