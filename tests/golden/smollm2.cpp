// SmolLM2 from its GGUF against transformers' load of the same file: the divergence of next-token distributions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "cli/session_flags.h"
#include "engine/cache_engine.h"
#include "golden.h"
#include "session/model_dtype.h"

namespace tern::golden {
namespace {

constexpr double kExact = 1e-5;    // products in fp32
constexpr double kShipped = 1e-3;  // as tern computes unless told otherwise; PyTorch's bfloat16 is at 1.1e-3

double log_sum_exp(const std::vector<double>& values) {
  const double top = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (const double value : values) sum += std::exp(value - top);
  return top + std::log(sum);
}

// KL(p || q) of the distributions that logits make.
double divergence_of(const std::vector<double>& p, const std::vector<double>& q) {
  const double log_p = log_sum_exp(p);
  const double log_q = log_sum_exp(q);
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) sum += std::exp(p[i] - log_p) * (p[i] - log_p - q.at(i) + log_q);
  return sum;
}

class SmolLM2 : public testing::Test {
 protected:
  void SetUp() override {
    const auto path = session::resolve_model("smollm2-135m");
    if (!path.ok()) GTEST_SKIP() << path.error().line();
    model_ = load(path.value());
  }

  // Mean over `positions` of KL(transformers || tern). A distribution is seen through the fixture's 256 likeliest ids,
  // one by one, and the rest in classes of id modulo the number of classes.
  [[nodiscard]] double divergence(std::span<const float> logits) const {
    const auto top = numbers_.ints("top");
    const auto top_logprobs = numbers_.floats("top_logprobs");
    const auto class_logprobs = numbers_.floats("class_logprobs");
    const auto rows = static_cast<std::size_t>(numbers_.shape("top").at(0));
    const auto count = static_cast<std::size_t>(numbers_.shape("top").at(1));
    const auto classes = static_cast<std::size_t>(numbers_.shape("class_logprobs").at(1));
    const auto vocab = static_cast<std::size_t>(model_.config.vocab_size);
    if (logits.size() != rows * vocab) return std::numeric_limits<double>::infinity();
    double total = 0;
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<double> values(logits.begin() + static_cast<std::ptrdiff_t>(row * vocab),
                                 logits.begin() + static_cast<std::ptrdiff_t>((row + 1) * vocab));
      const double normalizer = log_sum_exp(values);
      double sum = 0;
      const auto add = [&](double p, double q) { sum += std::exp(p) * (p - q); };
      for (std::size_t i = row * count; i < (row + 1) * count; ++i) {
        auto& value = values.at(static_cast<std::size_t>(top[i]));
        add(top_logprobs[i], value - normalizer);
        value = -std::numeric_limits<double>::infinity();
      }
      for (std::size_t c = 0; c < classes; ++c) {
        std::vector<double> members;
        for (std::size_t id = c; id < vocab; id += classes) members.push_back(values[id]);
        add(class_logprobs[row * classes + c], log_sum_exp(members) - normalizer);
      }
      total += sum;
    }
    return total / static_cast<double>(rows);
  }

  [[nodiscard]] double prefill(tern_dtype compute) {
    return divergence(prefill_logits(model_, tokens_, numbers_.ints("positions"), compute));
  }
  [[nodiscard]] double token_by_token(tern_dtype compute, tern_dtype cache) {
    const auto all = paged_logits(model_, tokens_, {1}, compute, {}, cache);
    const auto vocab = static_cast<std::ptrdiff_t>(model_.config.vocab_size);
    std::vector<float> chosen;
    for (const std::int32_t position : numbers_.ints("positions"))
      chosen.insert(chosen.end(), all.begin() + position * vocab, all.begin() + (position + 1) * vocab);
    return divergence(chosen);
  }
  void expect_below(double measured, double limit) {
    std::printf("mean KL per token %.3g, limit %g\n", measured, limit);
    EXPECT_LT(measured, limit);
    // A divergence: below zero only as the fixture's log-probabilities are rounded to fp32, and those that weigh
    // anything are above -16.
    EXPECT_GT(measured, -16 * 0x1p-24);
  }
  Numbers numbers_{fixture("smollm2.safetensors")};
  std::vector<std::int32_t> tokens_ = numbers_.ints("tokens");
  models::LoadedModel model_;
};

TEST_F(SmolLM2, PrefillInFp32) { expect_below(prefill(TERN_F32), kExact); }
TEST_F(SmolLM2, TokenByTokenInFp32) { expect_below(token_by_token(TERN_F32, TERN_F32), kExact); }
// As tern computes unless told otherwise: norms rounded to bf16 too.
class SmolLM2Shipped : public SmolLM2 {
 protected:
  void SetUp() override {
    SmolLM2::SetUp();
    if (IsSkipped()) return;
    const tern_dtype dtype = session::model_dtype(model_.config, *model_.source);
    ASSERT_EQ(dtype, TERN_BF16);
    model_ = load(model_.source->path(), false, dtype);
    compute_ = session::compute_dtype(model_.store->device()->info(), dtype);
  }
  tern_dtype compute_ = TERN_F32;
};

TEST_F(SmolLM2Shipped, Prefill) { expect_below(prefill(compute_), kShipped); }
TEST_F(SmolLM2Shipped, TokenByToken) { expect_below(token_by_token(compute_, TERN_BF16), kShipped); }

// An adapter that `tern sft` wrote: PEFT took its tensors bit by bit, and computed these logits with it.
TEST_F(SmolLM2, PeftsLogitsWithAnAdapterOfTern) {
  const auto folder = fixture("smollm2-adapter");
  const auto adapter = models::load_adapter(model_, "lora", folder).value();
  const Numbers peft(folder / "peft.safetensors");
  const auto logits = prefill_logits(model_, peft.ints("tokens"), peft.ints("positions"), TERN_F32, adapter.layers);
  const auto vocab = static_cast<std::size_t>(model_.config.vocab_size);
  std::vector<float> chosen;
  for (std::size_t row = 0; row < peft.ints("positions").size(); ++row) {
    for (const std::int32_t id : peft.ints("ids"))
      chosen.push_back(logits.at(row * vocab + static_cast<std::size_t>(id)));
  }
  EXPECT_LE(max_difference(chosen, peft.floats("logits")), 1e-4);
}

// The table of embeddings, which is the head too, takes seven times what the device allocates at a time.
TEST_F(SmolLM2, InPartsOnADeviceOfEightMebibytesAtATime) {
  ASSERT_EQ(::setenv("TERN_SIM", "embedded", 1), 0);
  auto device = accel::Device::open(accel::Backend::load(TERN_SIM_PLUGIN).value(), 0).value();
  ASSERT_EQ(::unsetenv("TERN_SIM"), 0);
  ASSERT_EQ(device->info().largest_allocation_bytes, std::uint64_t{8} << 20);
  models::LoadOptions options;
  options.dtype = TERN_BF16;
  auto parts = models::load_model(model_.config, model_.source, std::move(device), options).value();
  const std::vector<std::int32_t> tokens(tokens_.begin(), tokens_.begin() + 8);
  const auto expected = prefill_logits(model_, tokens, {7}, TERN_F32);
  const auto found = prefill_logits(parts, tokens, {7}, TERN_F32);
  // It has no product with quantised weights, which are rounded to bf16 when they're expanded.
  expect_below(divergence_of({expected.begin(), expected.end()}, {found.begin(), found.end()}), kShipped);
}

}  // namespace
}  // namespace tern::golden
