#include "cli/model_names.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/strings.h"

namespace tern::cli {
namespace {

class ModelNames : public ::testing::Test {
 protected:
  void SetUp() override {
    home_ = std::filesystem::path(::testing::TempDir()) / cat("tern-home-", ::getpid());
    std::filesystem::create_directories(home_);
    setenv("TERN_HOME", home_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("TERN_HOME");
    std::filesystem::remove_all(home_);
  }
  static std::string refused(const std::string& model) {
    const auto result = resolve_model(model);
    if (result) return "accepted";
    EXPECT_EQ(result.error().kind, ErrorKind::data);
    return result.error().line();
  }
  std::filesystem::path home_;
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
  EXPECT_EQ(refused("smollm2-153m"),
            "model \"smollm2-153m\": expected a path that exists or a short name, found neither; did you mean "
            "smollm2-135m?");
}

TEST_F(ModelNames, AbsentPathsAndHubIdsSaySo) {
  EXPECT_NE(refused("./none.gguf").find("expected a directory or .gguf file that exists, found none"),
            std::string::npos);
  EXPECT_NE(refused("org/name").find("hub ids are not implemented yet"), std::string::npos);
}

}  // namespace
}  // namespace tern::cli
