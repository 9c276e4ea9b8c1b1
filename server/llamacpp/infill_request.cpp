#include <algorithm>
#include <array>

#include "base/strings.h"
#include "server/json_body.h"
#include "server/llamacpp/infill.h"
#include "server/openai/sampling_fields.h"

namespace tern::server::llamacpp {
namespace {

using io::Json;

std::vector<FimFile> files_field(JsonBody& body) {
  std::vector<FimFile> out;
  const Json* given = body.find("input_extra");
  if (given == nullptr) return out;
  if (!given->is_array()) throw body.wrong("input_extra", "a list of objects with a text");
  std::size_t at = 0;
  for (const Json& one : *given) {
    JsonBody file(one, cat("input_extra[", at++, "]"));
    out.push_back({file.text("filename").value_or("tmp"), file.required_text("text")});
    file.takes({"time"});  // when the editor kept it
    file.finish();
  }
  return out;
}

// llama.cpp's list of what shapes the distribution: what isn't in it doesn't. "infill" ends answers whose end is
// likely; here an end is drawn as any token is.
void samplers_field(JsonBody& body, SamplingWishes& wishes) {
  if (body.find("samplers") == nullptr) return;
  const std::vector<std::string> names = body.texts("samplers");
  const auto has = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  for (const std::string& name : names) {
    constexpr std::array<std::string_view, 6> kKnown = {"penalties", "top_k",       "top_p",
                                                        "min_p",     "temperature", "infill"};
    if (std::find(kKnown.begin(), kKnown.end(), name) == kKnown.end()) {
      throw body.wrong("samplers", "some of penalties, top_k, top_p, min_p, temperature, infill");
    }
  }
  if (!has("temperature")) wishes.temperature = 1.0F;
  if (!has("top_k")) wishes.top_k = 0;
  if (!has("top_p")) wishes.top_p = 1.0F;
  if (!has("min_p")) wishes.min_p = 0.0F;
  if (has("penalties")) return;
  wishes.repetition_penalty = 1.0F;
  wishes.presence_penalty = wishes.frequency_penalty = 0.0F;
}

// -1: any.
void seed_field(JsonBody& body, SamplingWishes& wishes) {
  if (wishes.seed && static_cast<std::int64_t>(*wishes.seed) < 0) wishes.seed.reset();
  if (const auto penalty = body.number("repeat_penalty", 1e-3, 1e3)) {
    wishes.repetition_penalty = static_cast<float>(*penalty);
  }
}

}  // namespace

InfillRequest parse_infill(std::string_view text) {
  JsonBody body(text);
  InfillRequest out;
  out.completion.model = body.text("model").value_or("");
  out.gap.prefix = body.required_text("input_prefix") + body.text("prompt").value_or("");
  out.gap.suffix = body.required_text("input_suffix");
  out.gap.files = files_field(body);
  SamplingWishes& wishes = out.completion.sampling;
  wishes = openai::sampling_fields(body);
  seed_field(body, wishes);
  samplers_field(body, wishes);
  const auto most = body.integer("n_predict", -1).value_or(-1);
  out.silent = most == 0;
  if (most >= 0) wishes.max_tokens = std::max<std::int64_t>(most, 1);
  out.stream = body.boolean("stream").value_or(false);
  out.n_indent = body.integer("n_indent", 0).value_or(0);
  out.most_ms = std::max<std::int64_t>(body.integer("t_max_predict_ms", -1).value_or(0), 0);
  if (body.find("response_fields") != nullptr) out.fields = body.texts("response_fields");
  // Equal prompts are always found in the cache, every request has a seat, and a prompt is computed at once.
  body.takes({"cache_prompt", "id_slot", "t_max_prompt_ms"});
  body.finish();
  return out;
}

}  // namespace tern::server::llamacpp
