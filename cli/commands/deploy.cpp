// tern deploy: a model behind HTTP, until it is told to stop.
#include <cstdio>

#include "base/log.h"
#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/deployment.h"
#include "cli/interrupt.h"
#include "cli/served_model.h"
#include "cli/server_flags.h"
#include "cli/version.h"
#include "server/rollout/routes.h"
#include "server/server.h"

namespace tern::cli {
namespace {

constexpr std::chrono::seconds kDrain{60};

// Of a model that doesn't answer in words.
std::string routes_of(const models::ModelConfig& config) {
  if (config.head != models::ModelHead::classification) return "/v1/embeddings, /pooling, /score and /rerank";
  return config.labels.size() == 1 ? "/classify, /pooling, /score and /rerank" : "/classify and /pooling";
}

}  // namespace

std::string page_address(const server::HttpOptions& options, std::uint16_t port) {
  return cat(options.ssl_certfile.empty() ? "http" : "https", "://localhost:", port, "/");
}

int serve_model(const Arguments& given, const Deployment& deployment) {
  server::HttpOptions http = served_http_options(given);
  const bool many = given.has("models");
  std::unique_ptr<ServedModel> model;  // outlives the server
  if (!many) model = std::make_unique<ServedModel>(given, deployment.takes_weights);
  if (deployment.takes_weights) server::rollout::take_weights(http, model->config());
  // Before the weights are read, which may take long.
  const auto server = listen_on(http, deployment.any_port, [&](const server::HttpOptions& options) {
    return server::Server::listen(options, access_log(given));
  });
  if (model) model->load();
  set_interrupt_line("\ntern: finishing the answers on their way; press Ctrl-C again to stop at once\n");
  install_interrupt_handler();
  if (model) {
    server->serve(model->llm(), model->server_options()).value();
  } else {
    server->serve(pool_options(given), {given.maybe_string("api_key").value_or(""), version_number()});
  }
  const std::string scheme = http.ssl_certfile.empty() ? "http://" : "https://";
  const std::string page = page_address(http, server->port());
  const bool chats = !model || model->llm().generates();
  log_info(cat("serving ", join(server->model_names(), ", "), " on ", scheme, http.host, ":", server->port(),
               chats ? cat("; a chat page is at ", page) : "; it answers at " + routes_of(model->config())));
  if (deployment.serving) deployment.serving(page);
  wait_for_interrupt();
  if (!server->drain(kDrain)) log_warn("answers were broken off, as a minute did not suffice for them");
  return 0;
}

int run_deploy(const Arguments& arguments) { return serve_model(arguments, {}); }

}  // namespace tern::cli
