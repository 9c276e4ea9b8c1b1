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

// Whether the prompt ends in thoughts that begin at `begin`: with their marker, or with thoughts to go on with. A
// marker that someone else wrote has the marker of another turn behind it.
bool opens(std::string_view said, std::size_t begin, std::size_t end) {
  if (begin <= end) return false;
  const std::string_view rest = said.substr(begin);
  for (const std::string_view turn : {"<|", "<｜", "[/", "<start_of", "<end_of"}) {
    if (rest.find(turn) != std::string_view::npos) return false;
  }
  return true;
}

ThoughtFormat thought_tags(std::string begin, std::string end, bool opened) {
  return {{std::move(begin)}, {std::move(end)}, opened, {}, {}, true};
}

}  // namespace

std::optional<ThoughtFormat> thought_format(std::string_view name) {
  const bool opened = name == "deepseek_r1" || name == "minimax_m2" || name == "step3";
  if (name == "qwen3") {
    ThoughtFormat format = thought_tags("<think>", "</think>", false);
    format.calls = {"<tool_call>\n<function=", "<tool_call><function="};
    return format;
  }
  if (name == "kimi_k2") {
    ThoughtFormat format = thought_tags("<think>", "</think>", false);
    format.calls = {"<|tool_calls_section_begin|>"};
    return format;
  }
  if (name == "ernie45") {
    ThoughtFormat format = thought_tags("<think>", "</think>", true);
    format.around = {"<response>\n", "\n</response>"};
    return format;
  }
  if (name == "hunyuan_a13b") {
    ThoughtFormat format = thought_tags("<think>", "</think>", false);
    format.around = {"<answer>\n", "\n</answer>"};
    return format;
  }
  if (name == "mistral") return thought_tags("[THINK]", "[/THINK]", false);
  if (name == "seed_oss") return thought_tags("<seed:think>", "</seed:think>", false);
  if (name == "granite") {  // in the words of 3.2, and in 3.3's tags
    return ThoughtFormat{{"Here's my thought process:", "Here is my thought process:", "<think>"},
                         {"Here's my response:", "Here is my response:", "</think>"},
                         false,
                         {},
                         {"<response>", "</response>"}};
  }
  for (const char* one :
       {"deepseek_r1", "deepseek_v3", "glm45", "holo2", "minimax_m2", "nemotron_v3", "olmo3", "step3"}) {
    if (name == one) return thought_tags("<think>", "</think>", opened);
  }
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
  const std::string_view said = prompt_tail.substr(0, prompt_tail.find_last_not_of(" \n\r\t") + 1);
  const std::size_t begin = last_of(format->begins, said), end = last_of(format->ends, said);
  const bool closed = end > begin && end == said.size();
  said_ = closed;  // then the blanks in front of the answer are its own
  at_ = closed ? At::answer : format->opened || opens(said, begin, end) ? At::thinking : At::before;
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
