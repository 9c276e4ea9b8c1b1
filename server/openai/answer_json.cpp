#include "server/openai/answer_json.h"

#include "base/strings.h"

namespace tern::server::openai {
namespace {

using io::Json;

Json entry(const TokenText& token, bool as_id) {
  Json out = Json::object();
  out["token"] = token_name(token, as_id);
  out["logprob"] = token.logprob;
  Json bytes = Json::array();
  for (const char byte : token.bytes) bytes.push_back(static_cast<unsigned char>(byte));
  out["bytes"] = std::move(bytes);
  return out;
}

}  // namespace

std::string token_name(const TokenText& token, bool as_id) { return as_id ? cat("token_id:", token.id) : token.text; }

Json token_json(const TokenText& token, bool as_id) {
  Json out = entry(token, as_id);
  Json likeliest = Json::array();
  for (const TokenText& one : token.likeliest) likeliest.push_back(entry(one, as_id));
  out["top_logprobs"] = std::move(likeliest);
  return out;
}

Json prompt_logprobs_json(const std::vector<TokenText>& tokens) {
  Json out = Json::array();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i == 0) {
      out.push_back(Json());
      continue;
    }
    Json by_id = Json::object();
    const auto add = [&](const TokenText& token, std::int64_t rank) {
      Json one = Json::object();
      one["logprob"] = token.logprob;
      one["rank"] = rank;
      one["decoded_token"] = token.text;
      by_id[std::to_string(token.id)] = std::move(one);
    };
    // Beyond the likeliest that are asked for its rank is not known: it's at least this.
    add(tokens[i], static_cast<std::int64_t>(tokens[i].likeliest.size()) + 1);
    std::int64_t rank = 0;
    for (const TokenText& one : tokens[i].likeliest) add(one, ++rank);
    out.push_back(std::move(by_id));
  }
  return out;
}

Json usage_json(const TokenUsage& usage) {
  Json out = Json::object();
  out["prompt_tokens"] = usage.prompt_tokens;
  out["completion_tokens"] = usage.completion_tokens;
  out["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  out["prompt_tokens_details"]["cached_tokens"] = usage.cached_tokens;
  if (usage.reasoning_tokens > 0) out["completion_tokens_details"]["reasoning_tokens"] = usage.reasoning_tokens;
  return out;
}

Json finish_reason(const AnswerEnd& end) {
  switch (end.kind) {
    case StopKind::length:
      return "length";
    case StopKind::tool_calls:
      return "tool_calls";
    case StopKind::aborted:
      return "abort";
    default:
      return "stop";
  }
}

Json stop_reason(const AnswerEnd& end) {
  if (!end.stop_text.empty()) return end.stop_text;
  if (end.stop_token_id) return *end.stop_token_id;
  return {};
}

}  // namespace tern::server::openai
