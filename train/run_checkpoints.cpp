#include "train/run_checkpoints.h"

#include <random>

#include "base/log.h"
#include "base/strings.h"
#include "io/atomic_dir.h"
#include "train/checkpoint.h"

namespace tern::train {

namespace fs = std::filesystem;

std::string new_run_id() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::random_device source;
  std::string id;
  for (int word = 0; word < 4; ++word) {
    std::uint32_t bits = source();
    for (int digit = 0; digit < 8; ++digit, bits >>= 4) id += kDigits[bits & 15U];
  }
  return id;
}

fs::path RunCheckpoints::at(std::int64_t step) const { return directory_ / cat("checkpoint-", step); }

std::vector<std::pair<std::int64_t, fs::path>> RunCheckpoints::own(std::int64_t step) const {
  auto checkpoints = list_checkpoints(directory_);
  std::erase_if(checkpoints, [&](const auto& it) { return it.first > step || run_of(it.second) != run_id_; });
  return checkpoints;
}

Status RunCheckpoints::refuse_others(std::int64_t first, std::int64_t last) const {
  for (const auto& [step, path] : list_checkpoints(directory_)) {
    if (step <= first || step > last || run_of(path) == run_id_) continue;
    return usage_error(cat(path.string(), " is another run's checkpoint and in the way of this run"),
                       cat("choose another --output_dir, leave --add_version true, move it away, or give "
                           "--resume_from_checkpoint ",
                           path.string(), " to go on from it"));
  }
  return Unit{};
}

void RunCheckpoints::prune(std::int64_t limit, std::int64_t step, const std::string& best) const {
  if (limit <= 0) return;
  const auto checkpoints = own(step);
  auto excess = static_cast<std::int64_t>(checkpoints.size()) - limit;
  for (const auto& [at, path] : checkpoints) {
    if (excess <= 0) return;
    if (at == step || path.string() == best) continue;
    const Status removed = io::remove_directory(path);
    if (!removed.ok()) log_warn(removed.error().line());
    --excess;
  }
}

void RunCheckpoints::link(const std::string& name, const fs::path& checkpoint) const {
  // In one step, so that the name is never missing.
  const fs::path made = directory_ / cat(".", name, ".new");
  std::error_code error;
  fs::remove(made, error);
  fs::create_directory_symlink(checkpoint.filename(), made, error);
  if (!error) fs::rename(made, directory_ / name, error);
}

}  // namespace tern::train
