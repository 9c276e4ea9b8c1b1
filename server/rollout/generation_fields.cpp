#include "server/rollout/generation_fields.h"

#include "base/strings.h"
#include "server/openai/sampling_fields.h"

namespace tern::server::rollout {
namespace {

using io::Json;

constexpr std::int64_t kMostAnswers = 4096;

void move_field(JsonBody& from, std::string_view key, Json fallback, Json& to) {
  const Json* value = from.find(key);
  if (value != nullptr) {
    to[std::string(key)] = *value;
  } else if (!fallback.is_null()) {
    to[std::string(key)] = std::move(fallback);
  }
}

GenerationFields fields_of(JsonBody& merged) {
  GenerationFields out;
  out.sampling = openai::sampling_fields(merged);
  out.constraint = openai::constraint_fields(merged);
  out.n = merged.integer("n", 1, kMostAnswers).value_or(1);
  out.sampling.max_tokens = merged.integer("max_tokens", 1);
  return out;
}

}  // namespace

GenerationFields trl_fields(JsonBody& body) {
  Json merged = Json::object();
  move_field(body, "n", 1, merged);
  move_field(body, "repetition_penalty", 1.0, merged);
  move_field(body, "temperature", 1.0, merged);
  move_field(body, "top_p", 1.0, merged);
  move_field(body, "top_k", -1, merged);
  move_field(body, "min_p", 0.0, merged);
  constexpr std::int64_t kDefaultTokens = 16;
  move_field(body, "max_tokens", kDefaultTokens, merged);
  const bool is_old = !body.json().contains("logprobs") &&
                      (body.json().contains("truncate_prompt_tokens") || body.json().contains("guided_decoding_regex"));
  // Null asks for none, which absence doesn't.
  const bool none = body.json().contains("logprobs") && body.find("logprobs") == nullptr;
  move_field(body, "logprobs", none ? Json() : Json(0), merged);
  if (const Json* kwargs = body.find("generation_kwargs")) {
    if (!kwargs->is_object()) throw body.wrong("generation_kwargs", "an object");
    for (const auto& [key, value] : kwargs->items()) merged[key] = value;
  }
  for (const char* key : {"guided_decoding_regex", "structured_outputs_regex"}) {
    if (const auto regex = body.text(key)) {
      merged["structured_outputs"] = Json::object();
      merged["structured_outputs"]["regex"] = *regex;
    }
  }
  JsonBody own(merged, "");
  GenerationFields out = fields_of(own);
  out.sampling.top_logprobs = own.integer("logprobs", 0);
  out.lists = !is_old;
  own.finish();
  return out;
}

GenerationFields swift_fields(JsonBody config) {
  Json merged = Json::object();
  for (const char* key : {"max_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "stop", "seed",
                          "n", "presence_penalty", "frequency_penalty", "prompt_logprobs"}) {
    move_field(config, key, Json(), merged);
  }
  if (const auto regex = config.text("structured_outputs_regex")) {
    merged["structured_outputs"] = Json::object();
    merged["structured_outputs"]["regex"] = *regex;
  }
  JsonBody own(merged, "request_config");
  GenerationFields out = fields_of(own);
  own.finish();
  if (config.boolean("logprobs").value_or(false)) {
    out.sampling.top_logprobs = config.integer("top_logprobs", 0).value_or(0);
  } else if (config.integer("top_logprobs", 0).value_or(0) > 0) {
    throw config.wrong("top_logprobs", "none where \"logprobs\" is not true");
  }
  if (config.integer("num_beams", 1).value_or(1) != 1) throw config.wrong("num_beams", "1");
  if (config.boolean("stream").value_or(false)) throw config.wrong("stream", "false: a rollout is answered whole");
  if (config.integer("best_of", 1).value_or(out.n) != out.n) throw config.wrong("best_of", R"(the same as "n")");
  if (config.number("length_penalty", 0, 1e3).value_or(1) != 1) throw config.wrong("length_penalty", "1");
  (void)config.boolean("return_details");
  config.finish();
  return out;
}

}  // namespace tern::server::rollout
