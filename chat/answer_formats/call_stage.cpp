#include "chat/answer_formats/call_stage.h"

namespace tern::chat {
namespace {

std::vector<std::string> markers_of(const std::optional<CallFormat>& format) {
  std::vector<std::string> markers;
  if (!format) return markers;
  markers = format->begins;
  markers.insert(markers.end(), format->dropped.begin(), format->dropped.end());
  return markers;
}

}  // namespace

Fed Choice::feed(char c, std::size_t& index) {
  if (read_.empty() && is_blank(c)) return Fed::more;
  read_ += c;
  for (std::size_t i = 0; i < literals_.size(); ++i) {
    if (!literals_[i].starts_with(read_)) continue;
    index = i;
    if (literals_[i].size() > read_.size()) return Fed::more;
    read_.clear();
    return Fed::done;
  }
  return Fed::broken;
}

CallStage::CallStage(std::optional<CallFormat> format) : format_(std::move(format)), scanner_(markers_of(format_)) {}

// `text` belongs to no marker. Blanks behind a call, and line breaks before one, are nobody's words.
void CallStage::text(std::string_view text, AnswerParts& parts) {
  for (const char c : text) {
    const bool blank = is_blank(c);
    if (at_ == At::behind && (blank || format_->between.find(c) != std::string::npos)) continue;
    if (blank && (c == '\n' || !breaks_.empty())) {
      breaks_ += c;
      continue;
    }
    if (!blank) at_ = At::text;
    parts.content(breaks_);
    breaks_.clear();
    parts.content({&c, 1});
  }
}

void CallStage::begin(std::string_view marker, AnswerParts& parts) {
  parts.begin(breaks_ + std::string(marker));
  breaks_.clear();
  format_->reader->start(marker);
  at_ = At::call;
}

void CallStage::feed(char c, AnswerParts& parts) {
  ++work_;
  if (!format_) return parts.content({&c, 1});
  if (at_ == At::call) {
    parts.read(c);
    const Fed fed = format_->reader->feed(c, parts);
    if (fed == Fed::more) return;
    if (fed == Fed::broken) {
      parts.break_off(true);
      at_ = At::text;
    } else {
      parts.end();
      at_ = At::behind;
    }
    if (fed == Fed::done) return;
  }
  if (at_ == At::start && c == format_->bare && scanner_.held().empty()) return begin({&c, 1}, parts);
  text_.clear();
  const int found = scanner_.push(c, text_);
  text(text_, parts);
  if (found < 0) return;
  if (static_cast<std::size_t>(found) < format_->begins.size()) {
    begin(format_->begins[static_cast<std::size_t>(found)], parts);
  } else {
    breaks_.clear();
    at_ = At::behind;
  }
}

void CallStage::finish(AnswerParts& parts) {
  if (!format_) return;
  if (at_ == At::call) {
    if (format_->reader->finish(parts)) {
      parts.end();
    } else {
      parts.break_off(false);
    }
    return;
  }
  text(scanner_.take(), parts);
  parts.content(breaks_);
}

}  // namespace tern::chat
