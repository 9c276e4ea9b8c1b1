#include "cli/row_answers.h"

#include <deque>

#include "base/log.h"
#include "base/strings.h"
#include "cli/answer_judge.h"
#include "cli/answered_rows.h"
#include "cli/interrupt.h"
#include "cli/questions.h"
#include "engine/answer_stream.h"

namespace tern::cli {
namespace {

engine::SamplingParams drawn_behind(engine::SamplingParams sampling, const AnsweredRows* answered) {
  if (answered != nullptr) sampling.request += static_cast<std::uint64_t>(answered->count());
  return sampling;
}

class RowAnswers {
 public:
  struct Places {
    ResultWriter& results;
    AnsweredRows* answered = nullptr;  // null: no earlier run is gone on with
  };
  RowAnswers(const Arguments& arguments, engine::LLM& llm, const engine::SamplingParams& sampling, const Places& places)
      : places_(places), judge_(arguments), stream_(llm, drawn_behind(sampling, places.answered), callbacks()) {}

  // False once the user asked to stop.
  bool push(Question&& question) {
    if (take_answered(question)) return !interrupted();
    waiting_.push_back(std::move(question));
    return stream_.push(waiting_.back().dialogue);
  }
  void finish() { stream_.finish(); }

  void tell(bool strict) {
    tally_.require_all(places_.answered != nullptr ? "run it again, and it goes on behind them" : "run it again");
    if (places_.answered != nullptr) places_.answered->finish(tally_.rows());
    if (const std::string line = judge_.line(); !line.empty()) log_info(line);
    tally_.tell_errors(strict);
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
    if (answer.error) answer.error = answer.error->inside(question.place);
    places_.results.write({question.dialogue, question.label, answer});
    count(answer.error ? std::nullopt : std::optional(answer.text), question.label,
          answer.error ? answer.error->line() : std::string());
  }
  // Whether a stopped run has answered the row.
  bool take_answered(const Question& question) {
    const auto row = places_.answered != nullptr ? places_.answered->take(question) : std::nullopt;
    if (!row) return false;
    count(row->response, row->label, row->error);
    return true;
  }
  void count(const std::optional<std::string>& answer, const std::string& label, const std::string& error) {
    judge_.take(answer, label);
    tally_.count(answer ? std::string() : error);
  }

  Places places_;
  AnswerJudge judge_;
  std::deque<Question> waiting_;  // in the rows' order
  engine::AnswerStream stream_;
  bool cut_ = false;
  QuestionTally tally_;
};

}  // namespace

void answer_rows(const Arguments& arguments, engine::LLM& llm, const engine::SamplingParams& sampling,
                 const ResultWriter::Options& results) {
  ResultWriter writer(results, llm.session().text->tokenizer);
  std::optional<AnsweredRows> answered;
  if (results.path) answered.emplace(*results.path, arguments, Responses::texts);
  RowAnswers answers(arguments, llm, sampling, {writer, answered ? &*answered : nullptr});
  for_each_question(arguments, [&](Question&& question) { return answers.push(std::move(question)); });
  answers.finish();
  answers.tell(arguments.boolean("strict"));
}

}  // namespace tern::cli
