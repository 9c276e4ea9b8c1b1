// How to make cases of each op: shapes, options and what can be varied.
#pragma once

#include <span>
#include <vector>

#include "conformance/case_builder.h"

namespace tern::conformance {

enum Feature : std::uint32_t {
  kDtypes = 1,   // f32, bf16 and f16 as the main dtype
  kMixed = 2,    // output and input dtypes may differ
  kLayouts = 4,  // strides
  kAccumulates = 8,
  kAliases = 16,
  kDynamic = 32,
  kSpecials = 64,      // NaN and infinity make sense
  kPacks = 128,        // a weight in a private layout
  kRows = 256,         // rows are independent: row_invariant can be asked
  kReduces = 512,      // deterministic can be told from not
  kSplits = 1024,      // keys of a row can be cut into partitions
  kNarrowKeys = 2048,  // keys and values may be narrower than queries
  kCodes = 4096,       // keys and values may lie in a cache in 8 bits
};

struct Recipe {
  std::uint32_t op;
  int sizes;
  int options;
  std::uint32_t features;
  void (*make)(CaseBuilder& builder);
  int varied = 3;  // options, the first ones, that are tried with every feature
};

[[nodiscard]] std::span<const Recipe> recipes();
[[nodiscard]] const Recipe& recipe_of(std::uint32_t op);

// A case for every seed with the same descs, so that data can change under one plan.
struct CaseSource {
  std::uint32_t op = 0;
  Variant variant;
  std::uint64_t shape_seed = 0;
  [[nodiscard]] Case make(std::uint64_t data_seed) const;
};

// Every variant of an op's recipe; paged caches in blocks of `kv_block` tokens, NaN beyond counts where `any_tails`.
[[nodiscard]] std::vector<CaseSource> case_sources(std::uint32_t op, std::int64_t kv_block = 16,
                                                   bool any_tails = false);

std::span<const Recipe> element_recipes();  // movement and arithmetic
std::span<const Recipe> adapter_recipes();  // dropout and low-rank products
std::span<const Recipe> product_recipes();  // and tables
std::span<const Recipe> layer_recipes();    // norms, rotations, activations
std::span<const Recipe> attention_recipes();
std::span<const Recipe> cache_recipes();
std::span<const Recipe> index_recipes();      // keys that are chosen
std::span<const Recipe> expert_recipes();     // mixtures of experts
std::span<const Recipe> recurrent_recipes();  // states carried through sequences
std::span<const Recipe> head_recipes();       // loss, sampler
std::span<const Recipe> optimizer_recipes();

}  // namespace tern::conformance
