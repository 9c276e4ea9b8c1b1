// Who may ask a host now: a few at a time, so that a slow one doesn't hold all the threads of a queue.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "server/work_queue.h"

namespace tern::server {

// Any thread.
class HostTurns {
 public:
  explicit HostTurns(int most) : most_(most) {}

  // True: the caller has a turn now. False: `work` has one when it runs, after those who came before.
  [[nodiscard]] bool take(const std::string& host, std::function<void()> work) {
    const std::scoped_lock lock(mutex_);
    Host& asked = hosts_[host];
    if (asked.turns < most_) return ++asked.turns, true;
    asked.waiting.push_back(std::move(work));
    return false;
  }

  // The turn goes to who waits longest, whose work the queue runs.
  void give(const std::string& host, WorkQueue& queue) noexcept {
    while (true) {
      std::function<void()> next;
      {
        const std::scoped_lock lock(mutex_);
        const auto found = hosts_.find(host);
        if (found->second.waiting.empty()) {
          if (--found->second.turns == 0) hosts_.erase(found);
          return;
        }
        next = std::move(found->second.waiting.front());
        found->second.waiting.pop_front();
      }
      try {
        return queue.push(std::move(next));
      } catch (...) {  // no memory: that one is let go of, and the turn is another's
      }
    }
  }

 private:
  struct Host {
    int turns = 0;
    std::deque<std::function<void()>> waiting;
  };
  const int most_;
  std::mutex mutex_;
  std::map<std::string, Host> hosts_;
};

}  // namespace tern::server
