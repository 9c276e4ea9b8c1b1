#include "cli/agents.h"

#include "base/strings.h"
#include "io/json.h"

namespace tern::cli {
namespace {

using io::Json;

constexpr const char* kKeyVariable = "TERN_API_KEY";
constexpr const char* kNoKey = "none";  // agents ask for one, and a server without a key takes any

// https://code.claude.com/docs/en/env-vars: each of its names for a model is the one that is served.
void launch_claude(const AgentServer& server, AgentLaunch& out) {
  out.variables = {{"ANTHROPIC_BASE_URL", server.url}, {"ANTHROPIC_AUTH_TOKEN", server.api_key}};
  for (const char* name :
       {"ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL", "ANTHROPIC_SMALL_FAST_MODEL", "CLAUDE_CODE_SUBAGENT_MODEL"}) {
    out.variables.emplace_back(name, server.model);
  }
  // It would stand at the beginning of each prompt, another every time, and nothing would be found in the cache.
  out.variables.emplace_back("CLAUDE_CODE_ATTRIBUTION_HEADER", "0");
  out.unset = {"ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"};
  out.install = "npm install -g @anthropic-ai/claude-code";
}

// Of TOML, whose basic strings have JSON's escapes.
std::string quoted(const std::string& text) { return Json(text).dump(); }

// https://developers.openai.com/codex/config-reference: a provider of its own, over what config.toml says.
void launch_codex(const AgentServer& server, AgentLaunch& out) {
  const auto set = [&](const std::string& key, const std::string& value) {
    out.words.emplace_back("-c");
    out.words.push_back(cat(key, "=", value));
  };
  const std::string provider = "model_providers.tern.";
  set("model", quoted(server.model));
  set("model_provider", quoted("tern"));
  set(provider + "name", quoted("tern"));
  set(provider + "base_url", quoted(server.url + "/v1"));
  set(provider + "wire_api", quoted("responses"));
  set(provider + "env_key", quoted(kKeyVariable));
  if (server.max_model_len > 0) set("model_context_window", cat(server.max_model_len));
  out.variables = {{kKeyVariable, server.api_key}};
  out.install = "npm install -g @openai/codex";
}

// https://opencode.ai/docs/config: what the variable holds goes over the files'.
void launch_opencode(const AgentServer& server, AgentLaunch& out) {
  Json model = Json::object();
  model["name"] = server.model;
  if (server.max_model_len > 0) {
    model["limit"]["context"] = server.max_model_len;
    model["limit"]["output"] = server.max_model_len / 4;
  }
  Json provider = Json::object();
  provider["npm"] = "@ai-sdk/openai-compatible";
  provider["name"] = "tern";
  provider["options"]["baseURL"] = server.url + "/v1";
  provider["options"]["apiKey"] = cat("{env:", kKeyVariable, "}");
  provider["models"][server.model] = std::move(model);
  Json config = Json::object();
  config["$schema"] = "https://opencode.ai/config.json";
  config["model"] = config["small_model"] = cat("tern/", server.model);
  config["provider"]["tern"] = std::move(provider);
  out.variables = {{"OPENCODE_CONFIG_CONTENT", config.dump()}, {kKeyVariable, server.api_key}};
  out.install = "npm install -g opencode-ai";
}

Error no_server(std::string_view found) {
  return failed_error(cat("the server's list of models can't be read: ", found),
                      "start one with tern deploy, and name its address with --host and --port");
}

}  // namespace

AgentLaunch agent_launch(const std::string& agent, const AgentServer& server,
                         const std::vector<std::string>& arguments) {
  AgentServer known = server;
  if (known.api_key.empty()) known.api_key = kNoKey;
  AgentLaunch out;
  out.words = {agent};
  if (agent == "claude") {
    launch_claude(known, out);
  } else if (agent == "codex") {
    launch_codex(known, out);
  } else {
    launch_opencode(known, out);
  }
  out.words.insert(out.words.end(), arguments.begin(), arguments.end());
  return out;
}

Result<AgentServer> agent_server(const std::string& models, const std::string& wanted) {
  const auto json = io::parse_json(models, "/v1/models");
  const Json* data = json && json->is_object() ? json->find("data") : nullptr;
  if (data == nullptr || !data->is_array() || data->empty()) return no_server("it isn't one of OpenAI's protocol");
  std::vector<std::string> names;
  for (const Json& one : *data) {
    const Json* name = one.is_object() ? one.find("id") : nullptr;
    if (name == nullptr || !name->is_string()) return no_server("a model without an id");
    names.push_back(name->text());
    if (!wanted.empty() && names.back() != wanted) continue;
    AgentServer out;
    out.model = names.back();
    if (const Json* length = one.find("max_model_len"); length != nullptr && length->is_number_integer()) {
      out.max_model_len = length->get<std::int64_t>();
    }
    return out;
  }
  return failed_error(cat("the server has no model ", wanted, ", but ", join(names, ", ")), "name one of these");
}

std::string server_url(const std::string& host, std::int64_t port) {
  if (host.starts_with("http://") || host.starts_with("https://")) return cat(host, ":", port);
  const bool bare_ipv6 = host.find(':') != std::string::npos && !host.starts_with("[");
  return bare_ipv6 ? cat("http://[", host, "]:", port) : cat("http://", host, ":", port);
}

}  // namespace tern::cli
