// Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023), with AdamW's betas, as transformers gives
// them to bitsandbytes.
#include "ops/lion.h"

#include "train/optimizers/update_rule.h"

namespace tern::train {
namespace {

class Lion : public OneOpRule {
 public:
  Lion(const RuleContext& context, const std::vector<std::string>& parameters)
      : OneOpRule(context, parameters), options_(context.options.adamw) {
    for (const std::string& name : parameters) {
      create_state(moment(name), make_desc(TERN_F32, shape_of(store().at(name).desc)));
    }
  }

 private:
  [[nodiscard]] static std::string moment(const std::string& parameter) { return "lion_m/" + parameter; }
  void emit(graph::Graph& graph, const std::string& name, ops::Value hyper) const override {
    (void)ops::lion(graph, {resource(graph, name), resource(graph, moment(name))}, gradient(graph, name), hyper,
                    TERN_NEED_DETERMINISTIC);
  }
  [[nodiscard]] std::vector<float> hyper(const OptimizerStep& step, const ParameterGroup& group) const override {
    return {static_cast<float>(step.lr),        static_cast<float>(1.0 - step.lr * group.weight_decay),
            static_cast<float>(options_.beta1), static_cast<float>(1.0 - options_.beta1),
            static_cast<float>(options_.beta2), static_cast<float>(1.0 - options_.beta2),
            static_cast<float>(step.grad_scale)};
  }
  AdamwOptions options_;
};

}  // namespace

std::unique_ptr<UpdateRule> lion_rule(const RuleContext& context, const std::vector<std::string>& parameters) {
  return std::make_unique<Lion>(context, parameters);
}

}  // namespace tern::train
