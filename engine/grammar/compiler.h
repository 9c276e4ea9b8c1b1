// What compiles checked grammars: xgrammar.cpp, or absent.cpp where tern is built without it.
#pragma once

#include <memory>
#include <string>

#include "engine/grammar.h"

namespace tern::engine {

class GrammarCompiler {
 public:
  virtual ~GrammarCompiler() = default;
  GrammarCompiler() = default;
  GrammarCompiler(const GrammarCompiler&) = delete;
  GrammarCompiler& operator=(const GrammarCompiler&) = delete;

  // `kind` is json_schema, regex, grammar or structural_tag, and `text` has been checked. Any thread.
  [[nodiscard]] virtual Result<std::shared_ptr<const CompiledGrammar>> compile(Constraint::Kind kind,
                                                                               const std::string& text) const = 0;
};

// Null where tern is built without xgrammar.
[[nodiscard]] std::unique_ptr<GrammarCompiler> make_grammar_compiler(GrammarVocabulary vocabulary);

}  // namespace tern::engine
