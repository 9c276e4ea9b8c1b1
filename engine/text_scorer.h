// Texts scored by a session's model, in windows where they are longer, and beside another model where one is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/cached_logits.h"
#include "engine/llm.h"
#include "engine/next_token_logits.h"
#include "engine/scorer.h"

namespace tern::engine {

class TextScorer {
 public:
  // `options.max_tokens`: the longest window; `cache` and `step_tokens` are for ScoreOptions::cached. The session
  // outlives the scorer.
  TextScorer(session::Session& session, const ScorerOptions& options) : session_(session), options_(options) {}

  // The work of LLM::score.
  std::size_t score(std::span<const TokenIds> texts, const ScoreCallbacks& callbacks, const ScoreOptions& options,
                    TextScorer* reference);

 private:
  // A program for windows of `tokens` at most, made at the first use and again where it was made for less.
  template <typename P>
  struct Planned {
    std::unique_ptr<P> program;
    std::int64_t tokens = 0;
  };
  template <typename P>
  P& planned(Planned<P>& of, std::int64_t tokens);
  NextTokenLogits& logits(std::int64_t tokens, bool cached);

  void require_windows(std::span<const TokenIds> texts, std::int64_t stride) const;
  void require_comparable(const TextScorer& reference, std::int64_t tokens) const;

  session::Session& session_;
  ScorerOptions options_;
  Planned<Scorer> scorer_;
  Planned<PackedLogits> packed_;
  Planned<CachedLogits> cached_;
};

}  // namespace tern::engine
