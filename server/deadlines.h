// Calls what is to happen at a time, unless it is taken back before.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace tern::server {

class Deadlines {
 public:
  using Clock = std::chrono::steady_clock;
  using Ticket = std::pair<Clock::time_point, std::uint64_t>;

  Deadlines();
  ~Deadlines();  // calls nothing more
  Deadlines(const Deadlines&) = delete;
  Deadlines& operator=(const Deadlines&) = delete;

  // `call` runs on a thread of this; it must not block and throws nothing. Any thread.
  Ticket add(Clock::time_point when, std::function<void()> call);
  void take_back(const Ticket& ticket);  // may be called where it has run, or runs

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<Ticket, std::function<void()>> calls_;
  std::uint64_t next_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tern::server
