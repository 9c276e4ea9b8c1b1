#include "server/http.h"

#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <list>
#include <thread>

#include "base/log.h"
#include "base/strings.h"
#include "server/byte_budget.h"
#include "server/http_connection.h"

namespace tern::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;
using namespace std::chrono_literals;

constexpr int kBacklog = 4096;
constexpr int kAcceptTurn = 64;             // connections accepted before others have their turn
constexpr std::size_t kRefusing = 64;       // connections over the limit that are told so at once; more wait
constexpr auto kNoDescriptorPause = 100ms;  // until a connection may have ended

class Server final : public HttpServer {
 public:
  Server(HttpOptions options, HttpHandler handler, HttpErrorBody error_body, HttpFaultTold fault_told)
      : io_(1), work_(io_.get_executor()), sweep_timer_(io_), accept_timer_(io_) {
    host_.options = std::move(options);
    // One that is larger than all that there is could only be told in vain to come again.
    host_.options.max_body_bytes = std::min(host_.options.max_body_bytes, host_.options.max_bodies_bytes);
    host_.bodies = std::make_shared<ByteBudget>(host_.options.max_bodies_bytes);
    host_.handler = std::move(handler);
    host_.error_body = std::move(error_body);
    host_.fault_told = std::move(fault_told);
    host_.wakeups = std::make_shared<Wakeups>([this] { asio::post(io_, [this] { on_wakeups(); }); });
  }

  ~Server() override {  // NOLINT(bugprone-exception-escape): without memory for one more task it ends the program
    if (thread_.joinable()) {
      asio::post(io_, [this] { end(); });
      thread_.join();
    }
    host_.wakeups->close();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] Status open();
  void run() {
    thread_ = std::thread([this] { loop(); });
  }

  [[nodiscard]] std::uint16_t port() const override { return port_; }

  [[nodiscard]] std::size_t connections() const override {
    const std::lock_guard lock(host_.mutex);
    return host_.count;
  }

  [[nodiscard]] bool drain(std::chrono::milliseconds deadline) override {
    asio::post(io_, [this] { begin_drain(); });
    std::unique_lock lock(host_.mutex);
    return host_.changed.wait_for(lock, deadline, [this] { return drains_ && host_.count == 0; });
  }

 private:
  [[nodiscard]] ErrorCode open_at(const tcp::endpoint& endpoint);
  [[nodiscard]] Error open_error(const tcp::endpoint& endpoint, const ErrorCode& error) const;
  void loop();
  void end();
  void begin_drain();
  void on_wakeups();
  void wait_sweep();
  void wait_accept(tcp::acceptor& acceptor);
  // Accepts what waits, at most `turn` connections. False: there are no descriptors, or too many connections.
  bool accept(tcp::acceptor& acceptor, int turn);
  void accept_later(tcp::acceptor& acceptor);

  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::steady_timer sweep_timer_, accept_timer_;
  std::list<tcp::acceptor> acceptors_;
  std::uint16_t port_ = 0;
  bool said_no_descriptors_ = false;
  bool ended_ = false;
  bool drains_ = false;  // under the host's mutex
  mutable ConnectionHost host_;
  std::thread thread_;
};

Status Server::open() {
  const HttpOptions& options = host_.options;
  if (options.ssl_certfile.empty() != options.ssl_keyfile.empty()) {
    return usage_error("--ssl_certfile and --ssl_keyfile belong together", "give both or neither");
  }
  if (!options.ssl_certfile.empty()) {
    auto tls = TlsContext::load(options.ssl_certfile, options.ssl_keyfile);
    if (!tls.ok()) return tls.error();
    host_.tls = *tls;
  }
  std::string name = options.host;
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') name = name.substr(1, name.size() - 2);
  ErrorCode error;
  tcp::resolver resolver(io_);
  const auto found = resolver.resolve(name, std::to_string(options.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    return failed_error(cat("the host \"", name, "\" is not known: ", error.message()),
                        "give an address of this machine with --host");
  }
  // A name can have several addresses, as localhost does: some may be of a kind that this machine does not have.
  std::optional<Error> first;
  for (int attempt = 0; attempt < 8; ++attempt) {
    acceptors_.clear();
    first.reset();
    port_ = options.port;
    bool taken = false;
    for (const auto& entry : found) {
      tcp::endpoint endpoint = entry.endpoint();
      endpoint.port(port_);
      error = open_at(endpoint);
      if (error && !first) first = open_error(endpoint, error);
      taken = taken || error == asio::error::address_in_use;
    }
    if (!taken && !acceptors_.empty()) return Unit{};
    if (options.port != 0) break;  // only a port that was free at one address can be changed for another
  }
  return *first;
}

ErrorCode Server::open_at(const tcp::endpoint& endpoint) {
  ErrorCode error;
  tcp::acceptor acceptor(io_);
  if (acceptor.open(endpoint.protocol(), error)) return error;
  if (acceptor.set_option(asio::socket_base::reuse_address(true), error)) return error;
  if (endpoint.address().is_v6()) acceptor.set_option(asio::ip::v6_only(!endpoint.address().is_unspecified()), error);
  if (acceptor.bind(endpoint, error)) return error;
  if (acceptor.listen(kBacklog, error)) return error;
  if (acceptor.non_blocking(true, error)) return error;
  port_ = acceptor.local_endpoint().port();
  acceptors_.push_back(std::move(acceptor));
  return {};
}

Error Server::open_error(const tcp::endpoint& endpoint, const ErrorCode& error) const {
  const std::string why = error.message();
  if (error == asio::error::address_in_use) {
    return failed_error(cat("port ", endpoint.port(), " is taken: ", why), "choose another with --port");
  }
  if (error == asio::error::access_denied) {
    return failed_error(cat("port ", endpoint.port(), " may not be used: ", why), "choose one above 1023 with --port");
  }
  return failed_error(cat("\"", host_.options.host, "\" cannot be listened at: ", why),
                      "give an address of this machine with --host, or 0.0.0.0 for all of them");
}

void Server::loop() {
  for (auto& acceptor : acceptors_) wait_accept(acceptor);
  wait_sweep();
  for (;;) {
    try {
      io_.run();
      return;
    } catch (const std::exception& error) {
      log_warn(cat("the server's thread goes on after: ", error.what()));
    }
  }
}

void Server::end() {
  ended_ = true;
  acceptors_.clear();
  sweep_timer_.cancel();
  accept_timer_.cancel();
  work_.reset();
  host_.draining = true;
  const std::vector<std::shared_ptr<Connection>> all(host_.connections.begin(), host_.connections.end());
  for (const auto& connection : all) connection->close();
}

void Server::begin_drain() {
  // Those who have connected have come, too.
  for (auto& acceptor : acceptors_) accept(acceptor, kBacklog);
  host_.draining = true;
  acceptors_.clear();
  const std::vector<std::shared_ptr<Connection>> all(host_.connections.begin(), host_.connections.end());
  for (const auto& connection : all) connection->drain();
  const std::lock_guard lock(host_.mutex);
  drains_ = true;
  host_.changed.notify_all();
}

void Server::on_wakeups() {
  for (const auto& answer : host_.wakeups->take()) {
    const bool overflow = answer->notified();
    Connection* connection = answer->connection;
    if (connection == nullptr) continue;
    overflow ? connection->close() : connection->work();
  }
}

void Server::wait_sweep() {
  const HttpOptions& options = host_.options;
  const auto least = std::min({options.receive_timeout, options.idle_timeout, options.send_timeout});
  sweep_timer_.expires_after(std::clamp(least / 8, std::chrono::milliseconds(5), std::chrono::milliseconds(250)));
  sweep_timer_.async_wait([this](const ErrorCode& error) {
    if (error || ended_) return;  // a timer that was due already is not cancelled
    const auto now = Connection::Clock::now();
    const std::vector<std::shared_ptr<Connection>> all(host_.connections.begin(), host_.connections.end());
    for (const auto& connection : all) connection->sweep(now);
    wait_sweep();
  });
}

void Server::wait_accept(tcp::acceptor& acceptor) {
  acceptor.async_wait(tcp::acceptor::wait_read, [this, &acceptor](const ErrorCode& error) {
    if (error || host_.draining) return;  // the acceptor is closed, or gone
    accept(acceptor, kAcceptTurn) ? wait_accept(acceptor) : accept_later(acceptor);
  });
}

void Server::accept_later(tcp::acceptor& acceptor) {
  accept_timer_.expires_after(kNoDescriptorPause);
  accept_timer_.async_wait([this, &acceptor](const ErrorCode& error) {
    if (!error && !host_.draining) wait_accept(acceptor);
  });
}

bool Server::accept(tcp::acceptor& acceptor, int turn) {
  for (int i = 0; i < turn; ++i) {
    const std::size_t open = host_.connections.size();
    if (open >= host_.options.max_connections + kRefusing) return false;
    ErrorCode error;
    tcp::socket socket(io_);
    acceptor.accept(socket, error);
    if (error == asio::error::would_block) return true;
    if (error == asio::error::no_descriptors || error == boost::system::errc::too_many_files_open_in_system ||
        error == asio::error::no_memory || error == asio::error::no_buffer_space) {
      if (!std::exchange(said_no_descriptors_, true)) {
        log_warn(cat("no further connection can be taken for now (", open, " are open): ", error.message(),
                     "; `ulimit -n` tells the limit"));
      }
      return false;
    }
    if (error) continue;  // the client was away before we looked
    {
      const std::lock_guard lock(host_.mutex);
      ++host_.count;
    }
    const auto made = std::make_shared<Connection>(host_, std::move(socket), open >= host_.options.max_connections);
    host_.connections.insert(made);
    made->start();
  }
  return true;
}

// A connection is a descriptor, and the soft limit is often 1,024.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const HttpOptions& options, HttpHandler handler,
                                                       HttpErrorBody error_body, HttpFaultTold fault_told) {
  raise_descriptor_limit();
  auto server = std::make_unique<Server>(options, std::move(handler), std::move(error_body), std::move(fault_told));
  if (auto opened = server->open(); !opened.ok()) return opened.error();
  server->run();
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace tern::server
