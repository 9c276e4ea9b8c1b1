#include "engine/grammar/compiler.h"

namespace tern::engine {

bool has_grammars() { return false; }

std::unique_ptr<GrammarCompiler> make_grammar_compiler(GrammarVocabulary /*vocabulary*/) { return nullptr; }

}  // namespace tern::engine
