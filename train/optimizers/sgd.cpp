// Stochastic gradient descent as torch.optim.SGD takes it: weight decay joins the gradient.
#include "ops/sgd.h"

#include "train/optimizers/update_rule.h"

namespace tern::train {
namespace {

class Sgd : public OneOpRule {
 public:
  Sgd(const RuleContext& context, const std::vector<std::string>& parameters)
      : OneOpRule(context, parameters), options_(context.options.sgd) {
    for (const std::string& name : parameters) {
      if (options_.momentum > 0) create_state(buffer(name), make_desc(TERN_F32, shape_of(store().at(name).desc)));
    }
  }

 private:
  [[nodiscard]] static std::string buffer(const std::string& parameter) { return "sgd_momentum/" + parameter; }
  void emit(graph::Graph& graph, const std::string& name, ops::Value hyper) const override {
    ops::SgdState state;
    state.param = resource(graph, name);
    if (options_.momentum > 0) state.buf = resource(graph, buffer(name));
    (void)ops::sgd(graph, state, gradient(graph, name), hyper, TERN_NEED_DETERMINISTIC);
  }
  [[nodiscard]] std::vector<float> hyper(const OptimizerStep& step, const ParameterGroup& group) const override {
    // The buffer begins as the first gradient, which nothing dampens.
    const double rest = step.number == 1 ? 1.0 : 1.0 - options_.dampening;
    const bool moves_by_gradient = options_.momentum <= 0 || options_.nesterov;
    const double take_buf = options_.momentum <= 0 ? 0.0 : options_.nesterov ? options_.momentum : 1.0;
    return {static_cast<float>(step.lr),
            1.0F,
            static_cast<float>(options_.momentum),
            static_cast<float>(rest),
            static_cast<float>(group.weight_decay),
            moves_by_gradient ? 1.0F : 0.0F,
            static_cast<float>(take_buf),
            static_cast<float>(step.grad_scale)};
  }
  SgdOptions options_;
};

}  // namespace

std::unique_ptr<UpdateRule> sgd_rule(const RuleContext& context, const std::vector<std::string>& parameters) {
  return std::make_unique<Sgd>(context, parameters);
}

}  // namespace tern::train
