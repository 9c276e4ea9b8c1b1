#include "tests/support/http_client.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace tern::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kPatience = 60'000;  // ms: what a sanitizer watches takes many times as long
#else
constexpr int kPatience = 10'000;
#endif

}  // namespace

HttpClient::HttpClient(std::uint16_t port, const std::string& host, int receive_buffer) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return;
  descriptor_ = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int at_once = 1;
  setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
  if (receive_buffer > 0) setsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  if (descriptor_ >= 0 && connect(descriptor_, found->ai_addr, found->ai_addrlen) != 0) close();
  freeaddrinfo(found);
}

HttpClient::~HttpClient() { close(); }

void HttpClient::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void HttpClient::reset() {
  const linger now{1, 0};
  setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  close();
}

void HttpClient::end_sending() const { shutdown(descriptor_, SHUT_WR); }

bool HttpClient::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool HttpClient::more() {
  pollfd waiting{descriptor_, POLLIN, 0};
  if (descriptor_ < 0 || poll(&waiting, 1, kPatience) <= 0) {
    timed_out_ = true;
    return false;
  }
  std::array<char, 65536> block{};
  const ssize_t got = recv(descriptor_, block.data(), block.size(), 0);
  if (got <= 0) return false;
  buffer_.append(block.data(), static_cast<std::size_t>(got));
  return true;
}

bool HttpClient::ended() { return buffer_.empty() && !more() && !timed_out_; }

bool HttpClient::read_until(std::string_view text) {
  for (;;) {
    const std::size_t at = buffer_.find(text);
    if (at != std::string::npos) {
      buffer_.erase(0, at + text.size());
      return true;
    }
    if (!more()) return false;
  }
}

std::string HttpClient::line() {
  std::size_t end = 0;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!more()) return {};
  }
  std::string text = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return text;
}

bool HttpClient::take(std::size_t bytes, std::string& out) {
  while (buffer_.size() < bytes) {
    if (!more()) return false;
  }
  out += buffer_.substr(0, bytes);
  buffer_.erase(0, bytes);
  return true;
}

HttpReply HttpClient::get(const std::string& path) {
  send("GET " + path + " HTTP/1.1\r\nHost: test\r\n\r\n");
  return reply();
}

HttpReply HttpClient::reply(bool head) {
  HttpReply reply;
  const std::string status = line();
  if (status.size() < 12 || status.compare(0, 9, "HTTP/1.1 ") != 0) return reply;
  reply.status = std::stoi(status.substr(9, 3));
  for (std::string field = line(); !field.empty(); field = line()) {
    const std::size_t colon = field.find(':');
    std::string name = field.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    reply.headers[name] = field.substr(std::min(field.size(), colon + 2));
  }
  if (head || reply.status == 204 || reply.status == 100) {
    reply.whole = true;
  } else if (reply.headers.count("content-length") != 0) {
    reply.whole = take(std::stoul(reply.header("content-length")), reply.body);
  } else if (reply.header("transfer-encoding") == "chunked") {
    for (;;) {
      const std::string size = line();
      if (size.empty()) break;
      std::string end;
      const bool got = take(std::stoul(size, nullptr, 16), reply.body) && take(2, end) && end == "\r\n";
      if (!got || size == "0") {
        reply.whole = got;
        break;
      }
    }
  } else {
    while (more()) {
    }
    reply.body = std::exchange(buffer_, {});
    reply.whole = !timed_out_;
  }
  return reply;
}

std::uint16_t free_port() {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  (void)bind(file, reinterpret_cast<sockaddr*>(&address), size);
  (void)getsockname(file, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(file);
  return ntohs(address.sin_port);
}

std::string request_text(const std::string& method, const std::string& path, const std::string& body,
                         const std::string& headers) {
  return method + " " + path +
         " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n" + headers + "\r\n" + body;
}

HttpReply ask(std::uint16_t port, const std::string& method, const std::string& path, const std::string& body,
              const std::string& headers) {
  HttpClient client(port);
  if (!client.connected() || !client.send(request_text(method, path, body, headers))) return {};
  return client.reply();
}

}  // namespace tern::test
