// What the cases of the ops of attention share.
#pragma once

#include <array>
#include <vector>

#include "conformance/attention_masks.h"

namespace tern::conformance {

// Beside the slots of rows and keys: how many sequences there are, and how many bounds they have.
inline constexpr int kSequencesSlot = 2;
inline constexpr int kBoundsSlot = 3;

struct AttentionSize {
  std::int64_t rows;  // of queries, all sequences together
  std::int64_t sequences;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
  std::int64_t value_dim;
  std::int64_t earlier = 11;  // keys beyond the rows, where there are any
  std::int32_t window = 5;    // where there is one; 0: none after all
  std::int64_t history = 45;  // tokens that a paged cache holds from before, at most
  std::int32_t right = 4;     // window_right, where there is one
  std::int32_t chunk = 7;     // where there are some
  bool chunked = false;       // there are some in each option
};

// Middling, odd with a value size of its own, prime, one row, no row, one long sequence, many heads. Then sizes that
// real models have: groups of 8 with heads of 128; windows over a thousand keys, which are many blocks of a cache;
// heads of 256 that see all of them; single rows of decoding; more rows than 256, and the same in chunks of many
// blocks.
inline constexpr std::array<AttentionSize, 13> kAttentionSizes = {
    {{24, 3, 4, 2, 32, 32},
     {17, 4, 3, 1, 10, 14, 11, 5, 45, 1, 3},
     {37, 2, 6, 3, 64, 64, 11, 5, 45, 100, 16},
     {1, 1, 1, 1, 8, 8},
     {0, 1, 2, 1, 16, 16},
     {301, 1, 2, 1, 16, 16},
     {61, 5, 9, 3, 64, 64},
     {130, 2, 16, 2, 128, 128},
     {33, 2, 8, 1, 96, 96, 1109, 512, 1109},
     {9, 1, 2, 1, 256, 256, 1201, 0, 1201},
     {3, 3, 4, 2, 64, 64, 700, 0, 1109},
     {331, 3, 4, 2, 32, 32, 70, 0, 70},
     {330, 3, 4, 2, 32, 32, 270, 100, 270, 40, 128, true}}};

// Rising sums of `parts` lengths that fill `total`, but for a tail that belongs to no sequence now and then.
[[nodiscard]] std::vector<std::int64_t> cumulative(CaseBuilder& b, std::int64_t parts, std::int64_t total);

// Blocks of a cache from 1 on in any order: block 0 is nobody's.
[[nodiscard]] std::vector<std::int64_t> shuffled_blocks(CaseBuilder& b, std::int64_t count);

// Sequences whose keys lie in blocks of a cache.
struct PagedRows {
  std::int64_t sequences;
  std::int64_t rows;     // of all sequences together
  std::int64_t history;  // keys from before, at most
  std::int64_t longest;  // keys of a sequence, at most
};
struct PagedCase {
  std::vector<std::int64_t> cu_q;  // [sequences + 1]
  std::int64_t max_blocks = 0;
  std::int64_t blocks = 0;
  std::vector<std::int64_t> table;  // [sequences * max_blocks]
  std::vector<std::int64_t> lens;   // [sequences]
};
[[nodiscard]] PagedCase paged_case(CaseBuilder& b, const PagedRows& rows);

// Of attention_paged: block 0 of the caches, which unused entries of a table name, can't be read unseen.
void hide_block_0(CaseBuilder& b);

// Rows of decoding with many keys, `variant.split` of them (see split_recipes.cpp), of both forwards.
inline constexpr int kSplitCases = 7;
void make_split_attention(CaseBuilder& b);
void make_split_attention_paged(CaseBuilder& b);

}  // namespace tern::conformance
