// Filling a case with data: reproducible from a seed, rounded to each argument's dtype.
#pragma once

#include "base/philox.h"
#include "conformance/case.h"

namespace tern::conformance {

// splitmix64 over a counter.
class Random {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t bits() { return mix_key(seed_, count_++); }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }  // [0, 1)
  std::int64_t below(std::int64_t n) {
    return n <= 0 ? 0 : static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(n));
  }
  // Sizes of one order and both signs: no term of a sum is small enough to be missed unseen.
  double term() { return (0.5 + uniform()) * (bits() % 2 == 0 ? 1.0 : -1.0); }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

// How many entries of a dynamic dimension are valid: some of them, as the seed says, or an end of what there can be.
enum class Counts { some, none, all };

// Which of several outputs that may accumulate do so.
enum class Accumulate { all, first, others };

enum class Layout { contiguous, padded_rows, inner_stride };

inline constexpr double kTail = 3.0e4;  // beyond a count: finite, and it shows

// One way to vary a call. A generator says no to what its op does not have.
struct Variant {
  int size = 0;    // which of the op's shapes
  int option = 0;  // which of the op's attributes and optional arguments
  tern_dtype in = TERN_F32;
  tern_dtype out = TERN_F32;
  bool narrow_keys = false;     // of attention: keys and values are bf16 beside queries in `in`, as over a cache
  tern_dtype codes = TERN_F32;  // of a cache in 8 bits: i8 or f8_e4m3
  Layout layout = Layout::contiguous;
  bool accumulate = false;
  Accumulate which = Accumulate::all;
  bool alias = false;
  bool dynamic = false;
  Counts counts = Counts::some;  // of dynamic dimensions
  bool high_slots = false;       // counts in slots 5 and 7 in place of 0 and 1
  bool packed = false;
  bool both_uses = false;   // packed for forward and backward alike
  int split = 0;            // which case of decoding with many keys; 0: none of them
  bool short_keys = false;  // of these: all sequences are short
  bool any_tails = false;   // NaN beyond a count: the device has TERN_CAP_DYNAMIC_SHAPES
  int special = 0;          // 1: a NaN, 2: an infinity in the first floating input
  std::uint32_t needs = 0;
  std::int64_t kv_block = 16;  // tokens in a block of a paged cache: what the device prefers
};
[[nodiscard]] std::string label_of(const Variant& variant);

class CaseBuilder {
 public:
  CaseBuilder(std::uint32_t op, const Variant& variant, std::uint64_t seed);
  [[nodiscard]] const Variant& variant() const { return variant_; }
  [[nodiscard]] Random& random() { return random_; }

  template <typename Attrs>
  void attrs(const Attrs& attrs) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&attrs);
    case_.attrs.assign(bytes, bytes + sizeof(Attrs));
  }
  // An argument filled before, as the oracle reads it.
  [[nodiscard]] ops::ref::Tensor decoded(int arg);
  [[nodiscard]] std::int64_t kv_block() const { return variant_.kv_block; }
  [[nodiscard]] tern_dtype key_dtype() const { return variant_.narrow_keys ? TERN_BF16 : variant_.in; }
  // Where the count of an op's first, second, third or fourth dynamic dimension stands.
  [[nodiscard]] int slot_of(int number) const {
    return variant_.high_slots ? (5 + 2 * number) % TERN_MAX_COUNTS : number;
  }
  // Sizes of a dynamic dimension: `capacity` if the variant is dynamic, of which some are valid, `least` of them at
  // least; else all.
  std::int64_t count_for(std::int64_t capacity, int slot = 0, std::int64_t least = 0);

  // What it said before: the valid part of a capacity.
  [[nodiscard]] std::int64_t count_of(int slot, std::int64_t capacity) const {
    return variant_.dynamic ? case_.counts[static_cast<std::size_t>(slot_of(slot))] : capacity;
  }

  using Shape = std::vector<std::int64_t>;
  // `dynamic_dim`: which dimension is cut where the variant is dynamic.
  void real(int arg, tern_dtype dtype, const Shape& shape, int dynamic_dim = -1, int slot = 0);
  // Rows of a cache [..., dim] in `dtype` or, where the variant has codes, as these with scales at `scale`. The rows
  // are of any size then, some of them zeros, and in a case of specials one is NaN.
  void cached(int arg, int scale, tern_dtype dtype, const Shape& shape);
  void cached(int arg, int scale, tern_dtype dtype, const Shape& shape, const std::vector<double>& elements);
  // Terms of any size, and rows of zeros.
  [[nodiscard]] std::vector<double> wide_terms(const Shape& shape);
  [[nodiscard]] bool has_codes() const { return variant_.codes != TERN_F32; }
  // Elements in logical order of the valid part; the rest is `tail`, finite junk, or NaN where anything may stand
  // there.
  void values(int arg, tern_dtype dtype, const Shape& shape, const std::vector<double>& elements, int dynamic_dim = -1,
              int slot = 0, double tail = kTail);
  void integers(int arg, tern_dtype dtype, const Shape& shape, const std::vector<std::int64_t>& elements,
                int dynamic_dim = -1, int slot = 0);
  // Rows of numbers [elements / width] or [elements / width, width] whose count stands in `slot`: where the variant is
  // dynamic there is room for two more rows. They hold `tail`, as the host pads them, or anything where that is told.
  void counted(int arg, const std::vector<std::int64_t>& elements, int slot, std::int64_t tail, std::int64_t width = 0);
  // One for each element of the valid part, in any layout of the variant; what is beyond it is 0.
  void booleans(int arg, const Shape& shape, const std::vector<std::int64_t>& elements, int dynamic_dim = -1,
                int slot = 0);
  // Rows are whole blocks; of AWQ and GPTQ there are whole words of them.
  void quantised(int arg, tern_packing packing, std::int64_t rows, std::int64_t columns);
  // An output; `accumulates` where the variant says so and the table allows it.
  void out(int arg, tern_dtype dtype, const Shape& shape, int dynamic_dim = -1, int slot = 0);
  void make_unreadable(int arg, std::int64_t entry = 0);  // NaN in an entry of the first dimension
  void share(int out, int in);                            // output and input are the same memory
  void broadcast(int arg, int dim, std::int64_t size);    // `dim`, filled with size 1, becomes `size` with stride 0
  void mark_packed(int arg) {
    at(arg).packed = variant_.packed;
    at(arg).both_uses = variant_.both_uses;
  }
  [[nodiscard]] Case take();

 private:
  Argument& at(int arg) { return case_.args[static_cast<std::size_t>(arg)]; }
  [[nodiscard]] TensorDesc lay_out(tern_dtype dtype, const Shape& shape, int dynamic_dim, int slot, bool plain) const;
  [[nodiscard]] tern_scheme scheme(tern_packing packing, std::int64_t columns) const;
  void planes(int arg, tern_packing packing, std::int64_t rows, std::int64_t columns);
  void fill(Argument& arg, const ops::ref::Tensor& valid, double tail = kTail);

  Variant variant_;
  Random random_;
  Case case_;
  bool special_pending_;
  int num_accumulating_ = 0;  // outputs so far that may
};

}  // namespace tern::conformance
