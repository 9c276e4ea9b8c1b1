// tern deploy: a model behind HTTP, until it is told to stop.
#include <cstdio>

#include "base/log.h"
#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "cli/served_model.h"
#include "cli/server_flags.h"
#include "cli/version.h"
#include "server/server.h"

namespace tern::cli {
namespace {

constexpr std::chrono::seconds kDrain{60};

}  // namespace

int run_deploy(const Arguments& given) {
  const server::HttpOptions http = http_options(given);
  const bool many = given.has("models");
  std::unique_ptr<ServedModel> model;  // outlives the server
  if (!many) model = std::make_unique<ServedModel>(given);
  const auto server = server::Server::listen(http).value();  // before the weights are read, which may take long
  if (model) model->load();
  set_interrupt_line("\ntern: finishing the answers on their way; press Ctrl-C again to stop at once\n");
  install_interrupt_handler();
  if (model) {
    server->serve(model->llm(), model->server_options()).value();
  } else {
    server->serve(pool_options(given), {given.maybe_string("api_key").value_or(""), version_number()});
  }
  const std::string scheme = http.ssl_certfile.empty() ? "http://" : "https://";
  log_info(cat("serving ", join(server->model_names(), ", "), " on ", scheme, http.host, ":", server->port(),
               "; a chat page is at ", scheme, "localhost:", server->port(), "/"));
  wait_for_interrupt();
  if (!server->drain(kDrain)) log_warn("answers were broken off, as a minute did not suffice for them");
  return 0;
}

}  // namespace tern::cli
