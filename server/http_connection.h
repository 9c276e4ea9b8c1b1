// One client's connection. All of it runs on the server's thread.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "server/http.h"
#include "server/http_answer.h"
#include "server/http_reader.h"
#include "server/http_tls.h"

namespace tern::server {

// What the connections of a server share.
struct ConnectionHost {
  HttpOptions options;
  HttpHandler handler;
  HttpErrorBody error_body;
  HttpFaultTold fault_told;
  std::shared_ptr<TlsContext> tls;  // null: plain
  std::shared_ptr<Wakeups> wakeups;
  std::shared_ptr<ByteBudget> bodies;
  bool draining = false;
  std::unordered_set<std::shared_ptr<Connection>> connections;
  std::array<char, 65536> scratch{};  // what is read lands here first, so that an idle connection holds no buffer

  std::mutex mutex;
  std::condition_variable changed;
  std::size_t count = 0;  // of connections, under the mutex
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using Clock = std::chrono::steady_clock;

  Connection(ConnectionHost& host, Socket socket, bool refused);
  void start();
  void work();  // reads, hands over and writes whatever can be now
  void sweep(Clock::time_point now);
  void drain();
  void close();

 private:
  void wait_readable();
  void wait_writable();
  void wait_broken();
  void on_readable();
  void on_end_of_input();
  void receive(std::string_view came);
  [[nodiscard]] bool parse();
  [[nodiscard]] bool parse_one();
  void hand_over();
  void fault(int status, std::string_view message);
  void pump();
  [[nodiscard]] bool fill();
  [[nodiscard]] bool take_answers(Outgoing& out);
  [[nodiscard]] bool flush();
  void finish_sending();
  void forget_answers();
  void set_deadlines();
  [[nodiscard]] bool reading_request() const;
  [[nodiscard]] bool idle() const;

  ConnectionHost& host_;
  Socket socket_;
  std::unique_ptr<TlsSession> tls_;
  std::string peer_;
  const bool refused_;
  std::string in_;                         // HTTP that was not used yet
  std::unique_ptr<RequestReader> reader_;  // null: between two requests
  std::deque<std::shared_ptr<Answer>> answers_;
  std::size_t bodies_ = 0;  // bytes of the requests that are being answered
  Outgoing out_;

  bool waiting_readable_ = false;
  bool waiting_writable_ = false;
  bool waiting_broken_ = false;
  bool last_request_ = false;  // what comes after is thrown away
  bool closing_ = false;       // nothing is sent after what is in out_
  bool broken_off_ = false;    // ditto, and the client must see that something is missing
  bool reset_ = false;         // by a reset, as nothing else shows it
  bool lingering_ = false;     // all is sent, and the client may still be reading it
  bool input_ended_ = false;
  bool closed_ = false;
  bool working_ = false;
  Clock::time_point send_deadline_;
  Clock::time_point linger_deadline_;
  std::optional<Clock::time_point> request_deadline_, idle_deadline_;
};

}  // namespace tern::server
