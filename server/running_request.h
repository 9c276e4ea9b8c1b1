// A request on its way: its answers as the engine draws them, read for thoughts and calls, handed to the protocol.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/async_beams.h"
#include "engine/grammar.h"
#include "server/chat_service.h"

namespace tern::server {

struct RunningOptions {
  std::int64_t n = 1;
  chat::ParserOptions parser;
  bool reads = false;             // the answers are read for thoughts and calls
  bool include_reasoning = true;  // false: thoughts are left out
  bool include_tokens = false;    // those that a piece was made of
  bool include_prompt_ids = false;
  ToolChoice forced;                                       // required or named: the answer is calls and nothing else
  std::shared_ptr<const engine::CompiledGrammar> grammar;  // that every answer is held to; null: none
  std::function<std::shared_ptr<engine::TokenMask>(std::shared_ptr<engine::TokenMask>)> around;  // the grammar's mask
  engine::RequestOptions engine;
  std::shared_ptr<RequestRecord> record;  // null: none
};

class RunningRequest : public RequestHandle, public std::enable_shared_from_this<RunningRequest> {
 public:
  // `service` outlives the request.
  RunningRequest(ChatService& service, RunningOptions options, std::shared_ptr<AnswerSink> sink);
  ~RunningRequest() override;

  // Throws Failure (usage) for a format of answers that there is none of.
  void begin(const engine::EncodedPrompt& prompt, const engine::SamplingParams& params);
  void abort() override;
  void expire();  // its time is over: ends it with an error. Any thread

 private:
  using Clock = std::chrono::steady_clock;
  struct Choice {
    std::unique_ptr<chat::AnswerParser> parser;  // null: all is content
    std::unique_ptr<Slots::Seat> seat;           // null: it has ended
    std::vector<TokenText> tokens;               // whose text has not been handed on
    bool thinks = false;
    bool calls = false;
    std::int64_t generated = 0;
    double logprob = 0;  // of all its tokens
    Clock::time_point first_token, last_token;
    bool ended = false;
  };

  void search(const engine::EncodedPrompt& prompt, const engine::SamplingParams& params);
  void take_found(engine::AsyncBeams::Outcome&& outcome);
  void tell_prompt(const engine::RequestOutput& output);
  void take(std::size_t at, engine::RequestOutput&& output);
  void keep_token(Choice& choice, const engine::RequestOutput& output);
  void hand_on(std::size_t at, std::vector<chat::AnswerPart>&& parts);
  void end(std::size_t at, const engine::RequestOutput& output);
  void fail(const Error& error, int status);
  [[nodiscard]] TokenText text_of(const engine::TokenLogprob& token) const;

  ChatService& service_;
  RunningOptions options_;
  std::shared_ptr<AnswerSink> sink_;
  Clock::time_point arrival_ = Clock::now();
  std::mutex tickets_mutex_;
  std::vector<engine::AsyncLLMEngine::Ticket> tickets_;  // of the choices
  std::shared_ptr<engine::AsyncBeams> beams_;            // that find them instead; null: they are drawn
  std::optional<Clock::time_point> first_round_;         // when that search knew its first tokens
  bool aborted_ = false;
  std::atomic<bool> expired_{false};
  // Of the engine's thread, once begun.
  std::vector<Choice> choices_;
  std::int64_t open_ = 0;  // choices that go on
  bool failed_ = false;
  TokenUsage usage_;
  std::vector<TokenText> prompt_;  // those of its tokens that have been told; empty: none are asked for
};

}  // namespace tern::server
