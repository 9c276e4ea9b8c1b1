// A block of Phi-3 ("Phi-3 Technical Report", 2024): q, k and v are columns of one projection, gate and up of another.
// Its gradients are those of the same block with a projection each.
#include <gtest/gtest.h>

#include <set>

#include "ops/act_mul.h"
#include "ops/attention.h"
#include "ops/axpby.h"
#include "ops/matmul.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "tests/unit/graph/gradient_case.h"

namespace tern::test {
namespace {

constexpr std::int64_t kTokens = 8;  // capacity; 5 of them are there
constexpr std::int64_t kWide = 64;
constexpr std::int64_t kHeadSize = 32;  // 2 heads, 1 of keys
constexpr std::int64_t kRank = 4;

enum class Projections {
  split,   // a weight and an adapter each
  fused,   // one weight and one adapter
  slices,  // one weight; adapters of q and v alone are added to their columns
};

class Block {
 public:
  Block(Graph& graph, const Sources& sources, Projections kind) : graph_(graph), sources_(sources), kind_(kind) {}

  graph::Root build() {
    const Value x = graph_.input("x", tokens({kTokens, kWide}));
    const Value h = ops::axpby(graph_, attend(norm(x, "norm1")), x, {});
    const Value y = ops::axpby(graph_, feed_forward(norm(h, "norm2")), h, {});
    return {y, graph_.input("dy", tokens({kTokens, kWide}))};
  }

 private:
  static TensorDesc tokens(std::initializer_list<std::int64_t> shape, tern_dtype dtype = TERN_F32) {
    return with_dynamic(make_desc(dtype, shape), 0, 0);
  }

  Value norm(Value x, const std::string& name) { return ops::rms_norm(graph_, x, sources_.at(name), {}).y; }

  Value linear(Value x, Value weight, Value into = {}) {
    ops::MatmulOptions options;
    options.transpose_b = true;
    options.into = into;
    return ops::matmul(graph_, x, weight, options);
  }

  // x w^T + (x a^T) b^T, the latter into the columns `at` of the former where it is given.
  Value adapted(Value x, Value y, const std::string& a, const std::string& b) {
    return linear(linear(x, sources_.at(a)), sources_.at(b), y);
  }

  Value part(Value y, std::int64_t first, std::int64_t width) {
    TensorDesc desc = tokens({kTokens, width});
    desc.strides[0] = graph_.desc(y).strides[0];
    return graph_.view(y, desc, first);
  }

  Value heads(Value y, std::int64_t first, std::int64_t count) {
    TensorDesc desc = tokens({kTokens, count, kHeadSize});
    desc.strides[0] = graph_.desc(y).strides[0];
    return graph_.view(y, desc, first);
  }

  struct Qkv {
    Value q, k, v;
  };
  Qkv project(Value x) {
    if (kind_ == Projections::split) {
      const Value q = adapted(x, linear(x, sources_.at("q")), "attn_a", "q_b");
      const Value k = sources_.contains("k_b") ? adapted(x, linear(x, sources_.at("k")), "attn_a", "k_b")
                                               : linear(x, sources_.at("k"));
      const Value v = adapted(x, linear(x, sources_.at("v")), "attn_a", "v_b");
      return {heads(q, 0, 2), heads(k, 0, 1), heads(v, 0, 1)};
    }
    Value y = linear(x, sources_.at("qkv"));
    if (kind_ == Projections::fused) y = adapted(x, y, "attn_a", "qkv_b");
    if (kind_ == Projections::slices) {
      (void)adapted(x, part(y, 0, 64), "attn_a", "q_b");
      (void)adapted(x, part(graph_.latest(y), 96, 32), "attn_a", "v_b");
      y = graph_.latest(y);
    }
    return {heads(y, 0, 2), heads(y, 64, 1), heads(y, 96, 1)};
  }

  Value attend(Value x) {
    Qkv qkv = project(x);
    const Value positions = graph_.input("positions", tokens({kTokens}, TERN_I32));
    const Value bounds = graph_.input("bounds", make_desc(TERN_I32, {3}));
    const Value cos = graph_.input("cosine", make_desc(TERN_F32, {kTokens, kHeadSize / 2}));
    const Value sin = graph_.input("sin", make_desc(TERN_F32, {kTokens, kHeadSize / 2}));
    qkv.q = ops::rope(graph_, qkv.q, positions, cos, sin, {});
    qkv.k = ops::rope(graph_, qkv.k, positions, cos, sin, {});
    ops::AttentionOptions options;
    options.scale = 0.2F;
    options.max_seqlen_q = options.max_seqlen_k = kTokens;
    const Value out = ops::attention(graph_, qkv.q, qkv.k, qkv.v, bounds, bounds, options).out;
    return linear(graph_.view(out, tokens({kTokens, kWide}), 0), sources_.at("o"));
  }

  Value feed_forward(Value x) {
    Value gate;
    Value up;
    if (kind_ == Projections::split) {
      gate = adapted(x, linear(x, sources_.at("gate")), "mlp_a", "gate_b");
      up = adapted(x, linear(x, sources_.at("up")), "mlp_a", "up_b");
    } else {
      const Value y = adapted(x, linear(x, sources_.at("gate_up")), "mlp_a", "gate_up_b");
      gate = part(y, 0, 64);
      up = part(y, 64, 64);
    }
    return linear(ops::act_mul(graph_, gate, up, {}), sources_.at("down"));
  }

  Graph& graph_;
  const Sources& sources_;
  Projections kind_;
};

GradientCase block_case(Projections kind, bool adapts_k) {
  GradientCase out;
  out.name = "a block";
  out.shapes = {{"norm1", {kWide}},       {"norm2", {kWide}},         {"o", {kWide, kWide}},
                {"down", {kWide, kWide}}, {"attn_a", {kRank, kWide}}, {"mlp_a", {kRank, kWide}}};
  const auto add = [&](const std::string& name, std::int64_t rows, bool weight, bool adapter) {
    if (weight) out.shapes[name] = {rows, kWide};
    if (adapter) out.shapes[name + "_b"] = {rows, kRank};
  };
  const bool split = kind == Projections::split;
  add("qkv", 128, !split, kind == Projections::fused);
  add("q", 64, split, kind != Projections::fused);
  add("k", 32, split, split && adapts_k);
  add("v", 32, split, kind != Projections::fused);
  add("gate_up", 128, !split, !split);
  add("gate", 64, split, split);
  add("up", 64, split, split);
  out.build = [kind](Graph& g, const Sources& s) { return std::vector<graph::Root>{Block(g, s, kind).build()}; };
  out.count = 5;
  out.integers = {{"positions", {0, 1, 2, 0, 1}}, {"bounds", {0, 3, 5}}};
  return out;
}

// What stands in the rows of `whole` for each of the split names; present in both.
const std::map<std::string, std::vector<std::string>>& parts() {
  static const std::map<std::string, std::vector<std::string>> all = {{"qkv", {"q", "k", "v"}},
                                                                      {"qkv_b", {"q_b", "k_b", "v_b"}},
                                                                      {"gate_up", {"gate", "up"}},
                                                                      {"gate_up_b", {"gate_b", "up_b"}}};
  return all;
}

template <typename Get>
std::vector<float> joined(const std::vector<std::string>& names, const Get& get) {
  std::vector<float> out;
  for (const std::string& name : names) {
    const std::vector<float> part = get(name);
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

void expect_equal_gradients(GradientProgram& split, GradientProgram& fused, const GradientCase& made_of) {
  const auto names_of = [&](const std::string& name) {
    const auto found = parts().find(name);
    return found == parts().end() ? std::vector<std::string>{name} : found->second;
  };
  for (const auto& [name, shape] : made_of.shapes) {
    fused.put(name, joined(names_of(name), [&](const std::string& part) { return split.values(part); }));
  }
  ASSERT_NEAR(split.loss(), fused.loss(), 1e-4);
  for (const auto& [name, shape] : made_of.shapes) {
    const std::vector<float> expected =
        joined(names_of(name), [&](const std::string& part) { return split.gradient(part); });
    const std::vector<float> found = fused.gradient(name);
    const double allowed = 2e-5 * largest(expected);
    ASSERT_EQ(found.size(), expected.size()) << name;
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], allowed) << name << "[" << i << "]";
    }
  }
}

TEST(FusedProjections, TrainAsSplitOnesDo) {
  for (const Projections kind : {Projections::fused, Projections::slices}) {
    const GradientCase split_case = block_case(Projections::split, kind == Projections::fused);
    const GradientCase fused_case = block_case(kind, false);
    GradientProgram split(split_case, open_sim());
    for (const char* personality : {"discrete", "ascend", "graph", "embedded", "cpu"}) {
      const bool is_cpu = std::string(personality) == "cpu";
      const auto device =
          is_cpu ? accel::Device::open(load_plugin("cpu"), 0).value() : open_sim({{"TERN_SIM", personality}});
      for (const bool recompute : {false, true}) {
        SCOPED_TRACE(std::string(personality) + (recompute ? ", recomputed" : ""));
        GradientOptions options;
        options.recompute = recompute;
        GradientProgram fused(fused_case, device, options);
        expect_equal_gradients(split, fused, fused_case);
      }
    }
  }
}

TEST(FusedProjections, HaveSlopes) {
  const GradientCase made_of = block_case(Projections::slices, false);
  GradientProgram program(made_of, open_sim());
  expect_slopes(program, made_of);
}

// The gradient of a projection's output is written once, by the ops that give its parts.
TEST(FusedProjections, TakeNoTemporaryOfTheWhole) {
  const GradientProgram program(block_case(Projections::fused, true), open_sim());
  std::map<std::string, int> calls;
  const Graph live = graph::remove_dead_nodes(program.graph());
  for (const graph::Node& node : live.nodes()) {
    ++calls[std::string(ops::op_spec(node.call.op).name)];
  }
  EXPECT_EQ(calls["fill"], 0);
  EXPECT_EQ(calls["cast_copy"], 1);  // the root, as the test fetches it
  int wide = 0;
  std::set<std::int32_t> used;
  for (const graph::Node& node : live.nodes()) {
    for (Value result : node.results) {
      if (result.present()) used.insert(live.info(result).storage);
    }
  }
  for (std::int32_t s : used) {
    const graph::Storage& storage = live.storages()[static_cast<std::size_t>(s)];
    if (storage.kind == graph::StorageKind::intermediate && num_elements(storage.desc) == kTokens * 128) ++wide;
  }
  EXPECT_EQ(wide, 4);  // qkv, gate_up, and the gradient of each
}

}  // namespace
}  // namespace tern::test
