// What lies in the hubs' caches.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "hub/hub.h"

namespace tern::hub {

// One revision of a repository, as fetch_repository would give it offline.
struct CachedRepository {
  Hub hub = Hub::modelscope;
  std::string repository;      // ORG/NAME
  std::string revision;        // Hugging Face: the commit
  std::filesystem::path path;  // the folder of its files
  std::vector<HubFile> files;  // by path; hashes where the cache keeps them (Hugging Face names its blobs by them)

  [[nodiscard]] std::uint64_t size() const;  // bytes of the files
};

// The models in `cache`, by name and revision; none where there is no such folder.
[[nodiscard]] std::vector<CachedRepository> cached_models(Hub hub, const std::filesystem::path& cache);

}  // namespace tern::hub
