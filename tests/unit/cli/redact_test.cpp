// If these fail, a bug report carries a secret to strangers, or loses what it is for.
#include "cli/redact.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tern::cli {
namespace {

TEST(Redact, TakesOutWhatGrantsAccess) {
  struct Case {
    const char* text;
    const char* left;
  };
  for (const auto& each : {
           Case{"loaded with hf_abcDEF123456 today", "loaded with (removed) today"},
           Case{"[\"ghp_0123456789abcdef\"]", "[\"(removed)\"]"},
           Case{"{\"api_key\": \"letmein\", \"port\": 8000}", "{\"api_key\": \"(removed)\", \"port\": 8000}"},
           Case{"--hub_token letmein --port 1", "--hub_token (removed) --port 1"},
           Case{"--hub_token=letmein", "--hub_token=(removed)"},
           Case{"Authorization: Bearer abc.def", "Authorization: Bearer (removed)"},
           Case{"MY_PASSWORD=a b", "MY_PASSWORD=(removed) b"},
           Case{"https://joe:pw@example.org/x http://a.org/b@c", "https://(removed)@example.org/x http://a.org/b@c"},
           Case{"http_proxy=http://u:p@proxy:3128", "http_proxy=http://(removed)@proxy:3128"},
       }) {
    EXPECT_EQ(redact(each.text), each.left) << each.text;
  }
}

TEST(Redact, LeavesWhatAReportIsFor) {
  for (const char* text : {"max_new_tokens: 2048", "the token is unknown", "token", "keys=12", "", "sk-", "task-1: done",
                           "error 507015 at 0x12c0", "EZ9999: Inner Error!\n  TraceBack (most recent call last):"}) {
    EXPECT_EQ(redact(text), text);
  }
}

TEST(Redact, NamesNeitherTheUserNorTheHost) {
  const char* home = std::getenv("HOME");
  const std::string kept = home == nullptr ? "" : home;
  setenv("HOME", "/home/joe", 1);
  EXPECT_EQ(redact("/home/joe/models and /home/joe"), "~/models and ~");
  setenv("HOME", "/", 1);
  EXPECT_EQ(redact("/models"), "/models") << "a root that lives in / has no name to hide";
  setenv("HOME", kept.c_str(), 1);
}

TEST(Redact, KnowsNamesOfSecrets) {
  for (const char* name : {"HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "Password", "client_secret"}) {
    EXPECT_TRUE(is_secret_name(name)) << name;
  }
  for (const char* name : {"PATH", "TOKENIZERS_PARALLELISM", "KEYMAP", "HF_HOME"}) {
    EXPECT_FALSE(is_secret_name(name)) << name;
  }
}

}  // namespace
}  // namespace tern::cli
