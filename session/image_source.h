// Images from where rows and requests say that they are.
#pragma once

#include <string>
#include <string_view>

#include "media/image.h"

namespace tern::session {

// `source`: a file's path (file:// before it or not), an http:// or https:// URL, a data: URL or plain base64. Errors
// (data): no such file, no answer, no image, beyond the limits; they say `name` of it, or where there is none name the
// source, base64 by its form.
[[nodiscard]] Result<media::Image> read_image(const std::string& source, const media::ImageLimits& limits = {},
                                              const std::string& name = "");

// What errors call it: the source, or the form of one that is the image's bytes.
[[nodiscard]] std::string shown_source(std::string_view source);

}  // namespace tern::session
