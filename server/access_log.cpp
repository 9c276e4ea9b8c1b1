#include "server/access_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>

#include "base/log.h"
#include "base/strings.h"
#include "io/json.h"

namespace tern::server {
namespace {

constexpr std::size_t kMostWaiting = 65536;  // lines
constexpr std::size_t kMostShown = 1024;     // characters of what a client chose

int open_file(const std::filesystem::path& file) {
  constexpr mode_t kMode = 0640;
  return ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, kMode);
}

// RFC 3339 with milliseconds: "2026-01-31T12:00:00.123Z".
std::string utc(std::chrono::system_clock::time_point time) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const auto seconds = static_cast<std::time_t>(milliseconds / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::string out(32, '\0');
  out.resize(std::strftime(out.data(), out.size(), "%Y-%m-%dT%H:%M:%S", &parts));
  const std::string fraction = std::to_string(1000 + milliseconds % 1000);
  return cat(out, ".", fraction.substr(1), "Z");
}

io::Json text(const std::string& value) {
  return value.empty() ? io::Json() : io::Json(std::string_view(value).substr(0, kMostShown));
}
io::Json seconds(std::optional<double> value) { return value ? io::Json(std::round(*value * 1e6) / 1e6) : io::Json(); }

}  // namespace

std::string access_line(const AccessEntry& entry) {
  io::Json out = io::Json::object();
  out["time"] = utc(entry.time);
  out["request_id"] = text(entry.request_id);
  out["client"] = text(entry.client);
  out["method"] = text(entry.method);
  out["path"] = text(entry.path);
  out["status"] = entry.status;
  out["model"] = text(entry.model);
  const auto count = [&](std::int64_t tokens) { return entry.generates ? io::Json(tokens) : io::Json(); };
  out["prompt_tokens"] = count(entry.prompt_tokens);
  out["cached_tokens"] = count(entry.cached_tokens);
  out["completion_tokens"] = count(entry.completion_tokens);
  out["queue_time"] = seconds(entry.queue_time);
  out["time_to_first_token"] = seconds(entry.time_to_first_token);
  out["request_time"] = seconds(entry.request_time);
  out["finish_reason"] = text(entry.finish_reason);
  out["trace_id"] = text(entry.trace_id);
  return out.dump();
}

Result<std::shared_ptr<AccessLog>> AccessLog::open(const std::filesystem::path& file) {
  std::shared_ptr<AccessLog> log(new AccessLog(file));
  if (!file.empty()) {
    log->descriptor_ = open_file(file);
    if (log->descriptor_ < 0) {
      return failed_error(cat("the access log ", file.string(), " can't be written to: ", std::strerror(errno)),
                          "give --access_log a file in a folder that is there");
    }
  }
  log->thread_ = std::thread([self = log.get()] { self->serve(); });
  return log;
}

AccessLog::~AccessLog() {
  if (thread_.joinable()) {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  if (!file_.empty() && descriptor_ >= 0) ::close(descriptor_);
}

void AccessLog::write(const AccessEntry& entry) {
  std::string line = access_line(entry) + "\n";
  const std::scoped_lock lock(mutex_);
  if (lines_.size() >= kMostWaiting) {
    ++left_out_;
    return;
  }
  lines_.push_back(std::move(line));
  wake_.notify_one();
}

void AccessLog::serve() {
  for (;;) {
    std::vector<std::string> lines;
    std::uint64_t left_out = 0;
    bool stop = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || !lines_.empty(); });
      lines.swap(lines_);
      left_out = std::exchange(left_out_, 0);
      stop = stop_;
    }
    if (lines.empty() && stop) return;
    std::string text;
    for (const std::string& line : lines) text += line;
    if (left_out > 0) text += cat(R"({"left_out":)", left_out, "}\n");
    put(text);
  }
}

void AccessLog::reopen_if_moved() {
  struct stat there {};
  struct stat here {};
  if (::stat(file_.c_str(), &there) == 0 && ::fstat(descriptor_, &here) == 0 && there.st_ino == here.st_ino &&
      there.st_dev == here.st_dev) {
    return;
  }
  if (const int made = open_file(file_); made >= 0) {
    ::close(descriptor_);
    descriptor_ = made;
  }
}

void AccessLog::put(const std::string& lines) {
  if (!file_.empty()) reopen_if_moved();
  for (std::size_t at = 0; at < lines.size();) {
    const ssize_t written = ::write(descriptor_, lines.data() + at, lines.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      if (!std::exchange(failed_, true)) log_warn(cat("the access log can't be written to: ", std::strerror(errno)));
      return;
    }
    at += static_cast<std::size_t>(written);
    failed_ = false;
  }
}

}  // namespace tern::server
