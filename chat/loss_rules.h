// How parts of an assistant's text count: the loss scales of ms-swift 4.6.0 by their names, and rules from JSON files.
//
// A set of rules cuts a text into parts and gives each a weight. Marks cut it ("Action:" counts 2 and what follows it,
// up to the next mark, 2); where a set has none, expressions do ("<tool_call>.+?</tool_call>" counts 2). What no rule
// names counts 1. Expressions are Python's, and . is any character. In a chain each set cuts the parts of the one
// before it, and weights are multiplied.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tern::chat {

struct WeightedPart {
  std::size_t begin = 0, end = 0;  // bytes of the text
  float weight = 1;
};

class LossRules {
 public:
  LossRules();  // none: all counts 1

  // A chain of ignore_empty_think, ignore_think_prefix, react, hermes, qwen, agentflan, alpha_umi and names of .json
  // files with + between them. A file is an object {mark: [its weight, that of what follows], expression: [weight]}, or
  // {"response": such an object, "query": {words: [weight]}}: an answer to a question with such words counts that as a
  // whole. Errors (usage): an unknown name; (data): a file.
  [[nodiscard]] static Result<LossRules> parse(std::string_view chain);

  // The parts of an answer to `query`, one after another; together they're all of it.
  [[nodiscard]] std::vector<WeightedPart> parts(std::string_view query, std::string_view response) const;
  [[nodiscard]] bool empty() const;
  // All rules in words: what samples depend on.
  [[nodiscard]] const std::string& text() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace tern::chat
