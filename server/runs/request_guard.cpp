#include "server/runs/request_guard.h"

#include "base/strings.h"

namespace tern::server {
namespace {

// "localhost:7860" without the port, "[::1]:7860" without it and the brackets.
std::string_view name_of(std::string_view authority) {
  if (authority.starts_with('[')) return authority.substr(1, authority.find(']') - 1);
  return authority.substr(0, authority.find(':'));
}

bool is_this_machine(std::string_view name) { return name == "localhost" || name == "127.0.0.1" || name == "::1"; }

}  // namespace

std::optional<Error> RequestGuard::refusal(const HttpRequest& request) const {
  const std::string_view host = request.header("host");
  const std::string_view name = name_of(host);
  if (!any_host_ && !is_this_machine(name) && name != name_of(host_)) {
    return failed_error(cat("this server isn't \"", name, "\""), "open it as http://localhost with its port");
  }
  if (request.method == "GET" || request.method == "HEAD") return std::nullopt;
  const std::string_view origin = request.header("origin");
  const std::size_t scheme = origin.find("://");
  const bool same_origin = origin.empty() || (scheme != std::string_view::npos && origin.substr(scheme + 3) == host);
  const std::string_view site = request.header("sec-fetch-site");
  if (!same_origin || !(site.empty() || site == "same-origin" || site == "none")) {
    return failed_error("a page of another site can't use this server", "use the server's own page");
  }
  // What a form of another site can send is none of these, so that a browser asks first, and gets no.
  if (!request.header("content-type").starts_with("application/json")) {
    return failed_error("requests that change something have JSON bodies", "send Content-Type: application/json");
  }
  return std::nullopt;
}

}  // namespace tern::server
