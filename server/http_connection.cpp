#include "server/http_connection.h"

#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <vector>

#include "base/log.h"
#include "base/strings.h"

namespace tern::server {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;
using namespace std::chrono_literals;

constexpr std::size_t kPipelined = 16;               // requests of one connection that are answered at once
constexpr std::size_t kPipelinedBytes = 1U << 20;    // or bytes of their bodies
constexpr std::size_t kReadAhead = 64U << 10;        // of requests that wait until those before are answered
constexpr std::size_t kWriteBatch = 256U << 10;      // is taken from an answer's queue at a time
constexpr std::size_t kWriteTurn = 4 * kWriteBatch;  // before other connections have their turn
constexpr std::size_t kGather = 64;                  // pieces in one writev
constexpr auto kLinger = 2s;

std::string printed(const asio::ip::tcp::endpoint& endpoint) {
  auto address = endpoint.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  const std::string text = address.to_string();
  return address.is_v6() ? cat("[", text, "]:", endpoint.port()) : cat(text, ":", endpoint.port());
}

// What a handler holds. An answer that everybody let go of is completed here, for the client waits.
class Exchange final : public HttpExchange {
 public:
  explicit Exchange(std::shared_ptr<Answer> answer) : answer_(std::move(answer)) {}
  ~Exchange() override { answer_->forgotten(); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void respond(int status, std::string_view content_type, std::string body, Headers headers) override {
    answer_->respond(status, content_type, std::move(body), std::move(headers));
  }
  void begin(int status, std::string_view content_type, Headers headers) override {
    answer_->begin(status, content_type, std::move(headers));
  }
  void send(std::string chunk) override { answer_->send(std::move(chunk)); }
  void finish() override { answer_->finish(); }
  void abandon() override { answer_->abandon(); }
  void on_gone(std::function<void()> gone) override { answer_->on_gone(std::move(gone)); }

 private:
  const std::shared_ptr<Answer> answer_;
};

void respond_error(const ConnectionHost& host, Answer& answer, int status, std::string_view message) {
  auto [body, content_type] =
      host.error_body ? host.error_body(status, message, answer.path)
                      : std::pair<std::string, std::string>(cat(message, "\n"), "text/plain; charset=utf-8");
  Headers headers;
  if (status == 503) headers.emplace_back("Retry-After", "1");
  answer.respond(status, content_type, std::move(body), std::move(headers));
}

}  // namespace

Connection::Connection(ConnectionHost& host, Socket socket, bool refused)
    : host_(host), socket_(std::move(socket)), refused_(refused) {
  if (host.tls) tls_ = std::make_unique<TlsSession>(*host.tls);
}

void Connection::start() {
  Error error;
  const auto endpoint = socket_.remote_endpoint(error);
  if (!error) peer_ = printed(endpoint);
  socket_.non_blocking(true, error);
  socket_.set_option(asio::ip::tcp::no_delay(true), error);
  socket_.set_option(asio::socket_base::keep_alive(true), error);
  if (refused_ && !tls_) fault(503, "the server has as many connections as it takes");
  work();
}

bool Connection::reading_request() const { return reader_ && reader_->started(); }

bool Connection::idle() const { return answers_.empty() && out_.empty() && !reading_request() && in_.empty(); }

// Alternates until neither reading nor writing goes on: a request that is answered makes room for the next.
void Connection::work() {
  if (closed_ || working_) return;
  working_ = true;
  const auto self = shared_from_this();
  try {
    for (;;) {
      const bool moved = parse();
      const std::size_t before = answers_.size();
      pump();
      if (closed_ || (!moved && answers_.size() == before)) break;
    }
    if (!closed_) {
      set_deadlines();
      wait_readable();
    }
  } catch (const std::exception& error) {  // no memory
    log_warn(cat("the connection of ", peer_, " was ended: ", error.what()));
    close();
  }
  working_ = false;
}

void Connection::set_deadlines() {
  const auto now = Clock::now();
  const bool handshake = tls_ && !tls_->established();
  if (!handshake && (!reading_request() || last_request_)) {
    request_deadline_.reset();
  } else if (!request_deadline_) {
    request_deadline_ = now + host_.options.receive_timeout;
  }
  if (handshake || !idle() || lingering_) {
    idle_deadline_.reset();
  } else if (!idle_deadline_) {
    idle_deadline_ = now + (host_.draining ? std::chrono::milliseconds(1000) : host_.options.idle_timeout);
  }
}

void Connection::wait_readable() {
  if (waiting_readable_ || closed_ || input_ended_) return;
  // A client that asks and asks without reading answers is left to wait.
  if (in_.size() > host_.options.max_header_bytes + kReadAhead) return wait_broken();
  waiting_readable_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const Error& error) {
    self->waiting_readable_ = false;
    if (!error && !self->closed_) self->on_readable();
  });
}

void Connection::wait_writable() {
  if (waiting_writable_) return;
  waiting_writable_ = true;
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const Error& error) {
    self->waiting_writable_ = false;
    if (!error) self->work();
  });
}

// While nothing is read, a reset is all that shows that the client went away, for whom there may be much to compute.
void Connection::wait_broken() {
  if (waiting_broken_) return;
  waiting_broken_ = true;
  socket_.async_wait(Socket::wait_error, [self = shared_from_this()](const Error& error) {
    self->waiting_broken_ = false;
    if (error || self->closed_) return;
    int found = 0;  // urgent bytes wake it too
    socklen_t size = sizeof(found);
    if (getsockopt(self->socket_.native_handle(), SOL_SOCKET, SO_ERROR, &found, &size) != 0 || found != 0) {
      return self->close();
    }
    self->wait_readable();
  });
}

void Connection::on_readable() {
  Error error;
  const std::size_t bytes = socket_.read_some(asio::buffer(host_.scratch), error);
  if (error == asio::error::would_block) return wait_readable();
  if (error == asio::error::eof) return on_end_of_input();
  if (error) return close();
  try {
    receive({host_.scratch.data(), bytes});
  } catch (const std::exception& failure) {
    log_warn(cat("the connection of ", peer_, " was ended: ", failure.what()));
    return close();
  }
  if (closed_) return;
  if (tls_ && tls_->finished()) return on_end_of_input();
  work();
}

void Connection::receive(std::string_view came) {
  if (!tls_) {
    if (!last_request_) in_ += came;
    return;
  }
  std::string wire;
  const bool was = tls_->established();
  if (!tls_->receive(came, in_, wire)) return close();
  out_.append(std::move(wire));
  if (!was && tls_->established() && refused_) fault(503, "the server has as many connections as it takes");
  if (last_request_) in_.clear();
}

// The client has closed, or will send no more, which cannot be told apart: answers that are complete are still
// written, and the others are for nobody.
void Connection::on_end_of_input() {
  input_ended_ = true;
  if (lingering_ || (tls_ && !tls_->established())) return close();
  work();
  if (closed_) return;
  last_request_ = true;
  reader_.reset();
  forget_answers();
  if (out_.empty()) return close();
  closing_ = true;
  work();
}

void Connection::forget_answers() {
  auto answers = std::exchange(answers_, {});
  bodies_ = 0;
  for (const auto& answer : answers) answer->gone();
}

bool Connection::parse() {
  bool moved = false;
  while (!closed_ && !last_request_ && !in_.empty() && answers_.size() < kPipelined && bodies_ <= kPipelinedBytes &&
         parse_one()) {
    moved = true;
  }
  if (last_request_) in_.clear();
  return moved;
}

bool Connection::parse_one() {
  if (!reader_) {
    reader_ = std::make_unique<RequestReader>(
        RequestReader::Limits{host_.options.max_header_bytes, host_.options.max_body_bytes, host_.bodies});
  }
  const bool had_header = reader_->header_done();
  in_.erase(0, reader_->put(in_));
  if (in_.empty() && in_.capacity() > kReadAhead) in_.shrink_to_fit();
  if (reader_->fault()) {
    const RequestFault found = *reader_->fault();
    fault(found.status, found.message);
    return true;
  }
  if (reader_->done()) {
    hand_over();
    return true;
  }
  if (!had_header && reader_->header_done() && reader_->expects_continue() && in_.empty()) {
    answers_.push_back(Answer::interim("HTTP/1.1 100 Continue\r\n\r\n"));
  }
  return false;
}

void Connection::hand_over() {
  HttpRequest request = reader_->take();
  request.peer = peer_;
  const AnswerForm form{.head = request.method == "HEAD",
                        .http_1_0 = reader_->http_1_0(),
                        .keep_alive = reader_->keep_alive(),
                        .max_queued_bytes = host_.options.max_queued_bytes};
  reader_.reset();
  request_deadline_.reset();
  last_request_ = !form.keep_alive;
  auto answer = std::make_shared<Answer>(form, host_.wakeups);
  answer->connection = this;
  answer->request_bytes = request.body.size();
  answer->path = request.path;
  bodies_ += answer->request_bytes;
  answers_.push_back(answer);
  auto exchange = std::make_shared<Exchange>(answer);
  try {
    host_.handler(std::move(request), exchange);
  } catch (const std::exception& error) {
    log_warn(cat("a request of ", peer_, " failed: ", error.what()));
    respond_error(host_, *answer, 500, "the server failed at this request; its log says why");
    answer->abandon();  // where the answer had begun
  }
}

// The connection's last answer: what follows a request that was not read whole has no meaning.
void Connection::fault(int status, std::string_view message) {
  std::string path(reader_ ? reader_->path() : "");
  reader_.reset();
  in_.clear();
  last_request_ = true;
  auto answer = std::make_shared<Answer>(
      AnswerForm{.keep_alive = false, .max_queued_bytes = host_.options.max_queued_bytes}, host_.wakeups);
  answer->connection = this;
  answer->path = std::move(path);
  answers_.push_back(answer);
  if (host_.fault_told) host_.fault_told(status, peer_);
  respond_error(host_, *answer, status, message);
}

void Connection::pump() {
  std::size_t written = 0;
  for (;;) {
    const std::size_t bytes = out_.bytes();
    if (closed_ || !flush()) return;
    if (broken_off_) return close();
    written += bytes;
    if (written > kWriteTurn) return wait_writable();
    if (!fill()) break;
  }
  if (closing_ && !lingering_) finish_sending();
}

// Moves from answers to `out_`, in the order of the requests; false where there is nothing to move.
bool Connection::fill() {
  if (closing_ || (tls_ && !tls_->established())) return false;
  if (!tls_) return take_answers(out_);
  Outgoing plain;
  if (!take_answers(plain)) return false;
  std::string wire;
  for (const std::string& piece : plain.pieces()) {
    if (!tls_->send(piece, wire)) {
      close();
      return false;
    }
  }
  out_.append(std::move(wire));
  return true;
}

bool Connection::take_answers(Outgoing& out) {
  while (!answers_.empty() && out.bytes() < kWriteBatch) {
    const auto answer = answers_.front();
    const bool only = answers_.size() == 1 && in_.empty() && !reading_request();
    const auto taken = answer->take(out, only && (last_request_ || host_.draining), kWriteBatch);
    if (taken == Answer::Taken::forgotten) {
      respond_error(host_, *answer, 500, "the server gave no answer");
      continue;
    }
    if (taken == Answer::Taken::all) break;
    if (taken == Answer::Taken::broken) {
      broken_off_ = closing_ = true;
      reset_ = answer->ends_by_close();
      return true;
    }
    answers_.pop_front();
    bodies_ -= answer->request_bytes;
    answer->connection = nullptr;
    if (answer->closes() ||
        (answers_.empty() && in_.empty() && !reading_request() && (last_request_ || host_.draining))) {
      closing_ = last_request_ = true;
      forget_answers();
    }
  }
  return !out.empty();
}

// Writes `out_`; false where the client takes no more for now, or the connection is closed.
bool Connection::flush() {
  std::vector<asio::const_buffer> buffers;
  bool moved = false;
  while (!out_.empty()) {
    buffers.clear();
    std::size_t skip = out_.consumed();
    for (const std::string& piece : out_.pieces()) {
      if (buffers.size() == kGather) break;
      buffers.emplace_back(piece.data() + skip, piece.size() - skip);
      skip = 0;
    }
    Error error;
    const std::size_t sent = socket_.write_some(buffers, error);
    if (error == asio::error::would_block) {
      if (moved || !waiting_writable_) send_deadline_ = Clock::now() + host_.options.send_timeout;
      wait_writable();
      return false;
    }
    if (error) {
      close();
      return false;
    }
    moved = true;
    out_.consume(sent);
  }
  return true;
}

// Everything is sent. A socket that is closed while bytes still come makes its kernel send a reset, by which the client
// can lose the answer: so the rest is read and thrown away until the client closes, or for a moment.
void Connection::finish_sending() {
  if (tls_) {
    std::string wire;
    tls_->finish(wire);
    out_.append(std::move(wire));
    if (!flush()) out_.clear();
    if (closed_) return;
  }
  if (input_ended_) return close();
  lingering_ = true;
  linger_deadline_ = Clock::now() + kLinger;
  Error error;
  socket_.shutdown(Socket::shutdown_send, error);
}

void Connection::sweep(Clock::time_point now) {
  if (closed_) return;
  if (lingering_ && now > linger_deadline_) return close();
  if (!out_.empty() && now > send_deadline_) return close();
  if (idle_deadline_ && now > *idle_deadline_) return close();
  if (!request_deadline_ || now <= *request_deadline_) return;
  if (tls_ && !tls_->established()) return close();
  fault(408, cat("the request did not arrive whole within ", host_.options.receive_timeout.count(), " ms"));
  work();
}

void Connection::drain() {
  if (closed_ || lingering_) return;
  Error error;
  if (!idle()) return work();
  // A request that is here but was not read yet has come.
  if ((tls_ && !tls_->established()) || socket_.available(error) == 0 || error) return close();
  idle_deadline_.reset();
  set_deadlines();
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  const auto self = shared_from_this();
  Error error;
  if (reset_) socket_.set_option(asio::socket_base::linger(true, 0), error);
  socket_.close(error);
  reader_.reset();
  forget_answers();
  host_.connections.erase(self);
  const std::lock_guard lock(host_.mutex);
  --host_.count;
  host_.changed.notify_all();
}

}  // namespace tern::server
