#include "cli/speculative_config.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "io/json.h"

namespace tern::cli {
namespace {

Failure refuse(const std::string& what) {
  return Failure(
      usage_error(cat("--speculative_config ", what),
                  R"(write it like {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4, )"
                  R"("prompt_lookup_min": 2} or {"model": "FOLDER", "num_speculative_tokens": 5})"));
}

std::optional<std::int64_t> number(const io::Json& json, std::string_view key) {
  const io::Json* value = json.find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (value->is_number_integer() && value->get<std::int64_t>() >= 1 && value->get<std::int64_t>() <= 1024) {
    return value->get<std::int64_t>();
  }
  throw refuse(cat("has ", key, " ", value->dump(), ", and it is an integer from 1 to 1024"));
}

std::string text_of(const io::Json& json, std::string_view key) {
  const io::Json* value = json.find(key);
  if (value == nullptr || value->is_null()) return "";
  if (value->is_string() && !value->get<std::string>().empty()) return value->get<std::string>();
  throw refuse(cat("has ", key, " ", value->dump(), ", and it is a text"));
}

void require_keys(const io::Json& json, const std::string& method) {
  const bool looks_up = method == "ngram";
  const std::vector<std::string_view> known =
      looks_up
          ? std::vector<std::string_view>{"method", "num_speculative_tokens", "prompt_lookup_max", "prompt_lookup_min"}
          : std::vector<std::string_view>{"method", "num_speculative_tokens", "model"};
  for (const auto& [key, value] : json.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw refuse(cat("has the key ", key, ", which the method ", method, " does not know"));
  }
}

}  // namespace

// Of the lengths that are looked up, one that is not given is the other's, both are 5.
SpeculativeConfig read_speculative_config(const std::string& text) {
  const io::Json json = io::parse_json(text, "--speculative_config").value();
  SpeculativeConfig config;
  std::string method = text_of(json, "method");
  config.model = text_of(json, "model");
  if (method.empty() && !config.model.empty()) method = "draft_model";
  if (method != "ngram" && method != "draft_model") {
    throw refuse(cat("has the method ", method.empty() ? "none" : cat("\"", method, "\""),
                     ", and ngram and draft_model are those there are"));
  }
  require_keys(json, method);
  if (method == "draft_model" && config.model.empty()) throw refuse("needs the model that guesses");
  const auto tokens = number(json, "num_speculative_tokens");
  if (!tokens) throw refuse("needs num_speculative_tokens");
  config.options.num_speculative_tokens = *tokens;
  const auto longest = number(json, "prompt_lookup_max");
  const auto shortest = number(json, "prompt_lookup_min");
  config.options.prompt_lookup_max = longest.value_or(shortest.value_or(5));
  config.options.prompt_lookup_min = shortest.value_or(longest.value_or(5));
  if (config.options.prompt_lookup_min > config.options.prompt_lookup_max) {
    throw refuse("has prompt_lookup_min above prompt_lookup_max");
  }
  return config;
}

}  // namespace tern::cli
