#include "models/adapter_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/log.h"
#include "base/strings.h"
#include "io/json_field.h"
#include "models/initial_pairs.h"

namespace tern::models {
namespace {

using Json = io::Json;

constexpr const char* kAnew = "take the file from the adapter's repository or checkpoint again";
constexpr const char* kVera = "VERA";
constexpr const char* kVeraOnly = "vera_only";
constexpr const char* kMerge = "merge that adapter with PEFT first";
constexpr const char* kConvert =
    "save it as a plain LoRA with PEFT's path_initial_model_for_weight_conversion, as it is of a base model that was "
    "changed";

// Fields of LoraConfig and VeraConfig that are read below, or that say nothing of what is computed once an adapter is
// trained.
constexpr std::array<std::string_view, 35> kServed = {"r",
                                                      "lora_alpha",
                                                      "lora_dropout",
                                                      "use_rslora",
                                                      "target_modules",
                                                      "base_model_name_or_path",
                                                      "exclude_modules",
                                                      "layers_to_transform",
                                                      "layers_pattern",
                                                      "rank_pattern",
                                                      "alpha_pattern",
                                                      "use_dora",
                                                      "bias",
                                                      "peft_type",
                                                      "init_lora_weights",
                                                      "fan_in_fan_out",
                                                      "task_type",
                                                      "inference_mode",
                                                      "revision",
                                                      "auto_mapping",
                                                      "peft_version",
                                                      "megatron_core",
                                                      "loftq_config",
                                                      "eva_config",
                                                      "corda_config",
                                                      "lora_ga_config",
                                                      "qalora_group_size",
                                                      "runtime_config",
                                                      "modules_to_save",
                                                      "target_parameters",
                                                      "projection_prng_key",
                                                      "save_projection",
                                                      "vera_dropout",
                                                      "d_initial",
                                                      "init_weights"};

// Silently ignoring a feature of PEFT that changes the computation would give wrong answers: what is neither served nor
// off is refused, fields of later versions too.
void refuse_unserved(const io::JsonField& json) {
  for (const auto& member : json.object()) {
    if (std::find(kServed.begin(), kServed.end(), member.key) != kServed.end()) continue;
    const auto field = json.member(member);
    if (!field.json().is_null() && field.json() != false && !field.json().empty()) {
      throw field.wrong("an adapter without it", kMerge);
    }
  }
  const auto type = json.find("peft_type");
  if (type && type->json() != "LORA" && type->json() != kVera) throw type->wrong("LORA or VERA", kMerge);
  // How it began says how the base model was changed for it.
  const auto init = json.find("init_lora_weights");
  if (!init || !init->json().is_string()) return;
  const std::string_view begins = init->text();
  if (begins == kPissa || begins == kOlora) return;
  for (const std::string_view changes : {"pissa", "corda", "loftq", "lora_ga", "lora-ga"}) {
    if (begins.starts_with(changes)) throw init->wrong("an adapter of the base model as it is", kConvert);
  }
}

double positive(const io::JsonField& field) {
  const double value = field.number();
  if (!(value > 0) || !std::isfinite(value)) throw field.wrong("a number above 0");
  return value;
}

std::int64_t rank_in(const io::JsonField& field) {
  const double rank = field.number();
  if (!(rank >= 1 && rank <= 65536) || rank != std::floor(rank)) throw field.wrong("a rank from 1 to 65536");
  return static_cast<std::int64_t>(rank);
}

void require_regex(const io::JsonField& field, const std::string& expression) {
  if (!wrong_with_regex(expression).empty()) throw field.wrong("a regular expression", kMerge);
}

ModulePattern pattern_in(const io::JsonField& json, const char* key, bool of_ranks) {
  ModulePattern out;
  const auto pattern = json.find(key);
  if (!pattern) return out;
  for (const auto& member : pattern->object()) {
    const auto field = pattern->member(member);
    require_regex(field, member.key);
    out.emplace_back(member.key, of_ranks ? static_cast<double>(rank_in(field)) : positive(field));
  }
  return out;
}

ModuleNames names_in(const io::JsonField& json, const char* key) {
  ModuleNames out;
  const auto names = json.find(key);
  if (!names) return out;
  if (names->json().is_string()) {
    out = {{std::string(names->text())}, true};
    require_regex(*names, out.names[0]);
  } else {
    out.names = names->texts();
  }
  return out;
}

std::vector<std::string> texts_in(const io::JsonField& json, const char* key) {
  const auto found = json.find(key);
  if (!found) return {};
  if (found->json().is_string()) return {std::string(found->text())};
  return found->texts();
}

TrainedBiases bias_in(const io::JsonField& json, AdapterKind kind) {
  const auto given = json.find("bias");
  if (!given) return TrainedBiases::none;
  const bool is_own = kind == AdapterKind::vera && given->text() == kVeraOnly;
  const auto biases = is_own ? TrainedBiases::lora_only : trained_biases(given->text());
  if (!biases) throw given->wrong(cat("none, all or ", kind == AdapterKind::vera ? kVeraOnly : "lora_only"), kMerge);
  return *biases;
}

Json texts_json(const std::vector<std::string>& names, bool is_regex) {
  if (is_regex) return names.at(0);
  return names;
}

Json pattern_json(const ModulePattern& pattern, bool of_ranks) {
  Json out = Json::object();
  for (const auto& [key, value] : pattern) {
    if (of_ranks) {
      out[key] = static_cast<std::int64_t>(value);
    } else {
      out[key] = value;
    }
  }
  return out;
}

constexpr std::array<std::pair<TrainedBiases, std::string_view>, 3> kBiases = {
    {{TrainedBiases::none, "none"}, {TrainedBiases::all, "all"}, {TrainedBiases::lora_only, "lora_only"}}};

std::string vera_config_json(const AdapterConfig& config) {
  Json json;
  json["peft_type"] = kVera;
  json["task_type"] = config.task_type;
  json["base_model_name_or_path"] = config.base_model;
  json["r"] = config.rank;
  json["target_modules"] = texts_json(config.target_modules, config.target_is_regex);
  json["projection_prng_key"] = config.projection_prng_key;
  json["save_projection"] = true;
  json["vera_dropout"] = config.dropout;
  json["d_initial"] = config.d_initial;
  json["bias"] = config.bias == TrainedBiases::lora_only ? kVeraOnly : word_of(config.bias);
  json["fan_in_fan_out"] = false;
  json["inference_mode"] = true;
  json["init_weights"] = true;
  if (!config.modules_to_save.empty()) json["modules_to_save"] = config.modules_to_save;
  if (!config.exclude_modules.names.empty()) {
    json["exclude_modules"] = texts_json(config.exclude_modules.names, config.exclude_modules.is_regex);
  }
  if (!config.layers_to_transform.empty()) json["layers_to_transform"] = config.layers_to_transform;
  if (!config.layers_pattern.empty()) json["layers_pattern"] = config.layers_pattern;
  return io::write_json(json);
}

}  // namespace

std::string_view word_of(TrainedBiases biases) {
  return std::find_if(kBiases.begin(), kBiases.end(), [&](const auto& row) { return row.first == biases; })->second;
}

std::optional<TrainedBiases> trained_biases(std::string_view word) {
  const auto* const row =
      std::find_if(kBiases.begin(), kBiases.end(), [&](const auto& it) { return it.second == word; });
  if (row == kBiases.end()) return std::nullopt;
  return row->first;
}

std::int64_t AdapterConfig::rank_of(const std::string& module) const {
  const auto own = value_of(rank_pattern, module);
  return own ? static_cast<std::int64_t>(*own) : rank;
}

float AdapterConfig::scaling_of(const std::string& module) const {
  const auto of = static_cast<double>(rank_of(module));
  if (kind == AdapterKind::vera) return 1.0F;
  return static_cast<float>(value_of(alpha_pattern, module).value_or(alpha) / (use_rslora ? std::sqrt(of) : of));
}

bool AdapterConfig::selects(const std::string& module) const {
  if (exclude_modules.contains(module)) return false;
  for (const std::string& saved : modules_to_save) {
    if (is_within(module, saved)) return false;
  }
  if (target_modules.empty() || target_modules[0] == kAllLinear) return true;
  const ModuleNames targets{target_modules, target_is_regex};
  if (!targets.contains(module)) return false;
  const bool whole = std::find(target_modules.begin(), target_modules.end(), module) != target_modules.end();
  if (target_is_regex || whole || layers_to_transform.empty()) return true;
  const auto layer = layer_of(module, layers_pattern);
  return layer &&
         std::find(layers_to_transform.begin(), layers_to_transform.end(), *layer) != layers_to_transform.end();
}

Result<AdapterConfig> read_adapter_config(const std::filesystem::path& directory) {
  return catching([&] {
    const std::filesystem::path file = directory / "adapter_config.json";
    const Json text = io::read_json_file(file).value();
    const io::JsonField json(text, file.string(), kAnew);
    refuse_unserved(json);
    AdapterConfig config;
    if (json.text("peft_type", "") == kVera) config.kind = AdapterKind::vera;
    const bool is_vera = config.kind == AdapterKind::vera;
    if (is_vera) config.rank = 256;
    if (const auto rank = json.find("r")) config.rank = rank_in(*rank);
    config.alpha = json.number("lora_alpha", 8);
    const char* const dropout = is_vera ? "vera_dropout" : "lora_dropout";
    config.dropout = json.number(dropout, 0);
    if (!(config.dropout >= 0 && config.dropout < 1)) throw json.at(dropout).wrong("a share from 0 to below 1");
    config.projection_prng_key = json.integer("projection_prng_key", 0);
    config.d_initial = json.number("d_initial", 0.1);
    config.use_rslora = json.boolean("use_rslora", false);
    config.use_dora = json.boolean("use_dora", false);
    if (const auto named = json.find("target_parameters")) config.target_parameters = named->texts();
    if (const auto saved = json.find("modules_to_save")) config.modules_to_save = saved->texts();
    config.bias = bias_in(json, config.kind);
    ModuleNames targets = names_in(json, "target_modules");
    config.target_modules = std::move(targets.names);
    config.target_is_regex = targets.is_regex && config.target_modules[0] != kAllLinear;
    config.exclude_modules = names_in(json, "exclude_modules");
    if (const auto layers = json.find("layers_to_transform")) config.layers_to_transform = layers->integers();
    config.layers_pattern = texts_in(json, "layers_pattern");
    for (const auto& pattern : config.layers_pattern) require_regex(json.at("layers_pattern"), pattern);
    config.rank_pattern = pattern_in(json, "rank_pattern", true);
    config.alpha_pattern = pattern_in(json, "alpha_pattern", false);
    const auto init = json.find("init_lora_weights");
    if (init && (init->json() == kPissa || init->json() == kOlora)) config.began_as = init->text();
    if (json.boolean("fan_in_fan_out", false)) {
      log_warn(cat(file.string(), " has fan_in_fan_out, which PEFT sets to false for linear layers, and so does tern"));
    }
    config.base_model = json.text("base_model_name_or_path", "");
    config.task_type = json.text("task_type", config.task_type);
    if (config.task_type == kClassification) {  // PEFT adds every name that a head of labels may have
      std::erase_if(config.modules_to_save, [](const auto& name) { return name == "classifier" || name == "v_head"; });
    }
    for (const auto& name : config.modules_to_save) require_regex(json.at("modules_to_save"), name);
    return config;
  });
}

AdapterConfig with_initial_pairs(AdapterConfig config) {
  if (config.began_as.empty()) return config;
  config.began_as.clear();
  const double factor = config.use_rslora ? std::sqrt(2.0) : 2.0;  // the scaling stays
  config.rank *= 2;
  config.alpha *= factor;
  for (auto& [module, rank] : config.rank_pattern) rank *= 2;
  for (auto& [module, alpha] : config.alpha_pattern) alpha *= factor;
  return config;
}

std::string adapter_config_json(const AdapterConfig& of) {
  const AdapterConfig config = with_initial_pairs(of);
  if (of.kind == AdapterKind::vera) return vera_config_json(of);
  Json json;
  json["peft_type"] = "LORA";
  json["task_type"] = config.task_type;
  json["base_model_name_or_path"] = config.base_model;
  json["r"] = config.rank;
  json["lora_alpha"] = config.alpha;
  json["lora_dropout"] = config.dropout;
  json["use_rslora"] = config.use_rslora;
  json["target_modules"] = texts_json(config.target_modules, config.target_is_regex);
  if (!config.target_parameters.empty()) json["target_parameters"] = config.target_parameters;
  if (!config.modules_to_save.empty()) json["modules_to_save"] = config.modules_to_save;
  json["bias"] = word_of(config.bias);
  json["fan_in_fan_out"] = false;
  json["inference_mode"] = true;
  json["init_lora_weights"] = true;
  if (config.use_dora) json["use_dora"] = true;
  if (!config.exclude_modules.names.empty()) {
    json["exclude_modules"] = texts_json(config.exclude_modules.names, config.exclude_modules.is_regex);
  }
  if (!config.layers_to_transform.empty()) json["layers_to_transform"] = config.layers_to_transform;
  if (!config.layers_pattern.empty()) json["layers_pattern"] = config.layers_pattern;
  if (!config.rank_pattern.empty()) json["rank_pattern"] = pattern_json(config.rank_pattern, true);
  if (!config.alpha_pattern.empty()) json["alpha_pattern"] = pattern_json(config.alpha_pattern, false);
  return io::write_json(json);
}

}  // namespace tern::models
