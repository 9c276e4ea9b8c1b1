// Gradients through activations, causal convolutions, the gated delta rule and selective scans, several sequences in
// one batch and rows that belong to none, against slopes.
#include <gtest/gtest.h>

#include "ops/act.h"
#include "ops/act_mul.h"
#include "ops/axpby.h"
#include "ops/causal_conv1d.h"
#include "ops/gated_delta_rule.h"
#include "ops/selective_scan.h"
#include "ops/sum_squares.h"
#include "tests/unit/graph/gradient_case.h"

namespace tern::test {
namespace {

using RecurrentRoots = std::vector<graph::Root>;

constexpr std::int64_t kAllRows = 9;
const std::map<std::string, std::vector<std::int32_t>> kBounds = {{"bounds", {0, 5, 5, 8}}};

Value recurrent_bounds(Graph& g) { return g.input("bounds", make_desc(TERN_I32, {4})); }
Value activated(Graph& g, Value x, tern_act kind) { return ops::act(g, x, {.kind = kind}); }
Value scaled_by(Graph& g, Value x, float factor) {
  ops::AxpbyOptions options;
  options.a = factor;
  return ops::axpby(g, x, {}, options);
}
Value sum_of_squares(Graph& g, Value x) { return ops::sum_squares(g, x); }

Value convolved(Graph& g, const Sources& s, Value bias) {
  return ops::causal_conv1d(g, s.at("x"), s.at("w"), recurrent_bounds(g), {.bias = bias, .max_seqlen = 5}).y;
}

// Decays and betas as models make them: of any number.
Value delta_rule(Graph& g, const Sources& s) {
  const Value decay = scaled_by(g, activated(g, s.at("decay"), TERN_ACT_SOFTPLUS), -0.5F);
  const ops::GatedDeltaRuleInputs inputs = {
      s.at("q"), s.at("k"), s.at("v"), decay, activated(g, s.at("beta"), TERN_ACT_SIGMOID), recurrent_bounds(g)};
  return ops::gated_delta_rule(g, inputs, {.scale = 0.7F, .max_seqlen = 5}).out;
}

std::map<std::string, std::vector<std::int64_t>> delta_shapes(std::int64_t k_heads, std::int64_t heads) {
  return {{"q", {kAllRows, k_heads, 6}},
          {"k", {kAllRows, k_heads, 6}},
          {"v", {kAllRows, heads, 5}},
          {"decay", {kAllRows, heads}},
          {"beta", {kAllRows, heads}}};
}

// Steps and rates as models make them: of any number.
Value scanned(Graph& g, const Sources& s) {
  const Value rate = scaled_by(g, activated(g, s.at("a"), TERN_ACT_EXP), -0.5F);
  const Value d = s.contains("d") ? s.at("d") : Value{};
  const Value dt = activated(g, s.at("dt"), TERN_ACT_SOFTPLUS);
  const ops::SelectiveScanInputs inputs = {s.at("x"), dt, rate, s.at("b"), s.at("c"), d, recurrent_bounds(g)};
  return ops::selective_scan(g, inputs, {.max_seqlen = 5}).out;
}

std::map<std::string, std::vector<std::int64_t>> scan_shapes(std::int64_t groups, std::int64_t heads) {
  return {{"x", {kAllRows, heads, 5}},  {"dt", {kAllRows, heads}},    {"a", {heads}},
          {"b", {kAllRows, groups, 6}}, {"c", {kAllRows, groups, 6}}, {"d", {heads}}};
}

std::vector<GradientCase> recurrent_cases() {
  std::vector<GradientCase> all;
  for (const tern_act kind : {TERN_ACT_SILU, TERN_ACT_GELU_TANH, TERN_ACT_GELU_ERF, TERN_ACT_SIGMOID, TERN_ACT_SOFTPLUS,
                              TERN_ACT_EXP, TERN_ACT_QUICK_GELU}) {
    all.push_back({"an activation", {{"x", {4, 64}}}, [kind](Graph& g, const Sources& s) {
                     return RecurrentRoots{{sum_of_squares(g, activated(g, scaled_by(g, s.at("x"), 2.0F), kind)), {}}};
                   }});
  }
  all.push_back({"a gated unit within a limit",
                 {{"gate", {3, 8}}, {"up", {3, 8}}},  // none within a step of the limit, where there is no slope
                 [](Graph& g, const Sources& s) {
                   ops::ActMulOptions options;
                   options.kind = TERN_ACT_QUICK_GELU;
                   options.limit = 0.63F;
                   options.up_offset = 1.0F;
                   return RecurrentRoots{{sum_of_squares(g, ops::act_mul(g, s.at("gate"), s.at("up"), options)), {}}};
                 }});
  all.push_back({"a convolution with a bias",
                 {{"x", {kAllRows, 7}}, {"w", {7, 4}}, {"b", {7}}},
                 [](Graph& g, const Sources& s) {
                   return RecurrentRoots{{sum_of_squares(g, convolved(g, s, s.at("b"))), {}}};
                 },
                 0,
                 kBounds});
  all.push_back({"a convolution, and an activation of it",
                 {{"x", {kAllRows, 7}}, {"w", {7, 3}}},
                 [](Graph& g, const Sources& s) {
                   return RecurrentRoots{{sum_of_squares(g, activated(g, convolved(g, s, {}), TERN_ACT_SILU)), {}}};
                 },
                 0,
                 kBounds});
  for (const std::int64_t heads : {2, 6}) {
    all.push_back({heads == 2 ? "a gated delta rule" : "a gated delta rule whose heads share keys",
                   delta_shapes(2, heads),
                   [](Graph& g, const Sources& s) {
                     return RecurrentRoots{{sum_of_squares(g, delta_rule(g, s)), {}}};
                   },
                   0, kBounds});
  }
  all.push_back({"a gated delta rule whose gradient the host gives", delta_shapes(1, 3),
                 [](Graph& g, const Sources& s) {
                   return RecurrentRoots{{delta_rule(g, s), host_made(g, "dout", {kAllRows, 3, 5})}};
                 },
                 0, kBounds});
  for (const std::int64_t heads : {2, 6}) {
    all.push_back({heads == 2 ? "a selective scan" : "a selective scan whose heads share groups", scan_shapes(2, heads),
                   [](Graph& g, const Sources& s) {
                     return RecurrentRoots{{sum_of_squares(g, scanned(g, s)), {}}};
                   },
                   0, kBounds});
  }
  std::map<std::string, std::vector<std::int64_t>> unskipped = scan_shapes(1, 11);
  unskipped.erase("d");
  all.push_back({"a selective scan of many heads that skips nothing, whose gradient the host gives", unskipped,
                 [](Graph& g, const Sources& s) {
                   return RecurrentRoots{{scanned(g, s), host_made(g, "dout", {kAllRows, 11, 5})}};
                 },
                 0, kBounds});
  return all;
}

TEST(GradientRecurrent, AreSlopes) {
  const auto cpu = accel::Device::open(load_plugin("cpu"), 0).value();
  for (const GradientCase& made_of : recurrent_cases()) {
    SCOPED_TRACE(made_of.name);
    for (const accel::DevicePtr& device : {open_sim(), cpu}) {
      GradientProgram program(made_of, device);
      expect_slopes(program, made_of);
    }
  }
}

TEST(GradientRecurrent, AreTheSameWhenComputedAgain) {
  for (const GradientCase& made_of : recurrent_cases()) {
    SCOPED_TRACE(made_of.name);
    GradientProgram kept(made_of, open_sim());
    GradientOptions options;
    options.recompute = true;
    GradientProgram recomputed(made_of, open_sim({{"TERN_SIM", "ascend"}}), options);
    (void)kept.loss();
    (void)recomputed.loss();
    for (const auto& [name, shape] : made_of.shapes) {
      const std::vector<float> a = kept.gradient(name);
      const std::vector<float> b = recomputed.gradient(name);
      for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5 * largest(a)) << name << "[" << i << "]";
    }
  }
}

// A step after the other, from the state that the one before left, gives what all rows at once do; a seat that somebody
// used before is forgotten where a sequence begins.
class Stepped {
 public:
  explicit Stepped(std::int64_t capacity) : store_(std::make_shared<graph::TensorStore>(device_)) {
    Graph g;
    const auto rows = [&](const char* name, std::vector<std::int64_t> rest) {
      rest.insert(rest.begin(), capacity);
      return g.input(name, with_dynamic(make_desc(TERN_F32, rest), 0, 0));
    };
    const Value cu = g.input("bounds", make_desc(TERN_I32, {2}));
    const ops::RecurrentState before = {g.input("kv_lens", make_desc(TERN_I32, {1})),
                                        g.input("seats", make_desc(TERN_I32, {1})),
                                        g.resource("state", make_desc(TERN_F32, {3, 2, 4, 5}))};
    const ops::RecurrentState rows_before = {before.kv_lens, before.seats,
                                             g.resource("rows_before", make_desc(TERN_F32, {3, 2, 10}))};
    const Value w = g.constant("w", make_desc(TERN_F32, {10, 3}));
    const auto length = static_cast<std::int32_t>(capacity);
    const ops::CausalConv1dOut conv =
        ops::causal_conv1d(g, rows("x", {10}), w, cu, {.max_seqlen = length, .before = rows_before});
    const Value v = g.view(conv.y, with_dynamic(make_desc(TERN_F32, {capacity, 2, 5}), 0, 0), 0);
    const ops::GatedDeltaRuleOut delta =
        ops::gated_delta_rule(g, {rows("q", {1, 4}), rows("k", {1, 4}), v, rows("decay", {2}), rows("beta", {2}), cu},
                              {.scale = 0.5F, .max_seqlen = length, .before = before});
    const ops::RecurrentState scan_before = {before.kv_lens, before.seats,
                                             g.resource("scan_state", make_desc(TERN_F32, {3, 2, 4, 5}))};
    const ops::SelectiveScanInputs scan = {
        delta.out, rows("dt", {2}), g.constant("a", make_desc(TERN_F32, {2})), rows("b", {1, 4}), rows("c", {1, 4}), {},
        cu};
    g.output("out", ops::selective_scan(g, scan, {.max_seqlen = length, .before = scan_before}).out);
    for (const auto& [name, shape] : std::map<std::string, std::vector<std::int64_t>>{{"state", {3, 2, 4, 5}},
                                                                                      {"rows_before", {3, 2, 10}},
                                                                                      {"scan_state", {3, 2, 4, 5}},
                                                                                      {"a", {2}},
                                                                                      {"w", {10, 3}}}) {
      const TensorDesc desc = make_desc(TERN_F32, shape);
      store_->create(name, desc);
      // Not zeros: a new sequence must not see them.
      std::vector<float> values = wave(static_cast<std::size_t>(num_elements(desc)), 2.0);
      if (name == "a") values = {-0.1F, -0.7F};
      store_->upload(name, bytes_of(values));
    }
    program_ = graph::Program::build(g, store_, choices_, {});
  }

  // Rows [begin, end) of a sequence that began with row 0.
  std::vector<float> run(std::int32_t begin, std::int32_t end) {
    const std::int32_t count = end - begin;
    const std::vector<std::int32_t> cu = {0, count};
    const std::vector<std::int32_t> kv_lens = {end};
    const std::vector<std::int32_t> seats = {2};
    std::map<std::string, std::vector<float>> values;
    for (const auto& [name, width] : std::map<std::string, std::size_t>{
             {"x", 10}, {"q", 4}, {"k", 4}, {"decay", 2}, {"beta", 2}, {"dt", 2}, {"b", 4}, {"c", 4}}) {
      std::vector<float> all = wave(static_cast<std::size_t>(end) * width, static_cast<double>(name[0]));
      for (float& x : all) x = name == "decay" ? -x * x : name == "beta" ? 0.5F + x : name == "dt" ? x * x : x;
      values[name].assign(all.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(begin) * width),
                          all.end());
    }
    graph::RunInputs inputs;
    inputs.inputs = {{"bounds", bytes_of(cu)}, {"kv_lens", bytes_of(kv_lens)}, {"seats", bytes_of(seats)}};
    for (const auto& [name, rows] : values) inputs.inputs[name] = bytes_of(rows);
    inputs.counts[0] = count;
    program_->run(inputs);
    const auto bytes = program_->output("out");
    std::vector<float> out(static_cast<std::size_t>(count) * 10);
    std::copy_n(bytes.begin(), out.size() * sizeof(float), writable_bytes_of(out).begin());
    return out;
  }

 private:
  accel::DevicePtr device_ = accel::Device::open(load_plugin("cpu"), 0).value();
  std::shared_ptr<graph::TensorStore> store_;
  accel::ChoiceCache choices_;
  std::unique_ptr<graph::Program> program_;
};

TEST(Recurrent, StepsGiveWhatAllRowsAtOnceGive) {
  constexpr std::int32_t kLength = 150;  // more than a block of rows
  Stepped whole(kLength);
  const std::vector<float> expected = whole.run(0, kLength);
  EXPECT_EQ(whole.run(0, kLength), expected) << "a sequence that begins reads its seat";
  Stepped stepped(kLength);
  std::vector<float> found;
  std::int32_t begin = 0;
  for (const std::int32_t end : {1, 2, 4, 70, 71, 149, 150}) {
    const std::vector<float> part = stepped.run(begin, end);
    found.insert(found.end(), part.begin(), part.end());
    begin = end;
  }
  EXPECT_EQ(found, expected);  // to the bit
}

}  // namespace
}  // namespace tern::test
