#include "cli/answer_judge.h"

#include <algorithm>

#include "base/strings.h"

namespace tern::cli {

AnswerJudge::AnswerJudge(const Arguments& arguments) : metric_(arguments.maybe_string("metric")) {
  if (metric_ && *metric_ != "acc" && *metric_ != "rouge") {
    plugins_ = data::PluginHost::start(arguments.list("external_plugins")).value();
  }
}

void AnswerJudge::take(const std::optional<std::string>& answer, const std::string& label) {
  if (!metric_ || trim(label).empty()) return;
  if (*metric_ != "acc" && (!answer || trim(*answer).empty())) return;  // as ms-swift leaves them out
  ++labelled_;
  if (!answer) return;
  if (plugins_) {
    answers_.push_back(*answer);
    labels_.push_back(label);
    return;
  }
  if (*metric_ == "acc") {
    right_ += trim(*answer) == trim(label) ? 1 : 0;
    return;
  }
  const engine::AnswerScores scores = engine::score_answer(*answer, label);
  sums_.rouge_1 += scores.rouge_1;
  sums_.rouge_2 += scores.rouge_2;
  sums_.rouge_l += scores.rouge_l;
  sums_.bleu_4 += scores.bleu_4;
}

std::string AnswerJudge::line() const {
  if (!metric_) return {};
  if (plugins_) {
    std::vector<std::string> parts;
    for (const auto& [name, value] : plugins_->metric(*metric_, answers_, labels_).value()) {
      parts.push_back(cat(name, ": ", fixed(value, 6)));
    }
    return cat(join(parts, ", "), " (", labelled_, " rows with a label and an answer)");
  }
  const double rows = static_cast<double>(std::max<std::int64_t>(labelled_, 1));
  if (*metric_ == "acc") {
    return cat("acc: ", fixed(static_cast<double>(right_) / rows, 4), " (", right_, " of ", labelled_,
               " rows with a label)");
  }
  const auto percent = [&](double sum) { return fixed(100 * sum / rows, 6); };
  return cat("rouge-1: ", percent(sums_.rouge_1), ", rouge-2: ", percent(sums_.rouge_2),
             ", rouge-l: ", percent(sums_.rouge_l), ", bleu-4: ", percent(sums_.bleu_4), " (", labelled_,
             " rows with a label and an answer)");
}

}  // namespace tern::cli
