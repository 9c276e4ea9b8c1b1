#include "server/running_request.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"
#include "server/forced_calls.h"
#include "server/ids.h"

namespace tern::server {
namespace {

double seconds(std::chrono::steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

std::string_view reason_name(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::length:
      return "length";
    case engine::FinishReason::aborted:
      return "abort";
    case engine::FinishReason::failed:
      return "error";
    default:
      return "stop";
  }
}

}  // namespace

RunningRequest::RunningRequest(ChatService& service, RunningOptions options, std::shared_ptr<AnswerSink> sink)
    : service_(service), options_(std::move(options)), sink_(std::move(sink)) {}
RunningRequest::~RunningRequest() = default;

void RunningRequest::begin(const engine::EncodedPrompt& prompt, const engine::SamplingParams& params) {
  choices_.resize(static_cast<std::size_t>(options_.n));
  for (Choice& choice : choices_) {
    if (options_.reads) choice.parser = chat::make_answer_parser(options_.parser).value();
    if (is_forced(options_.forced)) {
      choice.parser = forced_parser(options_.forced, options_.parser.whole_calls, std::move(choice.parser));
    }
  }
  const SlotTask task{.prompt_tokens = static_cast<std::int64_t>(prompt.ids.size()),
                      .max_tokens = params.max_new_tokens,
                      .seed = params.seed,
                      .temperature = params.temperature,
                      .top_p = params.top_p,
                      .min_p = params.min_p,
                      .repetition_penalty = params.repetition_penalty,
                      .presence_penalty = params.presence_penalty,
                      .frequency_penalty = params.frequency_penalty,
                      .top_k = params.top_k};
  for (Choice& choice : choices_) choice.seat = std::make_unique<Slots::Seat>(service_.slots(), task);
  open_ = options_.n;
  if (params.prompt_logprobs && !prompt.ids.empty()) prompt_.push_back(text_of({prompt.ids.front(), 0}));
  usage_.prompt_tokens = static_cast<std::int64_t>(prompt.ids.size());
  if (options_.include_prompt_ids) sink_->prompt_ids(prompt.ids);
  std::unique_lock lock(tickets_mutex_);
  if (params.num_beams > 1) search(prompt, params);
  for (std::size_t at = 0; at < choices_.size() && beams_ == nullptr; ++at) {
    engine::SamplingParams own = params;
    own.sample = at;
    if (at > 0) own.prompt_logprobs.reset();  // told once
    if (options_.grammar != nullptr) own.mask = options_.grammar->start();
    if (options_.around) own.mask = options_.around(std::move(own.mask));
    tickets_.push_back(service_.engine_.submit(
        prompt, std::move(own),
        [self = shared_from_this(), at](engine::RequestOutput&& output) { self->take(at, std::move(output)); },
        options_.engine));
  }
  lock.unlock();
  if (options_.record == nullptr) return;
  options_.record->on_expiry([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->expire();
  });
}

void RunningRequest::search(const engine::EncodedPrompt& prompt, const engine::SamplingParams& params) {
  beams_ = std::make_shared<engine::AsyncBeams>(
      service_.engine_, engine::BeamRequests(service_.tokenizer(), service_.end_token_ids_, prompt, params),
      options_.engine,
      [self = shared_from_this()](engine::AsyncBeams::Outcome&& outcome) { self->take_found(std::move(outcome)); });
  beams_->begin();
}

// As if each answer had been drawn, all of it at once.
void RunningRequest::take_found(engine::AsyncBeams::Outcome&& outcome) {
  first_round_ = outcome.first_round;
  for (std::size_t at = 0; at < choices_.size(); ++at) {
    if (at >= outcome.answers.size()) {
      take(at, engine::RequestOutput(outcome.told));
      continue;
    }
    engine::BeamAnswer& answer = outcome.answers[at];
    for (std::size_t i = 0; i < answer.tokens.size(); ++i) {
      engine::RequestOutput output = outcome.told;
      output.finished = i + 1 == answer.tokens.size();
      output.token = answer.tokens[i].id;
      output.logprob = answer.tokens[i].logprob;
      if (output.finished) {
        output.text = std::move(answer.text);
        output.reason = answer.reason;
        output.stop_text = std::move(answer.stop_text);
        output.stop_token_id = answer.stop_token_id;
      }
      take(at, std::move(output));
    }
  }
}

void RunningRequest::expire() {
  expired_ = true;
  abort();
}

void RunningRequest::abort() {
  const std::scoped_lock lock(tickets_mutex_);
  if (std::exchange(aborted_, true)) return;
  for (const auto ticket : tickets_) service_.engine_.abort(ticket);
  if (beams_ != nullptr) beams_->abort();
}

TokenText RunningRequest::text_of(const engine::TokenLogprob& token) const {
  TokenText out;
  out.id = token.id;
  out.logprob = token.logprob;
  out.text = service_.tokenizer().decode(std::array{token.id}, false);
  out.bytes = out.text;
  return out;
}

void RunningRequest::keep_token(Choice& choice, const engine::RequestOutput& output) {
  const auto now = Clock::now();
  choice.seat->count_token();
  if (choice.generated++ == 0) {
    choice.first_token = now;
    if (options_.record != nullptr && &choice == &choices_.front()) {
      options_.record->found(output.cached_tokens);
      if (output.begun) options_.record->began(*output.begun);
    }
    service_.metrics().count_first_token(seconds(now - arrival_));
  } else if (beams_ == nullptr) {  // those of a search come all at once
    service_.metrics().count_token(seconds(now - choice.last_token));
  }
  choice.last_token = now;
  if (options_.record != nullptr) options_.record->count_token();
  ++usage_.completion_tokens;
  if (choice.thinks) ++usage_.reasoning_tokens;
  choice.logprob += output.logprob;
  if (!options_.include_tokens) return;
  TokenText text = text_of({output.token, output.logprob});
  for (const engine::TokenLogprob& one : output.top) text.likeliest.push_back(text_of(one));
  choice.tokens.push_back(std::move(text));
}

void RunningRequest::hand_on(std::size_t at, std::vector<chat::AnswerPart>&& parts) {
  using Kind = chat::AnswerPart::Kind;
  Choice& choice = choices_[at];
  for (chat::AnswerPart& part : parts) {
    choice.thinks = part.kind == Kind::reasoning;
    if (part.kind == Kind::reasoning && !options_.include_reasoning) continue;
    AnswerPiece piece;
    piece.choice = static_cast<std::int64_t>(at);
    piece.call = part.call;
    piece.tokens = std::exchange(choice.tokens, {});
    switch (part.kind) {
      case Kind::reasoning:
        piece.kind = AnswerPiece::Kind::reasoning;
        break;
      case Kind::content:
        piece.kind = AnswerPiece::Kind::content;
        break;
      case Kind::call:
        piece.kind = AnswerPiece::Kind::call;
        break;
      case Kind::arguments:
        piece.kind = AnswerPiece::Kind::arguments;
        break;
    }
    if (part.kind == Kind::call) {
      choice.calls = true;
      piece.name = std::move(part.text);
      piece.id = part.id.empty() ? random_id("call_") : std::move(part.id);
    } else {
      piece.text = std::move(part.text);
    }
    sink_->piece(std::move(piece));
  }
}

void RunningRequest::tell_prompt(const engine::RequestOutput& output) {
  for (const engine::PromptLogprob& token : output.prompt_logprobs) {
    TokenText text = text_of(token);
    for (const engine::TokenLogprob& one : token.top) text.likeliest.push_back(text_of(one));
    prompt_.push_back(std::move(text));
  }
  if (output.token >= 0 && !prompt_.empty()) sink_->prompt(std::exchange(prompt_, {}));
}

void RunningRequest::take(std::size_t at, engine::RequestOutput&& output) {
  Choice& choice = choices_[at];
  if (failed_ || choice.ended) return;
  usage_.prompt_tokens = std::max(usage_.prompt_tokens, output.prompt_tokens);
  if (at == 0) usage_.cached_tokens = std::max(usage_.cached_tokens, output.cached_tokens);
  if (output.reason == engine::FinishReason::aborted && expired_) {
    choice.ended = true;
    fail(out_of_time(), 504);
    return;
  }
  if (output.error) {
    choice.ended = true;
    fail(*output.error, output.error->kind == ErrorKind::data ? 400 : 500);
    return;
  }
  if (at == 0) tell_prompt(output);
  if (output.token >= 0) keep_token(choice, output);
  std::vector<chat::AnswerPart> parts;
  if (choice.parser != nullptr) {
    parts = choice.parser->push(output.text);
    if (output.finished) {
      for (chat::AnswerPart& part : choice.parser->finish()) parts.push_back(std::move(part));
    }
  } else if (!output.text.empty()) {
    parts.push_back({.kind = chat::AnswerPart::Kind::content, .text = std::move(output.text)});
  }
  if (output.finished && parts.empty() && !choice.tokens.empty()) parts.emplace_back();  // tokens without a text
  hand_on(at, std::move(parts));
  if (output.finished) end(at, output);
}

void RunningRequest::end(std::size_t at, const engine::RequestOutput& output) {
  Choice& choice = choices_[at];
  choice.ended = true;
  choice.seat.reset();
  RequestTimes times;
  times.finished_reason = reason_name(output.reason);
  times.prompt_tokens = usage_.prompt_tokens;
  times.cached_tokens = output.cached_tokens;
  times.generated_tokens = choice.generated;
  times.whole = seconds(Clock::now() - arrival_);
  if (output.begun) times.queue = seconds(*output.begun - arrival_);
  if (choice.generated > 0) {
    const Clock::time_point first = first_round_.value_or(choice.first_token);  // those of a search come all at once
    times.from_first_to_last_token = seconds(choice.last_token - first);
    if (output.begun) times.from_first_step_to_first_token = seconds(first - *output.begun);
  }
  service_.metrics().count_request(times);
  AnswerEnd end;
  end.choice = static_cast<std::int64_t>(at);
  end.stop_text = output.stop_text;
  end.stop_token_id = output.stop_token_id;
  if (choice.generated > 0) end.mean_logprob = choice.logprob / static_cast<double>(choice.generated);
  switch (output.reason) {
    case engine::FinishReason::length:
      end.kind = StopKind::length;
      break;
    case engine::FinishReason::aborted:
      end.kind = StopKind::aborted;
      break;
    default:
      end.kind = choice.calls ? StopKind::tool_calls : StopKind::stop;
  }
  if (options_.record != nullptr) {
    options_.record->finished(end.kind == StopKind::tool_calls ? "tool_calls" : times.finished_reason);
  }
  sink_->ended(end);
  if (--open_ == 0) sink_->finished(usage_);
}

void RunningRequest::fail(const Error& error, int status) {
  failed_ = true;
  abort();  // the other answers
  for (Choice& choice : choices_) choice.seat.reset();
  RequestTimes times;
  times.finished_reason = expired_ ? "abort" : "error";
  times.whole = seconds(Clock::now() - arrival_);
  service_.metrics().count_request(times);
  if (options_.record != nullptr) options_.record->finished(expired_ ? "timeout" : "error");
  sink_->failed(error, status);
}

}  // namespace tern::server
