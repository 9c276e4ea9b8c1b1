// One run's folder, as training leaves it: args.json, logging.jsonl, checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "io/json.h"

namespace tern::server {

[[nodiscard]] bool is_run(const std::filesystem::path& folder);
// The runs below `root`, as paths relative to it: output/<model>/<version>, or up to three folders deep. Links are not
// followed.
[[nodiscard]] std::vector<std::string> find_runs(const std::filesystem::path& root);
// The folder of such a path. Throws Failure (usage) where it's no run, or leaves `root` once every link is followed.
[[nodiscard]] std::filesystem::path run_folder(const std::filesystem::path& root, const std::string& id);

// What a list tells of a run: its state, its arguments, its last figures, its checkpoints. The state is "running" (its
// process is there), "ended" (all its steps), "stopped" (before the last, on purpose or with that step saved) or
// "failed", with "why".
[[nodiscard]] io::Json summary_of(const std::filesystem::path& root, const std::string& id);

// What came to a file after `offset`, at most `limit` bytes; with `lines` up to the end of the last whole line. `file`
// is the number of the file that was read before, 0 at first: of another one, or of one that has become shorter, it
// begins again.
struct FilePart {
  std::string text;
  std::uint64_t file = 0;    // 0: there is none yet
  std::uint64_t offset = 0;  // of what follows the text
  bool begun_again = false;
};
[[nodiscard]] FilePart read_part(const std::filesystem::path& path, std::uint64_t file, std::uint64_t offset,
                                 std::size_t limit, bool lines);

}  // namespace tern::server
