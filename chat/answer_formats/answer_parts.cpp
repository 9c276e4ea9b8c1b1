#include "chat/answer_formats/answer_parts.h"

namespace tern::chat {

void AnswerParts::add(AnswerPart::Kind kind, std::string_view text) {
  if (text.empty() || (!parallel_calls_ && calls_ > 0)) return;
  const std::int64_t call = kind == AnswerPart::Kind::arguments ? calls_ : 0;
  if (parts_.empty() || parts_.back().kind != kind || parts_.back().call != call)
    parts_.push_back({kind, {}, call, {}});
  parts_.back().text += text;
}

void AnswerParts::name(std::string name, std::string id) {
  if (told_) return;
  name_ = std::move(name);
  id_ = std::move(id);
  named_ = true;
  if (!arguments_.empty() && !whole_calls_) tell();
}

void AnswerParts::arguments(std::string_view text) {
  if (text.empty()) return;
  if (told_) {
    raw_.clear();
    add(AnswerPart::Kind::arguments, text);
    return;
  }
  arguments_ += text;
  if (named_ && !whole_calls_) tell();
}

void AnswerParts::tell() {
  if (parallel_calls_ || calls_ == 0) {
    parts_.push_back({AnswerPart::Kind::call, std::move(name_), calls_, std::move(id_)});
    add(AnswerPart::Kind::arguments, arguments_);
  }
  name_.clear(), id_.clear(), arguments_.clear(), raw_.clear();
  told_ = true;
}

void AnswerParts::call_whole() {
  if (!told_) tell();
  ++calls_;
  named_ = told_ = false;
  raw_.clear();
}

void AnswerParts::end() {
  if (told_) ++calls_;
  named_ = told_ = false;
  raw_.clear(), name_.clear(), id_.clear(), arguments_.clear();
}

void AnswerParts::break_off(bool unread) {
  if (unread && !raw_.empty()) raw_.pop_back();
  const std::string text = std::move(raw_);
  const bool cut = told_ && !unread;  // the end of the answer ends the arguments, as a limit of tokens does
  end();
  if (cut) return;
  content(text);
}

}  // namespace tern::chat
