// What cmake/embed_pages.cmake makes of server/pages/assets and of KaTeX.
#pragma once

#include <span>
#include <string_view>

namespace tern::server {

struct EmbeddedPage {
  std::string_view path;
  std::string_view content_type;
  std::string_view etag;
  std::string_view body;
};

[[nodiscard]] std::span<const EmbeddedPage> embedded_pages();  // sorted by path

}  // namespace tern::server
