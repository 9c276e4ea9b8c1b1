#include "data/hub_dataset.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "../hub/fake_hub.h"
#include "tests/support/temp_dir.h"

namespace tern::data {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

Names chosen(const Names& files, std::string_view readme, const std::string& subset) {
  const auto result = choose_files(files, readme, subset, "org/name");
  EXPECT_TRUE(result.ok()) << result.error().line();
  return result.ok() ? *result : Names{};
}

TEST(HubDataset, TheReadmesConfigurationsSayWhatASubsetIs) {
  const Names files = {"README.md",        "a/train-0.parquet", "a/train-1.parquet",
                       "a/test-0.parquet", "b/deep/x.jsonl",    "b/y.jsonl"};
  constexpr std::string_view kReadme =
      "---\nlicense: mit\nconfigs:\n- config_name: main\n  default: true\n  data_files:\n  - split: train\n    path: "
      "a/train-*\n  - split: test\n    path: a/test-*\n- config_name: other\n  data_files: b/**\n- config_name: flat\n"
      "  data_files: b/*\n---\n# Text\n";
  EXPECT_EQ(chosen(files, kReadme, ""), (Names{"a/train-0.parquet", "a/train-1.parquet"}));
  EXPECT_EQ(chosen(files, kReadme, "main"), (Names{"a/train-0.parquet", "a/train-1.parquet"}));
  EXPECT_EQ(chosen(files, kReadme, "other"), (Names{"b/deep/x.jsonl", "b/y.jsonl"}));
  EXPECT_EQ(chosen(files, kReadme, "flat"), (Names{"b/y.jsonl"}));
  const auto wrong = choose_files(files, kReadme, "mian", "org/name");
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().line().find("did you mean main?"), std::string::npos) << wrong.error().line();
}

TEST(HubDataset, WithoutThemFoldersAndNamesDo) {
  const Names files = {"data/train-00000-of-00001.jsonl",
                       "data/test-00000-of-00001.jsonl",
                       "easy/rows.json.gz",
                       "hard_rows.csv",
                       "dataset_infos.json",
                       "script.py"};
  EXPECT_EQ(chosen(files, "", ""), (Names{"data/train-00000-of-00001.jsonl"}));
  EXPECT_EQ(chosen(files, "", "easy"), (Names{"easy/rows.json.gz"}));
  EXPECT_EQ(chosen(files, "", "hard"), (Names{"hard_rows.csv"}));
  EXPECT_EQ(chosen({"rows.jsonl", "validation.jsonl"}, "no front matter", ""), (Names{"rows.jsonl"}));
  EXPECT_FALSE(choose_files(files, "", "none", "org/name").ok());
  EXPECT_EQ(
      choose_files({"README.md", "weights.bin"}, "", "", "org/name").error().line(),
      "org/name: expected a data set with .jsonl, .json, .csv or .parquet files, found none; name a data set with "
      "rows in such files");
  EXPECT_EQ(choose_files({"test.jsonl"}, "", "", "org/name").error().line(),
            "org/name: expected files of a training split, found those of other splits alone; fetch it, and name the "
            "file that is meant");
  EXPECT_FALSE(choose_files({"a.jsonl"}, "---\nconfigs: [\n---\n", "", "org/name").ok()) << "broken YAML";
}

// Only the README and the files of the chosen split are fetched; the second run asks for the listing alone.
TEST(HubDataset, FetchesTheChosenFilesAlone) {
  const std::string commit(40, 'a');
  const std::string rows = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
  hub::FakeHub hub([&](const hub::FakeRequest& request) -> hub::FakeReply {
    if (request.target.starts_with("/api/datasets/org/rows/revision/main")) {
      return {200,
              R"({"sha":")" + commit +
                  R"(","siblings":[{"rfilename":"README.md","size":3},{"rfilename":"train.jsonl","size":)" +
                  std::to_string(rows.size()) + R"(},{"rfilename":"test.jsonl","size":9}]})",
              {}};
    }
    const std::string files = "/datasets/org/rows/resolve/" + commit + "/";
    if (request.target == files + "README.md") return {200, "# x", {}};
    if (request.target == files + "train.jsonl") return {200, rows, {}};
    return {404, "", {}};
  });
  const test::TempDir cache;
  setenv("HF_ENDPOINT", hub.url().c_str(), 1);
  setenv("HF_HUB_CACHE", cache.path().c_str(), 1);
  LoadOptions options;
  options.hub = hub_resolver({});
  Names texts;
  const auto report = for_each_row("hf::org/rows#1", options, [&](Row&& row) {
    texts.push_back(row.text.value_or(""));
    return true;
  });
  ASSERT_TRUE(report.ok()) << report.error().line();
  EXPECT_EQ(texts.size(), 1U);
  for (const auto& request : hub.requests()) EXPECT_EQ(request.target.find("test.jsonl"), std::string::npos);
  setenv("HF_HUB_OFFLINE", "1", 1);
  const std::size_t before = hub.requests().size();
  EXPECT_TRUE(for_each_row("hf::org/rows", options, [](Row&&) { return true; }).ok());
  EXPECT_EQ(hub.requests().size(), before) << "offline";
  for (const char* name : {"HF_ENDPOINT", "HF_HUB_CACHE", "HF_HUB_OFFLINE"}) unsetenv(name);
}

}  // namespace
}  // namespace tern::data
