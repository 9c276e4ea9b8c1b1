// script/registers over reports as ptxas writes them. If this fails, a kernel may begin to spill and nobody is told.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace tern::test {
namespace {

std::string entry(const std::string& kernel, const std::string& architecture, int registers, int spilled) {
  const std::string bytes = std::to_string(spilled);
  return "ptxas info    : Compiling entry function '" + kernel + "' for 'sm_" + architecture +
         "'\nptxas info    : Function properties for " + kernel + "\n    0 bytes stack frame, " + bytes +
         " bytes spill stores, " + bytes + " bytes spill loads\nptxas info    : Used " + std::to_string(registers) +
         " registers, used 1 barriers, 48 bytes smem\nptxas info    : Compile time = 1.5 ms\n";
}

class CudaRegisters : public testing::Test {
 protected:
  CudaRegisters() { report("nvcc 13.0\n", 40, 0); }
  void report(const std::string& compiler, int registers, int spilled) const {
    (void)folder_.write("copy.report", compiler + "ptxas info    : 0 bytes gmem\n" +
                                           entry("copy", "90a", registers, spilled) + entry("copy", "80", 32, 0));
    (void)folder_.write("sum.report", compiler + entry("sum_f32", "90a", 255, 8));
  }
  // The exit status, and what was said is in said_.
  int registers(const std::string& mode) {
    const std::string log = (folder_ / "log").string();
    const int status = std::system((TERN_SOURCE_DIR "/script/registers " + mode + " " + folder_.path().string() + " " +
                                    (folder_ / "table").string() + " >" + log + " 2>&1")
                                       .c_str());
    std::ostringstream text;
    text << std::ifstream(log).rdbuf();
    said_ = text.str();
    return WEXITSTATUS(status);
  }
  TempDir folder_;
  std::string said_;
};

TEST_F(CudaRegisters, WhatWasKeptPassesAndMoreOfEitherFailsByName) {
  ASSERT_EQ(registers("keep"), 0) << said_;
  EXPECT_EQ(registers("check"), 0) << said_;
  report("nvcc 13.0\n", 41, 0);
  EXPECT_EQ(registers("check"), 1);
  EXPECT_NE(said_.find("sm_90a: copy: 41 registers, at most 40 kept"), std::string::npos) << said_;
  report("nvcc 13.0\n", 39, 4);
  EXPECT_EQ(registers("check"), 1);
  EXPECT_NE(said_.find("sm_90a: copy: 8 spilled bytes, at most 0 kept"), std::string::npos) << said_;
  EXPECT_EQ(said_.find("sm_80"), std::string::npos) << said_;
}

TEST_F(CudaRegisters, AKernelThatIsNotKeptOrNoLongerThereFailsByName) {
  ASSERT_EQ(registers("keep"), 0) << said_;
  (void)folder_.write("new.report", "nvcc 13.0\n" + entry("added", "90a", 16, 0));
  EXPECT_EQ(registers("check"), 1);
  EXPECT_NE(said_.find("added: isn't in the table"), std::string::npos) << said_;
  ASSERT_EQ(registers("keep"), 0) << said_;
  (void)folder_.write("new.report", "nvcc 13.0\n");
  EXPECT_EQ(registers("check"), 1);
  EXPECT_NE(said_.find("added: is in the table"), std::string::npos) << said_;
}

TEST_F(CudaRegisters, AnotherCompilersTableIsSkippedAndAnEmptyFolderIsAnError) {
  EXPECT_EQ(registers("check"), 77) << said_;
  ASSERT_EQ(registers("keep"), 0) << said_;
  report("nvcc 13.1\n", 100, 0);
  EXPECT_EQ(registers("check"), 77) << said_;
  std::filesystem::remove(folder_ / "copy.report");
  std::filesystem::remove(folder_ / "sum.report");
  EXPECT_EQ(registers("check"), 2) << said_;
}

}  // namespace
}  // namespace tern::test
