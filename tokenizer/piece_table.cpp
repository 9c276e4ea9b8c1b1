#include "tokenizer/piece_table.h"

#include <bit>

#include "base/status.h"

namespace tern::tokenizer {

void PieceTable::reserve(std::size_t pieces, std::size_t bytes) {
  grow(std::bit_ceil(pieces * 2 + 8));
  bytes_.reserve(bytes);
}

std::size_t PieceTable::place(std::string_view piece, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  const auto check = static_cast<std::uint32_t>(hash >> 32);
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.length_plus == 0) return i;
    if (slot.check == check && slot.length_plus - 1 == piece.size() &&
        std::string_view(bytes_.data() + slot.offset, piece.size()) == piece) {  // not memcmp: both may be null
      return i;
    }
  }
}

void PieceTable::grow(std::size_t slots) {
  if (slots <= slots_.size()) return;
  std::vector<Slot> old = std::move(slots_);
  slots_.assign(slots, Slot{});
  for (const Slot& slot : old) {
    if (slot.length_plus == 0) continue;
    const std::string_view piece(bytes_.data() + slot.offset, slot.length_plus - 1);
    slots_[place(piece, hash_bytes(piece))] = slot;
  }
}

void PieceTable::insert(std::string_view piece, std::int32_t id) {
  if ((count_ + 1) * 2 > slots_.size()) grow(std::bit_ceil((count_ + 4) * 4));
  if (bytes_.size() + piece.size() >= UINT32_MAX) {
    throw Failure(data_error("vocabulary", "less than 4 GiB of pieces", "more", "use a smaller vocabulary"));
  }
  const std::uint64_t hash = hash_bytes(piece);
  Slot& slot = slots_[place(piece, hash)];
  if (slot.length_plus == 0) {
    slot = {static_cast<std::uint32_t>(bytes_.size()), static_cast<std::uint32_t>(piece.size() + 1),
            static_cast<std::uint32_t>(hash >> 32), id};
    bytes_.insert(bytes_.end(), piece.begin(), piece.end());
    ++count_;
  }
  slot.id = id;
}

std::int32_t PieceTable::find(std::string_view piece) const {
  if (slots_.empty()) return -1;
  const Slot& slot = slots_[place(piece, hash_bytes(piece))];
  return slot.length_plus == 0 ? -1 : slot.id;
}

void PairTable::reserve(std::size_t pairs) {
  const std::size_t slots = std::bit_ceil(pairs * 2 + 8);
  if (slots <= slots_.size()) return;
  std::vector<Slot> old = std::move(slots_);
  slots_.assign(slots, Slot{});
  mask_ = slots - 1;
  count_ = 0;
  for (const Slot& slot : old) {
    if (slot.key == kEmpty) continue;
    std::size_t i = index(slot.key);
    while (slots_[i].key != kEmpty) i = (i + 1) & mask_;
    slots_[i] = slot;
    ++count_;
  }
}

void PairTable::insert(std::int32_t left, std::int32_t right, Merge merge) {
  if ((count_ + 1) * 2 > slots_.size()) reserve((count_ + 4) * 2);
  const std::uint64_t key = key_of(left, right);
  std::size_t i = index(key);
  while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask_;
  if (slots_[i].key == kEmpty) ++count_;
  slots_[i] = {key, merge};
}

}  // namespace tern::tokenizer
