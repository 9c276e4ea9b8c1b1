// The answer to one request between the threads that make it and the one that writes it.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "server/http.h"

namespace tern::server {

class Answer;
class Connection;

// The answers that have something to write. Outlives the server where someone still holds an answer.
class Wakeups {
 public:
  explicit Wakeups(std::function<void()> wake) : wake_(std::move(wake)) {}
  // Any thread: the server's thread is woken once for all answers until it takes them.
  void notify(std::shared_ptr<Answer> answer);
  [[nodiscard]] std::vector<std::shared_ptr<Answer>> take();
  void close();  // the server ends: nothing is woken any more

 private:
  std::mutex mutex_;
  std::function<void()> wake_;
  std::vector<std::shared_ptr<Answer>> answers_;
};

// Bytes on their way out. Small pieces are joined, large ones are kept as they are.
class Outgoing {
 public:
  void append(std::string_view text);
  void append(std::string&& text);
  void consume(std::size_t bytes);
  void clear();
  [[nodiscard]] bool empty() const { return bytes_ == 0; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] const std::deque<std::string>& pieces() const { return pieces_; }  // the first from consumed() on
  [[nodiscard]] std::size_t consumed() const { return consumed_; }

 private:
  std::deque<std::string> pieces_;
  std::size_t consumed_ = 0;  // of the first piece
  std::size_t bytes_ = 0;
};

// What decides the form of an answer.
struct AnswerForm {
  bool head = false;  // the method is HEAD: no body is sent
  bool http_1_0 = false;
  bool keep_alive = true;
  std::size_t max_queued_bytes = 0;
};

class Answer : public std::enable_shared_from_this<Answer> {
 public:
  Answer(const AnswerForm& form, std::shared_ptr<Wakeups> wakeups) : form_(form), wakeups_(std::move(wakeups)) {}
  [[nodiscard]] static std::shared_ptr<Answer> interim(std::string text);  // "HTTP/1.1 100 Continue"

  // Any thread.
  void respond(int status, std::string_view content_type, std::string body, Headers headers);
  void begin(int status, std::string_view content_type, Headers headers);
  void send(std::string chunk);
  void finish();
  void abandon();
  void on_gone(std::function<void()> gone);
  void forgotten();  // nobody is left who could complete it

  // The server's thread.
  enum class Taken {
    all,        // nothing more now
    complete,   // nothing more ever
    broken,     // the connection ends here
    forgotten,  // nobody answered
  };
  // Moves up to about `at_most` bytes to `out`. `last`: the connection ends after this answer.
  [[nodiscard]] Taken take(Outgoing& out, bool last, std::size_t at_most);
  [[nodiscard]] bool closes() const { return closes_; }  // it said so to the client, or has no other end
  [[nodiscard]] bool ends_by_close() const { return stream_ && form_.http_1_0; }
  // To be called for each of Wakeups::take(): later news wake again. True: its client reads too slowly.
  [[nodiscard]] bool notified();
  void gone();  // the client is away
  Connection* connection = nullptr;
  std::size_t request_bytes = 0;  // of the body that is being answered
  std::string path;               // that was asked for, as its protocol says how errors are written

 private:
  enum class Stage { waiting, streaming, finished };
  void append_head(Outgoing& out, bool last);
  void append_chunks(Outgoing& out, std::size_t at_most);
  [[nodiscard]] bool has_body() const;
  [[nodiscard]] bool over() const { return stage_ == Stage::finished || abandoned_ || gone_; }
  void notify(std::unique_lock<std::mutex> lock);

  const AnswerForm form_;
  const std::shared_ptr<Wakeups> wakeups_;
  std::mutex mutex_;
  Stage stage_ = Stage::waiting;
  bool stream_ = false;
  bool interim_ = false;
  bool abandoned_ = false;
  bool gone_ = false;
  bool overflow_ = false;
  bool forgotten_ = false;
  bool notified_ = false;
  bool head_sent_ = false;
  bool closes_ = false;
  int status_ = 200;
  std::string content_type_;
  Headers headers_;
  std::deque<std::string> chunks_;
  std::size_t queued_ = 0;  // bytes of chunks_
  std::function<void()> on_gone_;
};

}  // namespace tern::server
