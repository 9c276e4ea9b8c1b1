#include "engine/request_images.h"

#include <algorithm>

#include "base/strings.h"
#include "models/vision_grid.h"

namespace tern::engine {
namespace {

// Where the image's tokens begin: at the next image token from `from` on.
std::int64_t find_place(std::span<const std::int32_t> ids, std::int64_t from, std::int64_t image_token) {
  const auto found = std::find(ids.begin() + from, ids.end(), static_cast<std::int32_t>(image_token));
  return found - ids.begin();
}

// The patches are as many as the grids say, and the tokens as many as the tower gives features.
void read_image(RequestImage& placed, std::size_t number, const models::VisionConfig& vision) {
  const session::ImagePatches& image = placed.image;
  placed.columns = vision.tower->columns(vision, image.grids);
  std::int64_t patches = 0;
  for (const nn::PatchGrid& grid : image.grids) patches += grid.t * grid.h * grid.w;
  const std::int64_t numbers = patches * vision.tower->patch_dim(vision);
  const auto refuse = [&](const char* what, std::int64_t expected, std::int64_t found) {
    return Failure(data_error(cat("image ", number + 1), cat(expected, " ", what, " by its grids"), cat(found),
                              "make its patches as the model's own processor does"));
  };
  const auto given = static_cast<std::int64_t>(image.patches.size());
  if (given != numbers) throw refuse("numbers of patches", numbers, given);
  if (image.tokens != placed.columns.features) throw refuse("tokens", placed.columns.features, image.tokens);
}

}  // namespace

Result<RequestImages> RequestImages::place(std::vector<session::ImagePatches> images, std::span<const std::int32_t> ids,
                                           const models::VisionConfig& vision) {
  return catching([&] {
    RequestImages out;
    const auto length = static_cast<std::int64_t>(ids.size());
    const bool is_mrope = !vision.mrope_section.empty();
    std::int64_t at = 0;
    std::int64_t shift = 0;  // of positions behind the images so far
    for (std::size_t i = 0; i < images.size(); ++i) {
      RequestImage placed;
      placed.image = std::move(images[i]);
      read_image(placed, i, vision);
      placed.begin = find_place(ids, at, vision.image_token_id);
      at = std::min(placed.end(), length);
      const auto has_token = [&](std::int32_t id) { return id == vision.image_token_id; };
      const auto run = ids.subspan(static_cast<std::size_t>(std::min(placed.begin, length)),
                                   static_cast<std::size_t>(at - std::min(placed.begin, length)));
      const auto found = std::count_if(run.begin(), run.end(), has_token);
      if (found != placed.image.tokens || placed.end() > length) {
        throw Failure(data_error(cat("prompt, image ", i + 1),
                                 cat(placed.image.tokens, " image tokens (", vision.image_token_id, ") on end"),
                                 cat(found), "put an image's placeholder into the prompt wherever it is to be seen"));
      }
      placed.position = placed.begin + shift;
      if (is_mrope) {
        const auto merge = vision.fields.own_field<std::int64_t>("spatial_merge_size");
        shift += models::mrope_extent(placed.image.grids.front(), merge) - placed.image.tokens;
      }
      placed.next_position = placed.end() + shift;
      out.images_.push_back(std::move(placed));
    }
    if (!images.empty() && find_place(ids, at, vision.image_token_id) != length) {
      throw Failure(data_error("prompt",
                               cat("image tokens (", vision.image_token_id, ") of ", images.size(), " images"),
                               "more of them", "give an image for each placeholder"));
    }
    if (!vision.tower->sees_itself) return out;
    for (const RequestImage& image : out.images_) {
      if (!out.spans_.empty() && out.spans_.back().end == image.begin) {
        out.spans_.back().end = image.end();
      } else {
        out.spans_.push_back({image.begin, image.end()});
      }
    }
    return out;
  });
}

const RequestImage* RequestImages::at(std::int64_t token) const {
  for (const RequestImage& image : images_) {
    if (token >= image.begin && token < image.end()) return &image;
  }
  return nullptr;
}

bool RequestImages::any_within(std::int64_t begin, std::int64_t end) const {
  return std::any_of(images_.begin(), images_.end(),
                     [&](const RequestImage& image) { return image.is_within(begin, end); });
}

std::int64_t RequestImages::position(std::int64_t token) const {
  std::int64_t shift = 0;
  for (const RequestImage& image : images_) {
    if (image.end() > token) break;
    shift = image.next_position - image.end();
  }
  return token + shift;
}

RequestImages::Span RequestImages::span_at(std::int64_t token) const {
  for (const Span& span : spans_) {
    if (token >= span.begin && token < span.end) return span;
  }
  return {};
}

std::int64_t RequestImages::whole(std::int64_t begin, std::int64_t count) const {
  const Span cut = count > 0 ? span_at(begin + count - 1) : Span{};
  return cut.end > begin + count ? std::max<std::int64_t>(cut.begin - begin, 0) : count;
}

}  // namespace tern::engine
