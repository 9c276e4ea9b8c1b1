// Vendor libraries crash, hang and lie: what asks them something without a run runs in a child process with a deadline.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tern::accel {

// Gives bytes to the parent. What it gave before a crash arrives.
using Answer = std::function<void(std::string_view bytes)>;
using ChildTask = std::function<void(const Answer& answer)>;

struct ChildResult {
  std::string bytes;
  bool started = false;
  std::string trouble;  // "" where it ended by itself; else "its driver did not answer within 10 s", and so on
};

// Runs each task in a forked child of its own, side by side. A child that is still there after the deadline is killed.
[[nodiscard]] std::vector<ChildResult> run_in_children(const std::vector<ChildTask>& tasks,
                                                       std::chrono::milliseconds deadline);

}  // namespace tern::accel
