// Structured output: the grammar of a constraint, compiled once for a model's vocabulary, and the masks that hold an
// answer to it. xgrammar does the work (engine/grammar/xgrammar.cpp); a tern that was built without it says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/constraint.h"
#include "engine/token_mask.h"
#include "tokenizer/tokenizer.h"

namespace tern::engine {

// Immutable: any number of answers may start from one.
class CompiledGrammar {
 public:
  virtual ~CompiledGrammar() = default;
  CompiledGrammar() = default;
  CompiledGrammar(const CompiledGrammar&) = delete;
  CompiledGrammar& operator=(const CompiledGrammar&) = delete;

  // The mask of one answer. Where the grammar leads to a place from which no token goes on (some EBNF grammars do), the
  // end tokens are allowed there, so that the answer ends; it isn't complete() then.
  [[nodiscard]] virtual std::shared_ptr<TokenMask> start() const = 0;
  [[nodiscard]] virtual std::size_t bytes() const = 0;  // of memory, about
};

class GrammarCompiler;

// The tokens that grammars are compiled for.
struct GrammarVocabulary {
  std::vector<std::string> tokens;       // [vocab_size] bytes; "" where a token is no text and is never drawn
  std::vector<std::int32_t> end_tokens;  // what ends an answer
};

// Whether this tern has structured output at all.
[[nodiscard]] bool has_grammars();

// The grammars of one model. Any number of threads may compile at once, off the engine's thread.
class Grammars {
 public:
  // `vocab_size`: rows of the model's logits, of which the tokenizer may know fewer. `cache_bytes`: of compiled
  // grammars; those that were asked for longest ago go first.
  Grammars(tokenizer::Tokenizer tokenizer, std::vector<std::int32_t> end_tokens, std::int64_t vocab_size,
           std::size_t cache_bytes = std::size_t{64} << 20);
  ~Grammars();
  Grammars(const Grammars&) = delete;
  Grammars& operator=(const Grammars&) = delete;

  // The first call reads the vocabulary, which takes about a microsecond a token. Fails with ErrorKind::data where the
  // constraint is broken, can't be met or isn't enforced, and with ErrorKind::failed where tern has no xgrammar.
  [[nodiscard]] Result<std::shared_ptr<const CompiledGrammar>> compile(const Constraint& constraint);

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const CompiledGrammar>>;
  [[nodiscard]] std::shared_ptr<const CompiledGrammar> cached(const std::string& key);
  void keep(const std::string& key, const std::shared_ptr<const CompiledGrammar>& grammar);

  tokenizer::Tokenizer tokenizer_;
  std::vector<std::int32_t> end_tokens_;
  std::int64_t vocab_size_;
  std::size_t cache_bytes_;
  std::once_flag once_;
  std::unique_ptr<GrammarCompiler> compiler_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the last one asked for first
  std::unordered_map<std::string, std::list<Entry>::iterator> index_;
  std::size_t used_ = 0;  // bytes
};

}  // namespace tern::engine
