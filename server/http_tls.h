// TLS between the socket's bytes and HTTP's, by OpenSSL over memory: who moves the bytes does not matter to it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tern::server {

// A certificate and its key, for all connections of a server: TLS 1.2 and above, HTTP/1.1 by ALPN.
class TlsContext {
 public:
  [[nodiscard]] static Result<std::shared_ptr<TlsContext>> load(const std::filesystem::path& certificate,
                                                                const std::filesystem::path& key);
  TlsContext();
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

 private:
  friend class TlsSession;
  struct State;
  std::unique_ptr<State> state_;
};

// The server's end of one connection.
class TlsSession {
 public:
  explicit TlsSession(const TlsContext& context);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // Takes what came from the socket, appends what it says to `plain`, and what must be answered to `wire`. False: it is
  // no TLS, or broken, and the connection can only be closed.
  [[nodiscard]] bool receive(std::string_view came, std::string& plain, std::string& wire);
  [[nodiscard]] bool send(std::string_view plain, std::string& wire);
  void finish(std::string& wire);  // says that nothing more will be sent

  [[nodiscard]] bool established() const;
  [[nodiscard]] bool finished() const { return finished_; }  // the client said that it sends nothing more

 private:
  void take_wire(std::string& wire);
  struct State;
  std::unique_ptr<State> state_;
  bool finished_ = false;
};

}  // namespace tern::server
