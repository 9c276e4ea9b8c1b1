// tern deploy: a model behind HTTP, until it is told to stop.
#include <cstdio>

#include "base/log.h"
#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/generation_flags.h"
#include "cli/interrupt.h"
#include "cli/server_flags.h"
#include "cli/session_flags.h"
#include "server/server.h"

namespace tern::cli {
namespace {

constexpr std::chrono::seconds kDrain{60};

}  // namespace

int run_deploy(const Arguments& given) {
  Arguments arguments = given;
  const engine::ServedAdapters adapters = served_adapters(arguments);
  load_training_arguments(arguments);
  const std::string model = generating_model(arguments);
  const server::HttpOptions http = http_options(arguments);
  session::SessionOptions opening = session_options(arguments, model);
  opening.images = true;
  auto session = session::open_session(opening).value();
  engine::LLMOptions options = llm_options(arguments);
  options.adapters = adapters;
  if (!adapters.named.empty()) options.adapter.clear();  // requests choose
  options.images = true;
  options.progress = weight_progress(arguments);
  use_server_seats(arguments, options.engine);
  std::unique_ptr<engine::LLM> llm;                          // outlives the server
  const auto server = server::Server::listen(http).value();  // before the weights are read, which may take long
  models::LoadOptions load;
  load.max_positions = engine::LLM::model_len(*session, options).value();
  load.vision_later = true;
  load_weights(*session, arguments, load);
  llm = engine::LLM::open(*session, options).value();
  session::keep_bindings(llm->engine().runner().program());
  const server::ServerOptions serving = server_options(arguments, *llm, model);
  set_interrupt_line("\ntern: finishing the answers on their way; press Ctrl-C again to stop at once\n");
  install_interrupt_handler();
  server->serve(*llm, serving).value();
  const std::string scheme = http.ssl_certfile.empty() ? "http://" : "https://";
  log_info(cat("serving ", join(server->model_names(), ", "), " on ", scheme, http.host, ":", server->port(),
               "; a chat page is at ", scheme, "localhost:", server->port(), "/"));
  wait_for_interrupt();
  if (!server->drain(kDrain)) log_warn("answers were broken off, as a minute did not suffice for them");
  return 0;
}

}  // namespace tern::cli
