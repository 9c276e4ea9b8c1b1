// The processes of runs: started in a session of their own, so that Ctrl-C in the server's terminal isn't theirs, and
// so that they go on when the server ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace tern::server {

// A process, told apart from a later one that gets the same number.
struct ProcessMark {
  std::int64_t pid = 0;    // 0: none
  std::uint64_t born = 0;  // clock ticks after the machine's start
};

// `words`[0] is the program's file. What it prints is appended to `output`; it reads nothing. Errors: failed.
[[nodiscard]] Result<ProcessMark> start_process(const std::vector<std::string>& words,
                                                const std::filesystem::path& output);

// Whether it runs. One that has ended and whose status nobody took is not alive.
[[nodiscard]] bool is_alive(const ProcessMark& mark);

// The exit status of a child of this process that has ended, 128 + signal where one ended it; takes it. None: it runs,
// or it's no child.
[[nodiscard]] std::optional<int> take_status(const ProcessMark& mark);

// The process that holds a lock on the file (flock), seen without touching it, as a lock that is tried for could keep a
// run from having it. 0: none.
[[nodiscard]] std::int64_t lock_holder(const std::filesystem::path& file);

}  // namespace tern::server
