// What is enforced of JSON Schema, of regular expressions and of structural tags. xgrammar reads over much that it
// doesn't know, so every node is held against our own list first: what would not be enforced is an error that names it.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tern::engine {

// The schema as xgrammar is to see it, as JSON text: without annotations, and closed where it may be. An answer that it
// allows meets the schema; not every instance is allowed, as members come in the order of `properties`, an object with
// `properties` has no others, a string with a length has no escapes, and a `pattern` is matched by the whole string.
// `where` names the schema in errors.
[[nodiscard]] Result<std::string> check_schema(std::string_view text, const std::string& where);
// An expression that whole answers match.
[[nodiscard]] Status check_regex(std::string_view text, const std::string& where);
// A structural tag, in xgrammar's form ("format") or vLLM's older one ("structures" and "triggers"), the schemas in it
// checked likewise.
[[nodiscard]] Result<std::string> check_structural_tag(std::string_view text, const std::string& where);
// An EBNF grammar: its size and how much of it repeats. xgrammar judges the rest.
[[nodiscard]] Status check_ebnf(std::string_view text, const std::string& where);

}  // namespace tern::engine
