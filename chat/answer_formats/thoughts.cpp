#include "chat/answer_formats/thoughts.h"

#include <algorithm>

namespace tern::chat {
namespace {

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Where the last of `markers` ends in `text`, 0 where there is none.
std::size_t last_of(const std::vector<std::string>& markers, std::string_view text) {
  std::size_t last = 0;
  for (const std::string& marker : markers) {
    const std::size_t at = text.rfind(marker);
    if (at != std::string_view::npos) last = std::max(last, at + marker.size());
  }
  return last;
}

ThoughtFormat tags(std::string begin, std::string end, bool opened) {
  return {{std::move(begin)}, {std::move(end)}, opened, {}, {}, true};
}

}  // namespace

std::optional<ThoughtFormat> thought_format(std::string_view name) {
  if (name == "qwen3") {
    ThoughtFormat format = tags("<think>", "</think>", false);
    format.calls = {"<tool_call>\n<function=", "<tool_call><function="};
    return format;
  }
  if (name == "deepseek_r1") return tags("<think>", "</think>", true);
  return std::nullopt;
}

ThoughtStage::ThoughtStage(const std::optional<ThoughtFormat>& format, std::string_view prompt_tail)
    : first_(format ? joined(format->begins, format->ends) : std::vector<std::string>{}),
      last_(format ? joined(joined(format->ends, format->calls), format->begins) : std::vector<std::string>{}),
      around_(format ? format->around : std::vector<std::string>{}) {
  said_ = !format;
  if (!format) return;
  begins_ = format->begins.size(), ends_ = format->ends.size();
  calls_ = format->calls;
  const std::size_t begin = last_of(format->begins, prompt_tail), end = last_of(format->ends, prompt_tail);
  said_ = end > begin;  // then the blanks in front of the answer are its own
  at_ = end > begin ? At::answer : begin > 0 || format->opened ? At::thinking : At::before;
}

void ThoughtStage::feed(char c, AnswerParts& parts, CallStage& answer) {
  if (at_ == At::before) return before(c, parts, answer);
  if (at_ == At::thinking) return thinking(c, parts, answer);
  text_.clear();
  if (around_.push(c, text_) >= 0) said_ = false;
  for (const char one : text_) {
    if (!said_ && is_blank(one)) continue;
    said_ = true;
    answer.feed(one, parts);
  }
}

// An answer that may yet begin to think. Blanks before thoughts are left out.
void ThoughtStage::before(char c, AnswerParts& parts, CallStage& answer) {
  text_.clear();
  const int found = first_.push(c, text_);
  for (const char one : text_) {
    if (!said_ && is_blank(one)) {
      blanks_ += one;
      continue;
    }
    said_ = true;
    for (const char blank : blanks_) answer.feed(blank, parts);
    blanks_.clear();
    answer.feed(one, parts);
  }
  if (found < 0) return;
  at_ = static_cast<std::size_t>(found) < begins_ ? At::thinking : At::answer;
  said_ = false;
  blanks_.clear();
}

void ThoughtStage::think(std::string_view text, AnswerParts& parts) {
  for (const char c : text) {
    if (is_blank(c)) {
      if (said_) blanks_ += c;
      continue;
    }
    said_ = true;
    parts.reasoning(blanks_);
    blanks_.clear();
    parts.reasoning({&c, 1});
  }
}

void ThoughtStage::thinking(char c, AnswerParts& parts, CallStage& answer) {
  text_.clear();
  const int found = last_.push(c, text_);
  think(text_, parts);
  if (found < 0) return;
  const std::size_t index = static_cast<std::size_t>(found);
  if (index >= ends_ + calls_.size()) return;  // a begin that the prompt has said already
  at_ = At::answer;
  said_ = false;
  blanks_.clear();
  if (index < ends_) return;
  said_ = true;
  for (const char one : calls_[index - ends_]) answer.feed(one, parts);
}

void ThoughtStage::finish(AnswerParts& parts, CallStage& answer) {
  if (at_ == At::thinking) think(last_.take(), parts);
  if (at_ == At::before) {
    for (const char c : blanks_ + first_.take()) answer.feed(c, parts);
  }
  if (at_ == At::answer) {
    for (const char c : around_.take()) answer.feed(c, parts);
  }
  answer.finish(parts);
}

}  // namespace tern::chat
