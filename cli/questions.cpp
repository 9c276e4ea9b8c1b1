#include "cli/questions.h"

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "chat/image_parts.h"
#include "cli/data_setup.h"
#include "cli/interrupt.h"
#include "data/dataset.h"

namespace tern::cli {
namespace {

Question question_of(const data::Row& row) {
  Question question{cat(row.file, ":", row.line), {row.messages, row.tools_json}, {}, row.text.has_value(), row.label};
  if (row.videos.size() + row.audios.size() > 0) {
    const char* field = row.videos.empty() ? "audios" : "videos";
    throw Failure(data_error(cat(question.place, ": field \"", field, "\""), "text and images, as models here take",
                             field, "take the column out"));
  }
  question.dialogue.images = row.images;
  auto& messages = question.dialogue.messages;
  if (row.text) {
    messages.push_back({"user", *row.text, {}, {}});
    const std::size_t tags = chat::count_image_tags(messages);
    chat::add_image_tags(messages, row.images.size() - std::min(tags, row.images.size()));
  }
  // What the model said last: text, and calls of tools behind it.
  while (!messages.empty() && (messages.back().role == "assistant" || messages.back().role == "tool_call")) {
    const bool is_text = messages.back().role == "assistant";
    question.label.insert(0, question.label.empty() ? messages.back().content : messages.back().content + "\n");
    messages.pop_back();
    if (is_text) break;
  }
  return question;
}

}  // namespace

void for_each_question(const Arguments& arguments, const std::function<bool(Question&& question)>& push) {
  const data::LoadOptions options = load_options(arguments);
  for (const auto& spec : options.val_dataset) {
    (void)data::for_each_row(spec, options, [&](const data::Row& row) { return push(question_of(row)); }).value();
  }
}

void QuestionTally::count(const std::string& error) {
  ++rows_;
  if (!error.empty() && errors_++ == 0) first_error_ = error;
}

void QuestionTally::require_all(const std::string& after_a_stop) const {
  if (interrupted()) {
    throw Failure(
        interrupted_error(cat("the run was stopped after ", rows_, " rows were answered and written"), after_a_stop));
  }
  if (rows_ == 0)
    throw Failure(data_error("--val_dataset", "rows to answer", "none",
                             "name files that have some; lines above say what was wrong with bad ones"));
}

void QuestionTally::tell_errors(bool strict) const {
  if (errors_ == 0) return;
  if (!strict) return log_warn(cat(errors_, " of ", rows_, " rows have no answer; the first: ", first_error_));
  throw Failure(data_error("--val_dataset", "an answer to every row",
                           cat(errors_, " of ", rows_, " without one, the first ", first_error_),
                           "see \"error\" in the result rows"));
}

}  // namespace tern::cli
