// HTTP/1.1 behind a plain interface: requests come in whole, answers go out whole or as a stream of chunks. The library
// that speaks it (Boost's Beast and Asio) is known to http.cpp, http_connection and http_reader.cpp alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tern::server {

class ByteBudget;
class ByteShare;
class RequestRecord;
using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  // "GET", "POST"
  std::string path;    // decoded, without the query: "/v1/models"
  std::string query;   // as it came, without "?"
  Headers headers;     // names in lower case, in their order
  std::string body;
  std::shared_ptr<ByteShare> share;       // of HttpOptions::max_bodies_bytes, for as long as the body is here
  std::string peer;                       // address of the client: "127.0.0.1:50812"
  std::shared_ptr<RequestRecord> record;  // what the access log tells of it; null: nothing is kept

  [[nodiscard]] std::string_view header(std::string_view name) const;  // `name` in lower case; "": none
};

// The answer to one request. Any thread may call it, and nothing blocks: what is sent is queued. Once the client is
// gone, or the answer is complete, further calls do nothing.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  HttpExchange() = default;
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  // The whole answer. `headers` come beside Content-Length, Connection and Date.
  virtual void respond(int status, std::string_view content_type, std::string body, Headers headers = {}) = 0;
  // An answer in chunks: begin, any number of sends, finish. A client of HTTP/1.0 gets it without chunks, ended by the
  // connection's end.
  virtual void begin(int status, std::string_view content_type, Headers headers = {}) = 0;
  virtual void send(std::string chunk) = 0;
  virtual void finish() = 0;
  // Ends the connection in the middle of an answer that can't be completed: the client sees that it broke off.
  virtual void abandon() = 0;
  // Called once, on a thread of the server, if the client goes away, or reads so slowly that the queue is over its
  // limit, before the answer is complete. At once where that has happened already.
  virtual void on_gone(std::function<void()> gone) = 0;
};

// Called on a thread of the server as soon as a request is complete; it must not block. What it throws becomes a 500.
using HttpHandler = std::function<void(HttpRequest&& request, std::shared_ptr<HttpExchange> exchange)>;

// How a request that never reaches the handler is answered: too large, malformed, too slow. `path` "": it isn't known.
// Gives body and content type.
using HttpErrorBody =
    std::function<std::pair<std::string, std::string>(int status, std::string_view message, std::string_view path)>;

// Told of such a request, beside: its status, and the client's address.
using HttpFaultTold = std::function<void(int status, std::string_view peer)>;

struct HttpOptions {
  std::string host = "0.0.0.0";
  std::uint16_t port = 8000;           // 0: any free one
  std::filesystem::path ssl_certfile;  // PEM; both or neither
  std::filesystem::path ssl_keyfile;
  std::size_t max_body_bytes = 64U << 20;
  std::size_t max_bodies_bytes = 1U << 30;  // of all that are being received or read: more are told to come again
  std::size_t max_header_bytes = 64U << 10;
  std::size_t max_queued_bytes = 16U << 20;  // of an answer that its client does not read
  std::size_t max_connections = 10000;
  std::chrono::milliseconds receive_timeout{30'000};  // from a request's first byte to its last
  std::chrono::milliseconds idle_timeout{75'000};     // between two requests of one connection
  std::chrono::milliseconds send_timeout{60'000};     // without a byte taken by the client
};

class HttpServer {
 public:
  // Listens, and answers on a thread of its own. Errors: usage (a certificate that cannot be read), failed (the port is
  // taken, the address is not this machine's).
  [[nodiscard]] static Result<std::unique_ptr<HttpServer>> listen(const HttpOptions& options, HttpHandler handler,
                                                                  HttpErrorBody error_body,
                                                                  HttpFaultTold fault_told = {});
  virtual ~HttpServer() = default;  // ends all connections
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] virtual std::uint16_t port() const = 0;
  // Takes no further connection, answers those requests that have come, and closes. True once no connection is left,
  // false at the deadline.
  [[nodiscard]] virtual bool drain(std::chrono::milliseconds deadline) = 0;
  [[nodiscard]] virtual std::size_t connections() const = 0;

 protected:
  HttpServer() = default;
};

}  // namespace tern::server
