// Rows that lie in a run's folder beside its log: answers that were sampled, held-out rows.
#pragma once

#include <filesystem>

#include "io/json.h"

namespace tern::server {

// [{"name": "checkpoint-8/infer_result/a.jsonl", "rows": [...], "more": true}]: the first rows of each, and the last
// of completions.jsonl, which grows while a run trains.
[[nodiscard]] io::Json samples_of(const std::filesystem::path& folder);

}  // namespace tern::server
