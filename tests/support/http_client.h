// A client that sends what bytes it is told and reads answers as HTTP/1.1 writes them; no other client breaks the rules
// as a test must.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tern::test {

struct HttpReply {
  int status = 0;                              // 0: the connection ended, or nothing came for ten seconds
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  bool whole = false;  // the body came to its end

  [[nodiscard]] std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

class HttpClient {
 public:
  // `receive_buffer`: of the kernel, in bytes; 0: as it is.
  explicit HttpClient(std::uint16_t port, const std::string& host = "127.0.0.1", int receive_buffer = 0);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  [[nodiscard]] bool connected() const { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  bool send(std::string_view bytes) const;  // false: the server takes no more
  [[nodiscard]] HttpReply reply(bool head = false);
  [[nodiscard]] HttpReply get(const std::string& path);
  [[nodiscard]] std::string line();                      // up to a line end, without it
  [[nodiscard]] bool ended();                            // nothing is left to read but the connection's end
  [[nodiscard]] bool read_until(std::string_view text);  // drops all up to and with it
  void end_sending() const;
  void close();
  void reset();  // closes by a reset

 private:
  bool more();
  [[nodiscard]] bool take(std::size_t bytes, std::string& out);
  int descriptor_ = -1;
  bool timed_out_ = false;
  std::string buffer_;
};

// A port of loopback that nobody listens on at this moment.
[[nodiscard]] std::uint16_t free_port();

// A request that ends its connection; `headers` are lines that end with "\r\n".
[[nodiscard]] std::string request_text(const std::string& method, const std::string& path, const std::string& body,
                                       const std::string& headers = "");
// Its answer, over a connection of its own.
[[nodiscard]] HttpReply ask(std::uint16_t port, const std::string& method, const std::string& path,
                            const std::string& body = "", const std::string& headers = "");

}  // namespace tern::test
