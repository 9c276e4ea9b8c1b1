// Plugins of a user's own, in Python: what they register is read, what they get wrong is told with its place.
#include "data/plugin_host.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/log.h"
#include "base/strings.h"
#include "tests/support/temp_dir.h"

namespace tern::data {
namespace {

namespace fs = std::filesystem;

constexpr char kPlugin[] = R"(
from swift.dataset import DatasetMeta, ResponsePreprocessor, SubsetDataset, load_dataset, register_dataset
from swift.rewards import ORM, orms
import swift

class Similarity(ResponsePreprocessor):
    def preprocess(self, row):
        print('to be seen on standard error')
        if row['text1'] == 'skip':
            return None
        return super().preprocess({'query': row['text1'] + ' ~ ' + row['text2'], 'response': f"{row['label']:.1f}"})

class Numbers:
    def load(self, dataset_syntax=None, dataset_meta=None, *, use_hf=None):
        for i in range(3):
            yield {'question': str(i), 'answer': str(i + 1)}

class Mine(ORM):
    def __call__(self, completions):
        return [1.0] * len(completions)

orms['mine'] = Mine
register_dataset(DatasetMeta(ms_dataset_id='org/stsb', hf_dataset_id='Org/stsb', preprocess_func=Similarity(),
                             subsets=['default', SubsetDataset('small', 'tiny')]))
register_dataset(DatasetMeta(dataset_name='numbers', loader=Numbers()))
if __name__ == '__main__':
    load_dataset(['org/stsb'])
)";

bool has_python() { return std::system("python3 -c '' >/dev/null 2>&1") == 0; }

class Plugins : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_python()) GTEST_SKIP() << "no python3, and so no plugins";
  }
  std::unique_ptr<PluginHost> start(const std::string& text = kPlugin) {
    return PluginHost::start({scratch_.write("plugin.py", text)}).value();
  }
  [[nodiscard]] HubResolver hub() {
    return [this](const std::string& id) -> Result<std::vector<fs::path>> {
      asked_.push_back(id);
      return std::vector<fs::path>{scratch_.path() / "hub.jsonl"};
    };
  }
  static std::string text_of(const fs::path& file) {
    std::ostringstream out;
    out << std::ifstream(file).rdbuf();
    return out.str();
  }

  test::TempDir scratch_;
  std::vector<std::string> asked_;
};

TEST_F(Plugins, PreprocessTheRowsOfAHubAndLoadTheirOwn) {
  (void)scratch_.write("hub.jsonl",  // an array in spite of its name, with a row on two lines
                       "[{\"text1\": \"a\",\n\"text2\": \"ü\", \"label\": 2}, {\"text1\": \"skip\"},\n"
                       "{\"text1\": \"b\", \"text2\": \"c\", \"label\": 1.25}]\n");
  const auto host = start();
  const fs::path folder = scratch_.path() / "made";
  const auto rows = host->rows({"org/stsb"}, hub(), folder).value();
  ASSERT_TRUE(rows);
  EXPECT_EQ(text_of(*rows), R"({"messages":[{"role":"user","content":"a ~ ü"},{"role":"assistant","content":"2.0"}]})"
                            "\n"
                            R"({"messages":[{"role":"user","content":"b ~ c"},{"role":"assistant","content":"1.2"}]})"
                            "\n");
  (void)host->rows({"Org/stsb:small", true}, hub(), folder).value();
  EXPECT_EQ(asked_, (std::vector<std::string>{"ms::org/stsb", "hf::Org/stsb:tiny"}));
  const auto numbers = host->rows({"numbers"}, {}, folder).value();
  ASSERT_TRUE(numbers);
  EXPECT_NE(text_of(*numbers).find(R"("answer":"3")"), std::string::npos) << text_of(*numbers);
  EXPECT_FALSE(host->rows({"other/rows"}, {}, folder).value()) << "nobody registers it";
  EXPECT_EQ(host->lacking(), std::vector<std::string>{"swift.rewards.orms['mine']"});
  const auto subset = host->rows({"org/stsb:none"}, hub(), folder);
  ASSERT_FALSE(subset);
  EXPECT_NE(subset.error().line().find("default, small"), std::string::npos) << subset.error().line();
}

TEST_F(Plugins, ARowThatFailsIsDroppedWithItsPlaceOrEndsAStrictRun) {
  (void)scratch_.write("hub.jsonl", "{\"text1\": \"a\"}\n{\"text1\": \"b\", \"text2\": \"c\", \"label\": 1}\n");
  const auto host = start();
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  const auto rows = host->rows({"org/stsb"}, hub(), scratch_.path() / "made").value();
  set_log_sink({});
  EXPECT_NE(text_of(*rows).find("b ~ c"), std::string::npos);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("1 rows of org/stsb were dropped"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("plugin.py:11: KeyError: 'text2'"), std::string::npos) << lines[0];
  const auto strict = host->rows({"org/stsb", false, true}, hub(), scratch_.path() / "made");
  ASSERT_FALSE(strict);
  EXPECT_NE(strict.error().line().find("hub.jsonl:1"), std::string::npos) << strict.error().line();
}

TEST_F(Plugins, JsonDescribesDataSetsToo) {
  (void)scratch_.write("rows.jsonl", "{\"frage\": \"q\", \"antwort\": \"a\"}\n");
  const auto info = scratch_.write(
      "info.json",
      R"([{"dataset_path": "rows.jsonl", "dataset_name": "german", "columns": {"frage": "query", "antwort": "response"}}])");
  const auto host = PluginHost::start({info}).value();
  const auto rows = host->rows({"german"}, {}, scratch_.path() / "made").value();
  ASSERT_TRUE(rows);
  EXPECT_EQ(text_of(*rows), "{\"query\":\"q\",\"response\":\"a\"}\n");
}

TEST_F(Plugins, WhatDoesNotRunIsNamed) {
  const auto broken = PluginHost::start({scratch_.write("broken.py", "import swift\n\nimport no_such_module\n")});
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().line().find("broken.py:3: ModuleNotFoundError"), std::string::npos) << broken.error().line();
  const auto absent = PluginHost::start({(scratch_.path() / "absent.py").string()});
  ASSERT_FALSE(absent);
  EXPECT_NE(absent.error().line().find("no such file"), std::string::npos) << absent.error().line();
  const auto ends = PluginHost::start({scratch_.write("ends.py", "import os\nos._exit(3)\n")});
  ASSERT_FALSE(ends);
  EXPECT_NE(ends.error().line().find("has ended"), std::string::npos) << ends.error().line();
  const std::string path = std::getenv("PATH");
  setenv("PATH", scratch_.path().c_str(), 1);
  const auto without = PluginHost::start({scratch_.write("plugin.py", "")});
  setenv("PATH", path.c_str(), 1);
  ASSERT_FALSE(without);
  EXPECT_NE(without.error().line().find("python3 could not be started"), std::string::npos);
}

TEST_F(Plugins, MetricsJudgeAnswersAsText) {
  const auto host = start(
      "from swift.metrics import EvalMetrics, eval_metrics_map\n"
      "class Length(EvalMetrics):\n"
      "    def compute_metrics(self, eval_prediction):\n"
      "        pairs = list(zip(eval_prediction.predictions, eval_prediction.label_ids))\n"
      "        return {'longer': sum(len(a) - len(b) for a, b in pairs) / len(pairs), 'rows': len(pairs)}\n"
      "eval_metrics_map['length'] = Length\n"
      "eval_metrics_map['count'] = lambda p: {'n': len(p.predictions)}\n");
  const std::vector<std::string> answers = {"four", "\"ü\""};
  const std::vector<std::string> labels = {"on", "ü"};
  EXPECT_EQ(host->metric("length", answers, labels).value(), (PluginHost::Numbers{{"longer", 2}, {"rows", 2}}));
  EXPECT_EQ(host->metric("count", answers, labels).value(), (PluginHost::Numbers{{"n", 2}}));
  const auto unknown = host->metric("other", answers, labels);
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().line().find("no metric other, but length, count"), std::string::npos)
      << unknown.error().line();
}

TEST_F(Plugins, TheNumberOfRowsStaysWithTheWord) {
  const auto host = start();
  LoadOptions options;
  options.dataset = {"numbers#2", "rows.jsonl#5"};
  options.val_dataset = {"numbers"};
  options.cache_directory = scratch_.path() / "cache";
  use_plugins(*host, options, false);
  EXPECT_TRUE(options.dataset[0].ends_with(".jsonl#2")) << options.dataset[0];
  EXPECT_EQ(options.dataset[1], "rows.jsonl#5");
  EXPECT_TRUE(options.val_dataset[0].ends_with(".jsonl")) << options.val_dataset[0];
}

}  // namespace
}  // namespace tern::data
