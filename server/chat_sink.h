// Where the answers to a request go, as they come: each protocol writes them in its own form.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/llm.h"

namespace tern::server {

struct TokenUsage {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;      // of them: found in the prefix cache
  std::int64_t completion_tokens = 0;  // of all answers
  std::int64_t reasoning_tokens = 0;   // of them
};

// A drawn token with its text, as log-probabilities are told.
struct TokenText {
  std::int32_t id = 0;
  float logprob = 0;
  std::string text;                  // its own text, broken characters as U+FFFD
  std::string bytes;                 // its own bytes
  std::vector<TokenText> likeliest;  // in its place, the likeliest first
};

// A piece of one answer. A call of a tool comes as one `call` piece, which names it, and then pieces of its arguments
// (JSON text, joined: one object).
struct AnswerPiece {
  enum class Kind { reasoning, content, call, arguments };
  Kind kind = Kind::content;
  std::int64_t choice = 0;        // which of the request's answers, from 0
  std::string text;               // of reasoning, content, arguments
  std::int64_t call = 0;          // which call of this answer, from 0
  std::string name, id;           // of Kind::call: the tool's name, and "call_..." made by the server
  std::vector<TokenText> tokens;  // that this piece was made of, where log-probabilities or ids are asked for
};

enum class StopKind { stop, length, tool_calls, aborted };

struct AnswerEnd {
  std::int64_t choice = 0;
  StopKind kind = StopKind::stop;
  std::string stop_text;                      // the request's own text that ended it; "": none
  std::optional<std::int32_t> stop_token_id;  // the request's own token that ended it
  double mean_logprob = 0;                    // of its tokens
};

// Called on the engine's thread, one call at a time; must not block. `failed` may come first or in the middle, and is
// the last call; else `finished` is.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  AnswerSink() = default;
  AnswerSink(const AnswerSink&) = delete;
  AnswerSink& operator=(const AnswerSink&) = delete;

  // The prompt's ids, where those are asked for: once, before all else.
  virtual void prompt_ids(const engine::TokenIds& /*ids*/) {}
  // The prompt's tokens with their log-probabilities, where those are asked for: once, before any piece. The first
  // token's is none.
  virtual void prompt(std::vector<TokenText>&& /*tokens*/) {}
  virtual void piece(AnswerPiece&& piece) = 0;
  virtual void ended(const AnswerEnd& end) = 0;             // of one answer
  virtual void finished(const TokenUsage& usage) = 0;       // of all of them
  virtual void failed(const Error& error, int status) = 0;  // `status` as HTTP's: 400, 404, 413, 429, 500, 503
};

}  // namespace tern::server
