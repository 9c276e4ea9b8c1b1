// What every protocol's request for an answer is translated to. A field that is absent leaves the decision to the
// model's generation_config.json, or to the server.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/constraint.h"
#include "engine/llm.h"
#include "server/request_record.h"

namespace tern::server {

// A beam search in the place of drawing (use_beam_search).
struct BeamWishes {
  std::int64_t width = 1;  // beams
  double length_penalty = 1;
};

struct SamplingWishes {
  std::optional<float> temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<std::int32_t> top_k;         // 0 or -1: off
  std::optional<std::int64_t> max_tokens;    // absent: as many as the context holds
  std::int64_t min_tokens = 0;               // before an end token may be drawn
  std::optional<std::uint64_t> seed;         // absent: another one each time
  std::vector<std::string> stop;             // texts that end the answer
  std::vector<std::int32_t> stop_token_ids;  // beside the model's own
  bool include_stop_str_in_output = false;
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  std::vector<std::pair<std::int32_t, float>> logit_bias;
  std::vector<std::string> bad_words;                 // that may not be drawn
  std::vector<std::int32_t> allowed_token_ids;        // no others are drawn; empty: all of them
  std::optional<std::int64_t> top_logprobs;           // log-probabilities are asked for, with so many likeliest tokens
  std::optional<std::int64_t> prompt_logprobs;        // the same of the prompt's tokens
  std::optional<std::int64_t> thinking_token_budget;  // of a thinking model's reasoning
  std::int64_t priority = 0;                          // lower comes first
  // A longer prompt loses tokens, at its beginning, or where `truncate_right` its end. -1: as many as leave room for
  // max_tokens.
  std::optional<std::int64_t> truncate_prompt_tokens;
  bool truncate_right = false;
  bool token_ids = false;           // the ids of the prompt and of each drawn token are told
  std::optional<BeamWishes> beams;  // nothing that changes what is likely stands beside it
};

using engine::Constraint;  // what the answer's text must be (structured output)

struct ToolChoice {
  enum class Kind { none, automatic, required, named };
  Kind kind = Kind::automatic;  // counts only where there are tools
  std::string name;             // of Kind::named
};

struct ChatRequest {
  std::string model;            // as asked for: the served name or an adapter's; "": the only one
  engine::Dialogue dialogue;    // messages, tools (an array of {"type": "function", "function": {...}}), images
  std::string template_kwargs;  // the template's variables as a JSON object, or ""
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // goes on with the last message instead of beginning a new one
  SamplingWishes sampling;
  std::int64_t n = 1;  // answers
  Constraint constraint;
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;
  bool whole = false;  // the answer is not streamed, so that a call which breaks off can still be told as text
  bool include_reasoning = true;          // false: what a thinking model thinks is left out
  std::string cache_salt;                 // prompts share cached prefixes only with those of the same salt
  std::shared_ptr<RequestRecord> record;  // HttpRequest's; null: none
};

// A prompt that is gone on with: /v1/completions.
struct CompletionRequest {
  std::string model;
  engine::Prompt prompt;  // a text or ids
  SamplingWishes sampling;
  std::int64_t n = 1;
  Constraint constraint;
  bool echo = false;  // the prompt comes before the answer
  std::string cache_salt;
  std::shared_ptr<RequestRecord> record;
};

}  // namespace tern::server
