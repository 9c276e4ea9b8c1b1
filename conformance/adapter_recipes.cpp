// Cases of dropout and of the products of low-rank adapters.
#include <algorithm>
#include <array>
#include <functional>

#include "conformance/matrices.h"
#include "conformance/recipe.h"
#include "tern/accel_ops.h"

namespace tern::conformance {
namespace {

using Shape = CaseBuilder::Shape;

// rows, features, rank: middling, odd, prime, one element, empty, wide, tall, more rows than 16 bits count, and a
// model's.
constexpr std::array<std::array<std::int64_t, 3>, 10> kAdapted = {{{12, 64, 8},
                                                                   {7, 33, 3},
                                                                   {13, 131, 5},
                                                                   {1, 1, 1},
                                                                   {0, 8, 4},
                                                                   {3, 4099, 2},
                                                                   {5, 40, 300},
                                                                   {70001, 3, 2},
                                                                   {259, 1030, 8},
                                                                   {300, 577, 16}}};

enum class Dropped { by_keys, by_mask, nothing };

// Keys of rows and, where it is asked for, a mask.
void drop(CaseBuilder& b, int keys_arg, int mask_arg, const Shape& shape, std::int64_t rows, Dropped dropped) {
  if (dropped == Dropped::nothing) return;
  std::vector<std::int64_t> keys(static_cast<std::size_t>(rows));
  for (std::int64_t& key : keys) key = static_cast<std::int64_t>(b.random().bits());
  b.integers(keys_arg, TERN_I64, {shape[0]}, keys, 0);
  if (dropped != Dropped::by_mask) return;
  std::vector<std::int64_t> mask(static_cast<std::size_t>(rows * shape[1]));
  for (std::int64_t& keep : mask) keep = b.random().below(3) != 0 ? 1 : 0;
  b.integers(mask_arg, TERN_U8, shape, mask, 0);
}

void make_dropout(CaseBuilder& b) {
  const Variant& v = b.variant();
  const Shape shape = matrix(b);
  const std::int64_t rows = b.count_for(shape[0]);
  b.attrs(tern_dropout_attrs{v.option == 2 ? 0.5F : 0.1F, 7});
  b.real(TERN_DROPOUT_X, v.in, shape, 0);
  drop(b, TERN_DROPOUT_KEYS, TERN_DROPOUT_MASK, shape, rows, v.option == 1 ? Dropped::by_mask : Dropped::by_keys);
  b.out(TERN_DROPOUT_Y, v.out, shape, 0);
  if (v.alias) b.share(TERN_DROPOUT_Y, TERN_DROPOUT_X);
}

// Options: by keys; by a mask; nothing dropped.
Dropped dropped_by(int option) {
  return option == 1 ? Dropped::by_mask : option == 2 ? Dropped::nothing : Dropped::by_keys;
}

void make_lora_shrink(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [capacity, in, rank] = kAdapted[static_cast<std::size_t>(v.size)];
  const Shape shape = {capacity, in};
  const std::int64_t rows = b.count_for(capacity);
  const Dropped dropped = dropped_by(v.option);
  b.attrs(tern_lora_shrink_attrs{dropped == Dropped::nothing ? 0.0F : 0.25F, 9, v.option == 2 ? 1.0F : 0.7F});
  b.real(TERN_LORA_SHRINK_X, v.in, shape, 0);
  b.real(TERN_LORA_SHRINK_A, TERN_F32, {rank, in});
  drop(b, TERN_LORA_SHRINK_KEYS, TERN_LORA_SHRINK_MASK, shape, rows, dropped);
  b.out(TERN_LORA_SHRINK_H, v.out, {capacity, rank}, 0);
}

// Further options: one gradient alone.
void make_lora_shrink_backward(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [capacity, in, rank] = kAdapted[static_cast<std::size_t>(v.size)];
  const Shape shape = {capacity, in};
  const std::int64_t rows = b.count_for(capacity);
  const Dropped dropped = dropped_by(v.option);
  b.attrs(tern_lora_shrink_backward_attrs{dropped == Dropped::nothing ? 0.0F : 0.25F, 9, v.option == 2 ? 1.0F : 0.7F});
  b.real(TERN_LORA_SHRINK_BACKWARD_DH, v.in, {capacity, rank}, 0);
  b.real(TERN_LORA_SHRINK_BACKWARD_X, v.in, shape, 0);
  b.real(TERN_LORA_SHRINK_BACKWARD_A, TERN_F32, {rank, in});
  drop(b, TERN_LORA_SHRINK_BACKWARD_KEYS, TERN_LORA_SHRINK_BACKWARD_MASK, shape, rows, dropped);
  if (v.option != 4) b.out(TERN_LORA_SHRINK_BACKWARD_DX, v.out, shape, 0);
  if (v.option != 3) b.out(TERN_LORA_SHRINK_BACKWARD_DA, TERN_F32, {rank, in});
}

// Rows that each name a slot: middling, odd, prime, one element, no rows, one token and few of them in a model's sizes,
// many slots, wide, tall, prefill, more rows than 16 bits count, and rows of a batch.
struct Segments {
  std::int64_t rows, slots, rank, in, out;
};
constexpr std::array<Segments, 14> kSegments = {{{16, 8, 8, 64, 96},
                                                 {7, 3, 3, 33, 65},
                                                 {13, 5, 5, 131, 37},
                                                 {1, 1, 1, 1, 1},
                                                 {0, 2, 4, 8, 8},
                                                 {1, 4, 16, 1030, 259},
                                                 {2, 3, 64, 96, 515},
                                                 {6, 300, 2, 40, 24},
                                                 {3, 2, 64, 577, 1031},
                                                 {150, 6, 32, 300, 200},
                                                 {5, 3, 2, 4099, 3},
                                                 {70001, 3, 1, 5, 3},
                                                 {16, 16, 17, 576, 1536},
                                                 {259, 4, 16, 130, 70}}};

// Options: any slots, some rows without an adapter; nearly all rows of one slot; nobody has an adapter; runs of rows of
// one slot, in falling order.
std::vector<std::int64_t> chosen_slots(CaseBuilder& b, std::int64_t rows, std::int64_t num_slots) {
  std::vector<std::int64_t> slots(static_cast<std::size_t>(rows));
  const std::int64_t most = b.random().below(num_slots + 1);
  for (std::int64_t& slot : slots) slot = b.random().below(num_slots + 1);
  switch (b.variant().option) {
    case 1:
      for (std::int64_t& slot : slots) slot = b.random().below(9) == 0 ? slot : most;
      break;
    case 2:
      std::fill(slots.begin(), slots.end(), num_slots);
      break;
    case 3:
      std::sort(slots.begin(), slots.end(), std::greater<>());
      break;
    default:
      break;
  }
  return slots;
}

void make_lora_segmented(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [capacity, num_slots, rank, in, out] = kSegments[static_cast<std::size_t>(v.size)];
  const std::vector<std::int64_t> slots = chosen_slots(b, b.count_for(capacity), num_slots);
  b.real(TERN_LORA_SEGMENTED_X, v.in, {capacity, in}, 0);
  b.real(TERN_LORA_SEGMENTED_A, v.in, {num_slots, rank, in});
  b.real(TERN_LORA_SEGMENTED_B, v.in, {num_slots, out, rank});
  for (std::int64_t s = 0; s < num_slots; ++s) {  // what a slot held before, or nothing yet
    if (std::find(slots.begin(), slots.end(), s) != slots.end()) continue;
    b.make_unreadable(TERN_LORA_SEGMENTED_A, s);
    b.make_unreadable(TERN_LORA_SEGMENTED_B, s);
  }
  b.integers(TERN_LORA_SEGMENTED_SLOTS, TERN_I32, {capacity}, slots, 0);
  b.out(TERN_LORA_SEGMENTED_Y, v.out, {capacity, out}, 0);
}

constexpr std::uint32_t kUsual = kDtypes | kMixed | kLayouts | kDynamic;

constexpr Recipe kRecipes[] = {
    {TERN_OP_DROPOUT, kMatrices.size(), 3, kUsual | kSpecials | kAccumulates | kAliases | kRows, make_dropout},
    {TERN_OP_LORA_SHRINK, kAdapted.size(), 3, kUsual | kRows, make_lora_shrink},
    {TERN_OP_LORA_SHRINK_BACKWARD, kAdapted.size(), 5, kUsual | kAccumulates | kReduces, make_lora_shrink_backward},
    {TERN_OP_LORA_SEGMENTED, kSegments.size(), 4, kUsual | kSpecials | kAccumulates | kRows, make_lora_segmented},
};

}  // namespace

std::span<const Recipe> adapter_recipes() { return kRecipes; }

}  // namespace tern::conformance
