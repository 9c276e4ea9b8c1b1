// A hash map from byte strings to ids, with the strings in one block: a vocabulary of 150,000 pieces costs no
// allocations.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tern::tokenizer {

[[nodiscard]] inline std::uint64_t hash_mix(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

[[nodiscard]] inline std::uint64_t load_tail(const char* p, std::size_t n) {  // n <= 8, little endian
  std::uint64_t word = 0;
  std::memcpy(&word, p, n);
  return word;
}

// In the manner of wyhash: 16 bytes a step, folded by 64 x 64 -> 128 bit products.
[[nodiscard]] inline std::uint64_t hash_bytes(std::string_view s) {
  constexpr std::uint64_t k0 = 0xA0761D6478BD642FU;
  constexpr std::uint64_t k1 = 0xE7037ED1A0B428DBU;
  const char* p = s.data();
  std::size_t n = s.size();
  std::uint64_t h = k0 ^ n;
  while (n > 16) {
    h = hash_mix(load_tail(p, 8) ^ k1, load_tail(p + 8, 8) ^ h);
    p += 16;
    n -= 16;
  }
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  if (n >= 8) {
    a = load_tail(p, 8);
    b = load_tail(p + n - 8, 8);
  } else if (n >= 4) {
    std::uint32_t x = 0;
    std::uint32_t y = 0;
    std::memcpy(&x, p, 4);
    std::memcpy(&y, p + n - 4, 4);
    a = x;
    b = y;
  } else if (n > 0) {
    a = static_cast<std::uint64_t>(static_cast<unsigned char>(p[0])) << 16 |
        static_cast<std::uint64_t>(static_cast<unsigned char>(p[n >> 1])) << 8 | static_cast<unsigned char>(p[n - 1]);
  }
  return hash_mix(k1 ^ n, hash_mix(a ^ k1, b ^ h));
}

class PieceTable {
 public:
  void reserve(std::size_t pieces, std::size_t bytes);
  // Later insertions of one string win.
  void insert(std::string_view piece, std::int32_t id);
  [[nodiscard]] std::int32_t find(std::string_view piece) const;  // -1 where absent
  [[nodiscard]] std::size_t size() const { return count_; }
  // Calls f(piece, id) for each, in no order.
  template <typename F>
  void each(F&& f) const {
    for (const Slot& slot : slots_) {
      if (slot.length_plus != 0) f(std::string_view(bytes_.data() + slot.offset, slot.length_plus - 1), slot.id);
    }
  }

 private:
  struct Slot {
    std::uint32_t offset = 0;
    std::uint32_t length_plus = 0;  // 0: empty
    std::uint32_t check = 0;        // high half of the hash
    std::int32_t id = -1;
  };
  void grow(std::size_t slots);
  [[nodiscard]] std::size_t place(std::string_view piece, std::uint64_t hash) const;
  std::vector<Slot> slots_;
  std::vector<char> bytes_;
  std::size_t count_ = 0;
};

// (left, right) -> (rank, merged id) for BPE.
class PairTable {
 public:
  struct Merge {
    std::uint32_t rank;  // UINT32_MAX where there is none
    std::int32_t id;
  };
  void reserve(std::size_t pairs);
  [[nodiscard]] std::size_t size() const { return count_; }
  void insert(std::int32_t left, std::int32_t right, Merge merge);  // a later one replaces an earlier
  [[nodiscard]] Merge find(std::int32_t left, std::int32_t right) const {
    if (slots_.empty()) return {UINT32_MAX, -1};
    const std::uint64_t key = key_of(left, right);
    for (std::size_t i = index(key);; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.key == key) return slot.merge;
      if (slot.key == kEmpty) return {UINT32_MAX, -1};
    }
  }
  template <typename F>
  void each(F&& f) const {
    for (const Slot& s : slots_) {
      if (s.key != kEmpty) f(static_cast<std::int32_t>(s.key >> 32), static_cast<std::int32_t>(s.key), s.merge);
    }
  }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kEmpty;
    Merge merge{UINT32_MAX, -1};
  };
  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }
  [[nodiscard]] std::size_t index(std::uint64_t key) const { return hash_mix(key, 0x9E3779B97F4A7C15U) & mask_; }
  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  std::size_t count_ = 0;
};

}  // namespace tern::tokenizer
