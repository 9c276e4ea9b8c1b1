// GaLore (Zhao et al., "GaLore: Memory-Efficient LLM Training by Gradient Low-Rank Projection", ICML 2024): AdamW whose
// moments are those of the gradient's projection upon its own leading singular vectors, found anew by the host every
// `update_proj_gap` steps. What AdamW makes of the projection is projected back and moves the matrix.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/strings.h"
#include "ops/adamw.h"
#include "ops/adamw_8bit.h"
#include "ops/axpby.h"
#include "ops/matmul.h"
#include "ops/sgd.h"
#include "train/optimizers/dynamic_codes.h"
#include "train/optimizers/galore_projection.h"
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
      : UpdateRule(context.store, parameters), options_(*context.options.galore), adamw_(context.options.adamw) {
    if (options_.quantised) {
      create_constant("galore8/m_codes", dynamic_codes(true));
      create_constant("galore8/v_codes", dynamic_codes(false));
    }
    for (const std::string& name : parameters) create_states(describe(name));
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
    std::optional<AdaptiveGap> gap = std::nullopt;  // of Q-GaLore, as the state has it; none: nobody looked yet
    [[nodiscard]] std::vector<std::int64_t> low() const { return {left ? rank : rows, right ? rank : columns}; }
    [[nodiscard]] std::int64_t shorter() const { return std::min(rows, columns); }
    // The input of AdamW's hyper-parameters, which matrices with as many steps share.
    [[nodiscard]] std::string adam() const { return cat("adam/", group.missed); }
  };

  void build(const RuleContext& context, const std::vector<std::string>& parameters) override {
    matrices_.clear();
    for (const std::string& name : parameters) {
      matrices_.push_back(describe(name));
      matrices_.back().group = group_of(name, context);
    }
    project_ = context.runtime.build(project_graph(), context.store, context.arena);
    move_ = context.runtime.build(move_graph(), context.store, context.arena);
  }

  void drop_programs() override {
    project_.reset();
    move_.reset();
  }

  void run(const OptimizerStep& step) override {
    std::map<std::string, std::vector<float>> adam;
    for (Matrix& matrix : matrices_) {
      const OptimizerStep own = matrix.group.own(step);
      if ((own.number - 1) % gap_of(matrix) == 0) find_projection(matrix);
      adam[matrix.adam()] = adam_hyper(own);
    }
    graph::RunInputs inputs;
    for (const auto& [name, values] : adam) inputs.inputs[name] = std::as_bytes(std::span(values));
    project_->run(inputs);
    graph::RunInputs moved;
    std::vector<std::vector<float>> moves(matrices_.size());
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      const double lr = matrices_[i].group.own(step).lr;
      // Decay comes after the step and takes its share of that, too.
      const double keep = 1.0 - lr * matrices_[i].group.weight_decay;
      moves[i] = {static_cast<float>(-lr * keep * options_.scale), static_cast<float>(keep), 0, 0, 0, 1.0F, 0, 1.0F};
      moved.inputs[cat("move/", i)] = std::as_bytes(std::span(moves[i]));
    }
    move_->run(moved);
  }

  [[nodiscard]] std::vector<float> adam_hyper(const OptimizerStep& step) const {
    const auto t = static_cast<double>(step.number);
    // torch's GaLoreAdamW corrects the whole quotient, so that its epsilon is that much larger.
    const double epsilon = adamw_.epsilon / (options_.quantised ? 1.0 : std::sqrt(1.0 - std::pow(adamw_.beta2, t)));
    // keep 0 and a rate of 1: `low` becomes minus the step itself, and nothing decays there.
    return {1.0F,
            static_cast<float>(adamw_.beta1),
            static_cast<float>(adamw_.beta2),
            static_cast<float>(1.0 - adamw_.beta1),
            static_cast<float>(1.0 - adamw_.beta2),
            static_cast<float>(epsilon),
            1.0F,
            static_cast<float>(1.0 - std::pow(adamw_.beta1, t)),
            static_cast<float>(1.0 - std::pow(adamw_.beta2, t)),
            static_cast<float>(step.grad_scale)};
  }

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
    if (matrix.left) create_state(state("u", matrix), projection_desc(matrix.name, matrix.rows, matrix.rank, options_));
    if (matrix.right) {
      create_state(state("v", matrix), projection_desc(matrix.name, matrix.rank, matrix.columns, options_));
    }
    const TensorDesc low = make_desc(TERN_F32, matrix.low());
    create_state(state("low", matrix), low);
    if (options_.quantised) {
      const std::int64_t size = AdaptiveGap::state_size(options_, matrix.shorter());
      create_state(state("gap", matrix), make_desc(TERN_F32, {size}));
    }
    for (const char* moment : {"m1", "m2"}) {
      if (has_8_bits(matrix)) {
        create_state(state(moment, matrix), make_desc(TERN_U8, matrix.low()));
        const std::int64_t blocks = ops::adamw_8bit_blocks(num_elements(low));
        create_state(state(moment, matrix) + "/max", make_desc(TERN_F32, {blocks}));
      } else {
        create_state(state(moment, matrix), low);
      }
    }
  }

  [[nodiscard]] bool has_8_bits(const Matrix& matrix) const {
    return options_.quantised && num_elements(make_desc(TERN_F32, matrix.low())) >= kLeastIn8Bits;
  }

  // Steps that its projection is kept for.
  [[nodiscard]] std::int64_t gap_of(Matrix& matrix) const {
    if (!options_.quantised) return options_.update_proj_gap;
    if (!matrix.gap) {
      matrix.gap.emplace(options_, matrix.shorter());
      std::vector<float> kept(static_cast<std::size_t>(AdaptiveGap::state_size(options_, matrix.shorter())));
      store().download(state("gap", matrix), std::as_writable_bytes(std::span(kept)));
      matrix.gap->restore(kept);
    }
    return matrix.gap->gap();
  }

  // From the gradient as it is: clipping and loss scaling turn no vector.
  void find_projection(Matrix& matrix) {
    std::vector<float> gradient(static_cast<std::size_t>(matrix.rows * matrix.columns));
    store().download(gradient_name(matrix.name), std::as_writable_bytes(std::span(gradient)));
    const auto give = [&](const char* part, Side side) {
      const auto vectors = singular_vectors(gradient, matrix.rows, matrix.columns, side, matrix.rank);
      const std::string name = state(part, matrix);
      store().upload(name, projection_bytes(vectors, store().at(name).desc));
      if (matrix.gap) observe(matrix, vectors, side);
    };
    if (matrix.left) give("u", Side::left);
    if (matrix.right) give("v", Side::right);
  }

  // The leading one of the vectors, which are [rows, rank] or [rank, columns].
  void observe(Matrix& matrix, const std::vector<float>& vectors, Side side) {
    std::vector<float> leading(static_cast<std::size_t>(matrix.shorter()));
    const std::size_t stride = side == Side::left ? static_cast<std::size_t>(matrix.rank) : 1;
    for (std::size_t i = 0; i < leading.size(); ++i) leading[i] = vectors[i * stride];
    matrix.gap->observe(leading);
    const std::vector<float> kept = matrix.gap->state();
    store().upload(state("gap", matrix), std::as_bytes(std::span(kept)));
  }

  [[nodiscard]] Value left_vectors(graph::Graph& graph, const Matrix& matrix) const {
    return projection_value(graph, constant(graph, state("u", matrix)), matrix.rows, matrix.rank);
  }
  [[nodiscard]] Value right_vectors(graph::Graph& graph, const Matrix& matrix) const {
    return projection_value(graph, constant(graph, state("v", matrix)), matrix.rank, matrix.columns);
  }

  void adam_step(graph::Graph& graph, const Matrix& matrix, Value low, Value hyper) const {
    const Value param = resource(graph, state("low", matrix));
    const Value m = resource(graph, state("m1", matrix));
    const Value v = resource(graph, state("m2", matrix));
    if (!has_8_bits(matrix)) {
      ops::AdamwState states;
      states.param = param;
      states.m = m;
      states.v = v;
      (void)ops::adamw(graph, states, low, hyper, TERN_F32, kNeeds);
      return;
    }
    ops::Adamw8bitState states{param, m, v, resource(graph, state("m1", matrix) + "/max"),
                               resource(graph, state("m2", matrix) + "/max")};
    const ops::Adamw8bitCodes codes{constant(graph, "galore8/m_codes"), constant(graph, "galore8/v_codes")};
    (void)ops::adamw_8bit(graph, states, low, codes, hyper, kNeeds);
  }

  [[nodiscard]] graph::Graph project_graph() const {
    graph::Graph graph;
    std::map<std::string, Value> adam;
    for (const Matrix& matrix : matrices_) {
      const std::string input = matrix.adam();
      if (!adam.contains(input)) adam[input] = graph.input(input, make_desc(TERN_F32, {10}));
      Value low = gradient(graph, matrix.name);
      if (matrix.left) {
        low = ops::matmul(graph, left_vectors(graph, matrix), low, {.transpose_a = true, .needs = kNeeds});
      }
      if (matrix.right) {
        low = ops::matmul(graph, low, right_vectors(graph, matrix), {.transpose_b = true, .needs = kNeeds});
      }
      adam_step(graph, matrix, low, adam.at(input));
    }
    return graph;
  }

  [[nodiscard]] graph::Graph move_graph() const {
    graph::Graph graph;
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      const Matrix& matrix = matrices_[i];
      Value step = constant(graph, state("low", matrix));
      if (matrix.left) step = ops::matmul(graph, left_vectors(graph, matrix), step, {.needs = kNeeds});
      if (matrix.right) step = ops::matmul(graph, step, right_vectors(graph, matrix), {.needs = kNeeds});
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
