#include "cli/row_answers.h"

#include <deque>

#include "base/log.h"
#include "base/strings.h"
#include "cli/data_setup.h"
#include "cli/interrupt.h"
#include "data/dataset.h"
#include "engine/answer_stream.h"

namespace tern::cli {
namespace {

// A row on its way: its messages without the answer at their end, and that answer.
struct Question {
  std::string place;  // file:line
  engine::Dialogue dialogue;
  std::string label;
};

Question question_of(const data::Row& row) {
  Question question{cat(row.file, ":", row.line), {row.messages, row.tools_json}, {}};
  auto& messages = question.dialogue.messages;
  if (row.text) messages.push_back({"user", *row.text, {}, {}});
  if (!messages.empty() && messages.back().role == "assistant") {
    question.label = std::move(messages.back().content);
    messages.pop_back();
  }
  return question;
}

class RowAnswers {
 public:
  RowAnswers(engine::LLM& llm, const engine::SamplingParams& sampling, ResultWriter& results)
      : results_(results), stream_(llm, sampling, callbacks()) {}

  // False once the user asked to stop.
  bool push(const data::Row& row) {
    waiting_.push_back(question_of(row));
    return stream_.push(waiting_.back().dialogue);
  }
  void finish() { stream_.finish(); }

  void tell(bool with_metric, bool strict) const {
    if (interrupted())
      throw Failure(interrupted_error(cat("the run was stopped after ", rows_, " rows were answered and written"),
                                      "run it again"));
    if (rows_ == 0) throw Failure(data_error("--val_dataset", "rows to answer", "none", "see the lines above"));
    if (with_metric) {
      log_info(cat(
          "acc: ", fixed(static_cast<double>(right_) / static_cast<double>(std::max<std::int64_t>(labelled_, 1)), 4),
          " (", right_, " of ", labelled_, " rows with a label)"));
    }
    if (errors_ == 0) return;
    if (!strict) return log_warn(cat(errors_, " of ", rows_, " rows have no answer; the first: ", first_error_));
    throw Failure(data_error("--val_dataset", "an answer to every row",
                             cat(errors_, " of ", rows_, " without one, the first ", first_error_),
                             "see \"error\" in the result rows"));
  }

 private:
  engine::AnswerCallbacks callbacks() {
    engine::AnswerCallbacks out;
    out.stopped = interrupted;
    out.on_answer = [this](std::size_t, engine::Answer&& answer) {
      const Question question = std::move(waiting_.front());
      waiting_.pop_front();
      cut_ = cut_ || answer.reason == engine::FinishReason::aborted;
      if (!cut_) keep(question, std::move(answer));  // no gap in the rows, no half answers
    };
    return out;
  }
  void keep(const Question& question, engine::Answer answer) {
    if (answer.error) {
      answer.error = answer.error->inside(question.place);
      if (errors_++ == 0) first_error_ = answer.error->line();
    }
    results_.write({question.dialogue, question.label, answer});
    ++rows_;
    if (question.label.empty()) return;
    ++labelled_;
    if (!answer.error && trim(answer.text) == trim(question.label)) ++right_;
  }

  ResultWriter& results_;
  std::deque<Question> waiting_;  // in the rows' order
  engine::AnswerStream stream_;
  bool cut_ = false;
  std::int64_t rows_ = 0;
  std::int64_t labelled_ = 0;
  std::int64_t right_ = 0;
  std::int64_t errors_ = 0;
  std::string first_error_;
};

}  // namespace

void answer_rows(const Arguments& arguments, engine::LLM& llm, const engine::SamplingParams& sampling,
                 ResultWriter& results) {
  RowAnswers answers(llm, sampling, results);
  const data::LoadOptions options = load_options(arguments);
  for (const auto& spec : options.val_dataset) {
    const auto report =
        data::for_each_row(spec, options, [&](const data::Row& row) { return answers.push(row); }).value();
    for (const auto& line : report.counts.first_errors) log_warn(line);
    if (report.counts.bad > 0) log_warn(cat(spec, ": ", report.counts.bad, " bad rows were left out"));
  }
  answers.finish();
  answers.tell(arguments.has("metric"), options.strict);
}

}  // namespace tern::cli
