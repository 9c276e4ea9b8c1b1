#include "session/pooling_config.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "io/json_field.h"

namespace tern::session {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMend = "take the model's repository again, or choose another model";

// As its class is called, whatever package the release of sentence-transformers has it in.
std::string_view class_name(std::string_view type) { return type.substr(type.rfind('.') + 1); }

constexpr std::array<std::pair<std::string_view, Pooling>, 3> kModes = {
    {{"cls", Pooling::cls}, {"lasttoken", Pooling::last}, {"mean", Pooling::mean}}};

Pooling pooling_of(const fs::path& file) {
  const io::Json json = io::read_json_file(file).value();
  const io::JsonField config(json, file.string(), kMend);
  const auto named = [&](const io::JsonField& field, std::string_view name) {
    for (const auto& [mode, pooling] : kModes) {
      if (mode == name) return pooling;
    }
    throw field.wrong("one of cls, lasttoken, mean");
  };
  if (const auto mode = config.find("pooling_mode")) return named(*mode, mode->text());
  // Older files have a switch for each, "pooling_mode_mean_tokens".
  std::optional<Pooling> found;
  for (const auto& one : config.object()) {
    constexpr std::string_view kPrefix = "pooling_mode_";
    const io::JsonField field = config.member(one);
    if (!std::string_view(one.key).starts_with(kPrefix) || !field.boolean()) continue;
    std::string_view name = std::string_view(one.key).substr(kPrefix.size());
    for (const std::string_view ending : {"_tokens", "_token"}) {
      if (name.ends_with(ending)) name.remove_suffix(ending.size());
    }
    if (found) throw field.wrong("false: one pooling, not several");
    found = named(field, name);
  }
  if (!found) throw Failure(data_error(file.string(), "a pooling mode", "none", kMend));
  return *found;
}

// llama.cpp's enum llama_pooling_type; 0 says none.
std::optional<Pooling> pooling_of(const checkpoint::Gguf& gguf) {
  const std::string key = cat(gguf.text("general.architecture").value(), ".pooling_type");
  switch (const std::int64_t type = gguf.integer_or(key, 0).value()) {
    case 0:
      return std::nullopt;
    case 1:
      return Pooling::mean;
    case 2:
      return Pooling::cls;
    case 3:
      return Pooling::last;
    case 4:  // it ranks: a vector is made of no particular token
      return std::nullopt;
    default:
      throw Failure(data_error(cat(gguf.path(), ": key \"", key, "\""), "0 to 4: none, mean, cls, last or rank",
                               cat(type), "choose another model"));
  }
}

// The prompt that is put before texts for which none is named.
std::string default_prompt(const fs::path& model) {
  const fs::path file = model / "config_sentence_transformers.json";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return "";
  const io::Json json = io::read_json_file(file).value();
  const io::JsonField config(json, file.string(), kMend);
  const auto name = config.find("default_prompt_name");
  if (!name) return "";
  return std::string(config.at("prompts").at(std::string(name->text()).c_str()).text());
}

void require_case(const fs::path& model) {
  const fs::path file = model / "sentence_bert_config.json";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return;
  const io::Json json = io::read_json_file(file).value();
  const io::JsonField config(json, file.string(), kMend);
  const auto lower = config.find("do_lower_case");
  if (lower && lower->boolean()) throw lower->wrong("false: texts are read as they are", "choose another model");
}

}  // namespace

Result<PoolingConfig> read_pooling_config(const checkpoint::CheckpointSource& source) {
  return catching([&] {
    PoolingConfig out;
    if (source.gguf() != nullptr) {
      out.pooling = pooling_of(*source.gguf());
      return out;
    }
    const fs::path& model = source.directory();
    const fs::path file = model / "modules.json";
    std::error_code ignored;
    if (!fs::exists(file, ignored)) return out;
    const io::Json json = io::read_json_file(file).value();
    const io::JsonField modules(json, file.string(), kMend);
    out.normalize = false;
    out.prompt = default_prompt(model);
    require_case(model);
    for (const io::JsonField& module : modules.items()) {
      const io::JsonField type = module.at("type");
      const std::string_view name = class_name(type.text());
      if (name == "Pooling") {
        out.pooling = pooling_of(model / std::string(module.at("path").text()) / "config.json");
      } else if (name == "Normalize") {
        out.normalize = true;
      } else if (name != "Transformer") {
        throw type.wrong("Transformer, Pooling or Normalize");
      }
    }
    return out;
  });
}

}  // namespace tern::session
