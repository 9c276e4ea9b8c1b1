// Tokens to a syntax tree: Jinja's grammar with the tags that transformers adds (generation, break, continue).
#pragma once

#include <string>
#include <string_view>

#include "jinja/ast.h"

namespace tern::jinja {

// Throws Failure naming `where`, line and column for a syntax error, an unknown tag, filter or test, nesting deeper
// than 250 expressions or 100 tags, and for tags that reach other templates (include, import, extends).
[[nodiscard]] Body parse(std::string_view source, const std::string& where);

}  // namespace tern::jinja
