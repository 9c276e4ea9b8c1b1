// tern sft --task_type seq_cls, embedding and reranker: what is trained infers as `tern infer` says.
#include <fstream>
#include <sstream>

#include "deployed.h"
#include "tests/support/parsed_json.h"
#include "tiny_training.h"

namespace tern::e2e {
namespace {

using Words = std::vector<std::string>;

// Which of two letters a row has is its label.
std::string letters(int rows) {
  std::string out;
  for (int i = 0; i < rows; ++i) {
    const bool second = i % 3 == 0;
    out += std::string(R"({"messages": [{"role": "user", "content": ")") + (second ? "bbb" : "aaa") +
           std::to_string(i % 10) + R"("}], "label": )" + (second ? "1" : "0") + "}\n";
  }
  return out;
}

class Tasks : public TinyTraining {
 protected:
  Tasks() : TinyTraining(letters(24)) {
    TinyModel model;
    model.verdicts = true;
    model.max_positions = 1024;
    write_tiny_model(path("model"), model);
  }
  [[nodiscard]] Words task(const std::string& output, const std::string& type, const Words& more) const {
    Words words = sft(output, {"--task_type", type, "--max_steps", "12", "--gradient_accumulation_steps", "1",
                               "--per_device_train_batch_size", "8", "--learning_rate", "2e-2"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  [[nodiscard]] std::vector<io::Json> answers(const Words& more, const std::string& rows) const {
    Words words = {"infer",
                   "--torch_dtype",
                   "float32",
                   "--val_dataset",
                   scratch_.write("asked.jsonl", rows),
                   "--result_path",
                   path("answers.jsonl").string()};
    words.insert(words.end(), more.begin(), more.end());
    std::filesystem::remove(path("answers.jsonl"));
    const auto outcome = run(words, options_);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    last_err_ = outcome.err;
    std::vector<io::Json> out;
    std::istringstream lines(read("answers.jsonl"));
    for (std::string line; std::getline(lines, line);) out.push_back(test::parsed_json(line));
    return out;
  }
  mutable std::string last_err_;
};

TEST_F(Tasks, AClassifierIsTrainedWithAnAdapterAndInfers) {
  const auto trained =
      run(task("out", "seq_cls",
               {"--num_labels", "2", "--split_dataset_ratio", "0.25", "--eval_strategy", "steps", "--eval_steps", "6"}),
          options_);
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_FALSE(logged("out", "eval_acc").empty());
  EXPECT_EQ(logged("out", "eval_acc").back(), "1.0");
  const std::string adapter = path("out/checkpoint-12").string();
  const io::Json config = test::parsed_json(read("out/checkpoint-12/adapter_config.json"));
  EXPECT_EQ(config["task_type"], "SEQ_CLS");
  EXPECT_EQ(config["modules_to_save"][0], "score");
  EXPECT_NE(read("out/checkpoint-12/adapter_model.safetensors").find("base_model.model.score.weight"),
            std::string::npos);

  // args.json says the task and its labels.
  const auto found = answers({"--adapters", adapter, "--metric", "acc"}, letters(6));
  ASSERT_EQ(found.size(), 6U);
  EXPECT_EQ(found[0]["response"], "LABEL_1");
  EXPECT_EQ(found[1]["response"], "LABEL_0");
  EXPECT_NE(last_err_.find("acc"), std::string::npos) << last_err_;

  {  // It is served as such, too.
    const Deployed server("", {"--adapters", adapter, "--torch_dtype", "float32"});
    for (const auto& [text, label] : {std::pair{"bbb0", "LABEL_1"}, std::pair{"aaa1", "LABEL_0"}}) {
      const Json asked = {{"messages", {{{"role", "user"}, {"content", text}}}}, {"add_generation_prompt", true}};
      EXPECT_EQ(json_of(server.post("/classify", asked.dump()))["data"][0]["label"], label) << text;
    }
  }

  // The head alone isn't the model's.
  const auto refused = run({"infer", "--model", path("model").string(), "--task_type", "seq_cls", "--num_labels", "2",
                            "--val_dataset", rows_},
                           options_);
  EXPECT_NE(refused.status, 0);
  EXPECT_NE(refused.err.find("a head for labels"), std::string::npos) << refused.err;
}

TEST_F(Tasks, AFullClassifierIsAModelOfItsOwn) {
  const auto trained =
      run(task("full", "seq_cls", {"--num_labels", "2", "--tuner_type", "full", "--learning_rate", "5e-3"}), options_);
  ASSERT_EQ(trained.status, 0) << trained.err;
  const io::Json config = test::parsed_json(read("full/checkpoint-12/config.json"));
  EXPECT_EQ(config["architectures"][0], "LlamaForSequenceClassification");
  EXPECT_EQ(config["problem_type"], "single_label_classification");
  EXPECT_EQ(config["id2label"]["1"], "LABEL_1");
  const auto found = answers({"--model", path("full/checkpoint-12").string(), "--logprobs"}, letters(6));
  ASSERT_EQ(found.size(), 6U);
  EXPECT_EQ(found[0]["response"], "LABEL_1");
  EXPECT_EQ(found[1]["response"], "LABEL_0");
}

TEST_F(Tasks, AResumedClassifierIsTheOneThatNeverStopped) {
  for (const auto& [output, steps] : {std::pair{"once", "8"}, std::pair{"twice", "4"}}) {
    const auto trained =
        run(task(output, "seq_cls", {"--num_labels", "2", "--save_steps", "4", "--max_steps", steps}), options_);
    ASSERT_EQ(trained.status, 0) << trained.err;
  }
  const auto resumed = run(task("twice", "seq_cls",
                                {"--num_labels", "2", "--save_steps", "4", "--max_steps", "8",
                                 "--resume_from_checkpoint", path("twice/checkpoint-4").string()}),
                           options_);
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  const auto other = run(task("twice", "seq_cls",
                              {"--num_labels", "2", "--problem_type", "multi_label_classification",
                               "--resume_from_checkpoint", path("twice/checkpoint-4").string()}),
                         options_);
  EXPECT_NE(other.status, 0);
  EXPECT_NE(other.err.find("problem_type"), std::string::npos) << other.err;
}

TEST_F(Tasks, BadLabelsAreNamed) {
  const auto run_on = [&](const std::string& rows, const Words& more) {
    Words words = task("bad", "seq_cls", more);
    words.insert(words.end(), {"--dataset", scratch_.write("bad.jsonl", rows), "--strict", "true"});
    return run(words, options_);
  };
  const auto none = run_on(R"({"query": "a"})"
                           "\n",
                           {"--num_labels", "2"});
  EXPECT_NE(none.status, 0);
  EXPECT_NE(none.err.find("bad.jsonl:1: field \"label\""), std::string::npos) << none.err;
  const auto large = run_on(R"({"query": "a", "label": 2})"
                            "\n",
                            {"--num_labels", "2"});
  EXPECT_NE(large.err.find("0 to 1"), std::string::npos) << large.err;
  const auto unknown = run(task("bad", "seq_cls", {}), options_);
  EXPECT_NE(unknown.status, 0);
  EXPECT_NE(unknown.err.find("--num_labels"), std::string::npos) << unknown.err;
}

std::string triples(int rows) {
  std::string out;
  for (int i = 0; i < rows; ++i) {
    const std::string query = i % 2 == 0 ? "aa" : "bb";
    const std::string other = i % 2 == 0 ? "yy" : "xx";
    const std::string own = i % 2 == 0 ? "xx" : "yy";
    const std::string n = std::to_string(i % 10);
    out += R"({"messages": [{"role": "user", "content": ")" + query + n +
           R"("}], "positive_messages": [[{"role": "user", )" + R"("content": ")" + own + n +
           R"("}]], "negative_messages": [[{"role": "user", "content": ")" + other + n + "\"}]]}\n";
  }
  return out;
}

TEST_F(Tasks, AnEmbeddingLearnsWhichTextsBelongTogether) {
  const auto trained =
      run(task("out", "embedding",
               {"--dataset", scratch_.write("triples.jsonl", triples(24)), "--infonce_use_batch", "false", "--mrl_dims",
                R"({"8": 0.5, "32": 1})", "--split_dataset_ratio", "0.25", "--eval_steps", "12"}),
          options_);
  ASSERT_EQ(trained.status, 0) << trained.err;
  const auto losses = logged("out", "loss");
  ASSERT_GT(losses.size(), 2U);
  EXPECT_LT(std::stod(losses.back()), 0.5 * std::stod(losses.front()));
  EXPECT_GT(std::stod(logged("out", "eval_margin").back()), 0.2);
  const auto found = answers({"--adapters", path("out/checkpoint-12").string()}, R"({"text": "aa1"})"
                                                                                 "\n"
                                                                                 R"({"text": "xx1"})"
                                                                                 "\n"
                                                                                 R"({"text": "yy1"})"
                                                                                 "\n");
  ASSERT_EQ(found.size(), 3U);
  const auto dot = [&](std::size_t a, std::size_t b) {
    double sum = 0;
    for (std::size_t i = 0; i < found[a]["response"].size(); ++i)
      sum += found[a]["response"][i].get<double>() * found[b]["response"][i].get<double>();
    return sum;
  };
  EXPECT_GT(dot(0, 1), dot(0, 2));
}

TEST_F(Tasks, RerankersAreTrainedWithAHeadAndWithWordsAndInfer) {
  const std::string data = scratch_.write("triples.jsonl", triples(24));
  for (const std::string type : {"reranker", "generative_reranker"}) {
    const auto trained =
        run(task(type, type, {"--dataset", data, "--loss_type", "listwise_reranker", "--max_steps", "2"}), options_);
    ASSERT_EQ(trained.status, 0) << trained.err;
    EXPECT_EQ(logged(type, "loss").size(), 2U) << type;  // how it falls is the golden tests' to say
    const auto found =
        answers({"--adapters", path(type + "/checkpoint-2").string()}, R"({"query": "aa1", "response": "xx1"})"
                                                                       "\n"
                                                                       R"({"query": "aa1", "response": "yy1"})"
                                                                       "\n");
    ASSERT_EQ(found.size(), 2U);
    for (const auto& one : found) {
      EXPECT_GT(one["response"].get<double>(), 0) << type;
      EXPECT_LT(one["response"].get<double>(), 1) << type;
    }
    EXPECT_NE(found[0]["response"].get<double>(), found[1]["response"].get<double>()) << type;
  }
}

}  // namespace
}  // namespace tern::e2e
