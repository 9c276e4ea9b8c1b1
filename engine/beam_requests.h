// A beam search over an engine: each beam is a request for one token behind what it has, and beams find the blocks of
// what they share in the prefix cache.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/beam_search.h"
#include "engine/llm.h"

namespace tern::engine {

// Nothing is drawn, so nothing may change what is likely. Throws Failure (usage).
void require_plain_beams(const SamplingParams& sampling);

class BeamRequests {
 public:
  // `llm` outlives it, and was opened for as many beams. The prompt fits, and `sampling` is plain.
  BeamRequests(LLM& llm, EncodedPrompt prompt, const SamplingParams& sampling);

  // Asks the engine for the next token of each beam; gives their ids, in the order of the beams. Errors as of
  // LLMEngine::add_request.
  [[nodiscard]] Result<std::vector<SequenceId>> ask();
  // What the engine told of one beam. True with the last of them: then the search is done, or ask() is next.
  bool take(std::size_t beam, const RequestOutput& output);
  [[nodiscard]] bool done() const { return search_.done(); }
  // Once done: the answer's tokens, text and reason.
  void put_best(Answer& answer) const;

 private:
  [[nodiscard]] std::string text_of(std::span<const TokenLogprob> tokens) const;

  LLM& llm_;
  EncodedPrompt prompt_;
  SamplingParams sampling_;
  BeamSearch search_;
  std::vector<std::vector<TokenLogprob>> next_;  // by beam
  std::size_t missing_ = 0;
};

}  // namespace tern::engine
