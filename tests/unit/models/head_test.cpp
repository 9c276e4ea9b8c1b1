// The output projection beside its formula in fp64: what decoding samples from and what training learns from are one
// head.
#include "nn/head.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "graph/differentiate.h"
#include "graph/program.h"
#include "scratch_model.h"

namespace tern::models {
namespace {

constexpr std::int64_t kRows = 3, kHidden = 5, kVocab = 7;
constexpr std::int32_t kTargets[kRows] = {6, 0, 3};
constexpr float kWeights[kRows] = {0.5F, 0.0F, 2.0F};  // a row that is left out among them

std::vector<float> numbers(std::int64_t count, double phase) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i) + phase));
  return out;
}

std::vector<double> logits_of(const nn::Head& head, const std::vector<float>& rows, const std::vector<float>& w) {
  std::vector<double> out;
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t v = 0; v < kVocab; ++v) {
      double z = 0.0;
      for (std::size_t c = 0; c < kHidden; ++c) z += double{rows[r * kHidden + c]} * double{w[v * kHidden + c]};
      z *= head.scale;
      out.push_back(head.softcap > 0 ? head.softcap * std::tanh(z / head.softcap) : z);
    }
  }
  return out;
}

double loss_of(const nn::Head& head, const std::vector<float>& rows, const std::vector<float>& w) {
  const std::vector<double> z = logits_of(head, rows, w);
  double loss = 0.0;
  for (std::size_t r = 0; r < kRows; ++r) {
    double sum = 0.0;
    for (std::size_t v = 0; v < kVocab; ++v) sum += std::exp(z[r * kVocab + v]);
    loss += kWeights[r] * (std::log(sum) - z[r * kVocab + static_cast<std::size_t>(kTargets[r])]);
  }
  return loss;
}

// The slope of loss_of at each number of `at`, which `loss` reads.
std::vector<double> slopes(std::vector<float>& at, const std::function<double()>& loss) {
  constexpr float kStep = 0x1p-10F;
  std::vector<double> out;
  for (float& x : at) {
    const float before = x;
    x = before + kStep;
    const double above = loss();
    const double right = x;
    x = before - kStep;
    out.push_back((above - loss()) / (right - x));
    x = before;
  }
  return out;
}

class HeadTest : public testing::TestWithParam<nn::Head> {
 protected:
  HeadTest() {
    put("rows", {kRows, kHidden}, rows_);
    put("w", {kVocab, kHidden}, w_);
    for (const char* name : {"rows", "w"}) {
      store_->create(std::string("d") + name, store_->at(name).desc);
      store_->fill_zero(std::string("d") + name);
    }
  }
  void put(const std::string& name, const std::vector<std::int64_t>& shape, const std::vector<float>& values) {
    store_->create(name, make_desc(TERN_F32, shape));
    store_->upload(name, std::as_bytes(std::span(values)));
  }
  void run(const graph::Graph& graph, const graph::RunInputs& inputs = {}) {
    program_ = graph::Program::build(graph, store_, choices_, {});
    program_->run(inputs);
  }
  [[nodiscard]] std::vector<float> output(const std::string& name) const {
    const auto bytes = program_->output(name);
    std::vector<float> out(bytes.size() / sizeof(float));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  void expect_near(const std::string& stored, const std::vector<double>& want) {
    std::vector<float> got(want.size());
    store_->download(stored, std::as_writable_bytes(std::span(got)));
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-5) << stored << "[" << i << "]";
  }

  std::vector<float> rows_ = numbers(kRows * kHidden, 0.3);
  std::vector<float> w_ = numbers(kVocab * kHidden, 1.1);
  std::shared_ptr<graph::TensorStore> store_ = std::make_shared<graph::TensorStore>(cpu_device());
  accel::ChoiceCache choices_;
  std::unique_ptr<graph::Program> program_;
};

TEST_P(HeadTest, LogitsAreTheFormulas) {
  graph::Graph graph;
  nn::Context context(graph, *store_, {});
  graph.output("logits", nn::logits(context, GetParam(), context.weight("rows")));
  run(graph);
  const std::vector<double> want = logits_of(GetParam(), rows_, w_);
  const std::vector<float> got = output("logits");
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-6) << i;
}

TEST_P(HeadTest, LossAndGradientsAreTheFormulas) {
  const nn::Head head = GetParam();
  graph::Graph graph;
  nn::BuildOptions build;
  build.training = true;
  nn::Context context(graph, *store_, build);
  const ops::Value rows = context.weight("rows");
  const ops::Value drows = graph.resource("drows", make_desc(TERN_F32, {kRows, kHidden}));
  const ops::Value dw = graph.resource("dw", make_desc(TERN_F32, {kVocab, kHidden}));
  ops::LinearCrossEntropyOptions options;
  options.dh = options.dw = true;
  options.dw_into = dw;
  const ops::Value targets = graph.input("targets", make_desc(TERN_I32, {kRows}));
  const ops::Value weights = graph.input("weights", make_desc(TERN_F32, {kRows}));
  const ops::Value loss = nn::cross_entropy(context, head, rows, targets, weights, options).loss;
  graph.output("loss", loss);
  (void)graph::differentiate(graph, std::vector<graph::Root>{{loss, {}}},
                             std::vector<graph::GradTarget>{{rows, drows}, {context.weight("w"), dw}}, {});
  graph::RunInputs inputs;
  inputs.inputs = {{"targets", std::as_bytes(std::span(kTargets))}, {"weights", std::as_bytes(std::span(kWeights))}};
  run(graph, inputs);
  const auto formula = [&] { return loss_of(head, rows_, w_); };
  EXPECT_NEAR(output("loss").at(0), formula(), 1e-5);
  expect_near("drows", slopes(rows_, formula));
  expect_near("dw", slopes(w_, formula));
}

INSTANTIATE_TEST_SUITE_P(Heads, HeadTest,
                         testing::Values(nn::Head{"w"}, nn::Head{"w", 0.375F}, nn::Head{"w", 1.0F, 1.5F},
                                         nn::Head{"w", 2.5F, 0.75F}),
                         [](const auto& tested) {
                           return std::string(tested.param.scale == 1.0F ? "Plain" : "Scaled") +
                                  (tested.param.softcap > 0.0F ? "Capped" : "");
                         });

}  // namespace
}  // namespace tern::models
