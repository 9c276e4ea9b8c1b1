// The images of one request: where they stand among its tokens, and what the vision tower made of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "models/vision.h"
#include "session/image_patches.h"

namespace tern::engine {

struct RequestImage {
  session::ImagePatches image;                // its patches go once there are features
  std::int64_t begin = 0;                     // its tokens are [begin, begin + image.tokens) of the prompt
  std::int64_t position = 0;                  // of the first of them, as rotary positions count
  std::int64_t next_position = 0;             // of the token behind it
  models::VisionColumns columns;              // what the tower is given beside patches; goes with them
  std::vector<float> features;                // [tokens, hidden_size]; empty: the tower has not read it yet
  std::vector<std::vector<float>> deepstack;  // the same for the language model's first layers

  [[nodiscard]] std::int64_t end() const { return begin + image.tokens; }
  // Whether one of its tokens is among [from, to).
  [[nodiscard]] bool is_within(std::int64_t from, std::int64_t to) const { return from < end() && begin < to; }
};

class RequestImages {
 public:
  RequestImages() = default;
  // Finds the places of the images: runs of the image token, each as long as its image has tokens, in order. Errors
  // (data): another number of them, or patches that are not what the tower reads.
  [[nodiscard]] static Result<RequestImages> place(std::vector<session::ImagePatches> images,
                                                   std::span<const std::int32_t> ids,
                                                   const models::VisionConfig& vision);

  [[nodiscard]] bool empty() const { return images_.empty(); }
  [[nodiscard]] std::span<RequestImage> all() { return images_; }
  [[nodiscard]] std::span<const RequestImage> all() const { return images_; }
  // The image that a token is of; null: it is text.
  [[nodiscard]] const RequestImage* at(std::int64_t token) const;
  // Whether tokens [begin, end) have one of an image among them.
  [[nodiscard]] bool any_within(std::int64_t begin, std::int64_t end) const;
  // The rotary position of a token that is text.
  [[nodiscard]] std::int64_t position(std::int64_t token) const;

  // Tokens that see each other both ways, and so are computed in one step: images, joined where one follows another.
  struct Span {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  [[nodiscard]] std::span<const Span> spans() const { return spans_; }
  // The span that a token is in; an empty one: in none.
  [[nodiscard]] Span span_at(std::int64_t token) const;
  // How many of `count` tokens from `begin` on end no span in its middle.
  [[nodiscard]] std::int64_t whole(std::int64_t begin, std::int64_t count) const;

 private:
  std::vector<RequestImage> images_;
  std::vector<Span> spans_;
};

}  // namespace tern::engine
