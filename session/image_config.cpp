#include "session/image_config.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/strings.h"
#include "io/json_field.h"

namespace tern::session {
namespace {

namespace fs = std::filesystem;
using io::JsonField;

constexpr const char* kMend = "take the model's repository again, or choose another model";

// Fields that say nothing about pixels, or nothing where the fields below are as they must be.
constexpr std::array<std::string_view, 22> kWithoutEffect = {
    "processor_class",
    "image_processor_type",
    "feature_extractor_type",
    "auto_map",
    "_name_or_path",
    "_valid_processor_keys",
    "return_tensors",
    "device",
    "data_format",
    "input_data_format",
    "disable_grouping",
    "default_to_square",
    "do_convert_rgb",  // images are loaded as RGB
    "crop_size",       // of do_center_crop
    "pad_size",        // of do_pad
    "size_divisor",    // of do_pad
    "do_pan_and_scan",
    "pan_and_scan_min_crop_size",
    "pan_and_scan_max_num_crops",
    "pan_and_scan_min_ratio_to_activate",
    "crop_to_patches",  // InternVL's processor asks for it itself
    "image_seq_length"};

// One file's fields: each that is read is crossed off, and what is left at the end must be without effect.
class Fields {
 public:
  explicit Fields(const JsonField& config) : config_(config) {}

  std::optional<JsonField> take(std::string_view name) {
    taken_.emplace_back(name);
    return config_.find(name);
  }
  std::int64_t integer(std::string_view name, std::int64_t otherwise, std::int64_t least, std::int64_t most) {
    const auto field = take(name);
    return field ? within(*field, least, most) : otherwise;
  }
  static std::int64_t within(const JsonField& field, std::int64_t least, std::int64_t most) {
    const std::int64_t value = field.integer();
    if (value < least || value > most) throw field.wrong(cat("an integer from ", least, " to ", most));
    return value;
  }
  bool boolean(std::string_view name, bool otherwise) {
    const auto field = take(name);
    return field ? field->boolean() : otherwise;
  }
  // Steps that none of the processors here takes, or that one always does.
  void must_be(std::string_view name, bool value) {
    const auto field = take(name);
    if (field && field->boolean() != value) throw field->wrong(value ? "true" : "false");
  }
  void require_all_known() const {
    for (const auto& member : config_.object()) {
      const auto among = [&](const auto& names) {
        return std::find(names.begin(), names.end(), member.key) != names.end();
      };
      const JsonField field = config_.member(member);
      if (field.json().is_null() || among(taken_) || among(kWithoutEffect)) continue;
      throw field.wrong("no such field: what it asks for is not known");
    }
  }

 private:
  const JsonField& config_;
  std::vector<std::string> taken_;
};

// Three numbers, or one that is each of them.
std::array<double, 3> colours(const JsonField& field, bool divisors) {
  std::array<double, 3> out{};
  if (field.json().is_number()) {
    out.fill(field.number());
    if (divisors && !(out[0] > 0)) throw field.wrong("a number above 0");
    return out;
  }
  const auto items = field.items();
  if (items.size() != out.size()) throw field.wrong("three numbers");
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = items[i].number();
    if (divisors && !(out[i] > 0)) throw items[i].wrong("a number above 0");
  }
  return out;
}

struct Defaults {
  media::Filter filter;
  std::array<double, 3> mean, std;
};

void read_common(Fields& fields, const Defaults& defaults, ImageConfig& out) {
  out.resizes = fields.boolean("do_resize", true);
  out.rescales = fields.boolean("do_rescale", true);
  out.normalises = fields.boolean("do_normalize", true);
  if (out.cut != ImageCut::middle) fields.must_be("do_center_crop", false);
  fields.must_be("do_pad", false);
  out.filter = defaults.filter;
  if (const auto resample = fields.take("resample")) {
    const std::int64_t filter = resample->integer();  // Pillow's numbers
    if (filter != 2 && filter != 3) throw resample->wrong("2, bilinear, or 3, bicubic");
    out.filter = filter == 2 ? media::Filter::bilinear : media::Filter::bicubic;
  }
  if (const auto factor = fields.take("rescale_factor")) {
    out.rescale_factor = factor->number();
    if (!(out.rescale_factor > 0)) throw factor->wrong("a number above 0");
  }
  const auto mean = fields.take("image_mean");
  const auto std = fields.take("image_std");
  out.mean = mean ? colours(*mean, false) : defaults.mean;
  out.std = std ? colours(*std, true) : defaults.std;
}

constexpr std::array<double, 3> kClipMean = {0.48145466, 0.4578275, 0.40821073};
constexpr std::array<double, 3> kClipStd = {0.26862954, 0.26130258, 0.27577711};

void read_blocks(Fields& fields, ImageConfig& out) {
  read_common(fields, {media::Filter::bicubic, kClipMean, kClipStd}, out);
  out.cut = ImageCut::merged_blocks;
  out.patch_size = fields.integer("patch_size", 14, 1, 256);
  out.temporal_patch_size = fields.integer("temporal_patch_size", 2, 1, 16);
  out.merge_size = fields.integer("merge_size", 2, 1, 16);
  out.min_pixels = 56 * 56;
  out.max_pixels = 28 * 28 * 1280;
  const auto size = fields.take("size");
  const auto limit = [&](const char* name, const char* in_size, std::int64_t& area) {
    const auto own = fields.take(name);  // it goes before what the size says, in whatever words
    if (own) area = Fields::within(*own, 1, kLargestArea);
    if (!own && size) area = Fields::within(size->at(in_size), 1, kLargestArea);
  };
  limit("min_pixels", "shortest_edge", out.min_pixels);
  limit("max_pixels", "longest_edge", out.max_pixels);
}

// {"height", "width"}, or as older files have it: one number for both, or the two.
void read_size(Fields& fields, ImageConfig& out, const char* name = "size") {
  const auto size = fields.take(name);
  if (!size) return;
  if (!size->json().is_object()) {
    const auto sides = size->integers();
    if (sides.empty() || sides.size() > 2) throw size->wrong("one number of pixels, or height and width");
    for (const std::int64_t side : sides) {
      if (side < 1 || side > 4096) throw size->wrong("integers from 1 to 4096");
    }
    out.height = sides.front();
    out.width = sides.back();
    return;
  }
  out.height = Fields::within(size->at("height"), 1, 4096);
  out.width = Fields::within(size->at("width"), 1, 4096);
}

void read_square(Fields& fields, ImageConfig& out) {
  read_common(fields, {media::Filter::bilinear, {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}}, out);
  fields.must_be("do_pan_and_scan", false);
  out.cut = ImageCut::square;
  out.height = out.width = 224;
  read_size(fields, out);
}

void read_tiles(Fields& fields, ImageConfig& out) {
  fields.must_be("do_resize", true);
  read_common(fields, {media::Filter::bicubic, kClipMean, kClipStd}, out);
  out.cut = ImageCut::tiles;
  out.height = out.width = 384;
  read_size(fields, out);
  out.min_tiles = fields.integer("min_patches", 1, 1, 256);
  out.max_tiles = fields.integer("max_patches", 12, 1, 256);
}

void read_middle(Fields& fields, ImageConfig& out) {
  fields.must_be("do_resize", true);
  fields.must_be("do_center_crop", true);
  out.cut = ImageCut::middle;
  read_common(fields, {media::Filter::bicubic, kClipMean, kClipStd}, out);
  out.shortest_edge = out.height = out.width = 224;
  const auto size = fields.take("size");
  if (size) {
    out.shortest_edge = Fields::within(size->json().is_object() ? size->at("shortest_edge") : *size, 1, 4096);
  }
  read_size(fields, out, "crop_size");
  if (out.height > out.shortest_edge || out.width > out.shortest_edge) {
    const auto crop = fields.take("crop_size");
    throw(crop ? crop : size)->wrong(cat("at most the shortest edge, ", out.shortest_edge, ", as nothing is padded"));
  }
}

// What the tower and the processor as a whole say, in the other files.
void read_pictures(const fs::path& model, const std::optional<JsonField>& processor, ImageConfig& out) {
  out.tokens_a_picture = 256;
  if (const auto tokens = processor ? processor->find("image_seq_length") : std::nullopt) {
    out.tokens_a_picture = Fields::within(*tokens, 1, 65536);
  }
  const fs::path file = model / "config.json";
  const io::Json json = io::read_json_file(file).value();
  const JsonField config(json, file.string(), kMend);
  const JsonField size = config.at("vision_config").at("patch_size");
  for (const std::int64_t side : size.integers()) {
    if (side < 1 || side > 256 || (out.patch_size != 0 && side != out.patch_size)) {
      throw size.wrong("one integer from 1 to 256 for both sides");
    }
    out.patch_size = side;
  }
  if (out.patch_size == 0) throw size.wrong("an integer");
  if (out.height % out.patch_size != 0 || out.width % out.patch_size != 0) {
    throw size.wrong(cat("a size of which ", out.height, " x ", out.width, " pixels are a multiple"));
  }
  if (out.cut == ImageCut::middle) {
    const bool has_class = config.text("vision_feature_select_strategy", "default") == "full";
    out.tokens_a_picture = out.height * out.width / (out.patch_size * out.patch_size) + (has_class ? 1 : 0);
  }
}

constexpr const char* kQwen = "Qwen2VLImageProcessor";
constexpr const char* kGemma = "Gemma3ImageProcessor";
constexpr const char* kInternVl = "GotOcr2ImageProcessor";
constexpr const char* kClip = "CLIPImageProcessor";

// What transformers takes for a model whose file names no processor.
std::string processor_of_model(const fs::path& model, const JsonField& config) {
  constexpr std::array<std::pair<std::string_view, const char*>, 9> kTypes = {{{"qwen2_vl", kQwen},
                                                                               {"qwen2_5_vl", kQwen},
                                                                               {"qwen3_vl", kQwen},
                                                                               {"qwen3_vl_moe", kQwen},
                                                                               {"qwen3_5", kQwen},
                                                                               {"qwen3_5_moe", kQwen},
                                                                               {"gemma3", kGemma},
                                                                               {"internvl", kInternVl},
                                                                               {"llava", kClip}}};
  const fs::path file = model / "config.json";
  std::error_code ignored;
  if (fs::exists(file, ignored)) {
    const io::Json json = io::read_json_file(file).value();
    const std::string type = JsonField(json, file.string(), kMend).text("model_type", "");
    for (const auto& [name, processor] : kTypes) {
      if (type == name) return processor;
    }
  }
  return std::string(config.at("image_processor_type").text());  // says what is missing
}

// The class's name without what it was called by when there were two of each.
std::string processor_name(const fs::path& model, const JsonField& config) {
  constexpr std::string_view kFast = "Fast", kOld = "FeatureExtractor";
  auto named = config.find("image_processor_type");
  if (!named) named = config.find("feature_extractor_type");
  if (!named) return processor_of_model(model, config);
  std::string name(named->text());
  if (name.ends_with(kFast)) name.resize(name.size() - kFast.size());
  if (name.ends_with(kOld)) name.replace(name.size() - kOld.size(), kOld.size(), "ImageProcessor");
  // Of releases before their models' own.
  return name == "Qwen2_5_VLImageProcessor" || name == "Qwen3VLImageProcessor" ? kQwen : name;
}

ImageConfig read_from(const fs::path& model, const JsonField& config, const std::optional<JsonField>& processor) {
  const std::string name = processor_name(model, config);
  Fields fields(config);
  ImageConfig out;
  if (name == kQwen) {
    read_blocks(fields, out);
  } else if (name == kGemma) {
    read_square(fields, out);
  } else if (name == kInternVl) {
    read_tiles(fields, out);
  } else if (name == kClip) {
    read_middle(fields, out);
  } else {
    const bool is_new = config.find("image_processor_type").has_value();
    throw config.at(is_new ? "image_processor_type" : "feature_extractor_type")
        .wrong("Qwen2VLImageProcessor, Gemma3ImageProcessor, GotOcr2ImageProcessor or CLIPImageProcessor");
  }
  fields.require_all_known();
  if (out.cut != ImageCut::merged_blocks) read_pictures(model, processor, out);
  return out;
}

}  // namespace

Result<ImageConfig> read_image_config(const fs::path& model) {
  return catching([&]() -> ImageConfig {
    const fs::path whole_file = model / "processor_config.json";
    const fs::path file = model / "preprocessor_config.json";
    std::error_code ignored;
    if (model.extension() == ".gguf" && fs::is_regular_file(model, ignored)) {
      throw Failure(data_error(model.string(), "a vision tower beside it, for images", "none",
                               "name its mmproj file with --mmproj (mmproj-*.gguf in the model's repository, if it "
                               "sees at all), or leave the images out"));
    }
    std::optional<io::Json> whole_json;
    std::optional<JsonField> whole;
    if (fs::exists(whole_file, ignored)) {
      whole_json = io::read_json_file(whole_file).value();
      whole.emplace(*whole_json, whole_file.string(), kMend);
      if (const auto inner = whole->find("image_processor")) return read_from(model, *inner, whole);
    }
    if (!fs::exists(file, ignored)) {
      throw Failure(data_error(model.string(), "a model that takes images", "one without preprocessor_config.json",
                               "leave the images out, or choose another model"));
    }
    const io::Json json = io::read_json_file(file).value();
    return read_from(model, JsonField(json, file.string(), kMend), whole);
  });
}

}  // namespace tern::session
