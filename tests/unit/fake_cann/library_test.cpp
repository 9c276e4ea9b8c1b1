// The libraries as who loads them sees them: names, missing symbols, versions. Each in a process of its own.
#include <cstdio>

#include "tests/unit/fake_cann/support.h"

namespace fake_test {
namespace {

// Loads a library in a process with these variables, and says which of the symbols it has, by name.
std::string symbols(const std::string& variables, const std::string& library, const std::string& names) {
  const std::string command = variables + " " + FAKE_CANN_PROBE + " " + library + " " + names + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  char buffer[256];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) text += buffer;
  EXPECT_EQ(pclose(pipe), 0) << text;
  return text;
}

const std::string kFolder = FAKE_CANN_DIR;
const std::string k9Folder = FAKE_CANN_9_DIR;

TEST(FakeCannLibrary, HasWhatItIsNamedFor) {
  EXPECT_EQ(symbols("", kFolder + "/libascendcl.so", "aclInit aclrtMalloc aclmdlRICaptureBegin aclnnAdd"),
            "aclInit aclrtMalloc aclmdlRICaptureBegin\n");
  EXPECT_EQ(symbols("", kFolder + "/libopapi.so", "aclnnAdd aclnnAddGetWorkspaceSize aclnnNone"),
            "aclnnAdd aclnnAddGetWorkspaceSize\n");
}

TEST(FakeCannLibrary, HasTheNamesOf9) {
  EXPECT_EQ(symbols("", k9Folder + "/libacl_rt.so", "aclInit"), "aclInit\n");
  EXPECT_EQ(symbols("", k9Folder + "/libnnopbase.so", "aclCreateTensor"), "aclCreateTensor\n");
  for (const char* kind : {"math", "nn", "cv", "transformer", "oam", "legacy"}) {
    EXPECT_EQ(symbols("", k9Folder + "/libopapi_" + kind + ".so", "aclnnAdd"), "aclnnAdd\n") << kind;
  }
}

TEST(FakeCannLibrary, LacksWhatItIsTold) {
  EXPECT_EQ(symbols("TERN_FAKE_CANN_WITHOUT=aclnnMuls,aclrtHostRegister", kFolder + "/libopapi.so",
                    "aclnnMul aclnnMuls aclnnMulsGetWorkspaceSize"),
            "aclnnMul\n");
  EXPECT_EQ(symbols("TERN_FAKE_CANN_WITHOUT=aclnnMuls,aclrtHostRegister", kFolder + "/libascendcl.so",
                    "aclrtHostRegister aclrtHostUnregister"),
            "aclrtHostUnregister\n");
}

TEST(FakeCannLibrary, LacksWhatIsNewerThanItsVersion) {
  const std::string names = "aclnnAdd aclnnRotaryPositionEmbedding aclnnRotaryPositionEmbeddingGetWorkspaceSize";
  EXPECT_EQ(symbols("TERN_FAKE_CANN_VERSION=9.1", kFolder + "/libopapi.so", names), names + "\n");
  EXPECT_EQ(symbols("TERN_FAKE_CANN_VERSION=8.1", kFolder + "/libopapi.so", names), "aclnnAdd\n");
}

TEST(FakeCannLibrary, NeedsItsDriver) {
  const std::string command = std::string(FAKE_CANN_PROBE) + " " + FAKE_CANN_NO_DRIVER_DIR + "/libascendcl.so 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  char text[256] = {};
  EXPECT_NE(std::fgets(text, sizeof text, pipe), nullptr);
  EXPECT_NE(pclose(pipe), 0);
  EXPECT_NE(std::string(text).find("libascend_hal.so: cannot open shared object file"), std::string::npos) << text;
}

}  // namespace
}  // namespace fake_test
