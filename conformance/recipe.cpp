#include "conformance/recipe.h"

#include <algorithm>
#include <stdexcept>

#include "base/strings.h"
#include "conformance/attention_cases.h"

namespace tern::conformance {
namespace {

std::vector<Recipe> collect() {
  std::vector<Recipe> all;
  for (auto part :
       {element_recipes(), adapter_recipes(), product_recipes(), layer_recipes(), attention_recipes(), cache_recipes(),
        expert_recipes(), recurrent_recipes(), head_recipes(), index_recipes(), optimizer_recipes()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  std::sort(all.begin(), all.end(), [](const Recipe& a, const Recipe& b) { return a.op < b.op; });
  return all;
}

// Decoding with many keys in each dtype; then dynamic, and with each need.
void add_splits(std::vector<Variant>& out) {
  for (int split = 1; split <= kSplitCases; ++split) {
    for (const tern_dtype dtype : {TERN_F32, TERN_BF16}) out.push_back({.in = dtype, .out = dtype, .split = split});
  }
  out.push_back({.in = TERN_F16, .out = TERN_F16, .split = 2});
  out.push_back({.dynamic = true, .split = 1});
  out.push_back({.in = TERN_BF16, .out = TERN_BF16, .dynamic = true, .split = 4});
  out.push_back({.split = 2, .needs = TERN_NEED_DETERMINISTIC});
  out.push_back({.split = 1, .needs = TERN_NEED_ROW_INVARIANT});
}

// Queries in fp32 by keys and values in bf16, as a cache keeps them: a kernel that rounds a query or a weight to what
// it multiplies shows here, as the tolerance is that of fp32. Sizes, every option, then rows of decoding.
void add_narrow_keys(const Recipe& recipe, std::vector<Variant>& out) {
  for (int size = 0; size < recipe.sizes; ++size) {
    if (size > 2 && size < 6) continue;  // few rows or features, which the others have as well
    out.push_back({.size = size, .option = size % 2, .narrow_keys = true});
  }
  for (int option = 2; option < recipe.options; ++option) {
    out.push_back({.size = option % 3, .option = option, .narrow_keys = true});
  }
  out.push_back({.size = 2, .narrow_keys = true, .layout = Layout::inner_stride});
  out.push_back({.size = 1, .option = 1, .narrow_keys = true, .dynamic = true});
  out.push_back({.size = recipe.sizes - 1, .narrow_keys = true, .needs = TERN_NEED_ROW_INVARIANT});
  for (const int split : {1, 4, 5}) out.push_back({.narrow_keys = true, .split = split});
}

// A cache in 8 bits, of each dtype: sizes in turn with the first two options, further options, layouts, counts,
// specials and needs; then rows of decoding.
void add_codes(const Recipe& recipe, std::vector<Variant>& out) {
  const bool splits = (recipe.features & kSplits) != 0;
  const int options = splits ? recipe.options : 3;  // kv_write's others are of integers
  for (const tern_dtype codes : {TERN_I8, TERN_F8_E4M3}) {
    const int odd = codes == TERN_I8 ? 0 : 1;
    const auto add = [&](Variant variant) {
      variant.codes = codes;
      variant.out = variant.in;
      out.push_back(variant);
    };
    for (int size = 0; size < recipe.sizes; ++size) add({.size = size, .option = (size + odd) % 2});
    for (int option = 2; option < options; ++option) add({.size = (option + odd) % 3, .option = option});
    for (const tern_dtype in : {TERN_BF16, TERN_F16}) {
      for (const int size : {1, 2, 6, recipe.sizes - 1}) add({.size = size, .option = odd, .in = in});
    }
    add({.size = 1, .option = odd, .layout = Layout::padded_rows});
    add({.size = 2, .layout = Layout::inner_stride});
    add({.size = recipe.sizes - 1, .layout = Layout::padded_rows});
    add({.size = 1, .option = 1, .dynamic = true});
    add({.size = 2, .dynamic = true, .high_slots = true});
    for (const int size : {0, 1, 2}) add({.size = size, .option = odd, .special = 1 + size % 2});
    add({.size = 1, .needs = TERN_NEED_DETERMINISTIC});
    if (!splits) continue;
    for (const int size : {1, 6, recipe.sizes - 1}) {
      add({.size = size, .option = odd, .in = TERN_BF16, .needs = TERN_NEED_ROW_INVARIANT});
    }
    add({.size = recipe.sizes - 1, .needs = TERN_NEED_ROW_INVARIANT});
    for (const int split : {1, 4, 5}) add({.split = split});
    add({.in = TERN_BF16, .split = 2});
    // Kernels of 16 bits are others: heads of further sizes, rows of decoding, scales that are NaN, partitions.
    for (const tern_dtype in : {TERN_BF16, TERN_F16}) {
      for (const int size : {7, 9, 10}) add({.size = size, .option = odd, .in = in});
      for (const int size : {2, 6}) add({.size = size, .option = odd, .in = in, .special = 1});
      for (const int split : {1, in == TERN_F16 ? 2 : 4}) add({.in = in, .split = split});
    }
  }
}

// Every size and option in each dtype, then each feature on one middling size.
std::vector<Variant> variants_of(const Recipe& recipe) {
  std::vector<Variant> out;
  auto has = [&](Feature feature) { return (recipe.features & feature) != 0; };
  std::vector<tern_dtype> dtypes = {TERN_F32};
  if (has(kDtypes)) dtypes = {TERN_F32, TERN_BF16, TERN_F16};
  for (int size = 0; size < recipe.sizes; ++size) {
    for (int option = 0; option < recipe.options; ++option) {
      // most options on the first three sizes only: the rest vary the shape
      if (option > 1 && size > 2) continue;
      for (tern_dtype dtype : dtypes) out.push_back({.size = size, .option = option, .in = dtype, .out = dtype});
    }
  }
  auto add = [&](Variant variant) {
    for (tern_dtype dtype : dtypes) {
      if (dtype == TERN_F16) continue;
      variant.in = variant.out = dtype;
      for (int option = 0; option < std::min(recipe.options, recipe.varied); ++option) {
        variant.option = option;
        out.push_back(variant);
      }
    }
  };
  const int middle = std::min(1, recipe.sizes - 1);
  const int last = std::min(2, recipe.sizes - 1);
  if (has(kLayouts)) add({.size = middle, .layout = Layout::padded_rows});
  if (has(kLayouts)) add({.size = last, .layout = Layout::inner_stride});
  if (has(kAccumulates)) add({.size = middle, .accumulate = true});
  if (has(kAccumulates)) add({.size = last, .accumulate = true});
  if (has(kAccumulates) && has(kLayouts)) add({.size = middle, .layout = Layout::padded_rows, .accumulate = true});
  if (has(kAliases)) add({.size = middle, .alias = true});
  const auto args = ops::op_spec(recipe.op).args;
  const auto may_add = [](const ops::ArgSpec& arg) { return (arg.flags & ops::kAccumulate) != 0; };
  if (has(kAccumulates) && std::count_if(args.begin(), args.end(), may_add) > 1) {
    for (const Accumulate which : {Accumulate::first, Accumulate::others}) {
      add({.size = middle, .accumulate = true, .which = which});
    }
  }
  // Libraries have other kernels for large calls: the largest, and every other one down from it.
  for (int size = recipe.sizes - 1; has(kLayouts) && size > 2; size -= 2) {
    Variant variant = {.size = size, .layout = Layout::padded_rows, .accumulate = has(kAccumulates)};
    variant.option = (recipe.sizes - 1 - size) / 2 % std::min(recipe.options, 2);
    for (const tern_dtype dtype : dtypes) {
      if (dtype == TERN_F16) continue;
      variant.in = variant.out = dtype;
      out.push_back(variant);
    }
  }
  if (has(kDynamic)) add({.size = middle, .dynamic = true});
  if (has(kDynamic)) add({.size = last, .dynamic = true});
  if (has(kDynamic) && has(kAccumulates)) add({.size = last, .accumulate = true, .dynamic = true});
  if (has(kDynamic)) {
    for (tern_dtype dtype : dtypes) {
      if (dtype != TERN_F16)
        out.push_back({.size = middle, .in = dtype, .out = dtype, .dynamic = true, .high_slots = true});
    }
    const int other = std::min(recipe.options - 1, 1);  // with two dynamic dimensions, where the op has them
    out.push_back({.size = last, .option = other, .dynamic = true, .high_slots = true});
  }
  if (has(kPacks)) add({.size = middle, .packed = true});
  if (has(kPacks)) add({.size = last, .packed = true});
  if (has(kPacks)) add({.size = middle, .packed = true, .both_uses = true});
  if (has(kSpecials)) add({.size = middle, .special = 1});
  if (has(kSpecials)) add({.size = last, .special = 2});
  add({.size = middle, .needs = TERN_NEED_DETERMINISTIC});
  if (has(kRows)) add({.size = middle, .needs = TERN_NEED_ROW_INVARIANT});
  if (has(kRows)) add({.size = recipe.sizes - 1, .needs = TERN_NEED_ROW_INVARIANT});  // more rows than 256
  if (has(kMixed)) {
    out.push_back({.size = middle, .in = TERN_BF16, .out = TERN_F32});
    out.push_back({.size = middle, .in = TERN_F32, .out = TERN_BF16});
  }
  if (has(kSplits)) add_splits(out);
  if (has(kNarrowKeys)) add_narrow_keys(recipe, out);
  if (has(kCodes)) add_codes(recipe, out);
  return out;
}

}  // namespace

std::span<const Recipe> recipes() {
  static const std::vector<Recipe> all = collect();
  return all;
}

const Recipe& recipe_of(std::uint32_t op) {
  for (const Recipe& recipe : recipes()) {
    if (recipe.op == op) return recipe;
  }
  throw std::out_of_range(cat("no cases are known for op ", op));
}

Case CaseSource::make(std::uint64_t data_seed) const {
  CaseBuilder builder(op, variant, mix_key(shape_seed, data_seed));
  recipe_of(op).make(builder);
  return builder.take();
}

std::vector<CaseSource> case_sources(std::uint32_t op, std::int64_t kv_block, bool any_tails) {
  std::vector<CaseSource> out;
  for (Variant variant : variants_of(recipe_of(op))) {
    variant.kv_block = kv_block;
    variant.any_tails = any_tails;
    out.push_back({op, variant, out.size()});
  }
  return out;
}

}  // namespace tern::conformance
