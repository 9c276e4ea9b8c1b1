// GaLore (Zhao et al., "GaLore: Memory-Efficient LLM Training by Gradient Low-Rank Projection", ICML 2024): AdamW whose
// moments are those of the gradient's projection upon its own leading singular vectors, found anew by the host every
// `update_proj_gap` steps. What AdamW makes of the projection is projected back and moves the matrix.
#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "ops/adamw.h"
#include "ops/axpby.h"
#include "ops/matmul.h"
#include "ops/sgd.h"
#include "train/optimizers/singular_vectors.h"
#include "train/optimizers/update_rule.h"
#include "train/training_graph.h"

namespace tern::train {
namespace {

using ops::Value;

constexpr std::uint32_t kNeeds = TERN_NEED_DETERMINISTIC;

class Galore : public UpdateRule {
 public:
  Galore(const RuleContext& context, const std::vector<std::string>& parameters)
      : UpdateRule(context.store), options_(*context.options.galore), adamw_(context.options.adamw) {
    for (const std::string& name : parameters) {
      matrices_.push_back(describe(name));
      matrices_.back().group = group_of(name, store(), context.options);
      create_states(matrices_.back());
    }
    project_ = context.runtime.build(project_graph(), context.store, context.arena);
    move_ = context.runtime.build(move_graph(), context.store, context.arena);
  }

  void apply(const OptimizerStep& step) override {
    if ((step.number - 1) % options_.update_proj_gap == 0) find_projections();
    const auto t = static_cast<double>(step.number);
    // keep 0 and a rate of 1: `low` becomes minus the step itself, and nothing decays there.
    const std::vector<float> adam = {1.0F,
                                     static_cast<float>(adamw_.beta1),
                                     static_cast<float>(adamw_.beta2),
                                     static_cast<float>(1.0 - adamw_.beta1),
                                     static_cast<float>(1.0 - adamw_.beta2),
                                     // torch's GaLoreAdamW corrects the whole quotient, so that its epsilon is that much
                                     // larger
                                     static_cast<float>(adamw_.epsilon / std::sqrt(1.0 - std::pow(adamw_.beta2, t))),
                                     1.0F,
                                     static_cast<float>(1.0 - std::pow(adamw_.beta1, t)),
                                     static_cast<float>(1.0 - std::pow(adamw_.beta2, t)),
                                     static_cast<float>(step.grad_scale)};
    graph::RunInputs inputs;
    inputs.inputs["adam"] = std::as_bytes(std::span(adam));
    project_->run(inputs);
    graph::RunInputs moved;
    std::vector<std::vector<float>> moves(matrices_.size());
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      const double lr = step.lr * matrices_[i].group.lr_ratio;
      // Decay comes after the step and takes its share of that, too.
      const double keep = 1.0 - lr * matrices_[i].group.weight_decay;
      moves[i] = {static_cast<float>(-lr * keep * options_.scale), static_cast<float>(keep), 0, 0, 0, 1.0F, 0, 1.0F};
      moved.inputs[cat("move/", i)] = std::as_bytes(std::span(moves[i]));
    }
    move_->run(moved);
  }

 private:
  struct Matrix {
    std::string name;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t rank = 0;
    bool left = false;   // projected by U^T from the left
    bool right = false;  // by V from the right
    ParameterGroup group;
    [[nodiscard]] std::vector<std::int64_t> low() const { return {left ? rank : rows, right ? rank : columns}; }
  };

  [[nodiscard]] Matrix describe(const std::string& name) const {
    const TensorDesc& desc = store().at(name).desc;
    Matrix out;
    out.name = name;
    out.rows = desc.shape[0];
    out.columns = desc.shape[1];
    out.rank = std::min({options_.rank, out.rows, out.columns});
    const bool tall = out.rows >= out.columns;
    switch (options_.type) {
      case GaloreType::std:
        (tall ? out.right : out.left) = true;
        break;
      case GaloreType::reverse_std:
        (tall ? out.left : out.right) = true;
        break;
      case GaloreType::left:
        out.left = true;
        break;
      case GaloreType::right:
        out.right = true;
        break;
      case GaloreType::full:
        out.left = out.right = true;
        break;
    }
    return out;
  }

  [[nodiscard]] static std::string state(const char* part, const Matrix& matrix) {
    return cat("galore_", part, "/", matrix.name);
  }

  void create_states(const Matrix& matrix) {
    if (matrix.left) create_state(state("u", matrix), make_desc(TERN_F32, {matrix.rows, matrix.rank}));
    if (matrix.right) create_state(state("v", matrix), make_desc(TERN_F32, {matrix.rank, matrix.columns}));
    for (const char* part : {"low", "m1", "m2"}) create_state(state(part, matrix), make_desc(TERN_F32, matrix.low()));
  }

  // From the gradients as they are: clipping and loss scaling turn no vector.
  void find_projections() {
    for (const Matrix& matrix : matrices_) {
      std::vector<float> gradient(static_cast<std::size_t>(matrix.rows * matrix.columns));
      store().download(gradient_name(matrix.name), std::as_writable_bytes(std::span(gradient)));
      const auto give = [&](const char* part, Side side) {
        const auto vectors = singular_vectors(gradient, matrix.rows, matrix.columns, side, matrix.rank);
        store().upload(state(part, matrix), std::as_bytes(std::span(vectors)));
      };
      if (matrix.left) give("u", Side::left);
      if (matrix.right) give("v", Side::right);
    }
  }

  [[nodiscard]] graph::Graph project_graph() const {
    graph::Graph graph;
    const Value adam = graph.input("adam", make_desc(TERN_F32, {10}));
    for (const Matrix& matrix : matrices_) {
      Value low = gradient(graph, matrix.name);
      if (matrix.left) {
        low = ops::matmul(graph, constant(graph, state("u", matrix)), low, {.transpose_a = true, .needs = kNeeds});
      }
      if (matrix.right) {
        low = ops::matmul(graph, low, constant(graph, state("v", matrix)), {.transpose_b = true, .needs = kNeeds});
      }
      ops::AdamwState states;
      states.param = resource(graph, state("low", matrix));
      states.m = resource(graph, state("m1", matrix));
      states.v = resource(graph, state("m2", matrix));
      (void)ops::adamw(graph, states, low, adam, TERN_F32, kNeeds);
    }
    return graph;
  }

  [[nodiscard]] graph::Graph move_graph() const {
    graph::Graph graph;
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      const Matrix& matrix = matrices_[i];
      Value step = constant(graph, state("low", matrix));
      if (matrix.left) step = ops::matmul(graph, constant(graph, state("u", matrix)), step, {.needs = kNeeds});
      if (matrix.right) step = ops::matmul(graph, step, constant(graph, state("v", matrix)), {.needs = kNeeds});
      const Value move = graph.input(cat("move/", i), make_desc(TERN_F32, {8}));
      (void)ops::sgd(graph, {resource(graph, matrix.name), {}}, step, move, kNeeds);
    }
    return graph;
  }

  GaloreOptions options_;
  AdamwOptions adamw_;
  std::vector<Matrix> matrices_;
  std::unique_ptr<graph::Program> project_;
  std::unique_ptr<graph::Program> move_;
};

}  // namespace

std::unique_ptr<UpdateRule> galore_rule(const RuleContext& context, const std::vector<std::string>& parameters) {
  return std::make_unique<Galore>(context, parameters);
}

}  // namespace tern::train
