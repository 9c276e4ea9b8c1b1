// A tiny model with random weights and a tokenizer of bytes: what the commands need, in a second instead of a minute.
#pragma once

#include <filesystem>
#include <string>

namespace tern::e2e {

struct TinyModel {
  int layers = 2;
  int hidden = 32;
  int intermediate = 64;
  int heads = 4;
  int kv_heads = 2;
  int max_positions = 512;
  unsigned seed = 1;
  int labels = 0;         // a classification with so many, "label 0" and on; 0: a language model
  bool verdicts = false;  // "yes" and "no" are tokens
  bool fim = false;       // without verdicts: the tokens that fill gaps are there, by Qwen's names
  bool qwen3 = false;     // a Qwen3, with norms of queries and keys; else a Llama
};

// Writes config.json, model.safetensors, tokenizer.json, tokenizer_config.json and generation_config.json.
void write_tiny_model(const std::filesystem::path& directory, const TinyModel& model = {});

// `rows` rows of question and answer that a model can learn: sums of two digits.
[[nodiscard]] std::string sums(int rows);

}  // namespace tern::e2e
