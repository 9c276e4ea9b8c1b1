#include "server/pages/pages.h"

#include <algorithm>
#include <vector>

#include "server/pages/embedded.h"

namespace tern::server {

std::span<const Page> all_pages() {
  static const std::vector<Page> pages = [] {
    std::vector<Page> found;
    for (const EmbeddedPage& page : embedded_pages()) {
      found.push_back({page.path, page.content_type, page.etag, std::as_bytes(std::span(page.body))});
    }
    return found;
  }();
  return pages;
}

const Page* find_page(std::string_view path) {
  const std::span<const Page> pages = all_pages();
  const auto found = std::ranges::lower_bound(pages, path, {}, &Page::path);
  return found != pages.end() && found->path == path ? &*found : nullptr;
}

}  // namespace tern::server
