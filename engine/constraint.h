// What the text of an answer must be (structured output).
#pragma once

#include <string>
#include <vector>

namespace tern::engine {

struct Constraint {
  enum class Kind { none, json_object, json_schema, regex, choice, grammar, structural_tag };
  Kind kind = Kind::none;
  std::string text;                  // the schema, the expression, the grammar (EBNF), the tag, as JSON or text
  std::vector<std::string> choices;  // of Kind::choice
};

}  // namespace tern::engine
