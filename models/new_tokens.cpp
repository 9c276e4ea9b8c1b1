#include "models/new_tokens.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/philox.h"
#include "base/strings.h"
#include "io/json.h"
#include "models/registry.h"
#include "models/stored_tensors.h"

namespace tern::models {
namespace {

constexpr std::int64_t kMultiple = 128;
constexpr double kShareOfVariance = 1e-9;
constexpr std::int64_t kBlock = 1024;  // rows that are read at once

std::uint64_t key_of(const std::string& parameter) {
  std::uint64_t key = 0x6e657774U;  // of no run's seed
  for (const char c : parameter) key = mix_key(key, static_cast<unsigned char>(c));
  return key;
}

// What is written again.
void write_vocab_size(ModelConfig& config) {
  if (!config.json) return;
  io::Json json = *config.json;
  if (json.contains("text_config")) json["text_config"]["vocab_size"] = config.vocab_size;
  if (json.contains("vocab_size") || !json.contains("text_config")) json["vocab_size"] = config.vocab_size;
  config.json = std::make_shared<io::Json>(std::move(json));
}

}  // namespace

Status add_new_tokens(ModelConfig& config, const std::vector<std::string>& tokens, std::int64_t tokenizer_size) {
  if (tokens.empty()) return Unit{};
  const Architecture& architecture = *find_architecture(config.architecture);
  if (architecture.encoder || architecture.head == nullptr) {
    return usage_error(cat("--new_special_tokens is for language models, and this one is ", config.architecture),
                       "drop the flag");
  }
  config.new_special_tokens = tokens;
  if (config.vocab_size >= tokenizer_size) return Unit{};
  const std::int64_t rows = (tokenizer_size + kMultiple - 1) / kMultiple * kMultiple;
  config.added_rows = rows - config.vocab_size;
  config.vocab_size = rows;
  write_vocab_size(config);
  return Unit{};
}

std::vector<float> rows_of_new_tokens(const ParameterSpec& spec, const ReadRows& stored) {
  const std::int64_t rows = spec.shape.front() - spec.added_rows, columns = spec.shape.back();
  std::vector<double> sum(static_cast<std::size_t>(columns)), squares(sum.size());
  std::vector<float> block;
  for (std::int64_t first = 0; first < rows; first += kBlock) {
    const std::int64_t count = std::min(kBlock, rows - first);
    block.resize(static_cast<std::size_t>(count * columns));
    stored(first, count, block);
    for (std::size_t i = 0; i < block.size(); ++i) {
      const double value = block[i];
      sum[i % sum.size()] += value;
      squares[i % sum.size()] += value * value;
    }
  }
  const std::uint64_t key = key_of(spec.name);
  std::vector<float> out(static_cast<std::size_t>(spec.added_rows * columns));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t column = i % sum.size();
    const double mean = sum[column] / static_cast<double>(rows);
    const double variance = std::max(0.0, squares[column] / static_cast<double>(rows) - mean * mean);
    const auto bits = philox(key, {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), 0, 0});
    out[i] = static_cast<float>(mean + normals(bits[0], bits[1], std::sqrt(kShareOfVariance * variance))[0]);
  }
  return out;
}

}  // namespace tern::models
