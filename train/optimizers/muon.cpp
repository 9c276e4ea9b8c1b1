// Muon (Jordan et al., 2024) as Moonlight scales it (Liu et al., "Muon is Scalable for LLM Training", 2025): the
// momentum of a matrix, orthogonalised by five steps of Newton and Schulz, moves it at 0.2 sqrt(max(rows, columns))
// times the rate, which gives its change the size of AdamW's. All of it is products and sums that every device has.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/strings.h"
#include "ops/axpby.h"
#include "ops/matmul.h"
#include "ops/scale.h"
#include "ops/sgd.h"
#include "ops/sum_squares.h"
#include "train/optimizers/update_rule.h"

namespace tern::train {
namespace {

using ops::Value;

constexpr std::uint32_t kNeeds = TERN_NEED_DETERMINISTIC;
constexpr float kA = 3.4445F;
constexpr float kB = -4.7750F;
constexpr float kC = 2.0315F;
constexpr double kLeastNorm = 1e-7;

// U V^T of x's singular values, more or less; its norm is at most 1.
Value orthogonalised(graph::Graph& graph, Value x, std::int64_t steps) {
  const TensorDesc& desc = graph.desc(x);
  const bool tall = desc.shape[0] > desc.shape[1];
  for (std::int64_t i = 0; i < steps; ++i) {
    // The smaller Gram matrix, which is symmetric: a matrix that is tall is taken as its transpose.
    const Value gram = ops::matmul(graph, x, x, {.transpose_a = tall, .transpose_b = !tall, .needs = kNeeds});
    const Value square = ops::matmul(graph, gram, gram, {.needs = kNeeds});
    const Value factor = ops::axpby(graph, square, gram, {.a = kC, .b = kB, .needs = kNeeds});
    const Value product =
        tall ? ops::matmul(graph, x, factor, {.needs = kNeeds}) : ops::matmul(graph, factor, x, {.needs = kNeeds});
    x = ops::axpby(graph, product, x, {.a = 1.0F, .b = kA, .needs = kNeeds});
  }
  return x;
}

class Muon : public UpdateRule {
 public:
  Muon(const RuleContext& context, const std::vector<std::string>& parameters)
      : UpdateRule(context.store, parameters), options_(context.options.muon) {
    for (const std::string& name : parameters) {
      create_state(buffer(name), make_desc(TERN_F32, shape_of(store().at(name).desc)));
    }
  }

 private:
  void build(const RuleContext& context, const std::vector<std::string>& parameters) override {
    active_ = parameters;
    groups_.clear();
    for (const std::string& name : parameters) groups_.push_back(group_of(name, context));
    gather_ = context.runtime.build(gather_graph(), context.store, context.arena);
    move_ = context.runtime.build(move_graph(), context.store, context.arena);
  }

  void drop_programs() override {
    gather_.reset();
    move_.reset();
  }

  void run(const OptimizerStep& step) override {
    const auto scale = static_cast<float>(step.grad_scale);
    // buf = momentum buf + g
    const std::vector<float> join = {-1.0F, static_cast<float>(options_.momentum), 0, 0, 0, 1.0F, 0, scale};
    graph::RunInputs gathered;
    gathered.inputs["join"] = std::as_bytes(std::span(join));
    gathered.inputs["grad_scale"] = std::as_bytes(std::span(&scale, 1));
    gather_->run(gathered);
    graph::RunInputs inputs;
    inputs.inputs["grad_scale"] = std::as_bytes(std::span(&scale, 1));
    std::vector<float> factors(active_.size());
    std::vector<std::vector<float>> moves(active_.size());
    for (std::size_t i = 0; i < active_.size(); ++i) {
      float squares = 0;
      std::memcpy(&squares, gather_->output(cat("squares/", i)).data(), sizeof(squares));
      factors[i] = static_cast<float>(1.0 / std::max(std::sqrt(static_cast<double>(squares)), kLeastNorm));
      const double lr = groups_[i].own(step).lr;
      const TensorDesc& desc = store().at(active_[i]).desc;
      const auto longest = static_cast<double>(std::max(desc.shape[0], desc.shape[1]));
      moves[i] = {static_cast<float>(lr * 0.2 * std::sqrt(longest)),
                  static_cast<float>(1.0 - lr * groups_[i].weight_decay),
                  0,
                  0,
                  0,
                  1.0F,
                  0,
                  1.0F};
      inputs.inputs[cat("factor/", i)] = std::as_bytes(std::span(&factors[i], 1));
      inputs.inputs[cat("move/", i)] = std::as_bytes(std::span(moves[i]));
    }
    move_->run(inputs);
  }

  [[nodiscard]] static std::string buffer(const std::string& parameter) { return "muon_momentum/" + parameter; }

  // What is orthogonalised: the momentum, or Nesterov's g + momentum buf.
  [[nodiscard]] Value direction(graph::Graph& graph, Value grad, Value buf, Value grad_scale) const {
    if (!options_.nesterov) return buf;
    const Value g = ops::scale(graph, grad, grad_scale, {.needs = kNeeds});
    return ops::axpby(graph, g, buf, {.a = 1.0F, .b = static_cast<float>(options_.momentum), .needs = kNeeds});
  }

  // The momentum takes the gradient in; the host learns each direction's norm.
  [[nodiscard]] graph::Graph gather_graph() const {
    graph::Graph graph;
    const Value join = graph.input("join", make_desc(TERN_F32, {8}));
    const Value grad_scale = graph.input("grad_scale", make_desc(TERN_F32, {1}));
    for (std::size_t i = 0; i < active_.size(); ++i) {
      const std::string& name = active_[i];
      const Value grad = gradient(graph, name);
      const ops::SgdState next = ops::sgd(graph, {resource(graph, buffer(name)), {}}, grad, join, kNeeds);
      const Value taken = direction(graph, grad, next.param, grad_scale);
      graph.output(cat("squares/", i), ops::sum_squares(graph, taken, {}, kNeeds));
    }
    return graph;
  }

  [[nodiscard]] graph::Graph move_graph() const {
    graph::Graph graph;
    const Value grad_scale = graph.input("grad_scale", make_desc(TERN_F32, {1}));
    for (std::size_t i = 0; i < active_.size(); ++i) {
      const std::string& name = active_[i];
      const Value factor = graph.input(cat("factor/", i), make_desc(TERN_F32, {1}));
      const Value move = graph.input(cat("move/", i), make_desc(TERN_F32, {8}));
      const Value grad = options_.nesterov ? gradient(graph, name) : Value();
      const Value taken = direction(graph, grad, constant(graph, buffer(name)), grad_scale);
      const Value small = ops::scale(graph, taken, factor, {.needs = kNeeds});
      const Value step = orthogonalised(graph, small, options_.ns_steps);
      (void)ops::sgd(graph, {resource(graph, name), {}}, step, move, kNeeds);
    }
    return graph;
  }

  MuonOptions options_;
  std::vector<std::string> active_;     // that the programs change
  std::vector<ParameterGroup> groups_;  // of each parameter
  std::unique_ptr<graph::Program> gather_;
  std::unique_ptr<graph::Program> move_;
};

}  // namespace

std::unique_ptr<UpdateRule> muon_rule(const RuleContext& context, const std::vector<std::string>& parameters) {
  return std::make_unique<Muon>(context, parameters);
}

}  // namespace tern::train
