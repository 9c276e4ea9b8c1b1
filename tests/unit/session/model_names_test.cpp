#include "session/model_names.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/strings.h"
#include "tests/support/temp_dir.h"

namespace tern::session {
namespace {

class ModelNames : public ::testing::Test {
 protected:
  void SetUp() override { setenv("TERN_HOME", home_.c_str(), 1); }
  void TearDown() override { unsetenv("TERN_HOME"); }
  static std::string refused(const std::string& model) {
    const auto result = resolve_model(model);
    if (result) return "accepted";
    EXPECT_EQ(result.error().kind, ErrorKind::data);
    return result.error().line();
  }
  test::TempDir scratch_;
  const std::filesystem::path& home_ = scratch_.path();
};

TEST_F(ModelNames, APathThatExistsIsItself) { EXPECT_EQ(*resolve_model(home_.string()), home_.string()); }

TEST_F(ModelNames, AShortNameLeadsToItsFileOnceThere) {
  const auto& model = bundled_models()[0];
  EXPECT_NE(refused("smollm2-135m").find("run script/bootstrap"), std::string::npos);
  const auto path = bundled_path(model);
  EXPECT_EQ(path, (home_ / "models" / "smollm2-135m" / "SmolLM2-135M-Instruct.Q4_1.gguf").string());
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << "x";
  EXPECT_EQ(*resolve_model("smollm2-135m"), path);
}

TEST_F(ModelNames, AMistypedShortNameNamesTheNearest) {
  EXPECT_EQ(
      refused("smollm2-153m"),
      "model \"smollm2-153m\": expected a path that exists, a short name or a hub id ORG/NAME, found neither; did "
      "you mean smollm2-135m?");
}

TEST_F(ModelNames, AbsentPathsSaySo) {
  EXPECT_NE(refused("./none.gguf").find("expected a directory or .gguf file that exists, or a hub id"),
            std::string::npos);
  EXPECT_NE(refused("org/name.gguf").find("found none"), std::string::npos) << "never asked of a hub";
}

TEST_F(ModelNames, ARevisionNeedsAHub) {
  const auto result = resolve_model(home_.string(), {.revision = "v1"});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::usage);
}

// Offline, so that no request leaves this machine: the hub that is asked and the revision stand in the error.
TEST_F(ModelNames, AHubIdGoesToItsHub) {
  setenv("HF_HUB_OFFLINE", "1", 1);
  setenv("HF_HUB_CACHE", home_.c_str(), 1);
  setenv("MODELSCOPE_CACHE", home_.c_str(), 1);
  EXPECT_NE(refused("org/name").find("ms::org/name"), std::string::npos);
  EXPECT_NE(refused("hf::org/name").find("hf::org/name"), std::string::npos);
  const auto result = resolve_model("org/name", {.use_hf = true, .revision = "v1"});
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().line().find("hf::org/name: expected revision v1"), std::string::npos)
      << result.error().line();
  for (const char* name : {"HF_HUB_OFFLINE", "HF_HUB_CACHE", "MODELSCOPE_CACHE"}) unsetenv(name);
}

}  // namespace
}  // namespace tern::session
