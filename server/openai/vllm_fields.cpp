#include "server/openai/vllm_fields.h"

#include <limits>

namespace tern::server::openai {
namespace {

void truncation(JsonBody& body, SamplingWishes& wishes) {
  wishes.truncate_prompt_tokens = body.integer("truncate_prompt_tokens", -1);
  if (wishes.truncate_prompt_tokens == 0) throw body.wrong("truncate_prompt_tokens", "at least 1, or -1");
  const std::string side = body.text("truncation_side").value_or("left");
  if (side != "left" && side != "right") throw body.wrong("truncation_side", "left or right");
  wishes.truncate_right = side == "right";
}

// Switches that some clients send always, and that are not served where they are on.
void refused(JsonBody& body) {
  const auto off = [&](const char* key, const char* expected) {
    if (body.boolean(key).value_or(false)) throw body.wrong(key, expected);
  };
  off("watermarking", "false: answers have no watermark");
  if (!body.boolean("spaces_between_special_tokens").value_or(true)) {
    throw body.wrong("spaces_between_special_tokens", "true: special tokens are written as they are");
  }
  if (body.integer("stream_interval", 1).value_or(1) != 1) {
    throw body.wrong("stream_interval", "1: each piece is sent as it comes");
  }
  if (body.integer("routed_experts_prompt_start", 0).value_or(0) != 0) {
    throw body.wrong("routed_experts_prompt_start", "0: which experts answered is not told");
  }
  for (const char* key : {"kv_transfer_params", "ec_transfer_params", "vllm_xargs", "repetition_detection"}) {
    if (const io::Json* value = body.find(key); value != nullptr && !value->empty()) {
      throw body.wrong(key, "none: it isn't served here");
    }
  }
  for (const char* key : {"logprob_token_ids", "prompt_embeds"}) {
    if (body.find(key) != nullptr) throw body.wrong(key, "none: it isn't served here");
  }
}

}  // namespace

void vllm_fields(JsonBody& body, SamplingWishes& wishes) {
  for (std::string& word : body.texts("bad_words")) {
    if (word.find_first_not_of(" \t\n\r") == std::string::npos)
      throw body.wrong("bad_words", "words that aren't empty");
    wishes.bad_words.push_back(std::move(word));
  }
  for (const std::int64_t id : body.integers("allowed_token_ids")) {
    if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) throw body.wrong("allowed_token_ids", "token ids");
    wishes.allowed_token_ids.push_back(static_cast<std::int32_t>(id));
  }
  if (const io::Json* ids = body.find("allowed_token_ids"); ids != nullptr && ids->empty()) {
    throw body.wrong("allowed_token_ids", "at least one token id");
  }
  truncation(body, wishes);
  wishes.token_ids = body.boolean("return_token_ids").value_or(false);
  if (const auto budget = body.integer("thinking_token_budget", -1); budget && *budget >= 0) {
    wishes.thinking_token_budget = budget;
  }
  const double length_penalty = body.number("length_penalty", -1e3, 1e3).value_or(1);
  if (body.boolean("use_beam_search").value_or(false)) {
    wishes.beams = BeamWishes{.length_penalty = length_penalty};
  } else if (length_penalty != 1) {
    throw body.wrong("length_penalty", "1, as it counts with beam search alone");
  }
  refused(body);
  // Of vLLM's own accounts, and what counts on its routes that render and draw nothing.
  body.takes({"request_id", "session_id", "return_token_offsets", "return_mm_kwargs"});
}

void beam_fields(JsonBody& body, SamplingWishes& wishes, const BesideBeams& beside) {
  if (!wishes.beams) return;
  const auto only = [&](const char* key, bool is_so, const char* expected) {
    if (!is_so) throw body.wrong(key, expected);
  };
  constexpr const char* kDrawsNothing = "none beside use_beam_search, which draws nothing";
  constexpr const char* kChangesNothing = "none beside use_beam_search: it would change what is likely";
  only("stream", !beside.streams, "false beside use_beam_search: the best answers are known at their end");
  only("temperature", wishes.temperature.value_or(0) == 0, "0 beside use_beam_search, which draws nothing");
  only("top_p", wishes.top_p.value_or(1) == 1, kDrawsNothing);
  only("top_k", wishes.top_k.value_or(0) <= 0, kDrawsNothing);
  only("min_p", wishes.min_p.value_or(0) == 0, kDrawsNothing);
  only("repetition_penalty", wishes.repetition_penalty.value_or(1) == 1, kChangesNothing);
  only("presence_penalty", wishes.presence_penalty.value_or(0) == 0, kChangesNothing);
  only("frequency_penalty", wishes.frequency_penalty.value_or(0) == 0, kChangesNothing);
  only("logit_bias", wishes.logit_bias.empty(), kChangesNothing);
  only("bad_words", wishes.bad_words.empty(), kChangesNothing);
  only("allowed_token_ids", wishes.allowed_token_ids.empty(), kChangesNothing);
  only("min_tokens", wishes.min_tokens == 0, kChangesNothing);
  only("thinking_token_budget", !wishes.thinking_token_budget, kChangesNothing);
  only("prompt_logprobs", !wishes.prompt_logprobs, "none beside use_beam_search");
  const char* const tops = body.find("top_logprobs") != nullptr ? "top_logprobs" : "logprobs";
  only(tops, wishes.top_logprobs.value_or(0) == 0,
       "0 beside use_beam_search: the tokens of its answers have log-probabilities, and others aren't told");
  only("use_beam_search", !beside.is_held, "false where the answer is held to a form");
  wishes.beams->width = beside.width;
}

}  // namespace tern::server::openai
