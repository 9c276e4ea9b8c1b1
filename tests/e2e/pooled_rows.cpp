// tern infer --task_type embedding, reranker and seq_cls: rows of files in, rows of results out.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "run.h"
#include "tests/support/parsed_json.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class PooledRows : public ::testing::Test {
 protected:
  PooledRows() {
    TinyModel model;
    model.max_positions = 1024;
    model.verdicts = true;
    write_tiny_model(path("model"), model);
    model.labels = 3;
    write_tiny_model(path("classifier"), model);
    options_.variables["TERN_HOME"] = path("home").string();
    options_.variables["TERN_CACHE_DIR"] = path("cache").string();
    options_.folder = scratch_.path();
  }
  [[nodiscard]] fs::path path(const std::string& name) const { return scratch_.path() / name; }
  void edit(const std::string& file, const std::function<void(io::Json&)>& change) const {
    io::Json json = test::parsed_json(std::ifstream(path(file)));
    change(json);
    std::ofstream(path(file)) << json.dump();
  }

  // `rows` are lines of JSON.
  [[nodiscard]] auto infer(const std::string& model, const std::string& task, const std::string& rows,
                           const Words& more = {}) const {
    Words words = {"infer",
                   "--model",
                   path(model).string(),
                   "--task_type",
                   task,
                   "--val_dataset",
                   scratch_.write("rows.jsonl", rows),
                   "--torch_dtype",
                   "float32"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, options_);
  }
  [[nodiscard]] std::vector<io::Json> results(const std::string& model, const std::string& task,
                                              const std::string& rows, const Words& more = {}) const {
    const auto outcome = infer(model, task, rows, more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::vector<io::Json> out;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) out.push_back(test::parsed_json(line));
    return out;
  }
  static std::vector<double> vector_of(const io::Json& row) {
    std::vector<double> out;
    for (const auto& number : row["response"]) out.push_back(number.get<double>());
    return out;
  }

  Scratch scratch_;
  Options options_;
};

const std::string kTexts = R"({"text": "The sky is blue."}
{"messages": [{"role": "system", "content": "Find colours."}, {"role": "user", "content": "The sky is blue."}]}
{"query": "Find colours. The sky is blue."}
)";

TEST_F(PooledRows, VectorsAreAsTheModelsFilesSayOrTheFlags) {
  const auto plain = results("model", "embedding", kTexts);
  ASSERT_EQ(plain.size(), 3U);
  EXPECT_EQ(vector_of(plain[1]), vector_of(plain[2])) << "messages are joined with spaces";
  EXPECT_NE(vector_of(plain[0]), vector_of(plain[1]));
  EXPECT_EQ(plain[1]["messages"].size(), 2U);
  const auto length = [](const io::Json& row) {
    double squares = 0;
    for (const double value : vector_of(row)) squares += value * value;
    return std::sqrt(squares);
  };
  EXPECT_NEAR(length(plain[0]), 1.0, 1e-6);
  const auto mean = results("model", "embedding", kTexts, {"--pooling", "mean", "--normalize_embeddings", "false"});
  EXPECT_GT(std::fabs(length(mean[0]) - 1.0), 1e-3);
  // What modules.json says is what the flags said.
  std::ofstream(path("model/modules.json")) << R"([{"type": "a.Transformer", "path": ""},)"
                                            << R"({"type": "a.Pooling", "path": "1_Pooling"}])";
  fs::create_directory(path("model/1_Pooling"));
  std::ofstream(path("model/1_Pooling/config.json")) << R"({"pooling_mode_mean_tokens": true})";
  const auto said = results("model", "embedding", kTexts, {"--max_batch_size", "2"});
  for (std::size_t i = 0; i < 3; ++i) {
    const auto a = vector_of(said[i]);
    const auto b = vector_of(mean[i]);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t d = 0; d < a.size(); ++d) EXPECT_NEAR(a[d], b[d], 1e-5);
  }
  EXPECT_NE(infer("model", "embedding", kTexts).err.find("embeddings: of the mean of all tokens, of their own length"),
            std::string::npos);
}

TEST_F(PooledRows, ARerankersRowsArePairs) {
  const std::string rows = R"({"query": "What is blue?", "response": "The sky."}
{"query": "What is blue?"}
{"system": "Find sums", "query": "What is blue?", "response": "The sky."}
)";
  const auto found = results("model", "reranker", rows, {"--max_batch_size", "3"});
  ASSERT_EQ(found.size(), 3U);
  for (const std::size_t i : {0, 2}) {
    EXPECT_GT(found[i]["response"].get<double>(), 0.0);
    EXPECT_LT(found[i]["response"].get<double>(), 1.0);
    EXPECT_EQ(found[i]["labels"].text(), "The sky.");
  }
  EXPECT_NE(found[0]["response"].get<double>(), found[2]["response"].get<double>());
  EXPECT_TRUE(found[1]["response"].is_null());
  EXPECT_NE(found[1]["error"].text().find("rows.jsonl:2"), std::string::npos);
  EXPECT_NE(found[1]["error"].text().find("the document as its response"), std::string::npos);
  EXPECT_EQ(infer("model", "reranker", rows, {"--strict"}).status, 3);
}

TEST_F(PooledRows, LabelsAreNamesAndProblemTypesDecideTheirForm) {
  const std::string rows = R"({"text": "good"}
{"query": "good", "response": "label 1"}
{"query": "good", "label": true}
)";
  const auto found = results("classifier", "seq_cls", rows, {"--logprobs", "--metric", "acc"});
  ASSERT_EQ(found.size(), 3U);
  for (const auto& row : found) {
    double sum = 0;
    std::string best;
    for (const auto& [label, logprob] : row["logprobs"].items()) {
      sum += std::exp(logprob.get<double>());
      if (best.empty() || logprob.get<double>() > row["logprobs"][best].get<double>()) best = label;
    }
    EXPECT_NEAR(sum, 1.0, 1e-6);
    EXPECT_EQ(row["response"].text(), best);
  }
  EXPECT_EQ(found[1]["labels"].text(), "label 1");
  EXPECT_EQ(found[2]["labels"].text(), "label 1");
  EXPECT_EQ(found[1]["response"].text(), found[2]["response"].text());
  const bool right = found[1]["response"].text() == "label 1";
  EXPECT_NE(infer("classifier", "seq_cls", rows, {"--metric", "acc"})
                .err.find(right ? "acc: 1.0000 (2 of 2" : "acc: 0.0000 (0 of 2"),
            std::string::npos);
  edit("classifier/config.json", [](io::Json& json) { json["problem_type"] = "multi_label_classification"; });
  const auto several = results("classifier", "seq_cls", rows, {"--logprobs"});
  std::size_t above = 0;
  for (const auto& [label, logprob] : several[0]["logprobs"].items()) above += logprob.get<double>() > std::log(0.5);
  EXPECT_EQ(several[0]["response"].size(), above);
  const auto unjudged = infer("classifier", "seq_cls", rows, {"--metric", "acc"});
  EXPECT_EQ(unjudged.status, 2);
  EXPECT_NE(unjudged.err.find("--metric compares labels, and this model gives numbers or several labels a row"),
            std::string::npos)
      << unjudged.err;
  edit("classifier/config.json", [](io::Json& json) { json["problem_type"] = "regression"; });
  EXPECT_EQ(results("classifier", "seq_cls", rows)[0]["response"].size(), 3U);
}

TEST_F(PooledRows, ALabelMayBeItsNumber) {
  const auto found = results("classifier", "seq_cls", R"({"query": "good", "label": 2}
{"query": "good", "label": 3}
{"text": "good", "label": 0}
)");
  EXPECT_EQ(found[0]["labels"].text(), "label 2");
  EXPECT_EQ(found[2]["labels"].text(), "label 0");
  EXPECT_TRUE(found[1]["response"].is_null());
  EXPECT_NE(found[1]["error"].text().find("rows.jsonl:2: field \"label\": expected 0 to 2, as the model has 3 labels, "
                                          "found 3; correct the row, or choose the model that has the label"),
            std::string::npos)
      << found[1]["error"].text();
  edit("classifier/config.json", [](io::Json& json) { json["problem_type"] = "regression"; });
  EXPECT_EQ(results("classifier", "seq_cls", R"({"text": "good", "label": 7})")[0]["labels"].text(), "7");
}

// What a reader of the result file sees is what a run writes that nobody stopped.
TEST_F(PooledRows, AStoppedRunIsGoneOnWith) {
  std::string rows;
  for (int i = 0; i < 40; ++i)
    rows += R"({"query": "What is )" + std::to_string(i) + R"(?", "response": "The sky."})" + "\n";
  const auto text_of = [&](const char* file) {
    std::ostringstream text;
    text << std::ifstream(path(file), std::ios::binary).rdbuf();
    return text.str();
  };
  for (const auto& [model, task] :
       {std::pair{"model", "embedding"}, std::pair{"model", "reranker"}, std::pair{"classifier", "seq_cls"}}) {
    for (const char* file : {"whole", "part"}) fs::remove(path(file));
    Words more = {"--batch_invariant", "true", "--max_batch_size", "2", "--result_path", path("whole").string()};
    if (std::string(task) == "seq_cls") more.insert(more.end(), {"--metric", "acc", "--logprobs"});
    const auto whole = infer(model, task, rows, more);
    ASSERT_EQ(whole.status, 0) << whole.err;
    EXPECT_FALSE(fs::exists(path("whole.unfinished")));
    more[5] = path("part").string();
    const Options plain = options_;
    options_.signal_when = [&] {
      const std::string text = text_of("part");
      return std::count(text.begin(), text.end(), '\n') >= 3;
    };
    const auto stopped = infer(model, task, rows, more);
    options_ = plain;
    ASSERT_EQ(stopped.status, 128 + SIGKILL) << task;
    ASSERT_TRUE(fs::exists(path("part.unfinished")));
    more[3] = "3";
    const auto resumed = infer(model, task, rows, more);
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_NE(resumed.err.find("rows were answered before that run was stopped"), std::string::npos) << resumed.err;
    EXPECT_EQ(text_of("part"), text_of("whole")) << task;
    EXPECT_FALSE(fs::exists(path("part.unfinished")));
    if (std::string(task) != "seq_cls") continue;
    const auto acc = [](const std::string& err) { return err.substr(err.find("acc: "), 30); };
    EXPECT_EQ(acc(resumed.err), acc(whole.err));
  }
}

// The document is a part of what a reranker is asked.
TEST_F(PooledRows, OtherDocumentsAreNotGoneOnWith) {
  const Words more = {"--result_path", path("part").string()};
  const std::string first = R"({"query": "What is blue?", "response": "The sky."})";
  ASSERT_EQ(infer("model", "reranker", first + "\n", more).status, 0);
  std::ofstream(path("part.unfinished")) << R"({"begin": 0, "told": {}})";
  const auto other = infer("model", "reranker",
                           R"({"query": "What is blue?", "response": "Grass."})"
                           "\n",
                           more);
  EXPECT_EQ(other.status, 3) << other.err;
  EXPECT_NE(other.err.find("found that to another question"), std::string::npos) << other.err;
}

TEST_F(PooledRows, OneRunAtATimeWritesAFile) {
  const std::string file = scratch_.write("vectors.jsonl", "");
  const int fd = ::open(file.c_str(), O_WRONLY);
  ASSERT_EQ(::flock(fd, LOCK_EX | LOCK_NB), 0);
  for (const auto& [task, model] : {std::pair{"embedding", "model"}, std::pair{"causal_lm", "model"}}) {
    const auto second = infer(model, task, kTexts, {"--result_path", file});
    EXPECT_EQ(second.status, 1) << second.err;
    EXPECT_NE(second.err.find("another run is writing to " + file + "; wait until it ends, or choose another file"),
              std::string::npos)
        << second.err;
  }
  EXPECT_FALSE(fs::exists(file + ".unfinished"));
  ::close(fd);
  EXPECT_EQ(infer("model", "embedding", kTexts, {"--result_path", file}).status, 0);
}

// Encoders: published directories in small.
TEST_F(PooledRows, EncodersMakeVectorsRankAndClassify) {
  const fs::path golden = fs::path(TERN_TEST_DATA) / "golden";
  for (const char* name : {"bert-reranker", "xlm-roberta-reranker"}) {
    fs::copy(golden / name, path(name), fs::copy_options::recursive);
    const io::Json pairs = test::parsed_json(std::ifstream(golden / name / "pairs.json"));
    std::string rows;
    for (const auto& pair : pairs)
      rows += (io::Json{{"query", pair["query"]}, {"response", pair["document"]}}).dump() + "\n";
    rows += R"({"system": "Find foxes.", "query": "fox", "response": "a fox"})"
            "\n";
    const auto found = results(name, "reranker", rows, {"--max_batch_size", "2"});
    ASSERT_EQ(found.size(), pairs.size() + 1);
    for (std::size_t i = 0; i < pairs.size(); ++i)
      EXPECT_NEAR(found[i]["response"].get<double>(), pairs[i]["score"].get<double>(), 1e-5) << name << i;
    const double logit = pairs[0]["logit"].get<double>();
    edit(std::string(name) + "/config.json",
         [](io::Json& json) { json["sbert_ce_default_activation_function"] = "torch.nn.modules.linear.Identity"; });
    EXPECT_NEAR(results(name, "reranker", rows)[0]["response"].get<double>(), logit, 1e-5) << name;
    EXPECT_NE(found.back()["error"].text().find("expected a query and a document alone"), std::string::npos);
    EXPECT_NE(infer(name, "embedding", kTexts).err.find("embeddings: of the mean of all tokens, of length 1"),
              std::string::npos);
    // sentence-transformers' files are obeyed.
    std::ofstream(path(std::string(name) + "/modules.json"))
        << R"([{"type": "a.Transformer", "path": ""}, {"type": "a.Pooling", "path": "1_Pooling"},)"
        << R"({"type": "a.Normalize", "path": "2"}])";
    fs::create_directory(path(name) / "1_Pooling");
    std::ofstream(path(std::string(name) + "/1_Pooling/config.json")) << R"({"pooling_mode_cls_token": true})";
    EXPECT_NE(infer(name, "embedding", kTexts).err.find("embeddings: of the first token, of length 1"),
              std::string::npos);
    const auto behind = results(name, "embedding",
                                R"({"text": "the fox"})"
                                "\n");
    std::ofstream(path(std::string(name) + "/config_sentence_transformers.json"))
        << R"({"prompts": {"query": "the "}, "default_prompt_name": "query"})";
    EXPECT_EQ(vector_of(results(name, "embedding",
                                R"({"text": "fox"})"
                                "\n")
                            .front()),
              vector_of(behind.front()));
    EXPECT_NE(infer(name, "embedding", kTexts).err.find("of length 1, each text behind \"the \""), std::string::npos);
  }
  // What needs a language model names what the encoder is for.
  const std::string texts = scratch_.write("texts.jsonl", "{\"text\": \"the fox\"}\n");
  const std::string model = path("bert-reranker").string();
  for (const Words& words :
       {Words{"infer", "--model", model, "--val_dataset", texts}, Words{"score", "--model", model, "--dataset", texts},
        Words{"sft", "--model", model, "--dataset", texts, "--output_dir", path("out").string()},
        Words{"bench", "--model", model}}) {
    const auto outcome = run(words, options_);
    EXPECT_EQ(outcome.status, 3) << words[0] << outcome.err;
    EXPECT_NE(outcome.err.find("with --task_type embedding, reranker or seq_cls alone"), std::string::npos)
        << outcome.err;
  }
}

TEST_F(PooledRows, WhatCannotBeAskedIsSaid) {
  const auto refused = [&](const std::string& model, const Words& more, int status, const char* part) {
    Words words = {"infer", "--model", path(model).string()};
    words.insert(words.end(), more.begin(), more.end());
    const auto outcome = run(words, options_);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  };
  const std::string rows = scratch_.write("texts.jsonl", kTexts);
  refused("model", {"--task_type", "embedding"}, 2, "--task_type embedding needs rows");
  refused("model", {"--task_type", "seq_cls", "--val_dataset", rows}, 3, "a class for sequence classification");
  refused("classifier", {"--val_dataset", rows}, 3, "expected a language model, found a classification");
  edit("classifier/config.json", [](io::Json& json) { json["id2label"].erase("2"); });
  refused("classifier", {"--task_type", "seq_cls", "--val_dataset", rows}, 3, "tensor score.weight");
  edit("classifier/config.json", [](io::Json& json) { json["id2label"] = io::Json::object(); });
  refused("classifier", {"--task_type", "seq_cls", "--val_dataset", rows}, 3, "a name for each label");
}

}  // namespace
}  // namespace tern::e2e
