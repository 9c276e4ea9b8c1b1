// Speculative decoding (Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative Decoding",
// 2023), with a simpler law: a step draws a token behind each guess, with the random number that the token has anyway,
// and a guess counts as long as it's what was drawn. Answers are what they are without guesses, token by token.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "accel/device.h"
#include "engine/proposer.h"
#include "engine/scheduler.h"

namespace tern::engine {

// Guesses that were checked so far, and those of them that were right.
struct Guesses {
  std::int64_t drafts = 0;  // runs of guesses, of one sequence in one step each
  std::int64_t checked = 0;
  std::int64_t right = 0;
  std::vector<std::int64_t> right_at;  // [num_speculative_tokens] by their place in the run
};

// Rows up to which a step with guesses costs about as much as one without: on a device that says up to where few rows
// are best, as many.
[[nodiscard]] std::int64_t rows_of_drafts(const accel::Device& device, std::int64_t max_num_batched_tokens);

// Says how many tokens of each sequence are to be guessed, and learns from how many were right.
class Speculation {
 public:
  Speculation() = default;  // nobody guesses
  // `rows`: of a step that checks guesses, all sequences together.
  Speculation(std::unique_ptr<Proposer> proposer, const SpeculativeOptions& options, std::int64_t rows,
              std::int64_t max_model_len);

  // Guesses for the sequences of a step that was computed, no more than each may still have. Checking is cheap while a
  // step is bound by memory, so that rows beyond that are shared out.
  void guess(const Batch& batch, std::int64_t running);
  // `part` was computed, and its first `right` guesses were.
  void learn(const ScheduledSequence& part, std::int64_t right, std::int64_t running);
  // It ends.
  void finish(const Sequence& sequence);
  [[nodiscard]] const Guesses& guesses() const { return guesses_; }
  [[nodiscard]] std::int64_t draft_tokens() const { return proposer_ ? proposer_->computed_tokens() : 0; }

 private:
  void wish(const Batch& batch, std::int64_t running, std::int64_t share);  // into wishes_
  std::unique_ptr<Proposer> proposer_;
  SpeculativeOptions options_;
  std::int64_t rows_ = 0;
  std::int64_t max_model_len_ = 0;
  std::vector<DraftWish> wishes_;
  Guesses guesses_;
};

}  // namespace tern::engine
