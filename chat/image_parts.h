// Images in messages: a tag in the text on our side, parts of the content on the template's.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "chat/message.h"
#include "jinja/value.h"

namespace tern::chat {

inline constexpr std::string_view image_tag = "<image>";

[[nodiscard]] std::size_t count_image_tags(const std::vector<Message>& messages);

// Tags for `missing` more images before the first user message's text, as ms-swift places them; before the first
// message where no user speaks.
void add_image_tags(std::vector<Message>& messages, std::size_t missing);

// Contents that hold the tag become lists, as transformers gives them: {"type": "image"} for each tag, {"type": "text",
// "text"} for what stands around them. For messages of template_messages, behind an agent template, which reads texts.
[[nodiscard]] jinja::Values with_image_parts(jinja::Values messages);

// The same for a template that takes texts alone: `word` in the place of each tag.
[[nodiscard]] jinja::Values with_image_words(jinja::Values messages, std::string_view word);

}  // namespace tern::chat
