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
  return Failure(usage_error(
      cat("--speculative_config ", what),
      R"(write it like {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4, )"
      R"("prompt_lookup_min": 2}, {"method": "suffix"} or {"model": "FOLDER", "num_speculative_tokens": 5}, where FOLDER is a )"
      R"(smaller model, or with "method": "eagle3" a head; {"method": "mtp", "num_speculative_tokens": 1} guesses by )"
      R"(the model's own layers)"));
}

std::optional<std::int64_t> number(const io::Json& json, std::string_view key, std::int64_t least = 1,
                                   std::int64_t most = 1024) {
  const io::Json* value = json.find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (value->is_number_integer() && value->get<std::int64_t>() >= least && value->get<std::int64_t>() <= most) {
    return value->get<std::int64_t>();
  }
  throw refuse(cat("has ", key, " ", value->dump(), ", and it is an integer from ", least, " to ", most));
}

std::optional<double> real(const io::Json& json, std::string_view key, std::int64_t most) {
  const io::Json* value = json.find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (value->is_number() && value->get<double>() >= 0 && value->get<double>() <= static_cast<double>(most)) {
    return value->get<double>();
  }
  throw refuse(cat("has ", key, " ", value->dump(), ", and it is a number from 0 to ", most));
}

std::string text_of(const io::Json& json, std::string_view key) {
  const io::Json* value = json.find(key);
  if (value == nullptr || value->is_null()) return "";
  if (value->is_string() && !value->get<std::string>().empty()) return value->get<std::string>();
  throw refuse(cat("has ", key, " ", value->dump(), ", and it is a text"));
}

struct Method {
  std::string_view name;
  SpeculativeConfig::Method method;
  std::vector<std::string_view> keys;  // beside the method and the number of tokens
};

const std::vector<Method>& methods() {
  using Named = SpeculativeConfig::Method;
  static const std::vector<Method> all = {{"ngram", Named::ngram, {"prompt_lookup_max", "prompt_lookup_min"}},
                                          {"draft_model", Named::draft_model, {"model"}},
                                          {"eagle3", Named::eagle3, {"model"}},
                                          {"mtp", Named::mtp, {}},
                                          // What vLLM called it for a model each, and still takes.
                                          {"deepseek_mtp", Named::mtp, {}},
                                          {"glm4_moe_mtp", Named::mtp, {}},
                                          {"qwen3_next_mtp", Named::mtp, {}},
                                          {"qwen3_5_mtp", Named::mtp, {}},
                                          {"suffix",
                                           Named::suffix,
                                           {"suffix_decoding_max_tree_depth", "suffix_decoding_max_cached_requests",
                                            "suffix_decoding_max_spec_factor", "suffix_decoding_min_token_prob"}}};
  return all;
}

// The method of that name, which knows all keys.
const Method& require_keys(const io::Json& json, const std::string& method) {
  const auto known =
      std::ranges::find_if(methods(), [&](const Method& one) { return std::string_view(method) == one.name; });
  if (known == methods().end()) {
    throw refuse(cat("has the method ", method.empty() ? "none" : cat("\"", method, "\""),
                     ", and ngram, draft_model, eagle3, mtp and suffix are those there are"));
  }
  for (const auto& [key, value] : json.items()) {
    if (key == "method" || key == "num_speculative_tokens") continue;
    if (std::find(known->keys.begin(), known->keys.end(), key) != known->keys.end()) continue;
    throw refuse(cat("has the key ", key, ", which the method ", method, " does not know"));
  }
  return *known;
}

engine::SuffixOptions read_suffix(const io::Json& json) {
  constexpr std::int64_t kMostRequests = 1'000'000'000;
  engine::SuffixOptions out;
  const auto depth = number(json, "suffix_decoding_max_tree_depth");
  const auto requests = number(json, "suffix_decoding_max_cached_requests", 0, kMostRequests);
  out.max_tree_depth = depth.value_or(out.max_tree_depth);
  out.max_cached_requests = requests.value_or(out.max_cached_requests);
  out.max_spec_factor = real(json, "suffix_decoding_max_spec_factor", 1024).value_or(out.max_spec_factor);
  out.min_token_prob = real(json, "suffix_decoding_min_token_prob", 1).value_or(out.min_token_prob);
  return out;
}

}  // namespace

// Of the lengths that are looked up, one that is not given is the other's, both are 5. Suffix decoding guesses as many
// tokens as its tree is deep where nothing else is said, as in vLLM.
SpeculativeConfig read_speculative_config(const std::string& text) {
  const io::Json json = io::parse_json(text, "--speculative_config").value();
  SpeculativeConfig config;
  std::string method = text_of(json, "method");
  config.model = text_of(json, "model");
  if (method.empty() && !config.model.empty()) method = "draft_model";
  config.method = require_keys(json, method).method;
  const bool is_head = config.method == SpeculativeConfig::Method::eagle3;
  if ((is_head || config.method == SpeculativeConfig::Method::draft_model) && config.model.empty()) {
    throw refuse(cat("needs the ", is_head ? "head" : "model", " that guesses"));
  }
  auto tokens = number(json, "num_speculative_tokens");
  if (config.method == SpeculativeConfig::Method::suffix) {
    config.options.suffix = read_suffix(json);
    if (!tokens) tokens = config.options.suffix->max_tree_depth;
  }
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
