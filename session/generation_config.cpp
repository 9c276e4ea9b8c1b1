#include "session/generation_config.h"

#include <limits>

#include "io/json_field.h"

namespace tern::session {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

// Some files write a count as 50.0.
std::int64_t count(const io::JsonField& value) {
  const double number = value.number();
  if (!(number >= 0 && number <= static_cast<double>(kMost))) throw value.wrong("a count");
  return static_cast<std::int64_t>(number);
}

// As the flags of the same names have them.
double at_least_zero(const io::JsonField& value) {
  if (!(value.number() >= 0)) throw value.wrong("a number of at least 0");
  return value.number();
}

double above_zero(const io::JsonField& value) {
  if (!(value.number() > 0)) throw value.wrong("a number above 0");
  return value.number();
}

double share(const io::JsonField& value) {
  if (!(value.number() > 0 && value.number() <= 1)) throw value.wrong("a number above 0 and at most 1");
  return value.number();
}

std::vector<std::int32_t> ids(const io::JsonField& value) {
  std::vector<std::int32_t> out;
  for (const std::int64_t id : value.integers()) {
    if (id < 0 || id > kMost) throw value.wrong("a token id or a list of them");
    out.push_back(static_cast<std::int32_t>(id));
  }
  return out;
}

}  // namespace

Result<GenerationConfig> read_generation_config(const fs::path& model) {
  return catching([&] {
    GenerationConfig out;
    const fs::path file = model / "generation_config.json";
    std::error_code ignored;
    if (!fs::is_directory(model, ignored) || !fs::exists(file, ignored)) return out;
    const io::Json json = io::read_json_file(file).value();
    const io::JsonField config(json, file.string(), "take the file from the model's repository, or remove it");
    if (const auto value = config.find("do_sample")) out.do_sample = value->boolean();
    const bool draws = out.do_sample.value_or(false);  // else nobody reads what is for drawing
    if (const auto value = config.find("temperature"))
      out.temperature = draws ? at_least_zero(*value) : value->number();
    if (const auto value = config.find("top_k")) out.top_k = count(*value);
    if (const auto value = config.find("top_p")) out.top_p = draws ? share(*value) : value->number();
    if (const auto value = config.find("min_p")) out.min_p = at_least_zero(*value);
    if (const auto value = config.find("repetition_penalty")) out.repetition_penalty = above_zero(*value);
    if (const auto value = config.find("max_new_tokens")) out.max_new_tokens = count(*value);
    if (const auto value = config.find("eos_token_id")) out.eos_token_ids = ids(*value);
    return out;
  });
}

}  // namespace tern::session
