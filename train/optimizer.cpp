#include "train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "ops/sum_squares.h"
#include "train/optimizers/update_rule.h"
#include "train/training_graph.h"

namespace tern::train {

using ops::Value;

Optimizer::Optimizer(std::shared_ptr<graph::TensorStore> store, std::vector<std::string> parameters,
                     const OptimizerOptions& options, session::Runtime& runtime, std::shared_ptr<graph::Arena> arena)
    : store_(std::move(store)), options_(options), runtime_(runtime), arena_(std::move(arena)) {
  rules_ = make_rules({store_, options_, runtime_, arena_}, parameters);
  train_only(options_.at_first ? *options_.at_first : std::move(parameters), {});
}

Optimizer::~Optimizer() = default;

void Optimizer::train_only(std::vector<std::string> parameters, std::map<std::string, std::int64_t> missed) {
  norm_.reset();
  for (const auto& rule : rules_) rule->release();
  gradients_.reset();  // before there are others
  gradients_ = std::make_unique<graph::TensorScope>(store_, "gradients");
  parameters_ = std::move(parameters);
  for (const std::string& name : parameters_) {
    gradients_->create(gradient_name(name), make_desc(TERN_F32, shape_of(store_->at(name).desc)));
    store_->fill_zero(gradient_name(name));
  }
  norm_ = runtime_.build(norm_graph(), store_, arena_);
  const RuleContext context{store_, options_, runtime_, arena_, std::move(missed)};
  const std::set<std::string> active(parameters_.begin(), parameters_.end());
  for (const auto& rule : rules_) rule->aim(context, active);
}

std::vector<std::string> Optimizer::states() const {
  std::vector<std::string> names;
  for (const auto& rule : rules_) names.insert(names.end(), rule->states().begin(), rule->states().end());
  return names;
}

graph::Graph Optimizer::norm_graph() const {
  graph::Graph graph;
  Value sum;
  for (const std::string& name : parameters_) {
    const Value grad = graph.constant(gradient_name(name), store_->at(gradient_name(name)).desc);
    sum = ops::sum_squares(graph, grad, sum, TERN_NEED_DETERMINISTIC);
  }
  if (sum.present()) graph.output("sum_squares", sum);
  return graph;
}

double Optimizer::gradient_norm() {
  if (parameters_.empty()) return 0;
  norm_->run({});
  float sum = 0;
  std::memcpy(&sum, norm_->output("sum_squares").data(), sizeof(sum));
  return std::sqrt(static_cast<double>(sum));
}

void Optimizer::clear_gradients() {
  for (const std::string& name : parameters_) store_->fill_zero(gradient_name(name));
}

StepResult Optimizer::step(double lr, std::int64_t step, double loss_scale) {
  StepResult result;
  if (parameters_.empty()) return result;
  result.grad_norm = gradient_norm() / loss_scale;
  if (!std::isfinite(result.grad_norm)) {
    result.skipped = true;
    return result;
  }
  double grad_scale = 1.0;
  // torch.nn.utils.clip_grad_norm_: max_norm / (norm + 1e-6), never above 1.
  if (options_.adamw.max_grad_norm > 0)
    grad_scale = std::min(1.0, options_.adamw.max_grad_norm / (result.grad_norm + 1e-6));
  for (const auto& rule : rules_) rule->apply({lr, step, grad_scale / loss_scale});
  clear_gradients();
  return result;
}

}  // namespace tern::train
