#include "engine/async_beams.h"

#include <utility>

namespace tern::engine {

AsyncBeams::AsyncBeams(AsyncLLMEngine& engine, BeamRequests requests, RequestOptions options, Callback callback)
    : engine_(engine), requests_(std::move(requests)), options_(std::move(options)), callback_(std::move(callback)) {}

void AsyncBeams::begin() { ask(false); }

void AsyncBeams::ask(bool continues) {
  std::unique_lock lock(mutex_);
  if (aborted_) {
    lock.unlock();
    Outcome outcome;
    outcome.told.reason = FinishReason::aborted;
    end(std::move(outcome));
    return;
  }
  tickets_.clear();
  auto prompts = requests_.ask();
  for (std::size_t beam = 0; beam < prompts.size(); ++beam) {
    const auto tell = [self = shared_from_this(), beam](RequestOutput&& output) { self->take(beam, output); };
    tickets_.push_back(engine_.submit(std::move(prompts[beam]), requests_.params(), tell, options_, continues));
  }
}

void AsyncBeams::abort() {
  const std::scoped_lock lock(mutex_);
  aborted_ = true;
  for (const auto ticket : tickets_) engine_.abort(ticket);
}

void AsyncBeams::end(Outcome&& outcome) {
  outcome.told.finished = true;
  outcome.first_round = first_round_;
  if (first_) {
    outcome.told.begun = first_->begun;
    outcome.told.prompt_tokens = first_->prompt_tokens;
    outcome.told.cached_tokens = first_->cached_tokens;
  }
  std::exchange(callback_, nullptr)(std::move(outcome));
}

// One that fails or is aborted tells for all.
void AsyncBeams::take(std::size_t beam, const RequestOutput& output) {
  if (!callback_) return;
  if (!first_) first_ = output;
  if (output.error || output.reason == FinishReason::aborted) {
    abort();
    Outcome outcome;
    outcome.told.reason = output.reason;
    outcome.told.error = output.error;
    end(std::move(outcome));
    return;
  }
  if (!requests_.take(beam, output)) return;
  if (!first_round_) first_round_ = std::chrono::steady_clock::now();
  if (!requests_.done()) {
    ask(true);
    return;
  }
  Outcome outcome;
  for (std::size_t rank = 0; rank < requests_.num_answers(); ++rank) outcome.answers.push_back(requests_.answer(rank));
  end(std::move(outcome));
}

}  // namespace tern::engine
