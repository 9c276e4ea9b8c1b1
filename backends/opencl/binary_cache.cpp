#include "backends/opencl/binary_cache.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "backends/opencl/text.h"

namespace tern::opencl {
namespace {

// In front of a binary. A hash of the key is in the file's name too; two keys of one name are told apart by
// `key_check`.
struct Header {
  char magic[8];
  std::uint64_t key_check;
  std::uint64_t bytes;
  std::uint64_t checksum;
};
constexpr char kMagic[8] = {'t', 'e', 'r', 'n', 'c', 'l', '0', '1'};

std::uint64_t second_hash(std::string_view key) { return hash_of(cat("second ", key)); }

std::uint64_t checksum_of(const std::vector<unsigned char>& binary) {
  return hash_of({reinterpret_cast<const char*>(binary.data()), binary.size()});
}

}  // namespace

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

std::string binary_file(const std::string& folder, std::string_view key) {
  char name[40];
  (void)std::snprintf(name, sizeof name, "opencl-%016llx.bin", static_cast<unsigned long long>(hash_of(key)));
  return cat(folder, "/", name);
}

std::optional<std::vector<unsigned char>> read_binary(const std::string& file, std::string_view key) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (error || size < sizeof(Header)) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  Header header{};
  if (!in.read(reinterpret_cast<char*>(&header), sizeof header)) return std::nullopt;
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.key_check != second_hash(key) ||
      header.bytes != size - sizeof header) {
    return std::nullopt;
  }
  std::vector<unsigned char> binary(header.bytes);
  if (!in.read(reinterpret_cast<char*>(binary.data()), static_cast<std::streamsize>(binary.size()))) {
    return std::nullopt;
  }
  if (header.checksum != checksum_of(binary)) return std::nullopt;
  return binary;
}

bool write_binary(const std::string& file, std::string_view key, const std::vector<unsigned char>& binary) {
  static std::atomic<unsigned> written{0};  // so that two threads don't write under one name
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), error);
  const std::string unfinished = cat(file, ".", getpid(), ".", written.fetch_add(1));
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key_check = second_hash(key);
  header.bytes = binary.size();
  header.checksum = checksum_of(binary);
  {
    std::ofstream out(unfinished, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&header), sizeof header);
    out.write(reinterpret_cast<const char*>(binary.data()), static_cast<std::streamsize>(binary.size()));
    if (!out.flush()) {
      std::filesystem::remove(unfinished, error);
      return false;
    }
  }
  std::filesystem::rename(unfinished, file, error);
  if (!error) return true;
  std::filesystem::remove(unfinished, error);
  return false;
}

}  // namespace tern::opencl
