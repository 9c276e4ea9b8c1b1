#include "engine/swap_folders.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/log.h"
#include "base/strings.h"
#include "io/checksum.h"

namespace tern::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDigits = "0123456789abcdef";

struct Folder {
  fs::file_time_type used;
  fs::path path;
  std::uint64_t bytes = 0;
};

std::uint64_t bytes_below(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    if (it->is_regular_file(gone)) bytes += it->file_size(gone);
  }
  return bytes;
}

// False where a server has it.
bool remove_unless_in_use(const fs::path& folder) {
  const int lock = ::open((folder / kLockFile).c_str(), O_RDWR | O_CLOEXEC);
  if (lock < 0) return false;
  const bool is_free = ::flock(lock, LOCK_EX | LOCK_NB) == 0;
  std::error_code ignored;
  if (is_free) fs::remove_all(folder, ignored);
  ::close(lock);
  return is_free;
}

bool is_ours(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code gone;
  return name.size() == kFolderDigits && name.find_first_not_of(kDigits) == std::string::npos &&
         fs::is_regular_file(path / kAboutFile, gone);
}

}  // namespace

BlockHash hash_of_text(std::string_view text) {
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(text))};
  return io::sha256(parts);
}

std::string hex_of(const BlockHash& hash) {
  std::string out;
  for (const std::byte byte : hash) {
    out += kDigits[std::to_integer<std::size_t>(byte) >> 4];
    out += kDigits[std::to_integer<std::size_t>(byte) & 15];
  }
  return out;
}

std::optional<BlockHash> hash_from_hex(std::string_view digits) {
  BlockHash hash{};
  if (digits.size() != 2 * hash.size() || digits.find_first_not_of(kDigits) != std::string_view::npos) return {};
  for (std::size_t i = 0; i < hash.size(); ++i) {
    hash[i] = static_cast<std::byte>(kDigits.find(digits[2 * i]) << 4 | kDigits.find(digits[2 * i + 1]));
  }
  return hash;
}

std::uint64_t make_room_among_others(const fs::path& folder, const fs::path& own, std::uint64_t bytes) {
  std::vector<Folder> others;
  std::uint64_t all = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename() == own.filename() || !is_ours(it->path())) continue;
    std::error_code gone;
    others.push_back({fs::last_write_time(it->path() / kLockFile, gone), it->path(), bytes_below(it->path())});
    all += others.back().bytes;
  }
  std::sort(others.begin(), others.end(), [](const Folder& a, const Folder& b) { return a.used < b.used; });
  for (const Folder& other : others) {
    if (all <= bytes) break;
    if (!remove_unless_in_use(other.path)) continue;
    all -= other.bytes;
    log_info(cat("swap folder: ", other.path.string(),
                 ", of another model or other settings, made room: ", human_bytes(other.bytes)));
  }
  if (!others.empty() && all > 0) {
    log_info(cat("swap folder: ", human_bytes(all), " beside it are of other models or settings"));
  }
  return all;
}

}  // namespace tern::engine
