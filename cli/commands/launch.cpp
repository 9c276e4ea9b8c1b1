// tern launch: a coding agent that asks a server of ours.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "base/strings.h"
#include "cli/agents.h"
#include "cli/commands/command.h"
#include "hub/http.h"

namespace tern::cli {
namespace {

std::string listed_models(const std::string& url, const std::string& api_key) {
  hub::HttpRequest request;
  request.url = url + "/v1/models";
  if (!api_key.empty()) request.headers.push_back(cat("Authorization: Bearer ", api_key));
  const hub::HttpReply reply = hub::http_get(request);
  constexpr const char* kStart = "start one with tern deploy, and name its address with --host and --port";
  if (!reply.failure.empty())
    throw Failure(failed_error(cat("no server answers at ", url, ": ", reply.failure), kStart));
  if (reply.status != 200) {
    throw Failure(failed_error(cat("the server at ", url, " lists no models: status ", reply.status),
                               reply.status == 401 ? "give its key with --api_key" : kStart));
  }
  return reply.text;
}

}  // namespace

int run_launch(const Arguments& arguments) {
  const std::string agent = arguments.string("agent");
  const std::string url = server_url(arguments.string("host"), arguments.integer("port"));
  const std::string api_key = arguments.maybe_string("api_key").value_or("");
  AgentServer server =
      agent_server(listed_models(url, api_key), arguments.maybe_string("served_model").value_or("")).value();
  server.url = url;
  server.api_key = api_key;
  AgentLaunch launch = agent_launch(agent, server, arguments.list("agent_arguments"));
  for (const auto& [name, value] : launch.variables) setenv(name.c_str(), value.c_str(), 1);
  for (const std::string& name : launch.unset) unsetenv(name.c_str());
  log_info(cat(agent, " asks ", server.model, " on ", url));
  std::vector<char*> words;
  for (std::string& word : launch.words) words.push_back(word.data());
  words.push_back(nullptr);
  std::signal(SIGXFSZ, SIG_DFL);  // what is ignored here would be ignored there
  execvp(words.front(), words.data());
  const int error = errno;
  throw Failure(failed_error(error == ENOENT ? cat("there is no ", agent, " on the PATH")
                                             : cat(agent, " can't be started: ", std::strerror(error)),
                             cat("install it: ", launch.install)));
}

}  // namespace tern::cli
