// Rows for tokens that a checkpoint knows nothing of.
#include <gtest/gtest.h>

#include <cmath>

#include "models/new_tokens.h"
#include "models/parameter_reader.h"
#include "models/registry.h"
#include "tests/unit/models/scratch_model.h"

namespace tern::models {
namespace {

TEST(NewTokens, GetRowsWhereTheEmbeddingHasNone) {
  const ScratchModel scratch;
  const auto source = checkpoint::CheckpointSource::open(scratch.path()).value();
  const ModelConfig own = read_config(source).value();
  const std::vector<std::string> tokens = {"<a>", "<b>"};
  ModelConfig config = own;
  add_new_tokens(config, tokens, own.vocab_size).value();  // there is room
  EXPECT_EQ(config.vocab_size, own.vocab_size);
  EXPECT_EQ(config.added_rows, 0);
  add_new_tokens(config, tokens, own.vocab_size + 2).value();
  EXPECT_EQ(config.vocab_size % 128, 0);
  EXPECT_EQ(config.vocab_size, own.vocab_size + config.added_rows);
  EXPECT_EQ(config_json(config, "float32")["vocab_size"].get<std::int64_t>(), config.vocab_size);
  const auto before = parameters_of(own), after = parameters_of(config);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool is_table = after[i].shape.front() == config.vocab_size;
    EXPECT_EQ(after[i].added_rows, is_table ? config.added_rows : 0) << after[i].name;
    EXPECT_EQ(without_added_rows(after[i]).shape, before[i].shape) << after[i].name;
  }
}

TEST(NewTokens, RowsAreNearTheMeanAndTheSameAgain) {
  const ScratchModel scratch;
  const auto source = checkpoint::CheckpointSource::open(scratch.path()).value();
  const ModelConfig own = read_config(source).value();
  ModelConfig config = own;
  add_new_tokens(config, {"<a>"}, own.vocab_size + 1).value();
  const auto find = [](const ModelConfig& of) {
    for (const ParameterSpec& spec : parameters_of(of)) {
      if (spec.name == "model.embed_tokens.weight") return spec;
    }
    return ParameterSpec{};
  };
  ParameterReader reader(source), again(source);
  const auto stored = reader.read(find(own)), grown = reader.read(find(config));
  ASSERT_EQ(grown.size(), static_cast<std::size_t>(config.vocab_size * config.hidden_size));
  EXPECT_TRUE(std::equal(stored.begin(), stored.end(), grown.begin())) << "the checkpoint's own rows";
  EXPECT_EQ(again.read(find(config), own.vocab_size, 2),
            std::vector<float>(grown.begin() + own.vocab_size * own.hidden_size,
                               grown.begin() + (own.vocab_size + 2) * own.hidden_size));
  double noise = 0;
  for (std::int64_t column = 0; column < own.hidden_size; ++column) {
    double mean = 0, squares = 0;
    for (std::int64_t row = 0; row < own.vocab_size; ++row) {
      const double value = stored[static_cast<std::size_t>(row * own.hidden_size + column)];
      mean += value / static_cast<double>(own.vocab_size);
      squares += value * value / static_cast<double>(own.vocab_size);
    }
    const double deviation = std::sqrt(squares - mean * mean);
    for (std::int64_t row = own.vocab_size; row < config.vocab_size; ++row) {
      const double off = grown[static_cast<std::size_t>(row * own.hidden_size + column)] - mean;
      EXPECT_LE(std::abs(off), 2.5e-4 * deviation);  // 8 deviations of sqrt(1e-9)
      noise += off * off / (deviation * deviation);
    }
  }
  noise /= static_cast<double>(config.added_rows * own.hidden_size);
  EXPECT_NEAR(noise, 1e-9, 2e-10);
}

}  // namespace
}  // namespace tern::models
