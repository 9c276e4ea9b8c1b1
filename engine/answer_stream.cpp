#include "engine/answer_stream.h"

#include <algorithm>
#include <stdexcept>

namespace tern::engine {

AnswerStream::AnswerStream(LLM& llm, SamplingParams sampling, AnswerCallbacks callbacks)
    : llm_(llm), sampling_(std::move(sampling)), callbacks_(std::move(callbacks)) {
  if (sampling_.num_beams > 1) require_plain_beams(sampling_);
  if (!llm_.engine().idle()) throw std::logic_error("two streams of answers over one LLM");
}

AnswerStream::~AnswerStream() {
  if (on_their_way_.empty()) return;
  abort_all();
  try {
    (void)llm_.engine().step();  // takes them out
  } catch (const std::exception&) {
    // A device that fails again on the way out has been told of already.
  }
}

void AnswerStream::abort_all() {
  for (const auto& [id, place] : on_their_way_) llm_.engine().abort(id);
}

void AnswerStream::submit(const Prompt& prompt, Pending& pending) {
  const std::size_t index = first_ + pending_.size() - 1;
  auto prepared = llm_.prepare(prompt);
  if (prepared) {
    pending.answer.prompt_tokens = static_cast<std::int64_t>(prepared->ids.size());
    SamplingParams sampling = sampling_;
    sampling.request += index;
    if (!prepared->stop.empty()) sampling.stop.push_back(prepared->stop);
    const std::int64_t room = llm_.engine().max_model_len() - pending.answer.prompt_tokens;
    if (sampling.max_new_tokens <= 0 || sampling.max_new_tokens > room) {
      sampling.max_new_tokens = std::max<std::int64_t>(room, 1);
    }
    if (sampling.num_beams > 1) {
      pending.beams = std::make_unique<BeamRequests>(llm_.session().text->tokenizer, llm_.engine().end_token_ids(),
                                                     std::move(*prepared), sampling);
      ask_beams(index);
      return;
    }
    const auto id =
        llm_.engine().add_request(std::move(prepared->ids), std::move(sampling), std::move(prepared->images));
    if (id) {
      pending.id = *id;
      on_their_way_[*id] = {index, 0};
      return;
    }
    pending.answer.error = id.error();
  } else {
    pending.answer.error = prepared.error();
  }
  pending.finished = true;
}

bool AnswerStream::push(const Prompt& prompt) {
  const auto seats = static_cast<std::size_t>(llm_.engine().max_num_seqs());
  while (!stopped_ && on_their_way_.size() >= seats) step();
  if (stopped_) return false;
  pending_.emplace_back();
  submit(prompt, pending_.back());
  tell_finished();
  return true;
}

void AnswerStream::finish() {
  while (!on_their_way_.empty()) step();
}

void AnswerStream::step() {
  if (!stopped_ && callbacks_.stopped && callbacks_.stopped()) {
    stopped_ = true;
    abort_all();
  }
  for (const RequestOutput& output : llm_.engine().step()) {
    const auto found = on_their_way_.find(output.id);
    if (found == on_their_way_.end()) continue;
    const Place place = found->second;
    const std::size_t index = place.index;
    Pending& pending = at(index);
    if (pending.beams != nullptr) {
      if (output.finished) on_their_way_.erase(found);
      take_beam(place, output);
      continue;
    }
    pending.answer.text += output.text;
    if (output.token >= 0) pending.answer.tokens.push_back({{output.token, output.logprob}, output.top});
    if (output.error) pending.answer.error = output.error;
    if (callbacks_.on_text && !output.text.empty()) callbacks_.on_text(index, output.text);
    if (!output.finished) continue;
    pending.answer.reason = output.reason;
    pending.finished = true;
    on_their_way_.erase(found);
  }
  tell_finished();
}

void AnswerStream::end(Pending& pending, FinishReason reason, std::optional<Error> error) {
  pending.answer.reason = reason;
  pending.answer.error = std::move(error);
  pending.finished = true;
}

void AnswerStream::ask_beams(std::size_t index) {
  BeamRequests& beams = *at(index).beams;
  std::vector<SequenceId> asked;
  for (EncodedPrompt& prompt : beams.ask()) {
    const auto id = llm_.engine().add_request(std::move(prompt.ids), beams.params(), std::move(prompt.images));
    if (!id) {
      for (const SequenceId other : asked) llm_.engine().abort(other);
      end(at(index), FinishReason::failed, id.error());
      return;
    }
    asked.push_back(*id);
  }
  for (std::size_t beam = 0; beam < asked.size(); ++beam) on_their_way_[asked[beam]] = {index, beam};
}

// All beams of an answer end together, so that one that fails or is aborted tells for all.
void AnswerStream::take_beam(const Place& place, const RequestOutput& output) {
  Pending& pending = at(place.index);
  if (output.error || output.reason == FinishReason::aborted) {
    std::erase_if(on_their_way_, [&](const auto& other) {
      if (other.second.index != place.index) return false;
      llm_.engine().abort(other.first);
      return true;
    });
    end(pending, output.reason, output.error);
    return;
  }
  if (!pending.beams->take(place.beam, output)) return;
  if (!pending.beams->done()) {
    ask_beams(place.index);
    return;
  }
  BeamAnswer best = pending.beams->answer(0);
  for (const TokenLogprob& token : best.tokens) pending.answer.tokens.push_back({token, {}});
  pending.answer.text = std::move(best.text);
  pending.answer.reason = best.reason;
  if (callbacks_.on_text && !pending.answer.text.empty()) callbacks_.on_text(place.index, pending.answer.text);
  pending.finished = true;
}

void AnswerStream::tell_finished() {
  for (; !pending_.empty() && pending_.front().finished; ++first_) {
    Answer answer = std::move(pending_.front().answer);
    pending_.pop_front();
    if (callbacks_.on_answer) callbacks_.on_answer(first_, std::move(answer));
  }
}

}  // namespace tern::engine
