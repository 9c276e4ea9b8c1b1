#include "train/optimizers/update_rule.h"

#include <algorithm>
#include <iterator>

#include "base/strings.h"
#include "train/optimizers/dynamic_codes.h"
#include "train/training_graph.h"

namespace tern::train {
namespace {

bool is_table_of_tokens(const std::string& parameter) {
  return parameter.find("embed") != std::string::npos || parameter.find("lm_head") != std::string::npos;
}

bool is_large(const RuleContext& context, const std::string& parameter) {
  return num_elements(context.store->at(parameter).desc) >= kLeastIn8Bits;
}

// bitsandbytes keeps the moments of embeddings in 32 bits.
bool keeps_8_bits(const RuleContext& context, const std::string& parameter) {
  return is_large(context, parameter) && !is_table_of_tokens(parameter);
}

// Moonlight orthogonalises the matrices between the tables of tokens.
bool is_orthogonalised(const RuleContext& context, const std::string& parameter) {
  return context.store->at(parameter).desc.rank == 2 && !is_table_of_tokens(parameter);
}

double lr_ratio(const std::string& parameter, const TensorDesc& desc, const OptimizerOptions& options) {
  if (!options.lora_plus) return 1;
  if (parameter.find("lora_B") != std::string::npos || desc.rank < 2) return options.lora_plus->lr_ratio;
  const bool of_adapter = parameter.find("lora_") != std::string::npos;
  return !of_adapter && is_table_of_tokens(parameter) ? options.lora_plus->embedding_ratio : 1;
}

bool is_projected(const RuleContext& context, const std::string& parameter) {
  return context.options.galore->parameters.contains(parameter) && context.store->at(parameter).desc.rank == 2;
}

}  // namespace

ParameterGroup group_of(const std::string& parameter, const RuleContext& context) {
  const TensorDesc& desc = context.store->at(parameter).desc;
  // The biases of experts are a matrix; DoRA's magnitudes and VeRA's factors are vectors, which transformers' Trainer
  // decays.
  const bool decays = (desc.rank >= 2 && !parameter.ends_with(".bias")) ||
                      parameter.ends_with(".lora_magnitude_vector") ||
                      parameter.find(".vera_lambda_") != std::string::npos ||
                      (context.options.galore && context.options.galore->per_parameter);
  const auto missed = context.missed.find(parameter);
  return {lr_ratio(parameter, desc, context.options), decays ? context.options.adamw.weight_decay : 0.0,
          missed == context.missed.end() ? 0 : missed->second};
}

UpdateRule::UpdateRule(std::shared_ptr<graph::TensorStore> store, std::vector<std::string> parameters)
    : store_(std::move(store)), scope_(store_, "optimizer"), parameters_(std::move(parameters)) {}

void UpdateRule::aim(const RuleContext& context, const std::set<std::string>& active) {
  release();
  std::vector<std::string> some;
  std::copy_if(parameters_.begin(), parameters_.end(), std::back_inserter(some),
               [&](const std::string& name) { return active.contains(name); });
  if (some.empty()) return;
  build(context, some);
  is_built_ = true;
}

void UpdateRule::release() {
  drop_programs();
  is_built_ = false;
}

void UpdateRule::apply(const OptimizerStep& step) {
  if (is_built_) run(step);
}

void UpdateRule::create_state(const std::string& name, const TensorDesc& desc) {
  scope_.create(name, desc);
  store_->fill_zero(name);
  states_.push_back(name);
}

void UpdateRule::create_constant(const std::string& name, const std::vector<float>& values) {
  scope_.create(name, make_desc(TERN_F32, {static_cast<std::int64_t>(values.size())}));
  store_->upload(name, std::as_bytes(std::span(values)));
}

ops::Value UpdateRule::resource(graph::Graph& graph, const std::string& name) const {
  return graph.resource(name, store_->at(name).desc);
}

ops::Value UpdateRule::constant(graph::Graph& graph, const std::string& name) const {
  const ops::Value found = graph.find(name);  // which several parameters share
  return found.present() ? found : graph.constant(name, store_->at(name).desc);
}

ops::Value UpdateRule::gradient(graph::Graph& graph, const std::string& parameter) const {
  return constant(graph, gradient_name(parameter));
}

void OneOpRule::build(const RuleContext& context, const std::vector<std::string>& parameters) {
  graph::Graph graph;
  std::map<ParameterGroup, ops::Value> inputs;
  groups_.clear();
  for (const std::string& name : parameters) {
    const ParameterGroup group = group_of(name, context);
    if (!inputs.contains(group)) {
      const auto count = static_cast<std::int64_t>(hyper({}, group).size());
      groups_[group] = cat("hyper/", groups_.size());
      inputs[group] = graph.input(groups_[group], make_desc(TERN_F32, {count}));
    }
    emit(graph, name, inputs.at(group));
  }
  program_ = context.runtime.build(std::move(graph), context.store, context.arena);
}

void OneOpRule::run(const OptimizerStep& step) {
  graph::RunInputs inputs;
  std::vector<std::vector<float>> kept;
  kept.reserve(groups_.size());
  for (const auto& [group, name] : groups_) {
    kept.push_back(hyper(group.own(step), group));
    inputs.inputs[name] = std::as_bytes(std::span(kept.back()));
  }
  program_->run(inputs);
}

std::vector<std::unique_ptr<UpdateRule>> make_rules(const RuleContext& context,
                                                    const std::vector<std::string>& parameters) {
  std::vector<std::unique_ptr<UpdateRule>> rules;
  const auto add = [&](RuleMaker* make, const std::vector<std::string>& names) {
    if (!names.empty()) rules.push_back(make(context, names));
  };
  const auto add_by = [&](RuleMaker* chosen, bool (*chooses)(const RuleContext&, const std::string&)) {
    std::vector<std::string> some;
    std::vector<std::string> others;
    for (const std::string& name : parameters) (chooses(context, name) ? some : others).push_back(name);
    add(chosen, some);
    add(adamw_rule, others);
  };
  if (const auto& galore = context.options.galore) {
    std::vector<std::string> projected, in_8_bits, others;
    for (const std::string& name : parameters) {
      const bool is_small = !galore->quantised || !is_large(context, name);
      (is_projected(context, name) ? projected : is_small ? others : in_8_bits).push_back(name);
    }
    add(galore_rule, projected);
    add(adamw_8bit_rule, in_8_bits);
    add(adamw_rule, others);
    return rules;
  }
  switch (context.options.kind) {
    case OptimizerKind::adamw:
      add(adamw_rule, parameters);
      break;
    case OptimizerKind::adamw_8bit:
      add_by(adamw_8bit_rule, keeps_8_bits);
      break;
    case OptimizerKind::sgd:
      add(sgd_rule, parameters);
      break;
    case OptimizerKind::lion:
      add(lion_rule, parameters);
      break;
    case OptimizerKind::adafactor:
      add(adafactor_rule, parameters);
      break;
    case OptimizerKind::muon:
      add_by(muon_rule, is_orthogonalised);
      break;
  }
  return rules;
}

}  // namespace tern::train
