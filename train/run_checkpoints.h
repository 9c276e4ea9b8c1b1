// The checkpoints of one run among those in its directory. Another run's are not its own: it neither reports nor
// deletes them, and refuses to begin where one lies in its way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tern::train {

// 128 random bits as 32 hex digits.
[[nodiscard]] std::string new_run_id();

class RunCheckpoints {
 public:
  RunCheckpoints(std::filesystem::path directory, std::string run_id)
      : directory_(std::move(directory)), run_id_(std::move(run_id)) {}

  // checkpoint-<step>, whether it exists or not.
  [[nodiscard]] std::filesystem::path at(std::int64_t step) const;
  // The run's own up to `step`, by rising step. Later ones are of a past that it went back from.
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::filesystem::path>> own(std::int64_t step) const;
  // Error (usage): another run's checkpoint of a step in (first, last], where this run may save.
  [[nodiscard]] Status refuse_others(std::int64_t first, std::int64_t last) const;
  // Removes the oldest of its own up to `step` until `limit` are left (0: no limit); never the one of `step`, nor
  // `best`. Killed at any time it leaves each whole, or under a name that `checkpoint-*` doesn't match.
  void prune(std::int64_t limit, std::int64_t step, const std::string& best) const;
  // The link `name` in the directory to a checkpoint there.
  void link(const std::string& name, const std::filesystem::path& checkpoint) const;

 private:
  std::filesystem::path directory_;
  std::string run_id_;
};

}  // namespace tern::train
