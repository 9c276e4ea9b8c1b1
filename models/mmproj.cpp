#include "models/mmproj.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/strings.h"
#include "io/json.h"

namespace tern::models {
namespace {

constexpr std::string_view kPrefix = "clip.vision.";
constexpr const char* kKind = "general.architecture";
constexpr const char* kAgain = "take the mmproj file from its repository again";
constexpr const char* kSame = "take the mmproj file that lies beside the model in its repository";
constexpr const char* kOther = "choose another model: this one's tower computes what tern does not";
constexpr std::int64_t kMostLayers = 8192;
// What the processor reads (session/mmproj.h), and what says nothing beside the rest.
constexpr std::string_view kOfOthers[] = {
    "image_mean",        "image_std",      "image_min_pixels", "image_max_pixels", "preproc_min_tiles",
    "preproc_max_tiles", "projector_type", "projection_dim",   "image_size",       "feed_forward_length"};

std::string key_of(const checkpoint::Gguf& gguf, std::string_view key) {
  return cat(gguf.path(), ": key \"", key, "\"");
}

// Several have one kind of file and differ in their language model's; of them one whose language model isn't `language`
// is as good as any, and refused in the end (join_language_model).
const VisionTower& tower_of(const checkpoint::Gguf& gguf, const std::string& language) {
  if (!is_mmproj(gguf)) {
    const std::string kind = gguf.text_or(kKind, "").value();
    throw Failure(data_error(key_of(gguf, kKind), "\"clip\", as of an mmproj file", cat("\"", kind, "\""),
                             "name the mmproj file here, and the language model with --model"));
  }
  const bool is_mixed = gguf.find("clip.projector_type") == nullptr;
  const std::string key = is_mixed ? "clip.vision.projector_type" : "clip.projector_type";
  const std::string type = gguf.text(key).value();
  std::vector<std::string> known;
  const VisionTower* found = nullptr;
  for (const VisionTower& tower : vision_towers()) {
    if (tower.projector.empty()) continue;
    const auto& languages = tower.languages;
    const bool fits = std::find(languages.begin(), languages.end(), language) != languages.end();
    if (tower.projector == type && (found == nullptr || fits)) found = &tower;
    if (std::find(known.begin(), known.end(), tower.projector) == known.end()) known.push_back(tower.projector);
  }
  if (found != nullptr) return *found;
  throw Failure(data_error(key_of(gguf, key), cat("one of ", join(known, ", ")), cat("\"", type, "\""), kOther));
}

void require_width(const checkpoint::Gguf& gguf, const ModelConfig& text) {
  const std::string key = cat(kPrefix, "projection_dim");
  const std::int64_t width = gguf.integer(key).value();
  if (width == text.hidden_size) return;
  throw Failure(data_error(key_of(gguf, key), cat(text.hidden_size, ", as the language model has"), cat(width), kSame));
}

const checkpoint::SourceTensor* first_up(const checkpoint::CheckpointSource& file) {
  return file.find("v.blk.0.ffn_up.weight");
}

// Whether what is called up leads down, as llama.cpp's converters once had it.
bool is_upside_down(const checkpoint::CheckpointSource& file) {
  const checkpoint::SourceTensor* up = first_up(file);
  const std::int64_t width = file.gguf()->integer_or(cat(kPrefix, "embedding_length"), 0).value();
  return up != nullptr && up->shape.size() == 2 && up->shape[0] == width && up->shape[1] != width;
}

}  // namespace

bool is_mmproj(const checkpoint::Gguf& gguf) {
  const auto kind = gguf.text_or(kKind, "");
  return kind.ok() && *kind == "clip";
}

MmprojKeys::MmprojKeys(const checkpoint::CheckpointSource& file) : file_(file), gguf_(*file.gguf()) {}

std::string MmprojKeys::full(const std::string& key) {
  asked_.insert(key);
  return cat(kPrefix, key);
}

std::int64_t MmprojKeys::integer(const std::string& key) { return gguf_.integer(full(key)).value(); }
std::int64_t MmprojKeys::integer_or(const std::string& key, std::int64_t otherwise) {
  return gguf_.integer_or(full(key), otherwise).value();
}

// Metadata holds fp32: 1e-05 is meant where the nearest fp32 of it is held.
double MmprojKeys::number_or(const std::string& key, double otherwise) {
  const double value = gguf_.number_or(full(key), otherwise).value();
  const auto narrow = static_cast<float>(value);
  return static_cast<double>(narrow) == value ? shortest(narrow) : value;
}

std::vector<std::int64_t> MmprojKeys::true_layers(const std::string& key) {
  const checkpoint::GgufValue* value = gguf_.find(full(key));
  if (value == nullptr) return {};
  const std::int64_t count = layers();
  const bool fits = value->is_array() && value->element == checkpoint::GgufValueType::boolean &&
                    value->count == static_cast<std::uint64_t>(count);
  if (!fits) {
    throw Failure(data_error(key_of(gguf_, full(key)), cat("true or false for each of ", count, " layers"),
                             "another value", kAgain));
  }
  std::vector<std::int64_t> out;
  for (std::int64_t layer = 0; layer < count; ++layer) {
    if (value->raw[static_cast<std::size_t>(layer)] != std::byte{0}) out.push_back(layer);
  }
  return out;
}

std::int64_t MmprojKeys::layers() { return std::clamp<std::int64_t>(integer("block_count"), 0, kMostLayers); }

bool MmprojKeys::has_tensor(const std::string& name) const { return file_.find(name) != nullptr; }

std::int64_t MmprojKeys::rows(const std::string& tensor) const {
  const checkpoint::SourceTensor* found = file_.find(tensor);
  if (found == nullptr || found->shape.empty()) return 0;
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < found->shape.size(); ++i) rows *= found->shape[i];
  return rows;
}

std::int64_t MmprojKeys::mlp_width() {
  const checkpoint::SourceTensor* up = first_up(file_);
  if (up == nullptr || up->shape.size() != 2) return integer("feed_forward_length");
  return up->shape[is_upside_down(file_) ? 1 : 0];
}

void MmprojKeys::require_all_known() const {
  for (const auto& [key, value] : gguf_.metadata()) {
    if (!key.starts_with(kPrefix)) continue;
    const std::string last = key.substr(kPrefix.size());
    const bool known =
        asked_.contains(last) || std::find(std::begin(kOfOthers), std::end(kOfOthers), last) != std::end(kOfOthers);
    if (known) continue;
    throw Failure(data_error(key_of(gguf_, key), "only keys that this tower has", "one that it has not", kOther));
  }
}

Result<VisionConfig> read_mmproj(std::shared_ptr<checkpoint::CheckpointSource> file, const ModelConfig& text,
                                 const std::string& language) {
  return catching([&] {
    if (file->gguf() == nullptr) {
      throw Failure(data_error(file->path().string(), "a GGUF file with a vision tower", "another kind of checkpoint",
                               "name an mmproj file"));
    }
    const VisionTower& tower = tower_of(*file->gguf(), language);
    require_width(*file->gguf(), text);
    MmprojKeys keys(*file);
    const io::Json whole = tower.from_mmproj(keys);
    keys.require_all_known();
    const io::JsonField json(whole, cat(file->path().string(), ", in the words of config.json"), kAgain);
    VisionConfig vision = read_tower(tower, json, json.at("vision_config"), text);
    vision.file = std::move(file);
    return vision;
  });
}

Status join_language_model(VisionConfig& vision, const checkpoint::Gguf& gguf, const ModelConfig& text) {
  return catching([&] {
    const VisionTower& tower = *vision.tower;
    const std::string name = gguf.text(kKind).value();
    const auto has = [&](const VisionTower& each) {
      return std::find(each.languages.begin(), each.languages.end(), name) != each.languages.end();
    };
    const auto towers = vision_towers();
    const bool fits = tower.languages.empty() ? std::none_of(towers.begin(), towers.end(), has) : has(tower);
    if (!fits) {
      const std::string expected =
          tower.languages.empty() ? "a language model without a tower of its own" : join(tower.languages, " or ");
      throw Failure(data_error(key_of(gguf, kKind),
                               cat("\"", expected, "\", which ", vision.file->path().string(), " is a tower of"),
                               cat("\"", name, "\""), kSame));
    }
    vision.mrope_section = tower.mrope_section;
    const std::string key = cat(name, ".rope.dimension_sections");
    if (tower.mrope_section.empty()) return Unit{};
    if (const checkpoint::GgufValue* value = gguf.find(key)) {
      vision.mrope_section = value->integers().value_or(std::vector<std::int64_t>{});
      // The fourth is of no model.
      if (vision.mrope_section.size() == 4 && vision.mrope_section.back() == 0) vision.mrope_section.pop_back();
    }
    const std::string expected = are_mrope_sections(text, vision.mrope_section);
    if (!expected.empty())
      throw Failure(data_error(key_of(gguf, key), expected, value_text(vision.mrope_section), kAgain));
    return Unit{};
  });
}

std::function<std::string(const std::string& tensor)> mmproj_names(const checkpoint::CheckpointSource& file) {
  return [swaps = is_upside_down(file)](const std::string& tensor) -> std::string {
    if (tensor.starts_with("mm.a.") || !(tensor.starts_with("v.") || tensor.starts_with("mm."))) return "";
    if (!swaps) return tensor;
    constexpr std::string_view kUp = ".ffn_up.", kDown = ".ffn_down.";
    for (const auto& [from, to] : {std::pair(kUp, kDown), std::pair(kDown, kUp)}) {
      const std::size_t at = tensor.find(from);
      if (at != std::string::npos) return cat(tensor.substr(0, at), to, tensor.substr(at + from.size()));
    }
    return tensor;
  };
}

}  // namespace tern::models
