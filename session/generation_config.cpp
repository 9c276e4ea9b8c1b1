#include "session/generation_config.h"

#include <limits>

#include "base/strings.h"
#include "io/json.h"

namespace tern::session {
namespace {

namespace fs = std::filesystem;
using Json = io::Json;

class Reader {
 public:
  explicit Reader(const fs::path& file) : file_(file.string()), config_(io::read_json_file(file).value()) {
    require(config_.is_object(), "", "a JSON object", config_);
  }

  [[nodiscard]] std::optional<bool> boolean(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    require(value->is_boolean(), key, "true or false", *value);
    return value->get<bool>();
  }
  [[nodiscard]] std::optional<double> number(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    require(value->is_number(), key, "a number", *value);
    return value->get<double>();
  }
  // Some files write a count as 50.0.
  [[nodiscard]] std::optional<std::int64_t> count(const char* key) const {
    const auto value = number(key);
    if (!value) return std::nullopt;
    require(*value >= 0 && *value <= std::numeric_limits<std::int32_t>::max(), key, "a count", *find(key));
    return static_cast<std::int64_t>(*value);
  }
  [[nodiscard]] std::vector<std::int32_t> ids(const char* key) const {
    const Json* value = find(key);
    std::vector<std::int32_t> out;
    if (value == nullptr) return out;
    const auto add = [&](const Json& id) {
      const bool sound = id.is_number_unsigned() && id.get<std::uint64_t>() <= std::numeric_limits<std::int32_t>::max();
      require(sound, key, "a token id or a list of them", *value);
      out.push_back(id.get<std::int32_t>());
    };
    if (!value->is_array()) add(*value);
    if (value->is_array()) {
      for (const Json& id : *value) add(id);
    }
    return out;
  }

 private:
  [[nodiscard]] const Json* find(const char* key) const {
    const Json* found = config_.find(key);
    return found == nullptr || found->is_null() ? nullptr : found;
  }
  void require(bool sound, std::string_view key, const char* expected, const Json& found) const {
    if (sound) return;
    const std::string where = key.empty() ? file_ : cat(file_, ": key \"", key, "\"");
    throw Failure(data_error(where, expected, found.dump_ascii().substr(0, 60),
                             "take the file from the model's repository, or remove it"));
  }

  std::string file_;
  Json config_;
};

}  // namespace

Result<GenerationConfig> read_generation_config(const fs::path& model) {
  return catching([&] {
    GenerationConfig out;
    const fs::path file = model / "generation_config.json";
    std::error_code ignored;
    if (!fs::is_directory(model, ignored) || !fs::exists(file, ignored)) return out;
    const Reader reader(file);
    out.do_sample = reader.boolean("do_sample");
    out.temperature = reader.number("temperature");
    out.top_k = reader.count("top_k");
    out.top_p = reader.number("top_p");
    out.min_p = reader.number("min_p");
    out.repetition_penalty = reader.number("repetition_penalty");
    out.max_new_tokens = reader.count("max_new_tokens");
    out.eos_token_ids = reader.ids("eos_token_id");
    return out;
  });
}

}  // namespace tern::session
