// tern launch: a stand-in on the PATH is started with what the agent needs, and asks a real server by it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "deployed.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

constexpr const char* kClaude = R"sh(
[ -z "$ANTHROPIC_API_KEY" ] || exit 3
[ "$ANTHROPIC_SMALL_FAST_MODEL" = "$ANTHROPIC_MODEL" ] || exit 4
[ "$1 $2" = "-p Hi" ] || exit 5
curl -s --fail "$ANTHROPIC_BASE_URL/v1/messages" -H "Authorization: Bearer $ANTHROPIC_AUTH_TOKEN" \
  -d "{\"model\": \"$ANTHROPIC_MODEL\", \"max_tokens\": 2, \"messages\": [{\"role\": \"user\", \"content\": \"$2\"}]}" || exit 6
exit 7
)sh";

constexpr const char* kCodex = R"sh(
while [ $# -gt 0 ]; do
  [ "$1" = "-c" ] || break
  key=${2%%=*} value=$(echo "${2#*=}" | tr -d '"')
  case $key in
    model) model=$value ;;
    model_provider) provider=$value ;;
    model_providers.tern.base_url) url=$value ;;
    model_providers.tern.wire_api) wire=$value ;;
    model_providers.tern.env_key) variable=$value ;;
  esac
  shift 2
done
[ "$provider $wire $1 $2" = "tern responses exec Hi" ] || exit 3
eval key=\$$variable
curl -s --fail "$url/responses" -H "Authorization: Bearer $key" \
  -d "{\"model\": \"$model\", \"input\": \"$2\", \"max_output_tokens\": 2}" || exit 6
exit 7
)sh";

constexpr const char* kOpencode = R"sh(
part() { echo "$OPENCODE_CONFIG_CONTENT" | sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/"; }
model=$(part small_model)
[ "$(part apiKey) $1" = "{env:TERN_API_KEY} run" ] || exit 3
curl -s --fail "$(part baseURL)/chat/completions" -H "Authorization: Bearer $TERN_API_KEY" \
  -d "{\"model\": \"${model#tern/}\", \"max_tokens\": 2, \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}" || exit 6
exit 7
)sh";

class Launch : public ::testing::Test {
 protected:
  Launch() { write_tiny_model(scratch_.path() / "tiny"); }

  void stand_in(const std::string& name, const std::string& script) const {
    std::filesystem::create_directories(scratch_.path() / "bin");
    const auto path = scratch_.path() / "bin" / name;
    std::ofstream(path) << "#!/bin/sh" << script;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  [[nodiscard]] Outcome launch(std::vector<std::string> words, const std::string& folder) const {
    words.insert(words.begin(), "launch");
    Options options;
    options.variables = {{"PATH", folder + ":/usr/bin:/bin"}, {"ANTHROPIC_API_KEY", "another"}};
    options.seconds = 60;
    return run(words, options);
  }
  Scratch scratch_;
};

TEST_F(Launch, StartsEachAgentWithTheServersAddressKeyAndModel) {
  stand_in("claude", kClaude);
  stand_in("codex", kCodex);
  stand_in("opencode", kOpencode);
  const Deployed server(scratch_.path() / "tiny", {"--api_key", "secret", "--served_model_name", "one", "two"});
  const std::string bin = (scratch_.path() / "bin").string();
  const std::vector<std::string> at = {"--port", std::to_string(server.port()), "--api_key", "secret"};
  const auto launched = [&](std::vector<std::string> words, const std::vector<std::string>& own) {
    words.insert(words.end(), at.begin(), at.end());
    words.emplace_back("--");
    words.insert(words.end(), own.begin(), own.end());
    return launch(words, bin);
  };
  const Outcome claude = launched({"claude"}, {"-p", "Hi"});
  EXPECT_EQ(claude.status, 7) << claude.out << claude.err;  // the agent's own
  EXPECT_NE(claude.out.find(R"("model":"one")"), std::string::npos) << claude.out;
  EXPECT_NE(claude.err.find("claude asks one on http://127.0.0.1:"), std::string::npos) << claude.err;
  const Outcome codex = launched({"codex", "--served_model", "two"}, {"exec", "Hi", "--json"});
  EXPECT_EQ(codex.status, 7) << codex.out << codex.err;
  EXPECT_NE(codex.out.find(R"("model":"two")"), std::string::npos) << codex.out;
  const Outcome opencode = launched({"opencode"}, {"run"});
  EXPECT_EQ(opencode.status, 7) << opencode.out << opencode.err;
  EXPECT_NE(opencode.out.find("chat.completion"), std::string::npos) << opencode.out;
}

TEST_F(Launch, SaysWhatIsMissing) {
  const std::string nowhere = (scratch_.path() / "nothing").string();
  const std::string unused = std::to_string(test::free_port());
  const auto line = [&](const std::vector<std::string>& words, int status) {
    const Outcome outcome = launch(words, nowhere);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    return outcome.last_error_line();
  };
  EXPECT_NE(line({"claude", "--port", unused}, 1).find("no server answers at http://127.0.0.1:"), std::string::npos);
  EXPECT_NE(line({"vi"}, 2).find("claude"), std::string::npos);
  EXPECT_NE(line({}, 2).find("agent"), std::string::npos);
  const Deployed server(scratch_.path() / "tiny", {"--api_key", "secret"});
  const std::string port = std::to_string(server.port());
  EXPECT_NE(line({"claude", "--port", port}, 1).find("status 401; give its key with --api_key"), std::string::npos);
  const std::vector<std::string> known = {"claude", "--port", port, "--api_key", "secret"};
  EXPECT_NE(line(known, 1).find("no claude on the PATH; install it: npm "), std::string::npos);
  auto other = known;
  other.insert(other.end(), {"--served_model", "none"});
  EXPECT_NE(line(other, 1).find("the server has no model none, but tiny"), std::string::npos);
}

}  // namespace
}  // namespace tern::e2e
