// Checksums of files: xxh3_64 for our own manifests, sha256 for what hubs promise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace tern::io {

// 16 lower-case hex digits of XXH3 64 bits, seed 0.
[[nodiscard]] std::string xxh3_64(std::span<const std::byte> bytes);
[[nodiscard]] Result<std::string> xxh3_64_of_file(const std::filesystem::path& path);

// Running xxh3_64.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(Xxh3&&) noexcept;
  Xxh3& operator=(Xxh3&&) noexcept;
  void update(std::span<const std::byte> bytes);
  [[nodiscard]] std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Running SHA-256 (FIPS 180-4), 64 hex digits; and SHA-1 with Git's blob header, as hubs name small files.
class Digest {
 public:
  static Digest sha256();
  static Digest git_sha1(std::uint64_t size);
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  void update(std::span<const std::byte> bytes);
  [[nodiscard]] std::string hex();  // ends the digest

 private:
  Digest();
  struct State;
  std::unique_ptr<State> state_;
};

// SHA-256 of parts, one after the other.
[[nodiscard]] std::array<std::byte, 32> sha256(std::span<const std::span<const std::byte>> parts);

// CRC-32 of zlib, of the records of wandb and SwanLab; CRC-32C (Castagnoli), of TensorFlow's.
[[nodiscard]] std::uint32_t crc32(std::span<const std::byte> bytes);
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace tern::io
