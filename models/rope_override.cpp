#include "models/rope_override.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "models/registry.h"
#include "models/rope.h"

namespace tern::models {
namespace {

using Json = io::Json;

constexpr const char* kFlag = "--rope_scaling";
constexpr const char* kOriginal = "original_max_position_embeddings";
constexpr const char* kFull = "full_attention";
constexpr const char* kMend = "write it as in a config.json, for example {\"rope_type\": \"yarn\", \"factor\": 4.0}";

void require_scalable(const ModelConfig& config) {
  const Architecture& architecture = *find_architecture(config.architecture);
  const char* why = nullptr;
  if (architecture.encoder) why = "is an encoder, whose context is fixed";
  if (architecture.rope_by_layer_type) why = "has a scaling for each type of its layers";
  if (why == nullptr) return;
  throw Failure(usage_error(cat(kFlag, " is given, and ", config.architecture, " ", why), "drop the flag"));
}

Json parameters(const std::string& scaling) {
  if (!scaling.starts_with('{')) {
    Json json;
    json["rope_type"] = scaling;
    return json;
  }
  return io::parse_json(scaling, kFlag).value();
}

std::string type_in(const io::JsonField& wanted) {
  return std::string(wanted.text("rope_type", wanted.text("type", "default")));
}

// What the model was trained on before anything was scaled.
double original_context(const io::JsonField& wanted, const ModelConfig& config) {
  const auto context = static_cast<double>(config.max_position_embeddings);
  if (wanted.find(kOriginal)) return wanted.at(kOriginal).number();
  switch (config.rope_scaling) {
    case RopeScaling::yarn:
    case RopeScaling::llama3:
    case RopeScaling::longrope:
      return config.rope_original_max_position;
    case RopeScaling::linear:
    case RopeScaling::dynamic:
      return std::floor(context / config.rope_factor);
    default:
      return context;
  }
}

double factor_of(const io::JsonField& wanted, double original, std::int64_t max_model_len) {
  if (wanted.find("factor")) return wanted.at("factor").number();
  if (max_model_len > 0) return std::max(1.0, std::ceil(static_cast<double>(max_model_len) / original));
  throw Failure(
      usage_error(cat(kFlag, " ", type_in(wanted), " says no factor, and there is no --max_model_len to reach"),
                  cat("give --max_model_len with the length that you want, or ", kFlag,
                      " '{\"rope_type\": \"yarn\", \"factor\": 4.0}'")));
}

// As if the model had no scaling.
void forget_scaling(ModelConfig& config) {
  const ModelConfig plain;
  config.rope_scaling = plain.rope_scaling;
  config.rope_factor = plain.rope_factor;
  config.rope_low_freq_factor = plain.rope_low_freq_factor;
  config.rope_high_freq_factor = plain.rope_high_freq_factor;
  config.rope_original_max_position = plain.rope_original_max_position;
  config.rope_beta_fast = plain.rope_beta_fast;
  config.rope_beta_slow = plain.rope_beta_slow;
  config.rope_attention_factor = plain.rope_attention_factor;
  config.rope_mscale = plain.rope_mscale;
  config.rope_mscale_all_dim = plain.rope_mscale_all_dim;
  config.rope_truncate = plain.rope_truncate;
  config.rope_share = plain.rope_share;
  config.rope_short_factors.clear();
  config.rope_long_factors.clear();
  config.rope_freq_factors.clear();
}

// What is wanted, and those fields of before that no scaling changes.
Json merged(const Json& wanted, const Json& before) {
  Json out = wanted;
  for (const char* kept : {"rope_theta", kPartialRotaryFactor, kRopeSections, "mrope_interleaved"}) {
    const Json* value = before.is_object() ? before.find(kept) : nullptr;
    if (value != nullptr && !out.contains(kept)) out[kept] = *value;
  }
  return out;
}

// The same in the config.json that is written again.
void set_in_json(const Json& wanted, ModelConfig& config) {
  auto json = std::make_shared<Json>(*config.json);
  const char* key = json->contains("rope_parameters") ? "rope_parameters" : "rope_scaling";
  Json before = json->contains(key) ? (*json)[key] : Json();
  json->erase("rope_scaling");
  if (before.is_object() && before.contains(kFull)) {  // a set for each type of layers: those with a window keep theirs
    before[kFull] = merged(wanted, before[kFull]);
    (*json)[key] = std::move(before);
  } else {
    (*json)[key] = merged(wanted, before);
  }
  (*json)["max_position_embeddings"] = config.max_position_embeddings;
  config.json = std::move(json);
}

}  // namespace

std::string override_rope(const RopeOverride& wanted, ModelConfig& config) {
  if (wanted.scaling.empty()) return "";
  require_scalable(config);
  Json said = parameters(wanted.scaling);
  const io::JsonField fields(said, kFlag, kMend);
  const std::string type = type_in(fields);
  if (type == "dynamic") {
    throw Failure(usage_error(
        cat(kFlag, " dynamic turns a token otherwise as its sequence grows, and keys in a cache have turned already"),
        "choose yarn"));
  }
  const double original = original_context(fields, config);
  const double factor = type == "default" ? 1.0 : factor_of(fields, original, wanted.max_model_len);
  if (!(original >= 1.0) || !(factor >= 1.0)) {
    throw Failure(usage_error(cat(kFlag, " stretches ", original, " positions by ", factor),
                              "give a factor and an original context of at least 1"));
  }
  said.erase("type");
  said["rope_type"] = type;
  if (type != "default") said["factor"] = factor;
  if (type == "yarn" || type == "llama3" || type == "longrope") said[kOriginal] = original;
  const auto reach = static_cast<std::int64_t>(original * factor);
  forget_scaling(config);
  config.max_position_embeddings = wanted.max_model_len > 0 ? wanted.max_model_len : reach;
  Json whole;
  whole["rope_scaling"] = said;
  read_rope_json(io::JsonField(whole, kFlag, kMend), config);
  if (config.json) set_in_json(said, config);
  const char* beyond = config.max_position_embeddings > reach ? ", more than the scaling reaches" : "";
  return cat("positions: ", type, ", ", original, " tokens times ", factor, ", context ",
             config.max_position_embeddings, beyond);
}

}  // namespace tern::models
