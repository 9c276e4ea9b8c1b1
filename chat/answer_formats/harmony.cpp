#include "chat/answer_formats/harmony.h"

#include <algorithm>

namespace tern::chat {
namespace {

constexpr std::string_view kStart = "<|start|>", kMessage = "<|message|>", kChannel = "<|channel|>";
constexpr std::size_t kLongestHeader = 512;

// Whether text from a message's beginning on may be a header. Answers go on behind "<|start|>assistant".
bool may_be_header(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
  return std::ranges::any_of(std::vector<std::string_view>{kStart, kChannel, "to=functions."},
                             [&](auto begin) { return text.starts_with(begin) || begin.starts_with(text); });
}

// The word behind `mark`.
std::string word_behind(std::string_view header, std::string_view mark) {
  const std::size_t at = header.find(mark);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = header.substr(at + mark.size());
  return std::string(rest.substr(0, rest.find_first_of(" <\n")));
}

}  // namespace

HarmonyParser::HarmonyParser(const ParserOptions& options)
    : parts_(options.parallel_calls, options.whole_calls),
      calls_(!options.tools_json.empty()),
      message_({std::string(kMessage)}),
      end_({"<|end|>", "<|return|>", "<|call|>", std::string(kStart), std::string(kChannel)}) {
  // A prompt may have begun the message.
  const std::string_view tail = options.prompt_tail;
  const std::size_t start = tail.rfind(kStart);
  if (start == std::string_view::npos) return;
  const std::size_t message = tail.find(kMessage, start);
  if (message == std::string_view::npos && tail.find(kChannel, start) == std::string_view::npos) return;
  const std::size_t end = message == std::string_view::npos ? tail.size() : message + kMessage.size();
  for (const char c : tail.substr(start, end - start)) feed(c);
}

std::vector<AnswerPart> HarmonyParser::push(std::string_view text) {
  for (const char c : text) feed(c);
  return parts_.take();
}

void HarmonyParser::feed(char c) {
  if (at_ == At::header) return header(c);
  text_.clear();
  const int found = end_.push(c, text_);
  for (const char one : text_) body(one);
  if (found < 0) return;
  close();
  header_ = found == 3 ? kStart : found == 4 ? kChannel : "";
}

void HarmonyParser::header(char c) {
  if (message_.push(c, header_) >= 0) return open();
  if (header_.size() <= kLongestHeader && may_be_header(header_ + message_.held())) return;
  // Words without a header, as of models that forget it.
  at_ = At::content;
  const std::string text = header_ + message_.take();
  header_.clear();
  for (const char one : text) feed(one);
}

void HarmonyParser::open() {
  const std::string recipient = word_behind(header_, "to="), channel = word_behind(header_, kChannel);
  header_.clear();
  at_ = channel == "analysis" ? At::analysis : At::content;
  if (!calls_ || !recipient.starts_with("functions.") || recipient.size() == 10) return;
  at_ = At::call;
  arguments_ = {}, argued_ = false;
  parts_.begin("");
  parts_.name(recipient.substr(10));
}

void HarmonyParser::body(char c) {
  if (at_ == At::analysis) return parts_.reasoning({&c, 1});
  if (at_ == At::call) {
    std::string out;
    parts_.read(c);
    const Fed fed = arguments_.feed(c, out);
    if (fed == Fed::broken) {
      parts_.break_off(true);
      at_ = At::content;
    } else {
      argued_ = argued_ || !is_blank(c);
      parts_.arguments(out);
      if (fed == Fed::done) {
        parts_.call_whole();
        at_ = At::called;
      }
      return;
    }
  }
  if (at_ == At::called && is_blank(c)) return;
  parts_.content({&c, 1});
}

// The end of a message. One to a function that takes nothing may be empty.
void HarmonyParser::close() {
  if (at_ == At::call) {
    if (argued_) {
      parts_.break_off(false);
    } else {
      parts_.arguments("{}");
      parts_.call_whole();
    }
  }
  at_ = At::header;
  header_.clear();
}

std::vector<AnswerPart> HarmonyParser::finish() {
  if (at_ != At::header) {
    for (const char c : end_.take()) body(c);
    if (at_ == At::call) parts_.break_off(false);
  }
  return parts_.take();
}

}  // namespace tern::chat
