// tern app: the chat page on one model, or on a server elsewhere, opened in a browser.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "base/log.h"
#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/deployment.h"
#include "cli/interrupt.h"
#include "cli/server_flags.h"
#include "server/forwarding_server.h"
#include "server/runs/run_process.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;

// The desktop's program that opens addresses; "": there is none, or nothing to show it on.
fs::path opener() {
  const char* display = std::getenv("DISPLAY");
  const char* wayland = std::getenv("WAYLAND_DISPLAY");
  const char* path = std::getenv("PATH");
  if ((display == nullptr && wayland == nullptr) || path == nullptr) return {};
  for (const std::string_view folder : split(path, ':')) {
    fs::path program = fs::path(folder) / "xdg-open";
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

void open_page(const Arguments& arguments, const std::string& address) {
  const fs::path program = opener();
  if (!arguments.boolean("open_browser") || program.empty()) return;
  const auto started = server::start_process({program.string(), address}, "/dev/null");
  if (!started) log_warn(started.error().line());
}

// The other server says how it answers: flags of a model would be ignored.
void require_no_model_flags(const Arguments& arguments) {
  constexpr std::array kOfThePage = {"base_url",       "host",        "port",         "api_key", "open_browser",
                                     "request_memory", "ssl_keyfile", "ssl_certfile", "quiet",   "stream"};
  for (const Flag* flag : command_flags(arguments.command())) {
    if (arguments.provenance(flag->name) < Provenance::config || !flag->explanation.empty()) continue;
    if (std::ranges::find(kOfThePage, flag->name) != kOfThePage.end()) continue;
    throw Failure(usage_error(cat("--", flag->name, " has no effect with --base_url, whose server answers"),
                              cat("remove it, or give it to that server")));
  }
}

int forward(const Arguments& arguments) {
  require_no_model_flags(arguments);
  const bool any_port = !arguments.was_set("port");
  server::ForwardingOptions options;
  options.http = served_http_options(arguments);
  options.base_url = arguments.string("base_url");
  options.api_key = arguments.maybe_string("api_key").value_or("");
  options.any_host = !is_loopback(options.http.host);
  if (options.any_host && !options.api_key.empty()) {
    throw Failure(usage_error(cat("--api_key would be lent to everyone who reaches --host ", options.http.host),
                              "leave it out, so that the page asks for it, or listen on 127.0.0.1"));
  }
  // Before it answers: who sees that it does may stop it at once.
  set_interrupt_line("");
  install_interrupt_handler();
  const auto server = listen_on(options.http, any_port, [&](const server::HttpOptions& http) {
    server::ForwardingOptions at = options;
    at.http = http;
    return server::ForwardingServer::listen(std::move(at));
  });
  const std::string address = page_address(options.http, server->port());
  log_info(cat("a chat page on ", options.base_url, " is at ", address));
  open_page(arguments, address);
  wait_for_interrupt();
  return 0;
}

}  // namespace

int run_app(const Arguments& arguments) {
  if (arguments.has("base_url")) return forward(arguments);
  Deployment deployment;
  deployment.any_port = !arguments.was_set("port");
  deployment.serving = [&](const std::string& address) { open_page(arguments, address); };
  return serve_model(arguments, deployment);
}

}  // namespace tern::cli
