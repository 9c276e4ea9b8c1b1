// Adafactor (Shazeer and Stern, ICML 2018) as transformers' trainer takes it: the schedule's rate, no momentum, and no
// scaling by a parameter's size unless --optim_args asks for them.
#include "ops/adafactor.h"

#include <cmath>

#include "train/optimizers/update_rule.h"

namespace tern::train {
namespace {

class Adafactor : public OneOpRule {
 public:
  Adafactor(const RuleContext& context, const std::vector<std::string>& parameters)
      : OneOpRule(context, parameters), options_(context.options.adafactor) {
    for (const std::string& name : parameters) create_states(name);
  }

 private:
  [[nodiscard]] static std::string state(const char* part, const std::string& parameter) {
    return std::string("adafactor_") + part + "/" + parameter;
  }
  void create_states(const std::string& name) {
    const TensorDesc& desc = store().at(name).desc;
    const auto shape = shape_of(desc);
    std::vector<std::int64_t> rows(shape.begin(), shape.end());
    if (options_.beta1) create_state(state("m", name), make_desc(TERN_F32, rows));
    if (desc.rank < 2) {
      create_state(state("v", name), make_desc(TERN_F32, rows));
      return;
    }
    std::vector<std::int64_t> columns = rows;
    rows.pop_back();
    columns.erase(columns.end() - 2);
    create_state(state("row", name), make_desc(TERN_F32, rows));
    create_state(state("col", name), make_desc(TERN_F32, columns));
  }
  void emit(graph::Graph& graph, const std::string& name, ops::Value hyper) const override {
    ops::AdafactorState states;
    states.param = resource(graph, name);
    if (options_.beta1) states.m = resource(graph, state("m", name));
    if (store().at(name).desc.rank < 2) {
      states.v = resource(graph, state("v", name));
    } else {
      states.row = resource(graph, state("row", name));
      states.col = resource(graph, state("col", name));
    }
    (void)ops::adafactor(graph, states, gradient(graph, name), hyper, TERN_NEED_DETERMINISTIC);
  }
  [[nodiscard]] std::vector<float> hyper(const OptimizerStep& step, const ParameterGroup& group) const override {
    const double rest2 = std::pow(static_cast<double>(step.number), options_.decay_rate);
    return {static_cast<float>(step.lr),
            static_cast<float>(1.0 - rest2),
            static_cast<float>(rest2),
            static_cast<float>(options_.eps1),
            static_cast<float>(options_.eps2),
            static_cast<float>(options_.clip_threshold),
            static_cast<float>(options_.beta1.value_or(0)),
            static_cast<float>(1.0 - options_.beta1.value_or(0)),
            static_cast<float>(group.weight_decay),
            options_.scale_parameter ? 1.0F : 0.0F,
            static_cast<float>(step.grad_scale)};
  }
  AdafactorOptions options_;
};

}  // namespace

std::unique_ptr<UpdateRule> adafactor_rule(const RuleContext& context, const std::vector<std::string>& parameters) {
  return std::make_unique<Adafactor>(context, parameters);
}

}  // namespace tern::train
