#include "server/page_routes.h"

#include <string_view>

#include "server/pages/pages.h"

namespace tern::server {
namespace {

constexpr std::string_view kRunsPage = "/web-ui";

void show(Router& router, const Page& page, std::string path) {
  const auto answer = [&page](const HttpRequest& request, const std::string&,
                              const std::shared_ptr<HttpExchange>& exchange) {
    Headers headers = {{"ETag", std::string(page.etag)},
                       {"Cache-Control", std::string(kPageCaching)},
                       {"Content-Security-Policy", std::string(kPagePolicy)},
                       {"X-Content-Type-Options", "nosniff"},
                       {"Referrer-Policy", "no-referrer"}};
    const bool known = request.header("if-none-match") == page.etag;
    std::string body = known ? "" : std::string(reinterpret_cast<const char*>(page.body.data()), page.body.size());
    exchange->respond(known ? 304 : 200, page.content_type, std::move(body), std::move(headers));
  };
  router.add(Route{.method = "GET", .path = std::move(path), .handler = answer, .open = true, .quick = true});
}

}  // namespace

void add_page_routes(Router& router) {
  for (const Page& page : all_pages()) {
    if (page.path != kRunsPage) show(router, page, std::string(page.path));
  }
}

void add_run_page_routes(Router& router) {
  for (const Page& page : all_pages()) {
    if (page.path == kRunsPage) show(router, page, "/");
    if (page.path.starts_with("/pages/")) show(router, page, std::string(page.path));
  }
}

}  // namespace tern::server
