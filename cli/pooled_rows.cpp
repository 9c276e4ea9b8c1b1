#include "cli/pooled_rows.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "base/log.h"
#include "base/strings.h"
#include "cli/answer_judge.h"
#include "cli/answered_rows.h"
#include "cli/interrupt.h"
#include "cli/questions.h"
#include "io/json.h"

namespace tern::cli {
namespace {

using Json = io::Json;
using engine::PooledText;

Json json_of(const std::vector<float>& values) {
  Json out = Json::array();
  for (const float value : values) out.push_back(shortest(value));
  return out;
}

// What is written of one row.
struct Made {
  Json response;
  Json logprobs;
  std::optional<std::string> label = {};  // that was found, to compare with the row's
};

// One of --task_type.
class Task {
 public:
  virtual ~Task() = default;
  // What keeps the question from being asked. It may get the label that its row names otherwise.
  [[nodiscard]] virtual std::optional<Error> prepare(Question& /*question*/) const { return std::nullopt; }
  // One for each of these questions, which nothing keeps from it.
  [[nodiscard]] virtual std::vector<PooledText> ask(std::span<const Question* const> questions) = 0;
  [[nodiscard]] virtual Made made_of(const PooledText& text) const = 0;
  [[nodiscard]] virtual bool finds_labels() const { return false; }  // that --metric compares with the rows'
};

class Embedding : public Task {
 public:
  Embedding(const Arguments& arguments, engine::LLM& llm) : llm_(llm) {
    const auto word = arguments.maybe_string("pooling");
    const auto told = catching([&] { return llm.default_pooling(); });
    if (told.ok() || !word) options_ = told.value();  // the flag stands in for what isn't computed here
    if (word) {
      options_.pooling = *word == "cls"    ? engine::Pooling::cls
                         : *word == "mean" ? engine::Pooling::mean
                                           : engine::Pooling::last;
    }
    options_.normalize = arguments.maybe_boolean("normalize_embeddings").value_or(options_.normalize);
    constexpr const char* kNames[] = {"the first token", "the last token", "the mean of all tokens"};
    log_info(cat("embeddings: of ", kNames[static_cast<int>(options_.pooling)],
                 options_.normalize ? ", of length 1" : ", of their own length",
                 options_.prompt.empty() ? std::string() : cat(", each text behind \"", options_.prompt, "\"")));
  }

  std::vector<PooledText> ask(std::span<const Question* const> questions) override {
    std::vector<engine::Prompt> texts;
    for (const Question* question : questions) {
      std::vector<std::string> parts;
      for (const auto& message : question->dialogue.messages) parts.push_back(message.content);
      texts.emplace_back(join(parts, " "));
    }
    return llm_.embed(texts, options_);
  }
  [[nodiscard]] Made made_of(const PooledText& text) const override { return {json_of(text.values), nullptr}; }

 private:
  engine::LLM& llm_;
  engine::EmbedOptions options_;
};

class Reranker : public Task {
 public:
  explicit Reranker(engine::LLM& llm) : llm_(llm) {}

  std::optional<Error> prepare(Question& question) const override {
    if (pair_of(question)) return std::nullopt;
    return data_error("the row", "a query, and the document as its response", "another dialogue",
                      R"(write it as {"query": ..., "response": ...})");
  }
  std::vector<PooledText> ask(std::span<const Question* const> questions) override {
    std::vector<engine::RerankPair> pairs;
    for (const Question* question : questions) pairs.push_back(pair_of(*question).value());
    return llm_.rerank(pairs);
  }
  [[nodiscard]] Made made_of(const PooledText& text) const override { return {shortest(text.values.front()), nullptr}; }

 private:
  // A system message is the instruction.
  static std::optional<engine::RerankPair> pair_of(const Question& question) {
    const auto& messages = question.dialogue.messages;
    const bool has_system = !messages.empty() && messages.front().role == "system";
    const std::size_t first = has_system ? 1 : 0;
    if (question.label.empty() || messages.size() != first + 1 || messages.back().role != "user") return std::nullopt;
    engine::RerankPair pair{messages.back().content, question.label};
    if (has_system) pair.instruction = messages.front().content;
    return pair;
  }

  engine::LLM& llm_;
};

double log_sigmoid(double x) { return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x)); }

double log_sum_exp(const std::vector<float>& values) {
  const double most = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (const float value : values) sum += std::exp(static_cast<double>(value) - most);
  return most + std::log(sum);
}

class Classification : public Task {
 public:
  Classification(const Arguments& arguments, engine::LLM& llm)
      : llm_(llm), config_(llm.session().model.config), logprobs_(arguments.boolean("logprobs")) {}

  std::optional<Error> prepare(Question& question) const override {
    if (!question.label_number) return std::nullopt;
    const std::int64_t number = *question.label_number;
    if (!question.label.empty()) {  // an answer that is classified with what it answers, as in training
      question.dialogue.messages.push_back({"assistant", question.label, {}, {}});
      question.dialogue.add_generation_prompt = false;
    }
    question.label = cat(number);
    if (!finds_labels()) return std::nullopt;
    const auto count = static_cast<std::int64_t>(config_.labels.size());
    if (number >= count) {
      return data_error("field \"label\"", cat("0 to ", count - 1, ", as the model has ", count, " labels"),
                        cat(number), "correct the row, or choose the model that has the label");
    }
    question.label = config_.labels[static_cast<std::size_t>(number)];
    return std::nullopt;
  }
  std::vector<PooledText> ask(std::span<const Question* const> questions) override {
    std::vector<engine::Prompt> prompts;
    for (const Question* question : questions) {
      if (question->is_text) {
        prompts.emplace_back(question->dialogue.messages.front().content);
      } else {
        prompts.emplace_back(question->dialogue);
      }
    }
    return llm_.classify(prompts);
  }
  [[nodiscard]] bool finds_labels() const override {
    return config_.labels.size() > 1 && config_.problem_type != "regression" &&
           config_.problem_type != "multi_label_classification";
  }
  // As problem_type says; of one label, a number.
  [[nodiscard]] Made made_of(const PooledText& text) const override {
    const std::vector<float>& logits = text.values;
    if (config_.problem_type == "regression" || logits.size() == 1) {
      return {logits.size() == 1 ? Json(shortest(logits.front())) : json_of(logits), nullptr};
    }
    const bool several = config_.problem_type == "multi_label_classification";
    const double whole = several ? 0.0 : log_sum_exp(logits);
    Made made{several ? Json::array() : Json(), nullptr};
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const auto logit = static_cast<double>(logits[i]);
      if (several && logit > 0) made.response.push_back(config_.labels[i]);
      if (logprobs_) made.logprobs[config_.labels[i]] = several ? log_sigmoid(logit) : logit - whole;
    }
    if (several) return made;
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    const std::string& label = config_.labels[static_cast<std::size_t>(best)];
    made.response = label;
    made.label = label;
    return made;
  }

 private:
  engine::LLM& llm_;
  const models::ModelConfig& config_;
  bool logprobs_;
};

std::unique_ptr<Task> task_of(const Arguments& arguments, engine::LLM& llm) {
  const std::string& type = arguments.string("task_type");
  if (type == "embedding") return std::make_unique<Embedding>(arguments, llm);
  if (type == "reranker" || type == "generative_reranker") return std::make_unique<Reranker>(llm);
  return std::make_unique<Classification>(arguments, llm);
}

// Asks questions together and writes what is made of them, in their order.
class PooledRows {
 public:
  PooledRows(const Arguments& arguments, Task& task, ResultWriter& results, AnsweredRows* answered)
      : together_(static_cast<std::size_t>(arguments.integer("max_batch_size"))),
        task_(task),
        results_(results),
        answered_(answered),
        judge_(arguments) {}

  // False once the user asked to stop.
  bool push(Question&& question) {
    std::optional<Error> problem = task_.prepare(question);
    if (!take_answered(question)) waiting_.push_back({std::move(question), std::move(problem)});
    if (waiting_.size() == together_) flush();
    return !interrupted();
  }
  void flush() {
    std::vector<const Question*> questions;
    for (const Waiting& each : waiting_) {
      if (!each.problem) questions.push_back(&each.question);
    }
    auto texts = questions.empty() ? std::vector<PooledText>() : task_.ask(questions);
    std::size_t next = 0;
    for (const Waiting& each : waiting_) {
      PooledText text;
      text.error = each.problem;
      write(each.question, each.problem ? std::move(text) : std::move(texts[next++]));
    }
    waiting_.clear();
  }
  void tell(bool strict) {
    tally_.require_all(answered_ != nullptr ? "run it again, and it goes on behind them" : "run it again");
    if (answered_ != nullptr) answered_->finish(tally_.rows());
    if (const std::string line = judge_.line(); !line.empty()) log_info(line);
    tally_.tell_errors(strict);
  }

 private:
  struct Waiting {
    Question question;
    std::optional<Error> problem;
  };
  // Whether a stopped run has answered the row.
  bool take_answered(const Question& question) {
    const auto row = answered_ != nullptr ? answered_->take(question) : std::nullopt;
    if (!row) return false;
    judge_.take(row->response, row->label);
    tally_.count(row->response ? std::string() : row->error);
    return true;
  }
  void write(const Question& question, PooledText text) {
    Made made;
    std::optional<Error>& error = text.error;
    if (error) {
      error = error->inside(question.place);
    } else {
      made = task_.made_of(text);
    }
    judge_.take(made.label, question.label);
    tally_.count(error ? error->line() : std::string());
    results_.write(question.dialogue, question.label, {std::move(made.response), std::move(made.logprobs)}, error);
  }

  std::size_t together_;
  Task& task_;
  ResultWriter& results_;
  AnsweredRows* answered_;  // null: no earlier run is gone on with
  AnswerJudge judge_;
  std::vector<Waiting> waiting_;
  QuestionTally tally_;
};

}  // namespace

void pool_rows(const Arguments& arguments, engine::LLM& llm, const ResultWriter::Options& results) {
  const std::unique_ptr<Task> task = task_of(arguments, llm);
  if (arguments.has("metric") && !task->finds_labels()) {
    throw Failure(
        usage_error("--metric compares labels, and this model gives numbers or several labels a row", "leave it out"));
  }
  ResultWriter writer(results, llm.session().text->tokenizer);
  std::optional<AnsweredRows> answered;
  if (results.path) answered.emplace(*results.path, arguments, Responses::any);
  PooledRows rows(arguments, *task, writer, answered ? &*answered : nullptr);
  for_each_question(arguments, [&](Question&& question) {
    if (!question.dialogue.images.empty()) {
      throw Failure(data_error(cat(question.place, ": field \"images\""),
                               cat("text alone, as --task_type ", arguments.string("task_type"), " reads it"), "images",
                               "take the column out"));
    }
    return rows.push(std::move(question));
  });
  if (!interrupted()) rows.flush();
  rows.tell(arguments.boolean("strict"));
}

}  // namespace tern::cli
