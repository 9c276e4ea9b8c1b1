// A beam search as requests to an engine: each beam is a request for one token behind what it has, and beams find the
// blocks of what they share in the prefix cache.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/beam_search.h"
#include "engine/llm.h"

namespace tern::engine {

// Nothing is drawn, so nothing may change what is likely. Throws Failure (usage).
void require_plain_beams(const SamplingParams& sampling);

// What one of the best beams says.
struct BeamAnswer {
  std::vector<TokenLogprob> tokens;  // an end token included
  std::string text;
  FinishReason reason = FinishReason::none;
  std::string stop_text;                      // the request's own that ended it; "": none did
  std::optional<std::int32_t> stop_token_id;  // the same of its own tokens
};

class BeamRequests {
 public:
  // `tokenizer` outlives it; `end_ids` are the model's. The prompt fits, and `sampling` is plain.
  BeamRequests(const tokenizer::Tokenizer& tokenizer, std::span<const std::int32_t> end_ids, EncodedPrompt prompt,
               const SamplingParams& sampling);

  // The prompts whose next tokens are to be asked for with params(), one a beam, in the order of the beams.
  [[nodiscard]] std::vector<EncodedPrompt> ask();
  [[nodiscard]] SamplingParams params() const;
  // What the engine told of one beam. True with the last of them: then the search is done, or ask() is next.
  bool take(std::size_t beam, const RequestOutput& output);
  [[nodiscard]] bool done() const { return search_.done(); }
  // Once done: how many there are, and each, the best first.
  [[nodiscard]] std::size_t num_answers() const { return search_.ranked().size(); }
  [[nodiscard]] BeamAnswer answer(std::size_t rank) const;

 private:
  [[nodiscard]] std::string text_of(std::span<const TokenLogprob> tokens) const;

  const tokenizer::Tokenizer& tokenizer_;
  EncodedPrompt prompt_;
  SamplingParams sampling_;
  std::vector<std::int32_t> end_ids_;
  BeamSearch search_;
  std::vector<std::vector<TokenLogprob>> next_;  // by beam
  std::size_t missing_ = 0;
};

}  // namespace tern::engine
