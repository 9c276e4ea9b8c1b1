// What tern tokenize prints.
#pragma once

#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/tokenizer.h"

namespace tern::cli {

class TokenOutput {
 public:
  struct Options {
    std::optional<std::string> path;  // none: standard output
    bool json = false;                // a row {"ids", "pieces", "text"} a text, else a line a token
    bool decode = false;              // the texts are ids, and their text is wanted
  };
  // Throws Failure where the file cannot be written. `tokenizer` outlives the output.
  TokenOutput(const Options& options, const tokenizer::Tokenizer& tokenizer);

  // Throws Failure: ids that the vocabulary lacks (usage), a write that failed.
  void write(std::string_view text);
  void finish();

 private:
  [[nodiscard]] std::ostream& out();

  Options options_;
  const tokenizer::Tokenizer& tokenizer_;
  std::ofstream file_;
};

}  // namespace tern::cli
