#include "session/mmproj.h"

#include <algorithm>
#include <vector>

#include "base/strings.h"
#include "hub/hub.h"
#include "models/mmproj.h"
#include "session/image_prompt.h"

namespace tern::session {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAgain = "take the mmproj file from its repository again";
constexpr std::int64_t kMostPatches = 256;                    // of a picture, on a side
constexpr std::int64_t kLargestArea = std::int64_t{1} << 26;  // pixels

std::string key_of(std::string_view name) { return cat("clip.vision.", name); }

Failure wrong(const checkpoint::Gguf& gguf, const std::string& key, std::string_view expected, std::string_view found) {
  return Failure(data_error(cat(gguf.path(), ": key \"", key, "\""), expected, found, kAgain));
}

std::int64_t within(const checkpoint::Gguf& gguf, std::string_view name, std::int64_t otherwise, std::int64_t least,
                    std::int64_t most) {
  const std::string key = key_of(name);
  const std::int64_t value = gguf.integer_or(key, otherwise).value();
  if (value >= least && value <= most) return value;
  throw wrong(gguf, key, cat("an integer from ", least, " to ", most), cat(value));
}

// Metadata holds fp32: 0.45578 is meant where the nearest fp32 of it is held.
std::array<double, 3> colours(const checkpoint::Gguf& gguf, std::string_view name, bool divisors) {
  const std::string key = key_of(name);
  const checkpoint::GgufValue* value = gguf.find(key);
  const auto numbers = value != nullptr ? value->numbers() : std::nullopt;
  std::array<double, 3> out{};
  if (!numbers || numbers->size() != out.size()) throw wrong(gguf, key, "three numbers", "none, or another value");
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = shortest(static_cast<float>((*numbers)[i]));
    const bool fits = out[i] > (divisors ? 0.0 : -1000.0) && out[i] < 1000.0;
    if (!fits) throw wrong(gguf, key, divisors ? "numbers above 0" : "numbers of colours", cat((*numbers)[i]));
  }
  return out;
}

ImageCut cut_of(const models::VisionTower& tower) {
  if (!tower.mrope_section.empty()) return ImageCut::merged_blocks;
  return tower.has_one_size ? ImageCut::square : ImageCut::tiles;
}

void read_blocks(const models::VisionConfig& vision, const checkpoint::Gguf& gguf, ImageConfig& out) {
  out.temporal_patch_size = vision.fields.own_field<std::int64_t>("temporal_patch_size");
  out.merge_size = vision.fields.own_field<std::int64_t>("spatial_merge_size");
  const std::int64_t token = out.patch_size * out.merge_size * out.patch_size * out.merge_size;  // pixels
  const auto area = [&](std::int64_t tokens) { return std::clamp<std::int64_t>(tokens * token, 1, kLargestArea); };
  out.min_pixels = within(gguf, "image_min_pixels", area(vision.tower->fewest_tokens), 1, kLargestArea);
  out.max_pixels = within(gguf, "image_max_pixels", area(vision.tower->most_tokens), 1, kLargestArea);
}

// Pictures of one size: the tower says how many tokens it makes of one.
void read_pictures(const models::VisionConfig& vision, const checkpoint::Gguf& gguf, ImageConfig& out) {
  out.height = out.width = within(gguf, "image_size", 0, 1, 4096);
  const std::int64_t side = out.height / out.patch_size;
  if (side > kMostPatches) {
    throw wrong(gguf, key_of("image_size"),
                cat("at most ", kMostPatches, " patches of ", out.patch_size, " pixels a side"), cat(out.height));
  }
  const nn::PatchGrid grid{1, side, side};
  out.tokens_a_picture = vision.tower->columns(vision, {&grid, 1}).features;
  if (out.cut == ImageCut::square) return;
  out.min_tiles = within(gguf, "preproc_min_tiles", 1, 1, 256);
  out.max_tiles = within(gguf, "preproc_max_tiles", 12, out.min_tiles, 256);
}

}  // namespace

std::string mmproj_beside(const std::string& model, const fs::path& path) {
  if (path.extension() != ".gguf" || path == model) return "";
  // A split model may have a folder of its own within the repository.
  for (const fs::path& folder : {path.parent_path(), path.parent_path().parent_path()}) {
    std::vector<std::string> files;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) files.push_back(entry.path().filename().string());
    const std::string found = hub::choose_mmproj(files, path.filename().string());
    if (!found.empty()) return (folder / found).string();
    if (fs::is_directory(model, ignored)) break;
  }
  return "";
}

Result<std::shared_ptr<const models::VisionConfig>> open_mmproj(const fs::path& file,
                                                                const checkpoint::CheckpointSource& text,
                                                                const models::ModelConfig& config,
                                                                const tokenizer::Tokenizer& tokenizer) {
  return catching([&]() -> std::shared_ptr<const models::VisionConfig> {
    auto source = std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(file).value());
    const std::string language = text.gguf()->text("general.architecture").value();
    auto vision =
        std::make_shared<models::VisionConfig>(models::read_mmproj(std::move(source), config, language).value());
    models::join_language_model(*vision, *text.gguf(), config).value();
    vision->image_token_id = image_place(cut_of(*vision->tower), tokenizer, text.path().string()).id;
    return vision;
  });
}

Result<ImageConfig> mmproj_image_config(const models::VisionConfig& vision) {
  return catching([&] {
    const checkpoint::Gguf& gguf = *vision.file->gguf();
    ImageConfig out;
    out.cut = cut_of(*vision.tower);
    out.filter = out.cut == ImageCut::square ? media::Filter::bilinear : media::Filter::bicubic;
    out.mean = colours(gguf, "image_mean", false);
    out.std = colours(gguf, "image_std", true);
    out.patch_size = within(gguf, "patch_size", 0, 1, 256);
    if (out.cut == ImageCut::merged_blocks) {
      read_blocks(vision, gguf, out);
    } else {
      read_pictures(vision, gguf, out);
    }
    return out;
  });
}

Result<ImageConfig> model_image_config(const std::filesystem::path& model,
                                       const std::shared_ptr<const models::VisionConfig>& vision) {
  return vision && vision->file ? mmproj_image_config(*vision) : read_image_config(model);
}

}  // namespace tern::session
