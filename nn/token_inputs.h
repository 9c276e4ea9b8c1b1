// What a run is given of its tokens: graph inputs and the host's numbers for them, declared in one place for
// generating, scoring and training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tern::graph {
struct RunInputs;
}

namespace tern::nn {

using ops::Value;

// Where a run's actual sizes lie in tern_host_args.counts.
enum CountSlot : std::uint8_t {
  kTokens,
  kSequenceBounds,  // sequences + 1
  kSequences,
  kRows,          // tokens whose hidden states go through the head
  kTableEntries,  // of block tables, that a step changes
};

// A key-value cache in blocks. Beside keys and values, the device keeps the ids of the tokens in the same blocks, and a
// table of the blocks of every sequence that runs: a sequence sits in a row of it, its seat.
struct PagedCapacity {
  std::int64_t max_kv_len = 0;  // tokens of one sequence
  std::int64_t max_blocks = 0;  // of one sequence
  std::int64_t num_blocks = 0;  // with block 0, which no sequence holds (ops/kv_write.h)
  std::int64_t block_size = 0;  // tokens
  std::int64_t num_seats = 0;   // with seat 0, where nobody sits
  tern_dtype dtype = TERN_F32;
  std::string scope;  // before the names of the cache's tensors (nn/cache_spec.h)

  // Blocks that a run of so many tokens and sequences can touch first, all sequences together.
  [[nodiscard]] std::int64_t new_blocks(std::int64_t tokens, std::int64_t sequences) const {
    return tokens / block_size + sequences;
  }
};
// The tensors of such a cache that are no layer's.
[[nodiscard]] TensorDesc token_cache_desc(const PagedCapacity& paged);   // [num_blocks, block_size, 1, 1] i32
[[nodiscard]] TensorDesc block_tables_desc(const PagedCapacity& paged);  // [num_seats, max_blocks, 1, 1] i32

// What a run with images is given beside its tokens.
struct ImageCapacity {
  std::int64_t hidden_size = 0;
  std::int64_t deepstack = 0;   // layers after which further features are added
  std::int64_t rope_pairs = 0;  // width of rope tables, where images have positions of three dimensions; 0: none
  std::vector<std::int64_t>
      windows;  // of layers, where tokens of one image see each other both ways; empty: they don't
};

// The same as inputs of a graph.
struct ImageInputs {
  Value text_ids;                // [tokens] i32: -1 where a feature takes an embedding's place
  Value features;                // [tokens, hidden] f32: zeros where an embedding stands
  std::vector<Value> deepstack;  // [tokens, hidden] f32 each: added to the stream after layers 0, 1, ...
  Value rope_cos;                // [tokens, rope_pairs] f32: a row for each token, which `positions` then counts; or
  Value rope_sin;                // absent
  std::map<std::int64_t, Value> masks;  // by the window of a layer, [tokens, max_kv_len] bool: what a token sees
};

// The largest run that a program is planned for.
struct TokenCapacity {
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;
  std::int64_t rows = 0;        // 0: what reads the hidden states declares its own
  std::int64_t max_seqlen = 0;  // of one sequence
  bool dropout = false;
  bool token_types = false;
  bool adapter_slots = false;
  std::int64_t replay_rows = 0;         // of the tensors where layers leave what states are advanced by; 0: they don't
  std::optional<PagedCapacity> paged;   // none: keys are those of the run
  std::optional<ImageCapacity> images;  // of a run over a paged cache; none: it has none
};

// The tokens of one run, padding-free: sequences end to end.
struct TokenInputs {
  Value ids;            // [tokens] i32
  Value positions;      // [tokens] i32
  Value cu_seqlens;     // [sequences + 1] i32
  Value rows;           // [rows] i32: which tokens go through the head; may be absent
  Value dropout_keys;   // [tokens] i64; absent: no dropout
  Value token_types;    // [tokens] i32: which text of a pair (encoders); absent: the model reads none
  Value adapter_slots;  // [tokens] i32: which adapter a token has (Context::adapter_slots); absent: none has any
  std::int64_t max_seqlen = 0;
  // Paged key-value cache; absent slots: keys are those of this run.
  Value slots;         // [tokens] i32
  Value kv_lens;       // [sequences] i32
  Value block_table;   // [sequences, max_blocks] i32: of this run's sequences
  Value block_tables;  // [num_seats, max_blocks] i32: of every seat
  Value seats;         // [sequences] i32: where this run's sequences sit
  Value token_cache;   // [num_blocks, block_size] i32: ids, those of this run included
  std::int64_t max_kv_len = 0;
  std::int64_t num_blocks = 0;
  std::int64_t block_size = 0;
  std::int64_t num_seats = 0;
  tern_dtype cache_dtype = TERN_F32;
  std::string cache_scope;
  // Of layers with states (CacheSpec::replays): they leave what these are advanced by at `rows`, in tensors of
  // replay_rows; or advance them by what was left there.
  std::int64_t replay_rows = 0;
  Value replayed;  // [tokens] i32: which rows of these; absent: none
  std::optional<ImageInputs> images;

  [[nodiscard]] bool paged() const { return slots.present(); }
};

// Declares the inputs, each under its field's name; what stands beyond the actual counts is harmless: slots lie
// in block 0, rows are skipped, sequences are empty. With a paged cache the run's ids are written into it, and
// `table_values` into the block tables at `table_slots` (seat * max_blocks + the block's index), before anything reads
// them; `seats` says where the run's sequences sit.
[[nodiscard]] TokenInputs declare_tokens(graph::Graph& graph, const TokenCapacity& capacity);

// Of a run that only advances states by rows that were left: replayed, cu_seqlens, kv_lens and seats.
[[nodiscard]] TokenInputs declare_replay(graph::Graph& graph, const TokenCapacity& capacity);

// Names of the inputs of ImageInputs that there are several of.
[[nodiscard]] std::string deepstack_name(std::int64_t layer);
[[nodiscard]] std::string mask_name(std::int64_t window);

// An input of one number, or one line of `width` numbers, for each of `rows`: [rows] or [rows, width].
[[nodiscard]] Value declare_row_input(graph::Graph& graph, const std::string& name, tern_dtype dtype, std::int64_t rows,
                                      std::int64_t width = 0, graph::Padding padding = graph::Padding::zero);

// The host's numbers of one run, in the order of TokenInputs. Columns that a graph did not declare stay empty.
struct TokenColumns {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> cu_seqlens = {0};
  std::vector<std::int32_t> rows;
  std::vector<std::int64_t> dropout_keys;
  std::vector<std::int32_t> token_types;
  std::vector<std::int32_t> slots;
  std::vector<std::int32_t> kv_lens;
  std::vector<std::int32_t> seats;         // [sequences]
  std::vector<std::int32_t> table_slots;   // [entries]
  std::vector<std::int32_t> table_values;  // [entries]
};

// Puts the columns and their counts into `run`, which reads them in place: they must live until the run is over.
void give_tokens(graph::RunInputs& run, const TokenColumns& columns);

template <typename T>
[[nodiscard]] std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace tern::nn
