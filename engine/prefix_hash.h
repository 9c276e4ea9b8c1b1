// What names a full block of a sequence by all that its keys and values depend on: chained hashes of token ids, as vLLM
// has them. SHA-256, so that nobody can make two texts share a block.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "session/image_patches.h"

namespace tern::engine {

using BlockHash = std::array<std::byte, 32>;

// What hash tables take of it: its first bits, which of SHA-256 are as good as any.
struct FirstBits {
  [[nodiscard]] std::size_t operator()(const BlockHash& hash) const noexcept;
};

struct Sequence;

// The hash that a sequence's first block is chained to: sequences with another salt or another adapter share nothing.
[[nodiscard]] BlockHash prefix_root(std::string_view cache_salt, std::string_view adapter);
// Of what a vision tower is given.
[[nodiscard]] BlockHash image_hash(const session::ImagePatches& image);

// The hashes of a sequence's full blocks, made as far as they are asked for.
class PrefixHashes {
 public:
  // Without a root, a sequence neither finds blocks nor leaves any to be found.
  PrefixHashes() = default;
  // `images`: of the sequence's, in order. Makes room for `blocks`, so that none of them allocates. `ahead`: tokens
  // behind a block's own that what it holds hangs on, too.
  PrefixHashes(const BlockHash& root, std::vector<BlockHash> images, std::size_t blocks, std::int64_t ahead = 0);

  [[nodiscard]] bool active() const { return active_; }
  // Of the first `tokens` of a sequence of `length`, how many blocks can have a hash: all their tokens are there.
  [[nodiscard]] std::int64_t full_blocks(std::int64_t tokens, std::int64_t length, std::int64_t block_size) const {
    return std::min(tokens, length - ahead_) / block_size;
  }
  // Of the first `count` blocks, whose tokens the sequence has. A block that holds tokens of an image hangs on all of
  // that image, and where tokens see each other both ways, on all images of their span.
  [[nodiscard]] std::span<const BlockHash> first(std::int64_t count, const Sequence& sequence, std::int64_t block_size);

 private:
  [[nodiscard]] BlockHash hash_of(std::int64_t block, const Sequence& sequence, std::int64_t block_size) const;

  bool active_ = false;
  std::int64_t ahead_ = 0;
  BlockHash root_{};
  std::vector<BlockHash> images_;
  std::vector<BlockHash> blocks_;
};

}  // namespace tern::engine
