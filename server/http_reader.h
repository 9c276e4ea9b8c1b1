// One request out of bytes as they come, in pieces of any size.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http.h"

namespace tern::server {

// Why a request cannot be read, as it is answered.
struct RequestFault {
  int status = 400;
  std::string message;
};

// "/v1/models?limit=3" or "http://host/v1/models": `path` percent-decoded and `query` as it came. False where it is
// neither, or where its escapes are broken or make a NUL.
[[nodiscard]] bool split_target(std::string_view target, std::string& path, std::string& query);

class RequestReader {
 public:
  struct Limits {
    std::size_t header_bytes = 0;
    std::size_t body_bytes = 0;
    std::shared_ptr<ByteBudget> bodies;  // of all requests together; null: no bound
  };
  explicit RequestReader(const Limits& limits);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Takes bytes that follow those used so far, and gives how many of them it used. The rest comes again with the next
  // call, with more behind it. Not to be called once done() or fault().
  std::size_t put(std::string_view bytes);

  [[nodiscard]] bool started() const;      // a byte of the request has come: empty lines before it do not count
  [[nodiscard]] bool header_done() const;  // the body begins
  [[nodiscard]] bool done() const;         // the whole request has come
  [[nodiscard]] const std::optional<RequestFault>& fault() const;

  [[nodiscard]] std::string_view path() const;  // "": its first line has not come, or names none

  // Known once the header is done.
  [[nodiscard]] bool keep_alive() const;
  [[nodiscard]] bool http_1_0() const;
  [[nodiscard]] bool expects_continue() const;  // the client waits for "100 Continue" before it sends the body

  [[nodiscard]] HttpRequest take();  // once, when done; without the peer

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace tern::server
