// A client of HTTP/1.1 that does one request a connection: enough to see what a server answers.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace tern::test {

struct HttpReply {
  int status = 0;                              // 0: no answer came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // without chunks
};

// A port of loopback that nobody listens on at this moment.
inline std::uint16_t free_port() {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  (void)bind(file, reinterpret_cast<sockaddr*>(&address), size);
  (void)getsockname(file, reinterpret_cast<sockaddr*>(&address), &size);
  close(file);
  return ntohs(address.sin_port);
}

// A connection to loopback; gone with the object.
class Connection {
 public:
  explicit Connection(std::uint16_t port) : file_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    open_ = connect(file_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    const timeval limit{60, 0};
    (void)setsockopt(file_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { close(file_); }

  [[nodiscard]] bool open() const { return open_; }
  void write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = send(file_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  // What has come; "" at the end.
  [[nodiscard]] std::string read() const {
    std::array<char, 4096> bytes{};
    const ssize_t got = recv(file_, bytes.data(), bytes.size(), 0);
    return got > 0 ? std::string(bytes.data(), static_cast<std::size_t>(got)) : std::string();
  }
  // Until `text` has come, or the end; gives all that came.
  [[nodiscard]] std::string read_until(std::string_view text) const {
    std::string all;
    while (all.find(text) == std::string::npos) {
      const std::string more = read();
      if (more.empty()) break;
      all += more;
    }
    return all;
  }

 private:
  int file_;
  bool open_ = false;
};

inline std::string without_chunks(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t line = text.find("\r\n");
    if (line == std::string_view::npos) break;
    const auto size = static_cast<std::size_t>(std::strtoull(std::string(text.substr(0, line)).c_str(), nullptr, 16));
    if (size == 0) break;
    out += text.substr(line + 2, size);
    text.remove_prefix(std::min(text.size(), line + 2 + size + 2));
  }
  return out;
}

inline HttpReply parse_reply(const std::string& text) {
  HttpReply reply;
  const std::size_t head = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.1 ") || head == std::string::npos) return reply;
  reply.status = std::atoi(text.c_str() + std::strlen("HTTP/1.1 "));
  for (std::size_t at = text.find("\r\n") + 2; at < head;) {
    const std::size_t end = text.find("\r\n", at);
    const std::size_t colon = text.find(": ", at);
    std::string name = text.substr(at, colon - at);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    reply.headers[name] = text.substr(colon + 2, end - colon - 2);
    at = end + 2;
  }
  const std::string_view body = std::string_view(text).substr(head + 4);
  const auto coding = reply.headers.find("transfer-encoding");
  reply.body = coding != reply.headers.end() && coding->second == "chunked" ? without_chunks(body) : std::string(body);
  return reply;
}

inline std::string request_text(const std::string& method, const std::string& path, const std::string& body,
                                const std::string& headers = "") {
  return method + " " + path +
         " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n" + headers + "\r\n" + body;
}

// `headers` are lines that end with "\r\n".
inline HttpReply ask(std::uint16_t port, const std::string& method, const std::string& path,
                     const std::string& body = "", const std::string& headers = "") {
  const Connection connection(port);
  if (!connection.open()) return {};
  connection.write(request_text(method, path, body, headers));
  std::string all;
  for (std::string more = connection.read(); !more.empty(); more = connection.read()) all += more;
  return parse_reply(all);
}

}  // namespace tern::test
