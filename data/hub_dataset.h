// Datasets of a hub, ORG/NAME[:subset], as local files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "data/dataset.h"

namespace tern::data {

struct HubSettings {
  bool use_hf = false;                                                    // a bare ORG/NAME is Hugging Face's
  std::string token;                                                      // "": the hub's own variables
  std::function<bool(std::uint64_t done, std::uint64_t total)> progress;  // bytes of the files in hand; false stops
};

// Fetches what LoadOptions::hub asks for: of the subset, the files of the training split.
[[nodiscard]] HubResolver hub_resolver(HubSettings settings);

// The files of a repository that hold the training split of a subset ("": the default one). The `configs` of the
// repository's README say so where there are some (huggingface.co/docs/hub/datasets-manual-configuration); else a
// subset is a folder or the beginning of a file's name, and files named after a split are of that split alone.
// Errors (data): an unknown subset, with the nearest; no file that can be read.
[[nodiscard]] Result<std::vector<std::string>> choose_files(const std::vector<std::string>& files,
                                                            std::string_view readme, const std::string& subset,
                                                            const std::string& where);

}  // namespace tern::data
