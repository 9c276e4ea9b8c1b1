// A small model built from ops alone, its weights and batches.
#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/differentiate.h"
#include "graph/program.h"
#include "ops/act_mul.h"
#include "ops/attention.h"
#include "ops/axpby.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/linear_cross_entropy.h"
#include "ops/matmul.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "tests/unit/backend_sim/sim_device.h"

namespace tern::test {

using graph::Graph;
using ops::Value;

struct TinyOptions {
  std::int64_t tokens = 16;  // capacity
  std::int64_t sequences = 3;
  bool train = true;
  bool recompute = false;
  float dropout = 0.0F;
  bool comm_lane = false;       // the residual sums run on the communication lane
  bool fused_residual = false;  // the last sum is the norm's own
  bool dynamic = true;
  bool sinks = false;  // of attention, trained
  int layers = 2;
};

// Names and shapes of the weights, and the gradients' resources behind "grad.".
class TinyModel {
 public:
  static constexpr std::int64_t kVocab = 29;
  static constexpr std::int64_t kWidth = 16;
  static constexpr std::int64_t kHeads = 4;
  static constexpr std::int64_t kKvHeads = 2;
  static constexpr std::int64_t kHeadDim = 4;
  static constexpr std::int64_t kInner = 24;
  static constexpr std::int64_t kPositions = 32;

  explicit TinyModel(const TinyOptions& options) : options_(options) { build(); }

  Graph graph;
  std::map<std::string, TensorDesc> weights;  // trained ones and tables
  std::vector<std::string> trained;

 private:
  Value weight(const std::string& name, std::initializer_list<std::int64_t> shape, bool is_trained = true) {
    const TensorDesc desc = make_desc(TERN_F32, shape);
    weights[name] = desc;
    if (is_trained) trained.push_back(name);
    values_[name] = graph.constant(name, desc);
    return values_[name];
  }

  [[nodiscard]] TensorDesc rows(tern_dtype dtype, std::initializer_list<std::int64_t> shape, int slot = 0) const {
    const TensorDesc desc = make_desc(dtype, shape);
    return options_.dynamic ? with_dynamic(desc, 0, slot) : desc;
  }

  Value heads(Value x, std::int64_t count) {
    return graph.view(x, rows(TERN_F32, {options_.tokens, count, kHeadDim}), 0);
  }

  Value linear(Value x, const std::string& name, std::int64_t out, std::int64_t in) {
    ops::MatmulOptions options;
    options.transpose_b = true;
    return ops::matmul(graph, x, weight(name, {out, in}), options);
  }

  // Normalises x, and what a layer has left to be added to it; `sum` becomes both.
  Value norm(Value& sum, const std::string& name) {
    ops::RmsNormOptions options;
    options.residual = std::exchange(residual_, {});
    const ops::RmsNormOut out = ops::rms_norm(graph, sum, weight(name, {kWidth}), options);
    sum = out.sum;
    return out.y;
  }

  Value add(Value x, Value y) {
    const Value sum = ops::axpby(graph, x, y, {});
    if (options_.comm_lane) graph.set_last_lane(graph::Lane::comm);
    return sum;
  }

  Value attend(Value x, const std::string& layer) {
    const Value normed = norm(x, layer + "norm1");
    Value q = heads(linear(normed, layer + "q", kWidth, kWidth), kHeads);
    Value k = heads(linear(normed, layer + "k", kKvHeads * kHeadDim, kWidth), kKvHeads);
    const Value v = heads(linear(normed, layer + "v", kKvHeads * kHeadDim, kWidth), kKvHeads);
    q = ops::rope(graph, q, positions_, cos_, sin_, {});
    k = ops::rope(graph, k, positions_, cos_, sin_, {});
    ops::AttentionOptions options;
    options.scale = 0.5F;
    options.max_seqlen_q = options.max_seqlen_k = static_cast<std::int32_t>(options_.tokens);
    if (options_.sinks) options.sinks = weight(layer + "sinks", {kHeads});
    const Value out = ops::attention(graph, q, k, v, cu_seqlens_, cu_seqlens_, options).out;
    const Value flat = graph.view(out, rows(TERN_F32, {options_.tokens, kWidth}), 0);
    return add(linear(flat, layer + "o", kWidth, kWidth), x);
  }

  Value feed_forward(Value x, const std::string& layer) {
    const Value normed = norm(x, layer + "norm2");
    const Value gate = linear(normed, layer + "gate", kInner, kWidth);
    const Value up = linear(normed, layer + "up", kInner, kWidth);
    Value inner = ops::act_mul(graph, gate, up, {});
    if (options_.dropout > 0.0F) {
      ops::DropoutOptions dropout;
      dropout.rate = options_.dropout;
      inner = ops::dropout(graph, inner, graph.find("keys"), dropout);
    }
    const Value out = linear(inner, layer + "down", kWidth, kInner);
    if (!options_.fused_residual) return add(out, x);
    residual_ = x;
    return out;
  }

  void build() {
    const std::int64_t t = options_.tokens;
    const Value ids = graph.input("ids", rows(TERN_I32, {t}));
    positions_ = graph.input("positions", rows(TERN_I32, {t}));
    cu_seqlens_ = graph.input("cu_seqlens", rows(TERN_I32, {options_.sequences + 1}, 1), graph::Padding::repeat_last);
    const Value targets = graph.input("targets", rows(TERN_I32, {t}), graph::Padding::minus_one);
    const Value row_weights = graph.input("weights", rows(TERN_F32, {t}));
    if (options_.dropout > 0.0F) (void)graph.input("keys", rows(TERN_I64, {t}));
    cos_ = weight("cos", {kPositions, kHeadDim / 2}, false);
    sin_ = weight("sin", {kPositions, kHeadDim / 2}, false);
    Value x = ops::embedding(graph, weight("embedding", {kVocab, kWidth}, false), ids, TERN_F32);
    std::vector<graph::RecomputeSegment> segments;
    for (int layer = 0; layer < options_.layers; ++layer) {
      const auto begin = static_cast<std::int32_t>(graph.nodes().size());
      const std::string prefix = "layer" + std::to_string(layer) + ".";
      x = feed_forward(attend(x, prefix), prefix);
      segments.push_back({begin, static_cast<std::int32_t>(graph.nodes().size())});
    }
    x = norm(x, "norm");
    graph.output("hidden", x);
    ops::LinearCrossEntropyOptions head;
    head.dh = head.dw = options_.train;
    const Value loss =
        ops::linear_cross_entropy(graph, x, weight("head", {kVocab, kWidth}), targets, row_weights, head).loss;
    if (options_.train) {
      std::vector<graph::GradTarget> grads;
      for (const std::string& name : trained) {
        grads.push_back({values_.at(name), graph.resource("grad." + name, weights.at(name))});
      }
      (void)graph::differentiate(graph, loss, grads,
                                 options_.recompute ? segments : std::vector<graph::RecomputeSegment>{});
    }
    graph.output("loss", loss);
  }

  TinyOptions options_;
  std::map<std::string, Value> values_;
  Value residual_;
  Value positions_;
  Value cu_seqlens_;
  Value cos_;
  Value sin_;
};

inline std::vector<float> weight_data(const std::string& name, const TensorDesc& desc) {
  std::vector<float> out(static_cast<std::size_t>(num_elements(desc)));
  std::uint64_t state = 1469598103934665603ULL;
  for (char c : name) state = (state ^ static_cast<std::uint64_t>(c)) * 1099511628211ULL;
  for (std::size_t i = 0; i < out.size(); ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const double uniform = static_cast<double>(state >> 11) * 0x1p-53;
    const double angle = static_cast<double>(i / 2) * (i % 2 == 0 ? 1.0 : 0.01);
    out[i] = static_cast<float>(name == "cos"   ? std::cos(angle)
                                : name == "sin" ? std::sin(angle)
                                                : (uniform - 0.5) * 0.8 + (name.find("norm") != name.npos ? 1.0 : 0.0));
  }
  return out;
}

struct Batch {
  std::vector<std::int32_t> ids, positions, cu_seqlens, targets;
  std::vector<float> weights;
  std::vector<std::int64_t> keys;

  // Sequences of those lengths; `first` numbers the first one, so that batches of other sequences differ.
  static Batch of(const std::vector<std::int32_t>& lengths, int first = 0) {
    Batch batch;
    batch.cu_seqlens = {0};
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      const int sequence = first + static_cast<int>(s);
      for (std::int32_t i = 0; i < lengths[s]; ++i) {
        batch.ids.push_back((7 * i + 13 * sequence + 3) % TinyModel::kVocab);
        batch.positions.push_back(i);
        batch.targets.push_back((5 * i + 11 * sequence + 1) % TinyModel::kVocab);
        batch.weights.push_back(i % 3 == 1 ? 0.0F : 0.125F);
        batch.keys.push_back(1000 * sequence + i);
      }
      batch.cu_seqlens.push_back(static_cast<std::int32_t>(batch.ids.size()));
    }
    return batch;
  }
};

}  // namespace tern::test
