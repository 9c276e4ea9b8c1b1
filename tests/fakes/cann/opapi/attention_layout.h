// What the ops of attention share: layouts, cumulative lengths, masks.
#pragma once

#include "arguments.h"
#include "numerics_attention.h"

namespace fake {

// One sequence: rows [first, first + length) of batch entry `batch` of queries, and of keys and values.
struct Sequence {
  std::int64_t batch = 0;
  std::int64_t first = 0;
  std::int64_t length = 0;
  std::int64_t key_first = 0;
  std::int64_t key_length = 0;
};

enum class Layout { kBsh, kSbh, kBsnd, kBnsd, kTnd };
[[nodiscard]] Layout layout_of(Op& op, const char* name, std::initializer_list<const char*> taken);

// The view as [batch, tokens, heads, D]; TND has one batch entry.
[[nodiscard]] View normalised(const View& view, Layout layout, std::int64_t heads);
[[nodiscard]] Shape normalised_shape(Op& op, const Tensor& argument, Layout layout, std::int64_t heads);

// Cumulative ends, as TND has them: rising, at most `limit`.
[[nodiscard]] std::vector<Sequence> packed_sequences(Op& op, const Shape& ends, const Shape& key_ends,
                                                     std::int64_t rows, std::int64_t keys);

struct MaskRule {
  std::int64_t sparse_mode = 0;
  std::int64_t before = 0;
  std::int64_t after = 0;
  Tensor mask;
};
// Refuses what the mode doesn't go with.
void require_mask(Op& op, const MaskRule& rule, const std::vector<Sequence>& sequences);
// Throws a fault where the mask of modes 2 to 4 isn't the triangle.
void look_at_mask(Run& run, const MaskRule& rule);
// The rule for one sequence and head; `storage` keeps the view that it points at.
[[nodiscard]] numerics::Visibility visibility_of(const MaskRule& rule, const std::optional<View>& mask,
                                                 const Sequence& sequence, std::int64_t index, std::int64_t head,
                                                 View& storage);

[[nodiscard]] inline View head_of(const View& tokens, std::int64_t batch, std::int64_t first, std::int64_t length,
                                  std::int64_t head) {
  return numerics::narrow(numerics::select(numerics::select(tokens, 0, batch), 1, head), 0, first, length);
}

}  // namespace fake
