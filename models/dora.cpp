#include "models/dora.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/axpby.h"
#include "ops/dequantize.h"
#include "ops/matmul.h"
#include "ops/matmul_q.h"
#include "ops/mul.h"
#include "ops/row_sum.h"

namespace tern::models {
namespace {

using graph::Graph;
using ops::Value;

constexpr std::uint32_t kNeeds = TERN_NEED_DETERMINISTIC;

std::vector<float> floats(std::span<const std::byte> bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

Value squares_of_rows(Graph& graph, Value w) {
  if (is_quantised(graph.desc(w))) w = ops::dequantize(graph, w, TERN_F32, kNeeds);
  const Value squares = ops::mul(graph, w, w, {.needs = kNeeds});
  return ops::row_sum(graph, squares, {.axis = 1, .needs = kNeeds});
}

// x [rows, in] -> x w^T [rows, out] in fp32.
Value by_weight(Graph& graph, Value x, Value w) {
  if (is_quantised(graph.desc(w))) return ops::matmul_q(graph, x, w, {.needs = kNeeds});
  return ops::matmul(graph, x, w, {.transpose_b = true, .needs = kNeeds});
}

Value transposed(Graph& graph, Value x) {
  TensorDesc desc = graph.desc(x);
  std::swap(desc.shape[0], desc.shape[1]);
  std::swap(desc.strides[0], desc.strides[1]);
  return graph.view(x, desc, 0);
}

// A pair whose product is added to a weight, or taken off it.
struct Part {
  Value a;
  Value b;
  float scaling;
};

// What sum of s B A adds to |w|^2 of each row: the sum over parts p of b_p . (2 s_p A_p w + sum over parts q of
// s_p s_q A_p A_q^T b_q).
Value change_of_rows(Graph& graph, Value w, const std::vector<Part>& parts) {
  Value change;
  for (const Part& p : parts) {
    Value sum = transposed(graph, by_weight(graph, p.a, w));  // [out, rank]
    float factor = 2 * p.scaling;
    for (const Part& q : parts) {
      const Value inner = ops::matmul(graph, q.a, p.a, {.transpose_b = true, .needs = kNeeds});  // [rank, rank]
      const Value across = ops::matmul(graph, q.b, inner, {.needs = kNeeds});
      sum = ops::axpby(graph, across, sum, {.a = p.scaling * q.scaling, .b = factor, .needs = kNeeds});
      factor = 1;
    }
    const Value products = ops::mul(graph, p.b, sum, {.needs = kNeeds});
    change = ops::row_sum(graph, products, {.axis = 1, .into = change, .needs = kNeeds});
  }
  return change;
}

BuildProgram plain_build(const LoadedModel& model, accel::ChoiceCache& choices) {
  return [&](const Graph& graph) { return graph::Program::build(graph, model.store, choices, {}); };
}

}  // namespace

RowNorms::RowNorms(std::shared_ptr<graph::TensorStore> store, const Layers& layers, const BuildProgram& build)
    : store_(std::move(store)) {
  for (const auto& [module, layer] : layers) {
    if (!layer.magnitude.empty()) layers_[module] = layer;
  }
  const auto constant = [&](Graph& graph, const std::string& name) {
    return graph.constant(name, store_->at(name).desc);
  };
  {
    Graph graph;
    for (const auto& [module, layer] : layers_) {
      graph.output(module, squares_of_rows(graph, constant(graph, module + ".weight")));
    }
    const auto program = build(graph);  // goes at once, with the plain forms that it holds
    if (!store_->only_counts()) {
      program->run({});
      for (const auto& [module, layer] : layers_) squares_[module] = floats(program->output(module));
    }
  }
  Graph graph;
  for (const auto& [module, layer] : layers_) {
    std::vector<Part> parts = {{constant(graph, layer.lora_a), constant(graph, layer.lora_b), layer.scaling}};
    if (!layer.initial_a.empty()) {
      parts.push_back({constant(graph, layer.initial_a), constant(graph, layer.initial_b), -layer.scaling});
    }
    graph.output(module, change_of_rows(graph, constant(graph, module + ".weight"), parts));
  }
  changes_ = build(graph);
}

std::map<std::string, std::vector<double>> RowNorms::measure() {
  changes_->run({});
  std::map<std::string, std::vector<double>> out;
  for (const auto& [module, layer] : layers_) {
    const std::vector<float>& squares = squares_.at(module);
    const std::vector<float> changes = floats(changes_->output(module));
    std::vector<double>& norms = out[module];
    for (std::size_t row = 0; row < squares.size(); ++row) {
      norms.push_back(std::sqrt(std::max(0.0, static_cast<double>(squares[row]) + changes.at(row))));
    }
  }
  return out;
}

void RowNorms::refresh() {
  for (const auto& [module, norms] : measure()) {
    std::vector<float> inverse;
    for (const double norm : norms) inverse.push_back(static_cast<float>(1.0 / norm));
    store_->upload(layers_.at(module).inverse_norm, std::as_bytes(std::span(inverse)));
  }
}

bool has_magnitudes(const Layers& layers) {
  return std::any_of(layers.begin(), layers.end(), [](const auto& layer) { return !layer.second.magnitude.empty(); });
}

void refresh_norms(const LoadedModel& model, const Layers& layers) {
  if (!has_magnitudes(layers) || model.store->only_counts()) return;
  accel::ChoiceCache choices;
  RowNorms(model.store, layers, plain_build(model, choices)).refresh();
}

void begin_magnitudes(const LoadedModel& model, const Layers& layers) {
  if (!has_magnitudes(layers)) return;
  accel::ChoiceCache choices;
  RowNorms norms(model.store, layers, plain_build(model, choices));
  for (const auto& [module, values] : norms.measure()) {
    const std::vector<float> magnitudes(values.begin(), values.end());
    model.store->upload(layers.at(module).magnitude, std::as_bytes(std::span(magnitudes)));
  }
  norms.refresh();
}

}  // namespace tern::models
