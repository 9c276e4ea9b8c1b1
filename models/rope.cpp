#include "models/rope.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/strings.h"
#include "models/config_read.h"
#include "models/registry.h"

namespace tern::models {
namespace {

using Json = io::Json;

constexpr const char* kAgain = "take what describes the model from its repository again";
constexpr const char* kOtherModel = "choose another model: this one computes what tern does not";
constexpr const char* kOriginal = "original_max_position_embeddings";
constexpr const char* kOriginalLength = "original_context_length";
constexpr const char* kTruncate = "truncate";
constexpr const char* kPartial = kPartialRotaryFactor;
constexpr const char* kSections = kRopeSections;
constexpr const char* kFactors = "rope_freqs.weight";  // the tensor in a GGUF
// Of longrope.
constexpr const char* kAttentionFactor = "attn_factor";
constexpr const char* kMultiplier = "yarn_log_multiplier";  // of yarn: mscale_all_dim
constexpr const char* kContext = "max_position_embeddings";
struct Divisors {
  const char* json;
  const char* gguf;  // the tensor
  std::vector<float> ModelConfig::*member;
};
constexpr Divisors kDivisors[] = {{"long_factor", kLongFactors, &ModelConfig::rope_long_factors},
                                  {"short_factor", kShortFactors, &ModelConfig::rope_short_factors}};

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
        {kOriginal, kOriginalLength, &ModelConfig::rope_original_max_position, true},
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
        {kOriginal, "", &ModelConfig::rope_original_max_position}}},
      {RopeScaling::longrope,
       "longrope",
       {{"factor", "", &ModelConfig::rope_factor, true},
        {kOriginal, kOriginalLength, &ModelConfig::rope_original_max_position, true},
        {"attention_factor", "", &ModelConfig::rope_attention_factor, true}}},
      {RopeScaling::proportional,
       "proportional",
       {{"factor", "", &ModelConfig::rope_factor, true}, {kPartial, "", &ModelConfig::rope_share, true}}}};
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
    positive(kOriginal, config.rope_original_max_position);
    positive("beta_slow", config.rope_beta_slow);
    if (config.rope_beta_fast != config.rope_beta_slow)  // one number makes a step of the ramp
      positive("beta_fast - beta_slow", config.rope_beta_fast - config.rope_beta_slow);
  }
  if (config.rope_scaling == RopeScaling::longrope) {
    positive("original_max_position_embeddings - 1", config.rope_original_max_position - 1.0);
  }
  if (config.rope_scaling == RopeScaling::proportional && (config.rope_share < 0.0 || config.rope_share > 1.0))
    throw Failure(data_error(cat(where, ": ", kPartial), "a share from 0 to 1", cat(config.rope_share), kAgain));
  if (config.rope_scaling != RopeScaling::llama3) return;
  positive("low_freq_factor", config.rope_low_freq_factor);
  if (config.rope_high_freq_factor != config.rope_low_freq_factor)  // equal: there is no band between, as in Llama 4
    positive("high_freq_factor - low_freq_factor", config.rope_high_freq_factor - config.rope_low_freq_factor);
  positive(kOriginal, config.rope_original_max_position);
}

// Of longrope: one divisor for each frequency.
void require_divisors(const std::string& where, const std::vector<float>& divisors, const ModelConfig& config) {
  const bool is_sound =
      std::all_of(divisors.begin(), divisors.end(), [](float f) { return std::isfinite(f) && f > 0.0F; });
  const std::int64_t count = config.rotary_dim / 2;
  if (is_sound && divisors.size() == static_cast<std::size_t>(count)) return;
  throw Failure(data_error(where, cat(count, " positive numbers, one a frequency"),
                           is_sound ? cat(divisors.size(), " of them") : "another", kAgain));
}

// Where the first pairs turn alike and the others stand still, sets the numbers of `proportional`.
bool name_proportional(const std::vector<float>& held, ModelConfig& config) {
  const auto still = std::find_if(held.begin(), held.end(), [](float factor) { return factor >= kStill; });
  const bool is_one = std::all_of(held.begin(), still, [&](float factor) { return factor == held.front(); }) &&
                      std::all_of(still, held.end(), [](float factor) { return factor >= kStill; });
  if (!is_one || still == held.end()) return false;
  const auto turned = static_cast<double>(still - held.begin());
  config.rope_scaling = RopeScaling::proportional;
  config.rope_factor = turned > 0 ? held.front() : 1.0;
  config.rope_share = turned / static_cast<double>(held.size());
  // So that the formula, which rounds down, gives as many again.
  if (config.rope_share * static_cast<double>(config.rotary_dim) / 2.0 < turned)
    config.rope_share = std::nextafter(config.rope_share, 1.0);
  return true;
}

// Where the factors that a GGUF holds are those of Llama 3.1's formula, sets its numbers. The bounds of the frequencies
// are those of Llama 3.1 and all later models (1 and 4), or Llama 4's (1 and 1); the context it was first trained on is
// 8192 there, a power of two anyhow.
bool name_scaling(const std::vector<float>& held, ModelConfig& config) {
  if (std::all_of(held.begin(), held.end(), [](float factor) { return factor == 1.0F; })) return true;
  if (config.rope_scaling != RopeScaling::none) return false;
  if (name_proportional(held, config)) return true;
  ModelConfig named = config;
  named.rope_scaling = RopeScaling::llama3;
  named.rope_factor = *std::max_element(held.begin(), held.end());
  named.rope_low_freq_factor = 1.0;
  const auto gives_them = [&](std::int64_t first_context) {
    named.rope_original_max_position = static_cast<double>(first_context);
    const std::vector<float> made = rope_factors(named);
    return std::equal(made.begin(), made.end(), held.begin(), held.end(),
                      [](float a, float b) { return std::fabs(a - b) <= 1e-4F * std::fabs(b); });
  };
  bool found = false;
  for (const double high : {4.0, 1.0}) {
    named.rope_high_freq_factor = high;
    found = gives_them(8192);
    for (std::int64_t context = 16; !found && context <= (std::int64_t{1} << 24); context *= 2)
      found = gives_them(context);
    if (found) break;
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

// What neither transformers nor llama.cpp reads; DeepSeek's distilled Qwen3 has an attn_factor.
bool is_note(const std::string& key) { return key == "finetuned" || key == "attn_factor"; }

bool is_divisors(const std::string& key) {
  return std::any_of(std::begin(kDivisors), std::end(kDivisors),
                     [&](const Divisors& each) { return key == each.json; });
}

// What longrope has beside numbers, and what stands in for those. Phi-3 says the original context beside all others.
void read_longrope(const io::JsonField& inner, ModelConfig& config) {
  const auto original = inner.find(kOriginal);
  if (config.own.contains(kOriginal)) {
    const std::int64_t own = config.own_field<std::int64_t>(kOriginal);
    if (original && original->number() != static_cast<double>(own))
      throw original->wrong(cat(own, ", as beside rope_parameters"), kAgain);
    config.rope_original_max_position = static_cast<double>(own);
  } else if (!original) {
    config.rope_original_max_position = static_cast<double>(config.max_position_embeddings);
  }
  if (!inner.find("factor"))
    config.rope_factor = static_cast<double>(config.max_position_embeddings) / config.rope_original_max_position;
  for (const Divisors& each : kDivisors) {
    const io::JsonField list = inner.at(each.json);
    std::vector<float>& divisors = config.*each.member;
    for (const io::JsonField& one : list.items()) divisors.push_back(static_cast<float>(one.number()));
    require_divisors(list.where(), divisors, config);
  }
}

// The architecture's own numbers among rope_parameters.
std::vector<Field> own_numbers(const ModelConfig& config) {
  std::vector<Field> own;
  const Architecture* architecture = find_architecture(config.architecture);
  if (architecture == nullptr) return own;  // of a set for some layers, which holds none
  std::copy_if(architecture->fields.begin(), architecture->fields.end(), std::back_inserter(own),
               [](const Field& field) { return field.in_rope && *field.json != '\0'; });
  return own;
}

void read_own_numbers(const io::JsonField& inner, const std::vector<Field>& own, ModelConfig& config) {
  if (!own.empty() && config.rope_scaling != RopeScaling::yarn)
    throw inner.at("rope_type").wrong("yarn, whose original context the growth of queries goes by", kOtherModel);
  for (const Field& field : own) {
    const std::string where = inner.place().field(field.json).where();
    if (const auto said = inner.find(field.json)) {
      set_field(config, field, said->number());
    } else {
      stand_in(config, field, field.otherwise.json, where);
    }
    require_law(config, field, where);
  }
}

// One set of parameters, with its rope_type.
void read_parameters(const io::JsonField& inner, ModelConfig& config) {
  auto named = inner.find("rope_type");
  if (!named) named = inner.find("type");
  std::string_view name = named ? named->text() : "default";
  if (name == "mrope") name = "default";  // in text; so Qwen2-VL was published
  if (name == "su") name = "longrope";    // as Phi-3 was first published
  const auto type = std::find_if(types().begin(), types().end(), [&](const Type& each) { return name == each.name; });
  if (type == types().end())
    throw named->wrong("default, linear, dynamic, yarn, llama3, longrope or proportional", kOtherModel);
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
  const bool has_share = config.own.contains(kPartial);
  if (const auto partial = inner.find(kPartial); partial && has_share) {
    turn_part_of_heads(inner, partial->number(), config);
  }
  const std::vector<Field> own = own_numbers(config);
  read_own_numbers(inner, own, config);
  if (type->scaling == RopeScaling::longrope) read_longrope(inner, config);
  if (type->scaling == RopeScaling::proportional && has_share) {  // whole heads, and a share of their pairs
    config.rope_share = config.own_field<double>(kPartial);
    config.rotary_dim = config.head_dim;
  }
  if (const auto sections = inner.find(kSections); sections && config.own.contains(kSections)) {
    std::vector<std::int64_t> sizes = sections->integers();
    sizes.resize(4, 0);
    config.own[kSections] = std::move(sizes);
  }
  for (const Json::Member& one : inner.object()) {
    const std::string& key = one.key;
    const bool known =
        (key == kPartial && has_share) || key == "rope_type" || key == "type" || key == "rope_theta" ||
        is_of_images(key) || is_note(key) || (key == kTruncate && type->scaling == RopeScaling::yarn) ||
        (type->scaling == RopeScaling::longrope && is_divisors(key)) ||
        (key == kContext && one.value == Json(config.max_position_embeddings)) ||
        std::any_of(own.begin(), own.end(), [&](const Field& field) { return key == field.json; }) ||
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

}  // namespace

bool has_gguf_divisors(RopeScaling scaling) {
  return scaling == RopeScaling::llama3 || scaling == RopeScaling::longrope || scaling == RopeScaling::proportional;
}

const char* rope_type_name(RopeScaling scaling) { return type_of(scaling).name; }

bool is_rope_json_key(const std::string& key) { return key == "rope_parameters" || key == "rope_scaling"; }

void read_rope_json(const io::JsonField& json, ModelConfig& config) {
  if (config.own.contains(kPartial)) turn_part_of_heads(json, config.own_field<double>(kPartial), config);
  const auto parameters = json.find("rope_parameters");
  const auto scaling = json.find("rope_scaling");
  if (parameters && scaling && !scaling->json().is_null() && !(scaling->json() == parameters->json())) {
    throw scaling->wrong("nothing beside rope_parameters that says something else",
                         "say all of it in rope_parameters, and remove rope_scaling");
  }
  if (parameters && config.rope_local_theta > 0) return read_by_layer_type(*parameters, config);
  if (const auto inner = parameters ? parameters : scaling) return read_parameters(*inner, config);
  const Architecture* architecture = find_architecture(config.architecture);
  if (architecture->rope_by_layer_type || !own_numbers(config).empty())
    (void)json.at("rope_parameters");  // says that it is absent
}

void write_rope_json(const ModelConfig& config, Json& json) {
  require_named_rope(config, kFactors);
  const Type& type = type_of(config.rope_scaling);
  const std::vector<Field> own = own_numbers(config);
  if (!own.empty() && type.scaling != RopeScaling::yarn)
    throw Failure(data_error("the rope_type", "yarn, without which config.json can't say this architecture", type.name,
                             "keep this model as a GGUF"));
  const bool by_layer_type = find_architecture(config.architecture)->rope_by_layer_type;
  if (type.scaling == RopeScaling::none && !by_layer_type) return;
  Json inner;
  inner["rope_type"] = type.name;
  for (const Number& each : type.numbers) {
    // What stands in for the original context is the model's own, not a number.
    const bool stands_in = each.may_lack && each.member != &ModelConfig::rope_original_max_position &&
                           config.*each.member == ModelConfig().*each.member;
    if (!stands_in) inner[each.json] = config.*each.member;
  }
  if (!config.rope_truncate) inner[kTruncate] = false;
  if (type.scaling == RopeScaling::longrope) {
    for (const Divisors& each : kDivisors) inner[each.json] = config.*each.member;
  }
  for (const Field& field : own) inner[field.json] = std::get<double>(field_value(config, field));
  if (!by_layer_type) {
    json["rope_scaling"] = inner;
    return;
  }
  inner["rope_theta"] = config.rope_theta;
  Json local;
  local["rope_type"] = "default";
  local["rope_theta"] = config.rope_local_theta;
  json["rope_parameters"]["full_attention"] = inner;
  json["rope_parameters"]["sliding_attention"] = local;
}

bool is_rope_gguf_key(const std::string& key) {
  return key == "rope.scaling.type" || key == "rope.scaling.factor" || key == "rope.scaling.yarn_beta_fast" ||
         key == "rope.scaling.yarn_beta_slow" || key == "rope.scaling.attn_factor" ||
         key == "rope.scaling.yarn_log_multiplier" ||
         // Notes on a scaling's making, which its formula does not read; llama.cpp writes these two and reads neither.
         key == "rope.scaling.original_context_length" || key == "rope.scaling.finetuned" ||
         key == "rope.scaling.yarn_attn_factor" || key == "rope.scaling.yarn_ext_factor";
}

// Of a GGUF whose tensors are longrope's divisors, whatever its metadata say.
void read_longrope_gguf(const checkpoint::CheckpointSource& source, const std::string& prefix, ModelConfig& config) {
  const checkpoint::Gguf& gguf = *source.gguf();
  config.rope_scaling = RopeScaling::longrope;
  config.rope_original_max_position =
      static_cast<double>(gguf.integer_or(prefix + kOriginalLength, config.max_position_embeddings).value());
  config.rope_factor = static_cast<double>(config.max_position_embeddings) / config.rope_original_max_position;
  require_sound(config, gguf.path());
  const double said = gguf.number_or(prefix + kAttentionFactor, 1.0).value();
  if (std::fabs(said - rope_amplitude(config)) >= 1e-6) config.rope_attention_factor = said;
  for (const Divisors& each : kDivisors) {
    const checkpoint::SourceTensor* tensor = source.require(each.gguf).value();
    std::int64_t count = 1;
    for (const std::int64_t size : tensor->shape) count *= size;
    std::vector<float>& divisors = config.*each.member;
    divisors.resize(static_cast<std::size_t>(count));
    source.read_f32(*tensor, divisors).value();
    require_divisors(cat(gguf.path(), ": tensor ", each.gguf), divisors, config);
  }
}

void read_rope_gguf(const checkpoint::CheckpointSource& source, const Architecture& architecture, ModelConfig& config) {
  const checkpoint::Gguf& gguf = *source.gguf();
  const std::string prefix = cat(gguf.text("general.architecture").value(), ".rope.scaling.");
  const std::string scaling = gguf.text_or(prefix + "type", "none").value();
  const bool is_long = scaling == "longrope" || (scaling == "none" && source.find(kLongFactors) != nullptr);
  if (is_long) return read_longrope_gguf(source, prefix, config);
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
    config.rope_mscale_all_dim = gguf.number_or(prefix + kMultiplier, 0.0).value();
    if (architecture.gguf_yarn_tenth)
      config.rope_mscale_all_dim = shortest(static_cast<float>(config.rope_mscale_all_dim * 10.0));
    if (config.rope_mscale_all_dim != 0.0)
      config.rope_mscale = architecture.gguf_yarn_tenth ? config.rope_mscale_all_dim : 1.0;
  } else if (scaling != "none") {
    throw Failure(data_error(cat(gguf.path(), ": key \"", prefix, "type\""), "none, linear, yarn or longrope", scaling,
                             kOtherModel));
  }
  if (config.rope_mscale_all_dim != 0.0 && !architecture.gguf_yarn_multiplier && !architecture.gguf_yarn_tenth)
    throw Failure(data_error(cat(gguf.path(), ": key \"", prefix, kMultiplier, "\""),
                             cat("none, as llama.cpp reads none of ", architecture.gguf),
                             cat(config.rope_mscale_all_dim), kOtherModel));
  if (const double said = gguf.number_or(prefix + kAttentionFactor, 1.0).value(); said != 1.0)
    throw Failure(data_error(cat(gguf.path(), ": key \"", prefix, kAttentionFactor, "\""),
                             "1, as the rope scaling is not longrope", cat(said), kOtherModel));
  for (const Divisors& each : kDivisors) {
    if (source.find(each.gguf) == nullptr) continue;
    throw Failure(data_error(cat(gguf.path(), ": tensor ", each.gguf), "none, as the rope scaling is not longrope",
                             "one", kAgain));
  }
  require_sound(config, gguf.path());
  settle_growth_period(gguf, config);
  if (const checkpoint::SourceTensor* factors = source.find(kFactors)) read_factors(source, *factors, config);
}

void write_rope_gguf(const ModelConfig& config, const Architecture& architecture, checkpoint::GgufMetadata& metadata) {
  write_growth_period(config, architecture, metadata);
  const Type& type = type_of(config.rope_scaling);
  const std::string prefix = cat(architecture.gguf, ".rope.scaling.");
  ModelConfig by_formula = config;
  by_formula.rope_attention_factor = 0.0;
  const bool has_usual_factor = std::fabs(rope_amplitude(config) - rope_amplitude(by_formula)) < 1e-6;
  const bool is_tenth = architecture.gguf_yarn_tenth && config.rope_mscale == config.rope_mscale_all_dim;
  const bool has_multiplier = is_tenth || (architecture.gguf_yarn_multiplier && config.rope_mscale == 1.0);
  const auto is_default = [&](const Number& each) {
    if (each.member == &ModelConfig::rope_mscale || each.member == &ModelConfig::rope_mscale_all_dim) {
      if (has_multiplier) return true;
    }
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
  if (type.scaling == RopeScaling::longrope) {  // the tensors' names say the type
    metadata.set(prefix + kOriginalLength, static_cast<std::uint32_t>(config.rope_original_max_position));
    return metadata.set(prefix + kAttentionFactor, static_cast<float>(rope_amplitude(config)));
  }
  if (has_multiplier && type.scaling == RopeScaling::yarn)
    metadata.set(prefix + kMultiplier, static_cast<float>(config.rope_mscale_all_dim * (is_tenth ? 0.1 : 1.0)));
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
