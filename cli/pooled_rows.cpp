#include "cli/pooled_rows.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "base/log.h"
#include "base/strings.h"
#include "cli/answer_judge.h"
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

// One of --task_type. It may give a question the label that its row names otherwise.
class Task {
 public:
  virtual ~Task() = default;
  // One for each question.
  [[nodiscard]] virtual std::vector<PooledText> ask(std::span<Question> questions) = 0;
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
                 options_.normalize ? ", of length 1" : ", of their own length"));
  }

  std::vector<PooledText> ask(std::span<Question> questions) override {
    std::vector<engine::Prompt> texts;
    for (const Question& question : questions) {
      std::vector<std::string> parts;
      for (const auto& message : question.dialogue.messages) parts.push_back(message.content);
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

  std::vector<PooledText> ask(std::span<Question> questions) override {
    std::vector<PooledText> out(questions.size());
    std::vector<engine::RerankPair> pairs;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < questions.size(); ++i) {
      if (auto pair = pair_of(questions[i])) {
        pairs.push_back(std::move(*pair));
        places.push_back(i);
      } else {
        out[i].error = data_error("the row", "a query, and the document as its response", "another dialogue",
                                  R"(write it as {"query": ..., "response": ...})");
      }
    }
    auto found = llm_.rerank(pairs);
    for (std::size_t i = 0; i < found.size(); ++i) out[places[i]] = std::move(found[i]);
    return out;
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

  std::vector<PooledText> ask(std::span<Question> questions) override {
    std::vector<engine::Prompt> prompts;
    for (Question& question : questions) {
      const std::size_t said = question.is_desired.value_or(false) ? 1 : 0;
      if (question.is_desired && said < config_.labels.size()) question.label = config_.labels[said];
      if (question.is_text) {
        prompts.emplace_back(question.dialogue.messages.front().content);
      } else {
        prompts.emplace_back(question.dialogue);
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
  if (type == "reranker") return std::make_unique<Reranker>(llm);
  return std::make_unique<Classification>(arguments, llm);
}

}  // namespace

void pool_rows(const Arguments& arguments, engine::LLM& llm, ResultWriter& results) {
  const std::unique_ptr<Task> task = task_of(arguments, llm);
  if (arguments.has("metric") && !task->finds_labels()) {
    throw Failure(
        usage_error("--metric compares labels, and this model gives numbers or several labels a row", "leave it out"));
  }
  const auto together = static_cast<std::size_t>(arguments.integer("max_batch_size"));
  std::vector<Question> waiting;
  QuestionTally tally;
  AnswerJudge judge(arguments.maybe_string("metric"));
  const auto flush = [&] {
    if (waiting.empty()) return;
    auto texts = task->ask(waiting);
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      Made made;
      std::optional<Error>& error = texts[i].error;
      if (error) {
        error = error->inside(waiting[i].place);
      } else {
        made = task->made_of(texts[i]);
      }
      judge.take(made.label, waiting[i].label);
      tally.count(error ? error->line() : std::string());
      results.write(waiting[i].dialogue, waiting[i].label, {std::move(made.response), std::move(made.logprobs)}, error);
    }
    waiting.clear();
  };
  for_each_question(arguments, [&](Question&& question) {
    waiting.push_back(std::move(question));
    if (waiting.size() == together) flush();
    return !interrupted();
  });
  if (!interrupted()) flush();
  tally.require_all("run it again");
  if (const std::string line = judge.line(); !line.empty()) log_info(line);
  tally.tell_errors(arguments.boolean("strict"));
}

}  // namespace tern::cli
