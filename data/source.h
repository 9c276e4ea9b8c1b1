// Bytes of a data file as a stream, decompressed on the way: plain, gzip (RFC 1952, members joined) and zstd (RFC 8878,
// frames joined), told apart by their magic numbers. Memory is bounded whatever the file's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace tern::data {

enum class Compression { none, gzip, zstd };

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Fills the front of `out` with the next bytes and gives their number; 0 at the end. A broken or truncated stream is
  // an Error that names the file.
  virtual Result<std::size_t> read(std::span<char> out) = 0;

  [[nodiscard]] virtual std::uint64_t consumed() const = 0;  // bytes of the file read so far, compressed
  [[nodiscard]] virtual std::uint64_t total() const = 0;     // bytes of the file; 0 where the file has no size (a pipe)
  [[nodiscard]] virtual Compression compression() const = 0;
};

[[nodiscard]] Result<std::unique_ptr<ByteSource>> open_source(const std::string& path);

}  // namespace tern::data
