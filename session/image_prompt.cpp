#include "session/image_prompt.h"

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "session/image_processor.h"
#include "session/image_source.h"
#include "session/mmproj.h"

namespace tern::session {
namespace {

constexpr const char* kPlainTags = "write <image> once for each image, and the model's own words for images nowhere";

std::string expanded(std::string_view rendered, const ImageWords& words, std::span<const ImagePatches> images) {
  std::string out;
  std::size_t found = 0;
  for (std::size_t at = rendered.find(words.placeholder); at != std::string_view::npos;
       at = rendered.find(words.placeholder), ++found) {
    if (found < images.size()) {
      out.append(rendered.substr(0, at)).append(words.before);
      for (std::int64_t i = 0; i < images[found].tokens; ++i) out.append(words.place);
      out.append(words.after);
    }
    rendered.remove_prefix(at + words.placeholder.size());
  }
  if (found != images.size()) {
    throw Failure(data_error("the prompt", cat(images.size(), " times ", words.placeholder, ", once for each image"),
                             cat(found, " times, as the chat template writes it"), kPlainTags));
  }
  return out.append(rendered);
}

}  // namespace

const ImageWords& image_words(ImageCut cut) {
  static constexpr ImageWords kQwen = {
      "<|image_pad|>", "", "<|image_pad|>", "", "", "<|vision_start|><|image_pad|><|vision_end|>"};
  static constexpr ImageWords kGemma = {
      "<start_of_image>", "\n\n<start_of_image>", "<image_soft_token>", "<end_of_image>\n\n", "<pad>",
      "<start_of_image>"};
  static constexpr ImageWords kInternVl = {"<IMG_CONTEXT>", "<img>", "<IMG_CONTEXT>", "</img>", "", "<IMG_CONTEXT>\n"};
  static constexpr ImageWords kLlava = {"<image>", "", "<image>", "", "", "<image>\n"};
  switch (cut) {
    case ImageCut::merged_blocks:
      return kQwen;
    case ImageCut::square:
      return kGemma;
    case ImageCut::tiles:
      return kInternVl;
    case ImageCut::middle:
      break;
  }
  return kLlava;
}

ImagePlace image_place(ImageCut cut, const tokenizer::Tokenizer& tokenizer, const std::string& file) {
  const ImageWords& words = image_words(cut);
  for (const std::string_view word : {words.place, words.other_place}) {
    const auto id = word.empty() ? std::nullopt : tokenizer.piece_to_id(word);
    if (id) return {word, *id};
  }
  throw Failure(data_error(file, cat("the token ", words.place, ", for images"), "none",
                           "take the model's repository again, or choose another model"));
}

Result<ImagePrompts> ImagePrompts::open(const std::filesystem::path& model, const tokenizer::Tokenizer& tokenizer,
                                        const ImageSizes& sizes,
                                        const std::shared_ptr<const models::VisionConfig>& vision) {
  return catching([&] {
    const bool is_gguf = vision && vision->file;
    ImagePrompts out(with_sizes(model_image_config(model, vision).value(), sizes).value(), sizes.max_pixels, tokenizer);
    if (sizes.concern_blocks() && out.config_.cut != ImageCut::merged_blocks) {
      log_info(
          "environment: MIN_PIXELS, MAX_PIXELS and their like are for Qwen's processors, and make no difference to "
          "this model; --max_pixels makes images smaller for every one");
    }
    const auto place = image_place(out.config_.cut, tokenizer, (is_gguf ? model : model / "tokenizer.json").string());
    out.words_ = image_words(out.config_.cut);
    out.words_.place = place.word;
    out.place_id_ = place.id;
    return out;
  });
}

bool ImagePrompts::has_places(std::string_view rendered, std::size_t images) const {
  std::size_t found = 0;
  const std::string_view word = words_.placeholder;
  for (std::size_t at = rendered.find(word); at != std::string_view::npos; at = rendered.find(word, at + word.size()))
    ++found;
  return found == images;
}

Result<std::vector<ImagePatches>> ImagePrompts::read(std::span<const std::string> sources, std::int64_t max_tokens,
                                                     std::span<const std::string> places) const {
  return catching([&] {
    std::vector<ImagePatches> out;
    std::int64_t tokens = 0;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const std::string place = i < places.size() ? places[i] : "";
      const std::string name = place.empty() ? shown_source(sources[i]) : place;
      const media::Image image = shrunk(read_image(sources[i], {}, place).value(), max_pixels_, name);
      out.push_back(make_patches(config_, image, name).value());
      tokens += out.back().tokens;
      if (tokens > max_tokens) {
        throw Failure(data_error(name, cat("images of at most ", max_tokens, " tokens in a prompt"),
                                 cat(tokens, " with this one"),
                                 "give fewer or smaller images, or raise --max_model_len"));
      }
    }
    return out;
  });
}

Result<std::vector<tokenizer::TokenId>> ImagePrompts::encode(std::string_view rendered,
                                                             std::span<const ImagePatches> images) const {
  return catching([&] {
    const ImageWords& words = words_;
    auto ids = tokenizer_->encode(expanded(rendered, words, images), false);
    std::int64_t places = 0;
    for (const ImagePatches& image : images) places += image.tokens;
    const auto found = std::count(ids.begin(), ids.end(), place_id_);
    if (found != places) {
      throw Failure(
          data_error("the prompt", cat(places, " tokens ", words.place, " for its images"), cat(found), kPlainTags));
    }
    return ids;
  });
}

}  // namespace tern::session
