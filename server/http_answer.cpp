#include "server/http_answer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>

#include "base/log.h"
#include "base/strings.h"

namespace tern::server {
namespace {

constexpr std::size_t kJoinBelow = 4096;  // a copy is cheaper than an entry of writev
constexpr std::size_t kPieceBytes = 16384;

std::string_view reason(int status) {
  static constexpr std::array<std::pair<int, std::string_view>, 26> kReasons{{
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {204, "No Content"},
      {301, "Moved Permanently"},
      {302, "Found"},
      {304, "Not Modified"},
      {307, "Temporary Redirect"},
      {308, "Permanent Redirect"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {406, "Not Acceptable"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {413, "Content Too Large"},
      {415, "Unsupported Media Type"},
      {422, "Unprocessable Content"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
  }};
  for (const auto& [code, text] : kReasons) {
    if (code == status) return text;
  }
  return status < 400 ? "OK" : "Error";
}

// RFC 9110 5.6.7: "Tue, 15 Nov 1994 08:12:31 GMT", in English whatever the locale is.
std::string date_now() {
  static constexpr std::array<const char*, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array<const char*, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  auto two = [](int value) {
    return std::string{static_cast<char>('0' + value / 10), static_cast<char>('0' + value % 10)};
  };
  return cat(kDays[static_cast<std::size_t>(utc.tm_wday)], ", ", two(utc.tm_mday), " ",
             kMonths[static_cast<std::size_t>(utc.tm_mon)], " ", utc.tm_year + 1900, " ", two(utc.tm_hour), ":",
             two(utc.tm_min), ":", two(utc.tm_sec), " GMT");
}

bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           auto low = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
           return low(x) == low(y);
         });
}

// A value with a line end in it could pass for further headers.
bool printable(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

}  // namespace

void Wakeups::notify(std::shared_ptr<Answer> answer) {
  const std::lock_guard lock(mutex_);
  if (!wake_) return;
  answers_.push_back(std::move(answer));
  if (answers_.size() == 1) wake_();
}

std::vector<std::shared_ptr<Answer>> Wakeups::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(answers_, {});
}

void Wakeups::close() {
  std::vector<std::shared_ptr<Answer>> last;  // may end here, and with them what they hold: not under the lock
  const std::lock_guard lock(mutex_);
  wake_ = nullptr;
  last.swap(answers_);
}

void Outgoing::append(std::string_view text) {
  bytes_ += text.size();
  if (pieces_.empty() || pieces_.back().size() + text.size() > kPieceBytes) pieces_.emplace_back();
  pieces_.back() += text;
}

void Outgoing::append(std::string&& text) {
  if (text.size() < kJoinBelow) return append(std::string_view(text));
  bytes_ += text.size();
  pieces_.push_back(std::move(text));
}

void Outgoing::consume(std::size_t bytes) {
  bytes_ -= bytes;
  consumed_ += bytes;
  while (!pieces_.empty() && consumed_ >= pieces_.front().size()) {
    consumed_ -= pieces_.front().size();
    pieces_.pop_front();
  }
}

void Outgoing::clear() { *this = Outgoing(); }

std::shared_ptr<Answer> Answer::interim(std::string text) {
  auto answer = std::make_shared<Answer>(AnswerForm{}, nullptr);
  answer->interim_ = answer->head_sent_ = true;
  answer->stage_ = Stage::finished;
  answer->queued_ = text.size();
  answer->chunks_.push_back(std::move(text));
  return answer;
}

void Answer::notify(std::unique_lock<std::mutex> lock) {
  const bool wake = !std::exchange(notified_, true);
  lock.unlock();
  if (wake) wakeups_->notify(shared_from_this());
}

void Answer::respond(int status, std::string_view content_type, std::string body, Headers headers) {
  std::function<void()> unused;  // ends after the lock
  std::unique_lock lock(mutex_);
  if (over() || stage_ != Stage::waiting) return;
  status_ = status;
  content_type_ = content_type;
  headers_ = std::move(headers);
  queued_ = body.size();
  chunks_.push_back(std::move(body));
  stage_ = Stage::finished;
  unused.swap(on_gone_);
  notify(std::move(lock));
}

void Answer::begin(int status, std::string_view content_type, Headers headers) {
  std::unique_lock lock(mutex_);
  if (over() || stage_ != Stage::waiting) return;
  status_ = status;
  content_type_ = content_type;
  headers_ = std::move(headers);
  stage_ = Stage::streaming;
  stream_ = true;
  notify(std::move(lock));
}

void Answer::send(std::string chunk) {
  std::unique_lock lock(mutex_);
  if (over() || stage_ != Stage::streaming || overflow_ || chunk.empty()) return;
  if (queued_ > form_.max_queued_bytes) {
    overflow_ = true;
  } else if (has_body()) {
    queued_ += chunk.size();
    chunks_.push_back(std::move(chunk));
  }
  notify(std::move(lock));
}

void Answer::finish() {
  std::function<void()> unused;
  std::unique_lock lock(mutex_);
  if (over() || stage_ != Stage::streaming || overflow_) return;
  stage_ = Stage::finished;
  unused.swap(on_gone_);
  notify(std::move(lock));
}

void Answer::abandon() {
  std::function<void()> unused;
  std::unique_lock lock(mutex_);
  if (over()) return;
  abandoned_ = true;
  unused.swap(on_gone_);
  notify(std::move(lock));
}

void Answer::on_gone(std::function<void()> gone) {
  std::unique_lock lock(mutex_);
  if (stage_ == Stage::finished || abandoned_) return;
  if (!gone_) {
    on_gone_ = std::move(gone);
    return;
  }
  lock.unlock();
  if (gone) gone();
}

void Answer::forgotten() {
  std::function<void()> unused;
  std::unique_lock lock(mutex_);
  if (over()) return;
  (stage_ == Stage::waiting ? forgotten_ : abandoned_) = true;
  unused.swap(on_gone_);
  notify(std::move(lock));
}

bool Answer::notified() {
  const std::lock_guard lock(mutex_);
  notified_ = false;
  return overflow_;
}

void Answer::gone() {
  std::function<void()> call;
  std::unique_lock lock(mutex_);
  connection = nullptr;
  chunks_.clear();
  queued_ = 0;
  if (!over()) call.swap(on_gone_);
  gone_ = true;
  lock.unlock();
  if (!call) return;
  try {
    call();
  } catch (const std::exception& error) {
    log_warn(cat("what was to end with a client's connection failed: ", error.what()));
  }
}

bool Answer::has_body() const { return !form_.head && status_ >= 200 && status_ != 204 && status_ != 304; }

void Answer::append_head(Outgoing& out, bool last) {
  closes_ = last || !form_.keep_alive || ends_by_close();
  std::string text = cat("HTTP/1.1 ", status_, " ", reason(status_), "\r\nDate: ", date_now(), "\r\n");
  if (!content_type_.empty() && printable(content_type_)) text += cat("Content-Type: ", content_type_, "\r\n");
  const bool empty = status_ < 200 || status_ == 204 || status_ == 304;
  if (!stream_ && !empty) text += cat("Content-Length: ", queued_, "\r\n");
  if (stream_ && !empty && !form_.http_1_0) text += "Transfer-Encoding: chunked\r\n";
  for (const auto& [name, value] : headers_) {
    if (same_name(name, "connection")) closes_ = closes_ || same_name(value, "close");
    if (same_name(name, "connection") || same_name(name, "content-length") || same_name(name, "date") ||
        same_name(name, "transfer-encoding") || !printable(name) || !printable(value)) {
      continue;
    }
    text += cat(name, ": ", value, "\r\n");
  }
  if (closes_) {
    text += "Connection: close\r\n";
  } else if (form_.http_1_0) {
    text += "Connection: keep-alive\r\n";
  }
  text += "\r\n";
  out.append(std::string_view(text));
  head_sent_ = true;
  if (!stream_ && !has_body()) {
    chunks_.clear();
    queued_ = 0;
  }
}

// All chunks that wait become one of HTTP's.
void Answer::append_chunks(Outgoing& out, std::size_t at_most) {
  std::size_t bytes = 0;
  std::size_t count = 0;
  while (count < chunks_.size() && (count == 0 || bytes + chunks_[count].size() <= at_most)) {
    bytes += chunks_[count++].size();
  }
  if (bytes == 0) {
    chunks_.clear();
    return;
  }
  const bool framed = stream_ && !form_.http_1_0;
  if (framed) {
    std::array<char, 20> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), bytes, 16).ptr;
    out.append(std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data())));
    out.append(std::string_view("\r\n"));
  }
  for (std::size_t i = 0; i < count; ++i) {
    out.append(std::move(chunks_.front()));
    chunks_.pop_front();
  }
  queued_ -= bytes;
  if (framed) out.append(std::string_view("\r\n"));
}

Answer::Taken Answer::take(Outgoing& out, bool last, std::size_t at_most) {
  const std::lock_guard lock(mutex_);
  if (forgotten_) {
    forgotten_ = false;
    return Taken::forgotten;
  }
  if (stage_ == Stage::waiting) return abandoned_ ? Taken::broken : Taken::all;
  if (!head_sent_) append_head(out, last);
  append_chunks(out, at_most);
  if (!chunks_.empty()) return Taken::all;
  if (abandoned_) return Taken::broken;
  if (stage_ != Stage::finished) return Taken::all;
  if (stream_ && !form_.http_1_0 && has_body()) out.append(std::string_view("0\r\n\r\n"));
  return Taken::complete;
}

}  // namespace tern::server
