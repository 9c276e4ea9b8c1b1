#include "server/openai/sampling_fields.h"

#include <charconv>
#include <limits>

#include "base/strings.h"

namespace tern::server::openai {
namespace {

constexpr std::int64_t kMaxStops = 64;

std::optional<float> real(JsonBody& body, std::string_view key, double least, double most) {
  const auto value = body.number(key, least, most);
  if (!value) return std::nullopt;
  return static_cast<float>(*value);
}

// {"50256": -100}
std::vector<std::pair<std::int32_t, float>> bias_field(JsonBody& body) {
  std::vector<std::pair<std::int32_t, float>> out;
  auto bias = body.object("logit_bias");
  if (!bias) return out;
  for (const auto& [key, value] : bias->json().items()) {
    std::int32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0) {
      throw Failure(data_error(R"(field "logit_bias")", "token ids as keys", cat('"', key, '"'),
                               R"(write it like {"50256": -100})"));
    }
    const auto by = bias->number(key, -100, 100);
    if (by) out.emplace_back(id, static_cast<float>(*by));
  }
  return out;
}

void set(Constraint& constraint, Constraint::Kind kind, std::string text) {
  if (constraint.kind != Constraint::Kind::none) {
    throw Failure(data_error(R"(field "structured_outputs")", "one form that the answer must have", "several",
                             "leave all but one out"));
  }
  constraint.kind = kind;
  constraint.text = std::move(text);
}

// A schema is given as an object, or as its text.
std::string schema_text(const io::Json& schema) { return schema.is_string() ? schema.text() : schema.dump(); }

// json, regex, choice, grammar, structural_tag, json_object: vLLM's structured_outputs, whose names with guided_ before
// them were its fields of before.
void structured(JsonBody& body, std::string_view prefix, Constraint& constraint) {
  const auto key = [&](const char* name) { return cat(prefix, name); };
  if (const io::Json* schema = body.find(key("json"))) {
    set(constraint, Constraint::Kind::json_schema, schema_text(*schema));
  }
  if (auto regex = body.text(key("regex"))) set(constraint, Constraint::Kind::regex, *regex);
  if (auto choices = body.texts(key("choice")); !choices.empty()) {
    set(constraint, Constraint::Kind::choice, "");
    constraint.choices = std::move(choices);
  }
  if (auto grammar = body.text(key("grammar"))) set(constraint, Constraint::Kind::grammar, *grammar);
  if (const io::Json* tag = body.find(key("structural_tag"))) {
    set(constraint, Constraint::Kind::structural_tag, schema_text(*tag));
  }
  if (body.boolean(key("json_object")).value_or(false)) set(constraint, Constraint::Kind::json_object, "");
}

void response_format(JsonBody& body, Constraint& constraint) {
  auto format = body.object("response_format");
  if (!format) return;
  const std::string type = format->required_text("type");
  if (type == "json_object") {
    set(constraint, Constraint::Kind::json_object, "");
  } else if (type == "json_schema") {
    auto schema = format->object("json_schema");
    if (!schema) throw format->wrong("json_schema", "an object with a schema");
    schema->takes({"name", "description", "strict"});  // the schema is enforced whatever they say
    const io::Json* inner = schema->find("schema");
    if (inner == nullptr) throw schema->wrong("schema", "a JSON schema");
    set(constraint, Constraint::Kind::json_schema, inner->dump());
    schema->finish();
  } else if (type == "structural_tag") {
    set(constraint, Constraint::Kind::structural_tag, format->json().dump());
    return;
  } else if (type != "text") {
    throw format->wrong("type", "text, json_object, json_schema or structural_tag");
  }
  format->finish();
}

}  // namespace

SamplingWishes sampling_fields(JsonBody& body) {
  constexpr double kMost = std::numeric_limits<float>::max();
  SamplingWishes wishes;
  wishes.temperature = real(body, "temperature", 0, kMost);
  wishes.top_p = real(body, "top_p", 0, 1);
  wishes.min_p = real(body, "min_p", 0, 1);
  if (const auto k = body.integer("top_k", -1, std::numeric_limits<std::int32_t>::max())) {
    wishes.top_k = static_cast<std::int32_t>(*k);
  }
  wishes.repetition_penalty = real(body, "repetition_penalty", 1e-3, 1e3);
  wishes.presence_penalty = real(body, "presence_penalty", -2, 2);
  wishes.frequency_penalty = real(body, "frequency_penalty", -2, 2);
  if (const auto seed = body.integer("seed", std::numeric_limits<std::int64_t>::min())) {
    wishes.seed = static_cast<std::uint64_t>(*seed);
  }
  wishes.stop = body.texts("stop");
  if (static_cast<std::int64_t>(wishes.stop.size()) > kMaxStops) throw body.wrong("stop", "at most 64 texts");
  for (const std::string& stop : wishes.stop) {
    if (stop.empty()) throw body.wrong("stop", "texts that aren't empty");
  }
  for (const std::int64_t id : body.integers("stop_token_ids")) {
    if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) throw body.wrong("stop_token_ids", "token ids");
    wishes.stop_token_ids.push_back(static_cast<std::int32_t>(id));
  }
  wishes.min_tokens = body.integer("min_tokens", 0).value_or(0);
  wishes.ignore_eos = body.boolean("ignore_eos").value_or(false);
  wishes.skip_special_tokens = body.boolean("skip_special_tokens").value_or(true);
  wishes.include_stop_str_in_output = body.boolean("include_stop_str_in_output").value_or(false);
  wishes.logit_bias = bias_field(body);
  wishes.prompt_logprobs = body.integer("prompt_logprobs", 0);
  wishes.priority = body.integer("priority", std::numeric_limits<std::int64_t>::min()).value_or(0);
  return wishes;
}

Constraint constraint_fields(JsonBody& body) {
  Constraint constraint;
  response_format(body, constraint);
  if (auto own = body.object("structured_outputs")) {
    structured(*own, "", constraint);
    own->finish();
  }
  structured(body, "guided_", constraint);
  return constraint;
}

StreamOptions stream_fields(JsonBody& body) {
  StreamOptions options;
  options.stream = body.boolean("stream").value_or(false);
  auto own = body.object("stream_options");
  if (!own) return options;
  if (!options.stream) {
    throw Failure(data_error(R"(field "stream_options")", "none where \"stream\" is not true", "one",
                             "leave it out, or ask for a stream"));
  }
  options.include_usage = own->boolean("include_usage").value_or(false);
  if (own->boolean("continuous_usage_stats").value_or(false)) {
    throw own->wrong("continuous_usage_stats", "false: the usage comes with the last chunk");
  }
  own->takes({"include_obfuscation"});
  own->finish();
  return options;
}

}  // namespace tern::server::openai
