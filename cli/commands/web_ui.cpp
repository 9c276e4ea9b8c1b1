// tern web-ui: training runs in a browser, until it is told to stop.
#include "base/log.h"
#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "cli/run_form_flags.h"
#include "cli/server_flags.h"
#include "cli/version.h"
#include "io/file_writer.h"
#include "server/runs/web_ui_server.h"

namespace tern::cli {
namespace {

// Whoever reaches the page can start programs, so that it is open to this machine alone, or to those who have the key.
void require_key(const Arguments& arguments) {
  const std::string& host = arguments.string("host");
  if (is_loopback(host) || arguments.has("api_key") || arguments.boolean("allow_anyone")) return;
  throw Failure(usage_error(cat("--host ", host, " lets other machines start and stop runs here"),
                            "give --api_key KEY, which the page asks for, or --allow_anyone true"));
}

// A run has a session of its own, and goes on.
void tell_going_on(const std::vector<server::Runs::GoingOn>& runs) {
  for (const auto& [id, pid] : runs) {
    log_info(cat("the run ", id, " goes on; kill -INT ", pid, " saves and stops it, and tern web-ui shows it again"));
  }
}

}  // namespace

int run_web_ui(const Arguments& arguments) {
  require_key(arguments);
  server::WebUiOptions options;
  options.http = http_options(arguments);
  options.api_key = arguments.maybe_string("api_key").value_or("");
  options.any_host = !options.api_key.empty() || arguments.boolean("allow_anyone");
  options.output_dir = arguments.string("output_dir");
  options.version = version_number();
  io::make_directories(options.output_dir).value();
  options.form = sft_form(options.output_dir);
  const std::string folder = options.output_dir.string();
  const std::string scheme = options.http.ssl_certfile.empty() ? "http://" : "https://";
  const std::string host = is_loopback(options.http.host) ? "localhost" : options.http.host;
  // Before it answers: who sees that it does may stop it at once.
  set_interrupt_line("");
  install_interrupt_handler();
  const auto server = server::WebUiServer::listen(std::move(options)).value();
  log_info(cat("the runs in ", folder, " are at ", scheme, host, ":", server->port(), "/"));
  wait_for_interrupt();
  tell_going_on(server->going_on());
  return 0;
}

}  // namespace tern::cli
