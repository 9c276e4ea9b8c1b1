// Prompts with images: patches for the tower, and places for its features among the ids.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/vision.h"
#include "session/image_config.h"
#include "session/image_patches.h"
#include "session/image_sizes.h"
#include "tokenizer/tokenizer.h"

namespace tern::session {

// What a processor writes in the place of the word that a template has for an image.
struct ImageWords {
  std::string_view placeholder;
  std::string_view before, place, after;  // `place` as often as the image has tokens
  // Where the vocabulary has no `place`: another token that no text has. (GGUFs of Gemma 3 end before it.)
  std::string_view other_place = {};
  std::string_view in_text = {};  // what stands for an image in a text, for a template that takes texts alone
};
[[nodiscard]] const ImageWords& image_words(ImageCut cut);

// The token that stands wherever a feature comes. Throws Failure (data) where the vocabulary, of `file`, has none.
struct ImagePlace {
  std::string_view word;
  tokenizer::TokenId id = 0;
};
[[nodiscard]] ImagePlace image_place(ImageCut cut, const tokenizer::Tokenizer& tokenizer, const std::string& file);

// Images of one model's prompts, as transformers' processor of it makes them.
class ImagePrompts {
 public:
  // `tokenizer` outlives it. `vision` is the model's; its processor is that of the mmproj file, where it comes from
  // one. Errors (data): as read_image_config and mmproj_image_config; a tokenizer without the words above; as
  // with_sizes.
  [[nodiscard]] static Result<ImagePrompts> open(const std::filesystem::path& model,
                                                 const tokenizer::Tokenizer& tokenizer, const ImageSizes& sizes = {},
                                                 const std::shared_ptr<const models::VisionConfig>& vision = nullptr);

  // Sources as read_image has them, and what errors call each of them; none: by its source. Errors (data): the first
  // image that cannot be read, that the processor refuses, or with which they take more than `max_tokens`.
  [[nodiscard]] Result<std::vector<ImagePatches>> read(std::span<const std::string> sources, std::int64_t max_tokens,
                                                       std::span<const std::string> places = {}) const;

  // The ids of a prompt that the template rendered, `images` in order in the place of its placeholders. Errors (data):
  // more or fewer placeholders than images; the word of a place in the prompt's own text.
  [[nodiscard]] Result<std::vector<tokenizer::TokenId>> encode(std::string_view rendered,
                                                               std::span<const ImagePatches> images) const;

  [[nodiscard]] const ImageConfig& config() const { return config_; }
  [[nodiscard]] const ImageWords& words() const { return words_; }
  // Whether a rendered prompt has a placeholder for each of so many images.
  [[nodiscard]] bool has_places(std::string_view rendered, std::size_t images) const;

 private:
  ImagePrompts(ImageConfig config, std::int64_t max_pixels, const tokenizer::Tokenizer& tokenizer)
      : config_(config), max_pixels_(max_pixels), tokenizer_(&tokenizer) {}

  ImageConfig config_;
  std::int64_t max_pixels_ = 0;  // of images before the processor; 0: any number
  const tokenizer::Tokenizer* tokenizer_;
  ImageWords words_;
  tokenizer::TokenId place_id_ = 0;
};

}  // namespace tern::session
