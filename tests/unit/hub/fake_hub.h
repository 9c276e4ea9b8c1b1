// A hub on loopback with the faults that real ones show.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tern::hub {

struct FakeRequest {
  std::string target;                          // path and query
  std::map<std::string, std::string> headers;  // lower-case names
  int number = 0;                              // of requests to this target, from 1
};

struct FakeReply {
  int status = 200;
  std::string body;
  std::vector<std::string> headers;
  std::size_t cut_after = ~std::size_t{0};  // bytes of the body, then the connection closes
};

class FakeHub {
 public:
  using Handler = std::function<FakeReply(const FakeRequest&)>;

  explicit FakeHub(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 64) != 0)
      std::abort();
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    accepter_ = std::thread([this] { accept_all(); });
  }
  FakeHub(const FakeHub&) = delete;
  FakeHub& operator=(const FakeHub&) = delete;
  ~FakeHub() {
    ::shutdown(listener_, SHUT_RDWR);
    accepter_.join();
    for (std::thread& worker : workers_) worker.join();
    ::close(listener_);
  }

  [[nodiscard]] const std::string& url() const { return url_; }
  [[nodiscard]] std::vector<FakeRequest> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void accept_all() {
    for (;;) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      workers_.emplace_back([this, fd] {
        answer(fd);
        ::close(fd);
      });
    }
  }

  void answer(int fd) {
    std::string text;
    char buffer[4096];
    while (text.find("\r\n\r\n") == std::string::npos) {
      const ssize_t count = ::recv(fd, buffer, sizeof(buffer), 0);
      if (count <= 0) return;
      text.append(buffer, static_cast<std::size_t>(count));
    }
    FakeRequest request;
    request.target = text.substr(4, text.find(" HTTP/") - 4);
    std::size_t at = text.find("\r\n") + 2;
    for (std::size_t end = text.find("\r\n", at); end > at; at = end + 2, end = text.find("\r\n", at)) {
      std::string name = text.substr(at, text.find(':', at) - at);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      request.headers[name] = text.substr(at + name.size() + 2, end - at - name.size() - 2);
    }
    {
      const std::lock_guard lock(mutex_);
      request.number = ++counts_[request.target];
      requests_.push_back(request);
    }
    send_reply(fd, handler_(request));
  }

  static void send_reply(int fd, const FakeReply& reply) {
    std::string out = "HTTP/1.1 " + std::to_string(reply.status) +
                      " x\r\nConnection: close\r\nContent-Length: " + std::to_string(reply.body.size()) + "\r\n";
    for (const std::string& header : reply.headers) out += header + "\r\n";
    out += "\r\n" + reply.body.substr(0, reply.cut_after);
    for (std::size_t sent = 0; sent < out.size();) {
      const ssize_t count = ::send(fd, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += static_cast<std::size_t>(count);
    }
    ::shutdown(fd, SHUT_WR);
    char rest = 0;
    while (::recv(fd, &rest, 1, 0) > 0) {
    }
  }

  Handler handler_;
  int listener_ = -1;
  std::string url_;
  std::mutex mutex_;
  std::map<std::string, int> counts_;
  std::vector<FakeRequest> requests_;
  std::vector<std::thread> workers_;
  std::thread accepter_;
};

}  // namespace tern::hub
