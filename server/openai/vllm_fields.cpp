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
  off("use_beam_search", "false: answers are drawn token by token");
  off("watermarking", "false: answers have no watermark");
  if (!body.boolean("spaces_between_special_tokens").value_or(true)) {
    throw body.wrong("spaces_between_special_tokens", "true: special tokens are written as they are");
  }
  if (body.number("length_penalty", -1e9, 1e9).value_or(1) != 1) {
    throw body.wrong("length_penalty", "1, as it counts with beam search alone");
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
  refused(body);
  // Of vLLM's own accounts, and what counts on its routes that render and draw nothing.
  body.takes({"request_id", "session_id", "return_token_offsets", "return_mm_kwargs"});
}

}  // namespace tern::server::openai
