#include "engine/beam_requests.h"

#include <algorithm>
#include <iterator>

#include "base/strings.h"
#include "engine/end_ids.h"
#include "engine/stop_texts.h"

namespace tern::engine {
namespace {

Failure no_beams(const std::string& what, const char* mend) {
  return Failure(usage_error(cat("--num_beams searches for the likeliest answer, and ", what), mend));
}

std::string decoded(const tokenizer::Tokenizer& tokenizer, std::span<const TokenLogprob> tokens,
                    bool skip_special_tokens) {
  TokenIds ids;
  std::ranges::transform(tokens, std::back_inserter(ids), &TokenLogprob::id);
  return tokenizer.decode(ids, skip_special_tokens);
}

}  // namespace

void require_plain_beams(const SamplingParams& sampling) {
  if (sampling.temperature > 0) {
    throw no_beams(cat("--temperature ", sampling.temperature, " would draw one"), "give --temperature 0");
  }
  if (sampling.repetition_penalty != 1 || sampling.presence_penalty != 0 || sampling.frequency_penalty != 0) {
    throw no_beams("penalties would change what is likely", "give --repetition_penalty 1");
  }
  if (sampling.mask != nullptr || !sampling.logit_bias.empty()) {
    throw no_beams("the answer is held to a form", "leave one of the two out");
  }
}

BeamRequests::BeamRequests(const tokenizer::Tokenizer& tokenizer, std::span<const std::int32_t> end_ids,
                           EncodedPrompt prompt, const SamplingParams& sampling)
    : tokenizer_(tokenizer),
      prompt_(std::move(prompt)),
      sampling_(sampling),
      end_ids_(end_ids_of(tokenizer, end_ids, sampling)),
      search_({.num_beams = sampling.num_beams,
               .max_new_tokens = sampling.max_new_tokens,
               .length_penalty = sampling.length_penalty,
               .end_ids = end_ids_,
               .is_complete = [stops = sampling.stop, skips = sampling.skip_special_tokens,
                               &tokenizer](std::span<const TokenLogprob> tokens) {
                 return !stops.empty() && first_stop(decoded(tokenizer, tokens, skips), stops).stop != nullptr;
               }}) {}

std::string BeamRequests::text_of(std::span<const TokenLogprob> tokens) const {
  return decoded(tokenizer_, tokens, sampling_.skip_special_tokens);
}

SamplingParams BeamRequests::params() const {
  SamplingParams one;
  one.max_new_tokens = 1;
  one.ignore_eos = true;
  one.top_logprobs = beam_candidates(sampling_.num_beams, end_ids_.size());
  one.seed = sampling_.seed;
  return one;
}

std::vector<EncodedPrompt> BeamRequests::ask() {
  std::vector<EncodedPrompt> prompts;
  for (const BeamSearch::Beam& beam : search_.beams()) {
    prompts.push_back(prompt_);
    std::ranges::transform(beam.tokens, std::back_inserter(prompts.back().ids), &TokenLogprob::id);
  }
  missing_ = prompts.size();
  next_.assign(missing_, {});
  return prompts;
}

bool BeamRequests::take(std::size_t beam, const RequestOutput& output) {
  if (output.token >= 0) next_[beam] = output.top;
  if (output.finished) --missing_;
  if (missing_ > 0) return false;
  search_.advance(next_);
  return true;
}

BeamAnswer BeamRequests::answer(std::size_t rank) const {
  const BeamSearch::Beam& beam = search_.ranked()[rank];
  const std::span<const TokenLogprob> tokens = beam.tokens;
  BeamAnswer out;
  out.tokens = beam.tokens;
  const bool shows_end = !beam.by_token || sampling_.include_stop_str_in_output;
  out.text = text_of(shows_end ? tokens : tokens.first(tokens.size() - 1));
  if (beam.by_token) out.stop_text = stop_text_of(tokenizer_, tokens.back().id, sampling_);
  const bool is_cut = out.stop_text.empty();  // else the text ends with that token
  if (!is_cut && shows_end && sampling_.skip_special_tokens) out.text += out.stop_text;
  const FoundStop found = is_cut ? first_stop(out.text, sampling_.stop) : FoundStop{};
  if (found.stop != nullptr) {
    out.text.resize(sampling_.include_stop_str_in_output ? found.end : found.begin);
    out.stop_text = *found.stop;
  }
  const auto& own = sampling_.stop_token_ids;
  if (beam.by_token && std::ranges::find(own, tokens.back().id) != own.end()) out.stop_token_id = tokens.back().id;
  out.reason = beam.by_token || found.stop != nullptr ? FinishReason::stop : FinishReason::length;
  return out;
}

}  // namespace tern::engine
