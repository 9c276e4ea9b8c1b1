#include "engine/prefix_hash.h"

#include <cstring>
#include <utility>

#include "engine/sequence.h"
#include "io/checksum.h"

namespace tern::engine {
namespace {

using Bytes = std::span<const std::byte>;

template <typename T>
Bytes bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

BlockHash hash_of_parts(std::span<const Bytes> parts) { return io::sha256(parts); }

}  // namespace

std::size_t FirstBits::operator()(const BlockHash& hash) const noexcept {
  std::size_t bits = 0;
  std::memcpy(&bits, hash.data(), sizeof bits);
  return bits;
}

BlockHash prefix_root(std::string_view cache_salt, std::string_view adapter) {
  const std::uint64_t length = cache_salt.size();  // or "a" "bc" would be "ab" "c"
  const Bytes parts[] = {bytes_of(length), std::as_bytes(std::span(cache_salt)), std::as_bytes(std::span(adapter))};
  return hash_of_parts(parts);
}

BlockHash image_hash(const session::ImagePatches& image) {
  const std::uint64_t grids = image.grids.size();
  const Bytes parts[] = {bytes_of(image.tokens), bytes_of(grids), std::as_bytes(std::span(image.grids)),
                         std::as_bytes(std::span(image.patches))};
  return hash_of_parts(parts);
}

PrefixHashes::PrefixHashes(const BlockHash& root, std::vector<BlockHash> images, std::size_t blocks, std::int64_t ahead)
    : active_(true), ahead_(ahead), root_(root), images_(std::move(images)) {
  blocks_.reserve(blocks);
}

std::span<const BlockHash> PrefixHashes::first(std::int64_t count, const Sequence& sequence, std::int64_t block_size) {
  while (static_cast<std::int64_t>(blocks_.size()) < count) {
    blocks_.push_back(hash_of(static_cast<std::int64_t>(blocks_.size()), sequence, block_size));
  }
  return std::span(blocks_).first(static_cast<std::size_t>(count));
}

BlockHash PrefixHashes::hash_of(std::int64_t block, const Sequence& sequence, std::int64_t block_size) const {
  const std::int64_t begin = block * block_size, end = begin + block_size;
  const BlockHash& parent = blocks_.empty() ? root_ : blocks_.back();
  // The chain has those before, of which the first block has none.
  const std::int64_t first = begin + (block == 0 ? 0 : ahead_);
  const Bytes ids =
      std::as_bytes(std::span(sequence.tokens)
                        .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end + ahead_ - first)));
  if (!sequence.images.any_within(begin, end)) {
    const Bytes parts[] = {parent, ids};
    return hash_of_parts(parts);
  }
  std::vector<Bytes> parts = {parent, ids};
  const std::span<const RequestImage> images = sequence.images.all();
  for (std::size_t i = 0; i < images.size(); ++i) {
    // The chain has what lies before. Of what lies behind, tokens of a span see all of it.
    const RequestImages::Span span = sequence.images.span_at(images[i].begin);
    const bool is_seen = span.begin < end && begin < span.end;
    if (!is_seen && !images[i].is_within(begin, end)) continue;
    parts.push_back(images_[i]);
    parts.push_back(bytes_of(images[i].begin));
  }
  return hash_of_parts(parts);
}

}  // namespace tern::engine
