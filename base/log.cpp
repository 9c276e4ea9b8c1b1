#include "base/log.h"

#include <cstdio>
#include <mutex>

namespace tern {
namespace {

struct Sink {
  std::mutex mutex;
  LogSink function;
};

// The one process-wide sink: a log line has no other way to reach the user from any depth.
Sink& sink() {
  static Sink instance;
  return instance;
}

}  // namespace

void set_log_sink(LogSink function) {
  const std::lock_guard lock(sink().mutex);
  sink().function = std::move(function);
}

void log(LogLevel level, std::string_view line) {
  const std::lock_guard lock(sink().mutex);
  if (sink().function) {
    sink().function(level, line);
  } else if (level >= LogLevel::warn) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  }
}

}  // namespace tern
