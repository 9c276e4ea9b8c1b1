// AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019), with moments in 32 or in 8 bits.
#include "ops/adamw.h"

#include <cmath>

#include "ops/adamw_8bit.h"
#include "train/optimizer.h"
#include "train/optimizers/dynamic_codes.h"
#include "train/optimizers/update_rule.h"

namespace tern::train {
namespace {

std::vector<float> adamw_hyper(const AdamwOptions& options, const OptimizerStep& step, const ParameterGroup& group) {
  const auto t = static_cast<double>(step.number);
  return {static_cast<float>(step.lr),
          static_cast<float>(options.beta1),
          static_cast<float>(options.beta2),
          static_cast<float>(1.0 - options.beta1),
          static_cast<float>(1.0 - options.beta2),
          static_cast<float>(options.epsilon),
          static_cast<float>(group.weight_decay),
          static_cast<float>(1.0 - std::pow(options.beta1, t)),
          static_cast<float>(1.0 - std::pow(options.beta2, t)),
          static_cast<float>(step.grad_scale)};
}

class Adamw : public OneOpRule {
 public:
  Adamw(const RuleContext& context, const std::vector<std::string>& parameters)
      : OneOpRule(context, parameters), options_(context.options.adamw) {
    for (const std::string& name : parameters) {
      const TensorDesc desc = make_desc(TERN_F32, shape_of(store().at(name).desc));
      create_state(Optimizer::first_moment(name), desc);
      create_state(Optimizer::second_moment(name), desc);
    }
  }

 private:
  void emit(graph::Graph& graph, const std::string& name, ops::Value hyper) const override {
    ops::AdamwState state;
    state.param = resource(graph, name);
    state.m = resource(graph, Optimizer::first_moment(name));
    state.v = resource(graph, Optimizer::second_moment(name));
    (void)ops::adamw(graph, state, gradient(graph, name), hyper, TERN_F32, TERN_NEED_DETERMINISTIC);
  }
  [[nodiscard]] std::vector<float> hyper(const OptimizerStep& step, const ParameterGroup& group) const override {
    return adamw_hyper(options_, step, group);
  }
  AdamwOptions options_;
};

class Adamw8bit : public OneOpRule {
 public:
  Adamw8bit(const RuleContext& context, const std::vector<std::string>& parameters)
      : OneOpRule(context, parameters), options_(context.options.adamw) {
    create_constant("adam8/m_codes", dynamic_codes(true));
    create_constant("adam8/v_codes", dynamic_codes(false));
    for (const std::string& name : parameters) {
      const TensorDesc desc = make_desc(TERN_U8, shape_of(store().at(name).desc));
      const std::int64_t blocks = ops::adamw_8bit_blocks(num_elements(desc));
      for (const char* moment : {"m", "v"}) {
        create_state(state_name(moment, name), desc);
        create_state(state_name(moment, name) + "/max", make_desc(TERN_F32, {blocks}));
      }
    }
  }

 private:
  [[nodiscard]] static std::string state_name(const std::string& moment, const std::string& parameter) {
    return "adam8_" + moment + "/" + parameter;
  }
  void emit(graph::Graph& graph, const std::string& name, ops::Value hyper) const override {
    ops::Adamw8bitState state;
    state.param = resource(graph, name);
    state.m = resource(graph, state_name("m", name));
    state.v = resource(graph, state_name("v", name));
    state.m_max = resource(graph, state_name("m", name) + "/max");
    state.v_max = resource(graph, state_name("v", name) + "/max");
    const ops::Adamw8bitCodes codes{constant(graph, "adam8/m_codes"), constant(graph, "adam8/v_codes")};
    (void)ops::adamw_8bit(graph, state, gradient(graph, name), codes, hyper, TERN_NEED_DETERMINISTIC);
  }
  [[nodiscard]] std::vector<float> hyper(const OptimizerStep& step, const ParameterGroup& group) const override {
    return adamw_hyper(options_, step, group);
  }
  AdamwOptions options_;
};

}  // namespace

std::unique_ptr<UpdateRule> adamw_rule(const RuleContext& context, const std::vector<std::string>& parameters) {
  return std::make_unique<Adamw>(context, parameters);
}

std::unique_ptr<UpdateRule> adamw_8bit_rule(const RuleContext& context, const std::vector<std::string>& parameters) {
  return std::make_unique<Adamw8bit>(context, parameters);
}

}  // namespace tern::train
