#include "train/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "ops/adamw.h"
#include "ops/sum_squares.h"
#include "train/training_graph.h"

namespace tern::train {
namespace {

using ops::Value;

}  // namespace

Optimizer::Optimizer(std::shared_ptr<graph::TensorStore> store, std::vector<std::string> parameters,
                     const AdamwOptions& options, session::Runtime& runtime, std::shared_ptr<graph::Arena> arena)
    : store_(std::move(store)),
      gradients_(store_, "gradients"),
      moments_(store_, "optimizer"),
      parameters_(std::move(parameters)),
      options_(options) {
  for (const std::string& name : parameters_) {
    const TensorDesc desc = make_desc(TERN_F32, shape_of(store_->at(name).desc));
    gradients_.create(gradient_name(name), desc);
    moments_.create(first_moment(name), desc);
    moments_.create(second_moment(name), desc);
    for (const std::string& extra : {gradient_name(name), first_moment(name), second_moment(name)}) {
      store_->fill_zero(extra);
    }
  }
  norm_ = runtime.build(norm_graph(), store_, arena);
  update_ = runtime.build(update_graph(), store_, std::move(arena));
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

graph::Graph Optimizer::update_graph() const {
  graph::Graph graph;
  // Norm weights and biases are not decayed: two sets of hyper-parameters, one for each kind.
  const Value decayed = graph.input("hyper", make_desc(TERN_F32, {10}));
  const Value undecayed = graph.input("hyper_no_decay", make_desc(TERN_F32, {10}));
  for (const std::string& name : parameters_) {
    const TensorDesc& desc = store_->at(name).desc;
    ops::AdamwState state;
    state.param = graph.resource(name, desc);
    state.m = graph.resource(first_moment(name), store_->at(first_moment(name)).desc);
    state.v = graph.resource(second_moment(name), store_->at(second_moment(name)).desc);
    const Value grad = graph.constant(gradient_name(name), store_->at(gradient_name(name)).desc);
    const bool is_magnitude = name.ends_with(".lora_magnitude_vector");  // which transformers' Trainer decays
    const bool decays = (desc.rank >= 2 && !name.ends_with(".bias")) || is_magnitude;  // biases of experts: a matrix
    (void)ops::adamw(graph, state, grad, decays ? decayed : undecayed, TERN_F32, TERN_NEED_DETERMINISTIC);
  }
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
  if (options_.max_grad_norm > 0) grad_scale = std::min(1.0, options_.max_grad_norm / (result.grad_norm + 1e-6));
  const auto t = static_cast<double>(step);
  std::array<float, 10> hyper = {static_cast<float>(lr),
                                 static_cast<float>(options_.beta1),
                                 static_cast<float>(options_.beta2),
                                 static_cast<float>(1.0 - options_.beta1),
                                 static_cast<float>(1.0 - options_.beta2),
                                 static_cast<float>(options_.epsilon),
                                 static_cast<float>(options_.weight_decay),
                                 static_cast<float>(1.0 - std::pow(options_.beta1, t)),
                                 static_cast<float>(1.0 - std::pow(options_.beta2, t)),
                                 static_cast<float>(grad_scale / loss_scale)};
  std::array<float, 10> no_decay = hyper;
  no_decay[6] = 0.0F;
  graph::RunInputs inputs;
  inputs.inputs["hyper"] = std::as_bytes(std::span(hyper));
  inputs.inputs["hyper_no_decay"] = std::as_bytes(std::span(no_decay));
  update_->run(inputs);
  clear_gradients();
  return result;
}

}  // namespace tern::train
