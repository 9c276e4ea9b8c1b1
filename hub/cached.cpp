#include "hub/cached.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "base/strings.h"

namespace tern::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";  // of Hugging Face's folders; ModelScope has them in a folder

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.is_directory(ignored)) out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

bool is_hash(const std::string& text, std::size_t digits) {
  return text.size() == digits &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
}

// A snapshot of Hugging Face's links to blobs, whose names are the hub's hashes of them.
void put_hash(const fs::path& file, HubFile& out) {
  std::error_code error;
  const fs::path blob = fs::read_symlink(file, error);
  if (error) return;
  const std::string name = blob.filename().string();
  if (is_hash(name, 64)) out.sha256 = name;
  if (is_hash(name, 40)) out.git_sha1 = name;
}

std::vector<HubFile> files_below(const fs::path& snapshot) {
  std::vector<HubFile> out;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(snapshot, ignored)) {
    if (!entry.is_regular_file(ignored)) continue;
    HubFile file;
    file.path = fs::relative(entry.path().parent_path(), snapshot, ignored) / entry.path().filename();
    if (file.path.starts_with("./")) file.path.erase(0, 2);
    file.size = entry.file_size(ignored);
    put_hash(entry.path(), file);
    out.push_back(std::move(file));
  }
  std::sort(out.begin(), out.end(), [](const HubFile& a, const HubFile& b) { return a.path < b.path; });
  return out;
}

}  // namespace

std::uint64_t CachedRepository::size() const {
  return std::accumulate(files.begin(), files.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const HubFile& file) { return sum + file.size; });
}

std::vector<CachedRepository> cached_models(Hub hub, const fs::path& cache) {
  const bool prefixed = hub == Hub::hugging_face;
  std::vector<CachedRepository> out;
  for (const fs::path& folder : entries(prefixed ? cache : cache / "models")) {
    std::string name = folder.filename().string();
    if (prefixed && !name.starts_with(kPrefix)) continue;
    if (prefixed) name.erase(0, kPrefix.size());
    const auto border = name.find("--");
    if (border == std::string::npos) continue;
    name.replace(border, 2, "/");
    for (const fs::path& snapshot : entries(folder / "snapshots")) {
      CachedRepository found{hub, name, snapshot.filename().string(), snapshot, files_below(snapshot)};
      if (!found.files.empty()) out.push_back(std::move(found));
    }
  }
  return out;
}

}  // namespace tern::hub
