// The web pages, built into the program: `/` is a chat, `/dashboard` shows what the server does, and the rest is what
// the two load. They ask nothing of any other host. Browsers can't send a key with a page, and no page holds a secret,
// so they're answered without one; what they ask the server for is not.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace tern::server {

struct Page {
  std::string_view path;          // "/", "/dashboard", "/pages/chat.js"
  std::string_view content_type;  // "text/html; charset=utf-8"
  std::string_view etag;          // with its quotes, of the contents: "\"3f2a...\""
  std::span<const std::byte> body;
};

// Null: no page has this path.
[[nodiscard]] const Page* find_page(std::string_view path);

// All of them, sorted by path.
[[nodiscard]] std::span<const Page> all_pages();

// The header Content-Security-Policy of every page: what a model writes is hostile, so that nothing in a page runs or
// is loaded but the server's own files. Images may be those that the user attaches.
inline constexpr std::string_view kPagePolicy =
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";
// Cache-Control of every page: a browser asks each time, and gets a 304 where the ETag is still the same.
inline constexpr std::string_view kPageCaching = "no-cache";

}  // namespace tern::server
