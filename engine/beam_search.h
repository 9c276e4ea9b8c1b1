// Beam search over answers to one prompt (transformers' generate(num_beams=...), whose scores and ends these are): of
// all that the beams could go on with the likeliest stay. Pure bookkeeping; who computes is AnswerStream or AsyncBeams.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/token_logprob.h"

namespace tern::engine {

struct BeamOptions {
  std::int64_t num_beams = 1;
  std::int64_t max_new_tokens = 512;
  double length_penalty = 1;          // the power of the number of tokens that a log-probability is divided by
  std::vector<std::int32_t> end_ids;  // tokens that end an answer
  // Whether an answer that has come so far is complete beside that; empty: never.
  std::function<bool(std::span<const TokenLogprob> tokens)> is_complete;
};

// How many of the likeliest tokens of each beam a step must tell: as many beams go on where all those ends come first.
[[nodiscard]] std::int64_t beam_candidates(std::int64_t num_beams, std::size_t num_end_ids);

class BeamSearch {
 public:
  explicit BeamSearch(BeamOptions options);

  struct Beam {
    std::vector<TokenLogprob> tokens;  // behind the prompt
    double logprob = 0;                // of all of them
    double score = 0;                  // logprob by the length, of one that is complete
    bool by_token = false;             // an end token, the last one, completed it
  };
  // Whose next tokens are to be computed; one at first.
  [[nodiscard]] const std::vector<Beam>& beams() const { return beams_; }
  // The likeliest next tokens of each beam, beam_candidates() of them where there are so many.
  void advance(std::span<const std::vector<TokenLogprob>> next);
  // Nothing that goes on could become better than what is complete.
  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] const Beam& best() const { return ranked().front(); }  // once done
  // Once done: as many as there are beams where the model has tokens enough, the best first.
  [[nodiscard]] std::span<const Beam> ranked() const { return complete_.empty() ? beams_ : complete_; }

 private:
  struct Candidate {
    std::size_t beam = 0;
    TokenLogprob token;
    double logprob = 0;
  };
  [[nodiscard]] Beam extended(const Candidate& candidate) const;
  void keep_complete(Beam&& beam);
  [[nodiscard]] double score_of(const Beam& beam) const;

  BeamOptions options_;
  std::vector<Beam> beams_;
  std::vector<Beam> complete_;  // the best first, num_beams at most
  bool done_ = false;
};

}  // namespace tern::engine
