// A line of JSON for each request, written by a thread of its own: nobody who answers waits for a disk.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"

namespace tern::server {

// What is told of one request: no key, no query, and nothing of what was asked or answered. Times in seconds.
struct AccessEntry {
  std::chrono::system_clock::time_point time;  // of its end
  std::string request_id;                      // "": it could not be read
  std::string client;                          // address and port
  std::string method, path;                    // "": they could not be read
  int status = 0;                              // 499: the client went away before there was one
  std::string model;                           // that it asked for, or would get; "": none
  std::int64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  bool generates = false;                     // a prompt of it came to the engine
  std::optional<double> queue_time;           // since its arrival, until its first step began
  std::optional<double> time_to_first_token;  // since its arrival
  double request_time = 0;                    // from its arrival to its end
  std::string finish_reason;  // "stop", "length", "tool_calls", "abort", "timeout", "error"; "": none was drawn
  std::string trace_id;       // of its traceparent; "": none
};

// One object on one line, without its end.
[[nodiscard]] std::string access_line(const AccessEntry& entry);

class AccessLog {
 public:
  // Lines are added to `file`, "" being standard output. A file that was moved away, as logrotate does, is made anew.
  // Errors (failed): it can't be written to.
  [[nodiscard]] static Result<std::shared_ptr<AccessLog>> open(const std::filesystem::path& file);
  ~AccessLog();  // writes what is left
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  // Any thread; never waits. Where the disk is behind by many lines, they are left out, and a line says how many were.
  void write(const AccessEntry& entry);

 private:
  explicit AccessLog(std::filesystem::path file) : file_(std::move(file)) {}
  void serve();
  void put(const std::string& lines);
  void reopen_if_moved();

  const std::filesystem::path file_;
  int descriptor_ = 1;
  bool failed_ = false;  // and said so
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::string> lines_;
  std::uint64_t left_out_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tern::server
