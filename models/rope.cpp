#include "models/rope.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>

#include "base/strings.h"
#include "models/registry.h"

namespace tern::models {
namespace {

using Json = io::Json;

constexpr const char* kAgain = "take what describes the model from its repository again";
constexpr const char* kOtherModel = "choose another model: this one computes what tern does not";
constexpr const char* kOriginalLength = "original_context_length";
constexpr const char* kTruncate = "truncate";
constexpr const char* kPartial = "partial_rotary_factor";
constexpr const char* kSections = "mrope_section";
constexpr const char* kFactors = "rope_freqs.weight";  // the tensor in a GGUF

struct Number {
  const char* json;
  const char* gguf;  // after "<architecture>.rope.scaling."; "": the factors' tensor says it
  double ModelConfig::*member;
  bool may_lack = false;  // config.json need not have it: then it is as ModelConfig has it
};
struct Type {
  RopeScaling scaling;
  const char* name;
  std::vector<Number> numbers;
};

const std::vector<Type>& types() {
  static const std::vector<Type> table = {
      {RopeScaling::none, "default", {}},
      {RopeScaling::linear, "linear", {{"factor", "factor", &ModelConfig::rope_factor}}},
      {RopeScaling::dynamic, "dynamic", {{"factor", "", &ModelConfig::rope_factor}}},
      {RopeScaling::yarn,
       "yarn",
       {{"factor", "factor", &ModelConfig::rope_factor},
        {"original_max_position_embeddings", kOriginalLength, &ModelConfig::rope_original_max_position, true},
        {"beta_fast", "yarn_beta_fast", &ModelConfig::rope_beta_fast, true},
        {"beta_slow", "yarn_beta_slow", &ModelConfig::rope_beta_slow, true},
        {"attention_factor", "", &ModelConfig::rope_attention_factor, true},
        {"mscale", "", &ModelConfig::rope_mscale, true},
        {"mscale_all_dim", "", &ModelConfig::rope_mscale_all_dim, true}}},
      {RopeScaling::llama3,
       "llama3",
       {{"factor", "", &ModelConfig::rope_factor},
        {"low_freq_factor", "", &ModelConfig::rope_low_freq_factor},
        {"high_freq_factor", "", &ModelConfig::rope_high_freq_factor},
        {"original_max_position_embeddings", "", &ModelConfig::rope_original_max_position}}}};
  return table;
}

const Type& type_of(RopeScaling scaling) {
  return *std::find_if(types().begin(), types().end(), [&](const Type& type) { return type.scaling == scaling; });
}

void require_sound(const ModelConfig& config, const std::string& where) {
  const auto positive = [&](const char* name, double value) {
    if (std::isfinite(value) && value > 0.0) return;
    throw Failure(data_error(cat(where, ": ", name), "a positive number", cat(value), kAgain));
  };
  positive("rope_theta", config.rope_theta);
  positive("factor", config.rope_factor);
  if (config.rope_scaling == RopeScaling::yarn) {
    positive("original_max_position_embeddings", config.rope_original_max_position);
    positive("beta_slow", config.rope_beta_slow);
    positive("beta_fast - beta_slow", config.rope_beta_fast - config.rope_beta_slow);
  }
  if (config.rope_scaling != RopeScaling::llama3) return;
  positive("low_freq_factor", config.rope_low_freq_factor);
  positive("high_freq_factor - low_freq_factor", config.rope_high_freq_factor - config.rope_low_freq_factor);
  positive("original_max_position_embeddings", config.rope_original_max_position);
}

// Where the factors that a GGUF holds are those of Llama 3.1's formula, sets its numbers. The bounds of the frequencies
// are those of Llama 3.1 and all later models (1 and 4); the context it was first trained on is 8192 there, a power of
// two anyhow.
bool name_scaling(const std::vector<float>& held, ModelConfig& config) {
  if (std::all_of(held.begin(), held.end(), [](float factor) { return factor == 1.0F; })) return true;
  if (config.rope_scaling != RopeScaling::none) return false;
  ModelConfig named = config;
  named.rope_scaling = RopeScaling::llama3;
  named.rope_factor = *std::max_element(held.begin(), held.end());
  named.rope_low_freq_factor = 1.0;
  named.rope_high_freq_factor = 4.0;
  const auto gives_them = [&](std::int64_t first_context) {
    named.rope_original_max_position = static_cast<double>(first_context);
    const std::vector<float> made = rope_factors(named);
    return std::equal(made.begin(), made.end(), held.begin(), held.end(),
                      [](float a, float b) { return std::fabs(a - b) <= 1e-4F * std::fabs(b); });
  };
  bool found = gives_them(8192);
  for (std::int64_t context = 16; !found && context <= (std::int64_t{1} << 24); context *= 2) {
    found = gives_them(context);
  }
  if (found) config = named;
  return found;
}

void read_factors(const checkpoint::CheckpointSource& source, const checkpoint::SourceTensor& tensor,
                  ModelConfig& config) {
  const std::string where = cat(source.path().string(), ": tensor ", tensor.name);
  const std::int64_t count = config.rotary_dim / 2;
  if (tensor.shape != std::vector<std::int64_t>{count})
    throw Failure(data_error(where, cat(count, " numbers, one a frequency"), "another shape", kAgain));
  std::vector<float> factors(static_cast<std::size_t>(count));
  source.read_f32(tensor, factors).value();
  if (!std::all_of(factors.begin(), factors.end(), [](float f) { return std::isfinite(f) && f > 0.0F; }))
    throw Failure(data_error(where, "positive numbers", "another", kAgain));
  if (!name_scaling(factors, config)) config.rope_freq_factors = factors;
}

// Of an architecture that turns a part of each head, whose table has the field.
void turn_part_of_heads(const io::JsonField& json, double share, ModelConfig& config) {
  const bool is_share = share > 0.0 && share <= 1.0;
  config.own[kPartial] = is_share ? share : 1.0;
  config.rotary_dim = std::get<std::int64_t>(turned_features(config));
  if (is_share && config.rotary_dim >= 2 && config.rotary_dim % 2 == 0) return;
  throw Failure(json.place().field(kPartial).error(
      cat("a share of the ", config.head_dim, " features of a head that is an even number of them"), cat(share),
      kAgain));
}

// Which frequencies turn by a token's row and column in an image; in text they all turn by its position.
bool is_of_images(const std::string& key) { return key == kSections || key == "mrope_interleaved"; }

// One set of parameters, with its rope_type.
void read_parameters(const io::JsonField& inner, ModelConfig& config) {
  auto named = inner.find("rope_type");
  if (!named) named = inner.find("type");
  std::string_view name = named ? named->text() : "default";
  if (name == "mrope") name = "default";  // in text; so Qwen2-VL was published
  const auto type = std::find_if(types().begin(), types().end(), [&](const Type& each) { return name == each.name; });
  if (type == types().end()) throw named->wrong("default, linear, dynamic, yarn or llama3", kOtherModel);
  config.rope_scaling = type->scaling;
  config.rope_theta = inner.number("rope_theta", config.rope_theta);
  if (type->scaling == RopeScaling::yarn) {
    config.rope_original_max_position = static_cast<double>(config.max_position_embeddings);
    if (const auto truncate = inner.find(kTruncate)) config.rope_truncate = truncate->boolean();
  }
  for (const Number& each : type->numbers) {
    if (each.may_lack && !inner.find(each.json)) continue;
    config.*each.member = inner.at(each.json).number();
  }
  if (const auto partial = inner.find(kPartial); partial && config.own.contains(kPartial)) {
    turn_part_of_heads(inner, partial->number(), config);
  }
  if (const auto sections = inner.find(kSections); sections && config.own.contains(kSections)) {
    std::vector<std::int64_t> sizes = sections->integers();
    sizes.resize(4, 0);
    config.own[kSections] = std::move(sizes);
  }
  for (const Json::Member& one : inner.object()) {
    const std::string& key = one.key;
    const bool known =
        (key == kPartial && config.own.contains(kPartial)) || key == "rope_type" || key == "type" ||
        key == "rope_theta" || is_of_images(key) || (key == kTruncate && type->scaling == RopeScaling::yarn) ||
        std::any_of(type->numbers.begin(), type->numbers.end(), [&](const Number& each) { return key == each.json; });
    if (!known) throw inner.member(one).wrong(cat("only what the rope_type ", type->name, " has"), kOtherModel);
  }
  require_sound(config, inner.where());
}

// A set for the layers that see every key, and one for those with a window.
void read_by_layer_type(const io::JsonField& parameters, ModelConfig& config) {
  for (const Json::Member& one : parameters.object()) {
    const io::JsonField set = parameters.member(one);
    if (one.key != "full_attention" && one.key != "sliding_attention")
      throw set.wrong("only full_attention and sliding_attention", kOtherModel);
    if (one.value.is_null()) continue;
    if (one.key == "full_attention") {
      read_parameters(set, config);
      continue;
    }
    ModelConfig local;
    local.rope_theta = config.rope_local_theta;
    read_parameters(set, local);
    if (local.rope_scaling != RopeScaling::none) throw set.at("rope_type").wrong("default", kOtherModel);
    config.rope_local_theta = local.rope_theta;
  }
}

// By Llama 3.1's formula.
double llama3_frequency(const ModelConfig& config, double frequency) {
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  const double low = config.rope_original_max_position / config.rope_low_freq_factor;
  const double high = config.rope_original_max_position / config.rope_high_freq_factor;
  if (wavelength > low) return frequency / config.rope_factor;
  if (wavelength < high) return frequency;
  const double smooth = (config.rope_original_max_position / wavelength - config.rope_low_freq_factor) /
                        (config.rope_high_freq_factor - config.rope_low_freq_factor);
  return (1.0 - smooth) * frequency / config.rope_factor + smooth * frequency;
}

// Which share of the frequency of pair `pair` YaRN slows down: none of those that turn often within the original
// context, all of those that turn seldom, and a ramp between.
class YarnRamp {
 public:
  explicit YarnRamp(const ModelConfig& config)
      : low_(pair_of(config, config.rope_beta_fast)), high_(pair_of(config, config.rope_beta_slow)) {
    if (config.rope_truncate) {
      low_ = std::floor(low_);
      high_ = std::ceil(high_);
    }
    low_ = std::max(low_, 0.0);
    high_ = std::min(high_, static_cast<double>(config.rotary_dim - 1));
    if (low_ == high_) high_ += 0.001;  // as the reference implementation
  }
  [[nodiscard]] double operator()(std::size_t pair) const {
    return std::clamp((static_cast<double>(pair) - low_) / (high_ - low_), 0.0, 1.0);
  }

 private:
  // The pair that turns so often within the original context.
  static double pair_of(const ModelConfig& config, double turns) {
    return static_cast<double>(config.rotary_dim) *
           std::log(config.rope_original_max_position / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(config.rope_theta));
  }
  double low_;
  double high_;
};

double yarn_mscale(double factor, double mscale) { return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0; }

}  // namespace

double rope_amplitude(const ModelConfig& config) {
  if (config.rope_scaling != RopeScaling::yarn) return 1.0;
  if (config.rope_attention_factor != 0.0) return config.rope_attention_factor;
  if (config.rope_mscale == 0.0 || config.rope_mscale_all_dim == 0.0) return yarn_mscale(config.rope_factor, 1.0);
  return yarn_mscale(config.rope_factor, config.rope_mscale) /
         yarn_mscale(config.rope_factor, config.rope_mscale_all_dim);
}

double yarn_score_scale(const ModelConfig& config) {
  return config.rope_scaling == RopeScaling::yarn ? yarn_mscale(config.rope_factor, config.rope_mscale_all_dim) : 1.0;
}

std::vector<double> rope_frequencies(const ModelConfig& config) {
  const auto half = static_cast<std::size_t>(config.rotary_dim / 2);
  std::vector<double> out(half);
  for (std::size_t i = 0; i < half; ++i) {
    out[i] = std::pow(config.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(config.rotary_dim));
    if (i < config.rope_freq_factors.size()) {
      out[i] /= config.rope_freq_factors[i];
    } else if (config.rope_scaling == RopeScaling::linear) {
      out[i] /= config.rope_factor;
    } else if (config.rope_scaling == RopeScaling::yarn) {
      const double slowed = YarnRamp(config)(i);
      out[i] *= (1.0 - slowed) + slowed / config.rope_factor;
    } else if (config.rope_scaling == RopeScaling::llama3) {
      out[i] = llama3_frequency(config, out[i]);
    }
  }
  return out;
}

std::vector<float> rope_factors(const ModelConfig& config) {
  const std::vector<double> scaled = rope_frequencies(config);
  ModelConfig unscaled = config;
  unscaled.rope_scaling = RopeScaling::none;
  unscaled.rope_freq_factors.clear();
  const std::vector<double> plain = rope_frequencies(unscaled);
  std::vector<float> factors(plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) factors[i] = static_cast<float>(plain[i] / scaled[i]);
  return factors;
}

std::vector<double> local_rope_frequencies(const ModelConfig& config) {
  ModelConfig local = config;
  local.rope_theta = config.rope_local_theta;
  local.rope_scaling = RopeScaling::none;
  local.rope_freq_factors.clear();
  return rope_frequencies(local);
}

bool is_rope_json_key(const std::string& key) { return key == "rope_parameters" || key == "rope_scaling"; }

FieldValue turned_share(const ModelConfig& config) {
  return static_cast<double>(config.rotary_dim) / static_cast<double>(config.head_dim);
}

Field partial_rotary_field(double otherwise) {
  return {kPartial, kImplied, FieldValue(1.0), Default{FieldValue(otherwise), {}, turned_share, false}};
}

Field rope_sections_field(std::vector<std::int64_t> otherwise_is) {
  return {kSections, "rope.dimension_sections", FieldValue(std::vector<std::int64_t>()),
          otherwise(FieldValue(std::move(otherwise_is)))};
}

void read_rope_json(const io::JsonField& json, ModelConfig& config) {
  if (config.own.contains(kPartial)) turn_part_of_heads(json, config.own_field<double>(kPartial), config);
  const auto parameters = json.find("rope_parameters");
  const auto scaling = json.find("rope_scaling");
  if (parameters && scaling && !scaling->json().is_null() && !(scaling->json() == parameters->json())) {
    throw scaling->wrong("nothing beside rope_parameters that says something else",
                         "say all of it in rope_parameters, and remove rope_scaling");
  }
  if (parameters && config.rope_local_theta > 0) return read_by_layer_type(*parameters, config);
  if (const auto inner = parameters ? parameters : scaling) read_parameters(*inner, config);
}

void write_rope_json(const ModelConfig& config, Json& json) {
  require_named_rope(config, kFactors);
  const Type& type = type_of(config.rope_scaling);
  if (type.scaling == RopeScaling::none) return;
  Json inner;
  inner["rope_type"] = type.name;
  for (const Number& each : type.numbers) {
    // What stands in for the original context is the model's own, not a number.
    const bool stands_in = each.may_lack && each.member != &ModelConfig::rope_original_max_position &&
                           config.*each.member == ModelConfig().*each.member;
    if (!stands_in) inner[each.json] = config.*each.member;
  }
  if (!config.rope_truncate) inner[kTruncate] = false;
  json["rope_scaling"] = inner;
}

bool is_rope_gguf_key(const std::string& key) {
  return key == "rope.scaling.type" || key == "rope.scaling.factor" || key == "rope.scaling.yarn_beta_fast" ||
         key == "rope.scaling.yarn_beta_slow" ||
         // Notes on a scaling's making, which its formula does not read.
         key == "rope.scaling.original_context_length" || key == "rope.scaling.finetuned";
}

void read_rope_gguf(const checkpoint::CheckpointSource& source, const Architecture& architecture, ModelConfig& config) {
  const checkpoint::Gguf& gguf = *source.gguf();
  const std::string prefix = cat(architecture.gguf, ".rope.scaling.");
  const std::string scaling = gguf.text_or(prefix + "type", "none").value();
  if (scaling == "linear") {
    config.rope_scaling = RopeScaling::linear;
    config.rope_factor = gguf.number_or(prefix + "factor", 1.0).value();
  } else if (scaling == "yarn") {
    config.rope_scaling = RopeScaling::yarn;
    config.rope_truncate = architecture.gguf_yarn_truncates;
    config.rope_factor = gguf.number(prefix + "factor").value();
    config.rope_original_max_position =
        static_cast<double>(gguf.integer_or(prefix + kOriginalLength, config.max_position_embeddings).value());
    config.rope_beta_fast = gguf.number_or(prefix + "yarn_beta_fast", config.rope_beta_fast).value();
    config.rope_beta_slow = gguf.number_or(prefix + "yarn_beta_slow", config.rope_beta_slow).value();
  } else if (scaling != "none") {
    throw Failure(
        data_error(cat(gguf.path(), ": key \"", prefix, "type\""), "none, linear or yarn", scaling, kOtherModel));
  }
  require_sound(config, gguf.path());
  if (const checkpoint::SourceTensor* factors = source.find(kFactors)) read_factors(source, *factors, config);
}

void write_rope_gguf(const ModelConfig& config, const Architecture& architecture, checkpoint::GgufMetadata& metadata) {
  const Type& type = type_of(config.rope_scaling);
  const std::string prefix = cat(architecture.gguf, ".rope.scaling.");
  ModelConfig by_formula = config;
  by_formula.rope_attention_factor = 0.0;
  const bool has_usual_factor = std::fabs(rope_amplitude(config) - rope_amplitude(by_formula)) < 1e-6;
  const auto is_default = [&](const Number& each) {
    if (each.member == &ModelConfig::rope_attention_factor) return has_usual_factor;
    return *each.gguf != '\0' || config.*each.member == ModelConfig().*each.member;
  };
  const bool is_said =
      config.rope_scaling != RopeScaling::yarn || (config.rope_truncate == architecture.gguf_yarn_truncates &&
                                                   std::all_of(type.numbers.begin(), type.numbers.end(), is_default));
  if (config.rope_scaling == RopeScaling::dynamic || !is_said) {
    throw Failure(data_error("the rope_type", "one that a GGUF has a word for, with its numbers", type.name,
                             "keep this model as a directory"));
  }
  for (const Number& each : type.numbers) {
    if (*each.gguf == '\0') continue;
    metadata.set(prefix + "type", type.name);
    if (std::string_view(each.gguf) == kOriginalLength) {
      metadata.set(prefix + each.gguf, static_cast<std::uint32_t>(config.*each.member));
    } else {
      metadata.set(prefix + each.gguf, static_cast<float>(config.*each.member));
    }
  }
}

void require_named_rope(const ModelConfig& config, const std::string& where) {
  if (config.rope_freq_factors.empty()) return;
  throw Failure(data_error(where, "the factors of Llama 3.1's rope scaling", "others, which config.json cannot say",
                           "keep this model as a GGUF"));
}

}  // namespace tern::models
