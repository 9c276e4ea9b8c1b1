// What tern score writes.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "engine/llm.h"

namespace tern::cli {

class ScoreOutput {
 public:
  // Rows go to `path`, or to standard output. Throws Failure where the file cannot be written. `tokenizer` outlives the
  // output.
  ScoreOutput(const std::optional<std::string>& path, const tokenizer::Tokenizer& tokenizer);

  // {"tokens": [{"id", "text", "logprob"}], "loss", "perplexity"}; with a comparison each token but the first also has
  // its "kl", and the row "kl_divergence" and "same_top". Throws Failure where it is not written: at once, as the rest
  // of a long run would be computed for nothing.
  void write(const engine::TextScore& score);

  // Tells the means over all tokens in a line and, with `json`, prints them as a row on standard output. Throws Failure
  // where something was not written.
  void finish(bool json);

 private:
  [[nodiscard]] std::ostream& out();
  void require(bool written) const;

  std::ofstream file_;
  const tokenizer::Tokenizer& tokenizer_;
  std::string place_;
  std::int64_t texts_ = 0;
  engine::TextScore all_;  // of every text, without ids
};

}  // namespace tern::cli
