// How coding agents are told to ask a server of ours: by variables and arguments, nothing of theirs is written to.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tern::cli {

struct AgentServer {
  std::string url;  // "http://127.0.0.1:8000"
  std::string api_key;
  std::string model;
  std::int64_t max_model_len = 0;  // 0: the server doesn't say
};

struct AgentLaunch {
  std::vector<std::string> words;  // the program, found on the PATH, and its arguments
  std::vector<std::pair<std::string, std::string>> variables;
  std::vector<std::string> unset;  // variables that would lead elsewhere
  std::string install;             // the command that installs it
};

// `agent`: claude, codex or opencode; `arguments` are its own.
[[nodiscard]] AgentLaunch agent_launch(const std::string& agent, const AgentServer& server,
                                       const std::vector<std::string>& arguments);

// The model that a server has: `wanted`, or where that's "" its first. `models`: the answer of /v1/models. Errors
// (failed): none of that name, an answer that is none.
[[nodiscard]] Result<AgentServer> agent_server(const std::string& models, const std::string& wanted);

// "host" and 8000 to "http://host:8000"; a scheme before the host is kept, and an IPv6 address gets its brackets.
[[nodiscard]] std::string server_url(const std::string& host, std::int64_t port);

}  // namespace tern::cli
