#include "engine/beam_requests.h"

#include <algorithm>
#include <iterator>

#include "base/strings.h"
#include "engine/stop_texts.h"

namespace tern::engine {
namespace {

Failure no_beams(const std::string& what, const char* mend) {
  return Failure(usage_error(cat("--num_beams searches for the likeliest answer, and ", what), mend));
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

BeamRequests::BeamRequests(LLM& llm, EncodedPrompt prompt, const SamplingParams& sampling)
    : llm_(llm),
      prompt_(std::move(prompt)),
      sampling_(sampling),
      search_({.num_beams = sampling.num_beams,
               .max_new_tokens = sampling.max_new_tokens,
               .end_ids = sampling.ignore_eos ? sampling.stop_token_ids : llm.engine().end_token_ids(),
               .is_complete = [this](std::span<const TokenLogprob> tokens) {
                 return !sampling_.stop.empty() && engine::first_stop(text_of(tokens), sampling_.stop).stop != nullptr;
               }}) {}

std::string BeamRequests::text_of(std::span<const TokenLogprob> tokens) const {
  TokenIds ids;
  std::ranges::transform(tokens, std::back_inserter(ids), &TokenLogprob::id);
  return llm_.session().text->tokenizer.decode(ids, sampling_.skip_special_tokens);
}

Result<std::vector<SequenceId>> BeamRequests::ask() {
  SamplingParams one;
  one.max_new_tokens = 1;
  one.ignore_eos = true;
  one.top_logprobs = beam_candidates(sampling_.num_beams, llm_.num_end_ids());
  one.seed = sampling_.seed;
  std::vector<SequenceId> ids;
  for (const BeamSearch::Beam& beam : search_.beams()) {
    TokenIds tokens = prompt_.ids;
    std::ranges::transform(beam.tokens, std::back_inserter(tokens), &TokenLogprob::id);
    auto id = llm_.engine().add_request(std::move(tokens), one, prompt_.images);
    if (!id) {
      for (const SequenceId asked : ids) llm_.engine().abort(asked);
      return id.error();
    }
    ids.push_back(*id);
  }
  missing_ = ids.size();
  next_.assign(missing_, {});
  return ids;
}

bool BeamRequests::take(std::size_t beam, const RequestOutput& output) {
  if (output.token >= 0) next_[beam] = output.top;
  if (output.finished) --missing_;
  if (missing_ > 0) return false;
  search_.advance(next_);
  return true;
}

void BeamRequests::put_best(Answer& answer) const {
  const BeamSearch::Beam& best = search_.best();
  std::span<const TokenLogprob> tokens = best.tokens;
  for (const TokenLogprob& token : tokens) answer.tokens.push_back({token, {}});
  answer.text = text_of(best.by_token ? tokens.first(tokens.size() - 1) : tokens);
  const FoundStop found = engine::first_stop(answer.text, sampling_.stop);
  if (found.stop != nullptr) answer.text.resize(sampling_.include_stop_str_in_output ? found.end : found.begin);
  answer.reason = best.by_token || found.stop != nullptr ? FinishReason::stop : FinishReason::length;
}

}  // namespace tern::engine
