// What becomes known of a request while it is answered: for the access log, and for its time limit. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/access_log.h"
#include "server/deadlines.h"
#include "server/http.h"
#include "server/trace_context.h"

namespace tern::server {

// Why a request that took too long ends, with 504.
[[nodiscard]] Error out_of_time();

class RequestRecord : public std::enable_shared_from_this<RequestRecord> {
 public:
  using Clock = std::chrono::steady_clock;

  // Begins as the request comes. `log` null: nothing is written.
  RequestRecord(const HttpRequest& request, std::shared_ptr<AccessLog> log);
  ~RequestRecord();
  RequestRecord(const RequestRecord&) = delete;
  RequestRecord& operator=(const RequestRecord&) = delete;

  // X-Request-Id, the client's own or one that was made, and traceparent and tracestate, where they came and are valid.
  [[nodiscard]] const Headers& given_back() const { return given_back_; }

  // Told by the service, of each of the request's prompts.
  void asks(std::string_view model, std::int64_t prompt_tokens);
  void found(std::int64_t cached_tokens);  // of a prompt, in the prefix cache
  void began(Clock::time_point first_step);  // of a prompt: the earliest counts
  void count_token();
  void finished(std::string_view reason);  // of one answer; what went wrong outweighs what went well

  // The time limit: at its end `call` of those that compute for the request, else `otherwise`. At once where it's over.
  void limit(Deadlines& deadlines, std::chrono::milliseconds time, std::function<void()> otherwise);
  void on_expiry(std::function<void()> call);

  // Told by its exchange. The first end counts, and writes the line.
  void begun(int status);
  void over(std::optional<int> status = {});  // none: the one that was begun with
  void gone();                                // its client went away

 private:
  void end(std::unique_lock<std::mutex> lock);
  void expire();

  const Clock::time_point arrival_ = Clock::now();
  const std::shared_ptr<AccessLog> log_;
  Headers given_back_;
  std::mutex mutex_;
  AccessEntry entry_;
  bool over_ = false;
  Deadlines* deadlines_ = nullptr;  // outlives the request's answer
  Deadlines::Ticket ticket_;
  bool expired_ = false;
  std::function<void()> otherwise_;
  std::vector<std::function<void()>> on_expiry_;
};

// The exchange of a request that has a record: tells it how the answer goes, and adds the headers that go back.
[[nodiscard]] std::shared_ptr<HttpExchange> recorded(std::shared_ptr<HttpExchange> exchange,
                                                     std::shared_ptr<RequestRecord> record);

}  // namespace tern::server
