// Reading the fixtures of tokenizers, and the digests that they hold.
#pragma once

#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace tern::tokenizer {

// A file's bytes; those of a .zst file unpacked.
inline std::string read_packed(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (path.extension() != ".zst") return bytes;
  std::string out(ZSTD_getFrameContentSize(bytes.data(), bytes.size()), '\0');
  out.resize(ZSTD_decompress(out.data(), out.size(), bytes.data(), bytes.size()));
  return out;
}

// Names of the files of `folder` that end in `extension`, without it, in order.
inline std::vector<std::string> stems(const std::filesystem::path& folder, const std::string& extension) {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == extension) all.push_back(entry.path().stem().string());
  }
  std::sort(all.begin(), all.end());
  return all;
}

// "1,2,3", or "-" for none.
inline std::string joined(const std::vector<TokenId>& ids) {
  std::string out;
  for (const TokenId id : ids) out += (out.empty() ? "" : ",") + std::to_string(id);
  return out.empty() ? "-" : out;
}

// xxh3_64 over texts' ids, each as count and ids, little-endian 32 bit.
class IdDigest {
 public:
  IdDigest() : state_(XXH3_createState()) { XXH3_64bits_reset(state_); }
  ~IdDigest() { XXH3_freeState(state_); }
  IdDigest(const IdDigest&) = delete;
  IdDigest& operator=(const IdDigest&) = delete;
  void add(const std::vector<TokenId>& ids) {
    const auto count = static_cast<std::uint32_t>(ids.size());
    XXH3_64bits_update(state_, &count, sizeof count);
    XXH3_64bits_update(state_, ids.data(), ids.size() * sizeof(TokenId));
  }
  [[nodiscard]] std::string hex() const {
    char out[17];
    std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(XXH3_64bits_digest(state_)));
    return out;
  }

 private:
  XXH3_state_t* state_;
};

}  // namespace tern::tokenizer
