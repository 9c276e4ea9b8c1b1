#include "cli/agents.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/json.h"

namespace tern::cli {
namespace {

const AgentServer kServer{"http://localhost:8000", "key", "a \"model\"", 4096};

std::string variable(const AgentLaunch& launch, const std::string& name) {
  for (const auto& [key, value] : launch.variables) {
    if (key == name) return value;
  }
  return "unset";
}

TEST(Agents, ClaudeAsksByItsVariables) {
  const AgentLaunch launch = agent_launch("claude", kServer, {"-p", "Hi"});
  EXPECT_EQ(launch.words, (std::vector<std::string>{"claude", "-p", "Hi"}));
  EXPECT_EQ(variable(launch, "ANTHROPIC_BASE_URL"), "http://localhost:8000");
  EXPECT_EQ(variable(launch, "ANTHROPIC_AUTH_TOKEN"), "key");
  for (const char* name : {"ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL",
                           "ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL"}) {
    EXPECT_EQ(variable(launch, name), kServer.model) << name;
  }
  EXPECT_NE(std::find(launch.unset.begin(), launch.unset.end(), "ANTHROPIC_API_KEY"), launch.unset.end());
  AgentServer open = kServer;
  open.api_key = "";
  EXPECT_EQ(variable(agent_launch("claude", open, {}), "ANTHROPIC_AUTH_TOKEN"), "none");
}

TEST(Agents, CodexAsksByItsConfiguration) {
  const AgentLaunch launch = agent_launch("codex", kServer, {"exec", "Hi"});
  EXPECT_EQ(launch.words.front(), "codex");
  EXPECT_EQ(launch.words[launch.words.size() - 2], "exec");
  const auto has = [&](const std::string& word) {
    const auto found = std::find(launch.words.begin(), launch.words.end(), word);
    return found != launch.words.end() && *(found - 1) == "-c";
  };
  EXPECT_TRUE(has(R"(model="a \"model\"")"));
  EXPECT_TRUE(has(R"(model_provider="tern")"));
  EXPECT_TRUE(has(R"(model_providers.tern.base_url="http://localhost:8000/v1")"));
  EXPECT_TRUE(has(R"(model_providers.tern.wire_api="responses")"));
  EXPECT_TRUE(has(R"(model_providers.tern.env_key="TERN_API_KEY")"));
  EXPECT_TRUE(has("model_context_window=4096"));
  EXPECT_EQ(variable(launch, "TERN_API_KEY"), "key");
}

TEST(Agents, OpencodeAsksByItsConfiguration) {
  const AgentLaunch launch = agent_launch("opencode", kServer, {});
  const io::Json config = io::parse_json(variable(launch, "OPENCODE_CONFIG_CONTENT"), "config").value();
  EXPECT_EQ(config["model"], "tern/a \"model\"");
  EXPECT_EQ(config["small_model"], "tern/a \"model\"");
  const io::Json& provider = config["provider"]["tern"];
  EXPECT_EQ(provider["npm"], "@ai-sdk/openai-compatible");
  EXPECT_EQ(provider["options"]["baseURL"], "http://localhost:8000/v1");
  EXPECT_EQ(provider["options"]["apiKey"], "{env:TERN_API_KEY}");
  EXPECT_EQ(provider["models"][kServer.model]["limit"]["context"], 4096);
  EXPECT_EQ(variable(launch, "TERN_API_KEY"), "key");
}

TEST(Agents, AskForAModelThatTheServerHas) {
  const std::string models = R"({"data": [{"id": "a", "max_model_len": 99}, {"id": "b"}]})";
  EXPECT_EQ(agent_server(models, "")->model, "a");
  EXPECT_EQ(agent_server(models, "")->max_model_len, 99);
  EXPECT_EQ(agent_server(models, "b")->model, "b");
  EXPECT_NE(agent_server(models, "c").error().line().find("no model c, but a, b"), std::string::npos);
  for (const char* none : {"", "[]", "{}", R"({"data": []})", R"({"data": [{"id": 1}]})", R"({"data": [1]})"}) {
    EXPECT_FALSE(agent_server(none, "").ok()) << none;
  }
}

TEST(Agents, FindTheServer) {
  EXPECT_EQ(server_url("localhost", 80), "http://localhost:80");
  EXPECT_EQ(server_url("::1", 80), "http://[::1]:80");
  EXPECT_EQ(server_url("[::1]", 80), "http://[::1]:80");
  EXPECT_EQ(server_url("https://a.example", 443), "https://a.example:443");
}

}  // namespace
}  // namespace tern::cli
