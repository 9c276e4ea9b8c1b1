#include "server/request_record.h"

#include <algorithm>
#include <utility>

#include "server/ids.h"
#include "server/passing_exchange.h"

namespace tern::server {
namespace {

constexpr int kClientClosedRequest = 499;  // nginx's number

// What a client may choose: a word that can stand in a header and a log.
bool is_request_id(std::string_view id) {
  constexpr std::size_t kMost = 128;
  return !id.empty() && id.size() <= kMost &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

bool went_wrong(std::string_view reason) { return reason != "stop" && reason != "length" && reason != "tool_calls"; }

class RecordedExchange final : public PassingExchange {
 public:
  RecordedExchange(std::shared_ptr<HttpExchange> inner, std::shared_ptr<RequestRecord> record)
      : PassingExchange(std::move(inner)), record_(std::move(record)) {
    PassingExchange::on_gone([record = record_] { record->gone(); });
  }
  ~RecordedExchange() override { record_->over(); }
  RecordedExchange(const RecordedExchange&) = delete;
  RecordedExchange& operator=(const RecordedExchange&) = delete;

  void respond(int status, std::string_view content_type, std::string body, Headers headers) override {
    record_->over(status);
    PassingExchange::respond(status, content_type, std::move(body), with_own(std::move(headers)));
  }
  void begin(int status, std::string_view content_type, Headers headers) override {
    record_->begun(status);
    PassingExchange::begin(status, content_type, with_own(std::move(headers)));
  }
  void finish() override {
    record_->over();
    PassingExchange::finish();
  }
  void abandon() override {
    record_->finished("error");
    record_->over();
    PassingExchange::abandon();
  }
  void on_gone(std::function<void()> gone) override {
    PassingExchange::on_gone([record = record_, gone = std::move(gone)] {
      record->gone();
      if (gone) gone();
    });
  }

 private:
  [[nodiscard]] Headers with_own(Headers headers) const {
    headers.insert(headers.end(), record_->given_back().begin(), record_->given_back().end());
    return headers;
  }

  const std::shared_ptr<RequestRecord> record_;
};

}  // namespace

Error out_of_time() {
  return failed_error("the request took longer than --request_timeout allows", "ask for less, or come again later");
}

RequestRecord::RequestRecord(const HttpRequest& request, std::shared_ptr<AccessLog> log) : log_(std::move(log)) {
  const std::string_view id = request.header("x-request-id");
  entry_.request_id = is_request_id(id) ? std::string(id) : random_id("req_");
  given_back_.emplace_back("X-Request-Id", entry_.request_id);
  if (auto trace = read_trace_context(request.headers)) {
    entry_.trace_id = trace->trace_id();
    given_back_.emplace_back("traceparent", std::move(trace->traceparent));
    if (!trace->tracestate.empty()) given_back_.emplace_back("tracestate", std::move(trace->tracestate));
  }
  entry_.client = request.peer;
  entry_.method = request.method;
  entry_.path = request.path;
}

RequestRecord::~RequestRecord() = default;

void RequestRecord::asks(std::string_view model, std::int64_t prompt_tokens) {
  const std::scoped_lock lock(mutex_);
  entry_.generates = true;
  entry_.model = model;
  entry_.prompt_tokens += prompt_tokens;
}

void RequestRecord::found(std::int64_t cached_tokens) {
  const std::scoped_lock lock(mutex_);
  entry_.cached_tokens += cached_tokens;
}

void RequestRecord::began(Clock::time_point first_step) {
  const std::scoped_lock lock(mutex_);
  const double waited = std::chrono::duration<double>(first_step - arrival_).count();
  entry_.queue_time = std::min(entry_.queue_time.value_or(waited), waited);
}

void RequestRecord::count_token() {
  const std::scoped_lock lock(mutex_);
  if (entry_.completion_tokens++ > 0) return;
  entry_.time_to_first_token = std::chrono::duration<double>(Clock::now() - arrival_).count();
}

void RequestRecord::finished(std::string_view reason) {
  const std::scoped_lock lock(mutex_);
  if (entry_.finish_reason.empty() || (went_wrong(reason) && !went_wrong(entry_.finish_reason))) {
    entry_.finish_reason = reason;
  }
}

void RequestRecord::limit(Deadlines& deadlines, std::chrono::milliseconds time, std::function<void()> otherwise) {
  const std::scoped_lock lock(mutex_);
  if (over_) return;
  deadlines_ = &deadlines;
  otherwise_ = std::move(otherwise);
  ticket_ = deadlines.add(arrival_ + time, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->expire();
  });
}

void RequestRecord::on_expiry(std::function<void()> call) {
  std::unique_lock lock(mutex_);
  if (!expired_) {
    if (!over_ && deadlines_ != nullptr) on_expiry_.push_back(std::move(call));
    return;
  }
  lock.unlock();
  call();
}

void RequestRecord::expire() {
  std::vector<std::function<void()>> calls;
  std::function<void()> otherwise;
  {
    const std::scoped_lock lock(mutex_);
    if (over_) return;
    expired_ = true;
    calls.swap(on_expiry_);
    otherwise.swap(otherwise_);
    if (entry_.finish_reason.empty()) entry_.finish_reason = "timeout";
  }
  for (const auto& call : calls) call();
  if (calls.empty() && otherwise) otherwise();
}

void RequestRecord::begun(int status) {
  const std::scoped_lock lock(mutex_);
  entry_.status = status;
}

void RequestRecord::over(std::optional<int> status) {
  std::unique_lock lock(mutex_);
  if (over_) return;
  if (status) entry_.status = *status;
  if (entry_.status == 0) entry_.status = 500;  // everybody let go of it
  end(std::move(lock));
}

void RequestRecord::gone() {
  std::unique_lock lock(mutex_);
  if (over_) return;
  if (entry_.status == 0) entry_.status = kClientClosedRequest;
  if (entry_.generates) entry_.finish_reason = "abort";
  end(std::move(lock));
}

void RequestRecord::end(std::unique_lock<std::mutex> lock) {
  over_ = true;
  AccessEntry entry = std::move(entry_);
  entry.time = std::chrono::system_clock::now();
  entry.request_time = std::chrono::duration<double>(Clock::now() - arrival_).count();
  const auto calls = std::exchange(on_expiry_, {});  // they may hold what holds the exchange: they end after the lock
  const auto otherwise = std::exchange(otherwise_, {});
  lock.unlock();
  if (deadlines_ != nullptr) deadlines_->take_back(ticket_);
  if (log_ != nullptr) log_->write(entry);
}

std::shared_ptr<HttpExchange> recorded(std::shared_ptr<HttpExchange> exchange, std::shared_ptr<RequestRecord> record) {
  return std::make_shared<RecordedExchange>(std::move(exchange), std::move(record));
}

}  // namespace tern::server
