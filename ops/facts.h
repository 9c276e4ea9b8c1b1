// What graphs, checkers and devices must know of an op beside its numbers: each op says it in its rules (ops/rules.h),
// and no switch over ops elsewhere repeats it. Below stand the usual answers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/emit.h"

namespace tern::ops {

// A call by its descs alone, as facts are asked of it.
struct CallDesc {
  std::uint32_t op = 0;
  std::span<const TensorDesc> args;  // in the table's order
  std::span<const std::byte> attrs;
  std::uint32_t accumulate = 0;  // bit per argument

  [[nodiscard]] const TensorDesc& operator[](int arg) const { return args[static_cast<std::size_t>(arg)]; }
  [[nodiscard]] bool has(int arg) const { return is_present((*this)[arg]); }
  // Whether the call gives the argument a value, and whether the argument has one before.
  [[nodiscard]] bool writes(int arg) const;
  [[nodiscard]] bool reads(int arg) const;
};

// The op's length arguments as the host gives them, in the table's order.
using HostArrays = std::span<const tern_host_array>;

struct Work {
  double flops = 0;  // of matrix products and attention; 2 a multiply-add. Elementwise ops count none
  double bytes = 0;  // each argument read or written once; of tables and caches only the rows touched
};

// What a call must compute and move at least; dynamic dimensions are cut to their counts before it is asked.
[[nodiscard]] double no_products(const CallDesc& call, HostArrays lengths);
// Bytes of one argument: all of it once, or twice where it is both read and written.
[[nodiscard]] double each_argument_once(const CallDesc& call, int arg, HostArrays lengths);
// Parts of other answers: all of an argument; of a table, the rows that an index argument names.
[[nodiscard]] double whole_bytes(const CallDesc& call, int arg);
[[nodiscard]] double bytes_of_rows(const CallDesc& call, int table, int index);

// For an op that has no packable argument.
[[nodiscard]] std::uint32_t no_weights(const CallDesc& call, int arg);
// Of a weight [out, in]: x w^T is its forward, x w the gradient of its input.
[[nodiscard]] std::uint32_t product_use(bool transposed);

// The dimension of an argument that counts independent rows, or -1: no argument has any; the first of each; the one
// that the op's contract calls "rows".
[[nodiscard]] int no_rows(const CallDesc& call, int arg);
[[nodiscard]] int first_dimension(const CallDesc& call, int arg);
[[nodiscard]] int named_rows(const CallDesc& call, int arg);

// How one call is computed as several, each on a part of one dimension: what a device can't allocate at once, or what
// ranks share, is cut there.
struct Split {
  struct Along {
    int arg;
    int dim;
  };
  std::vector<Along> along;  // arguments that are cut, and where; the others are whole in every part
  std::vector<int> sums;     // outputs that are the sum of the parts' outputs
  std::vector<int> indices;  // arguments that hold places along what is cut: a part takes its own (ops/shard_index.h)
  std::vector<int> once;     // arguments of the first part alone
  // Emits what the parts must know of each other, and gives it to their calls. Null: nothing.
  void (*complete)(Emitter& emitter, std::span<OpCall> parts) = nullptr;
};
// Of dimension `dim` of a present argument. None: the call can't be cut there.
[[nodiscard]] std::optional<Split> no_split(const CallDesc& call, int arg, int dim);
// Every present argument that has the same dimension by name is cut: for ops whose outputs have it, and where each of
// its entries stands alone.
[[nodiscard]] std::optional<Split> by_name(const CallDesc& call, int arg, int dim);
// A product [m, k] x [k, n]: by the letters of each argument's dimensions, "" for those that are absent. What is cut
// along k is summed, and `bias` is added once.
[[nodiscard]] Split split_product(std::span<const std::string_view> letters, int arg, int dim, int bias, int out);

// Where the numbers of index arguments must lie. Oracles and kernels trust them.
struct Indices {
  struct Range {  // every entry, both ends included
    int arg;
    std::int64_t least;
    std::int64_t most;
  };
  struct Sequences {  // where sequences begin, and where the last one ends: from 0 on rising to at most the rows there
                      // are
    int arg;
    int rows_of;            // the argument whose first dimension they cut
    std::int64_t longest;   // no sequence has more rows
    bool covers = false;    // nor fewer than the first Sequences give it
    std::int64_t each = 1;  // rows of each entry of that dimension
  };
  // Keys of each sequence, this step's included, in blocks of a cache [blocks, block_size, ...]; or what else a row of
  // the table has in blocks, where there are no `sequences`.
  struct Paged {
    int kv_lens;
    int block_table;
    int cache;
    std::int64_t longest;
  };
  std::vector<Range> ranges;
  std::vector<Sequences> sequences;  // of queries, then of keys: equally many
  std::optional<Paged> paged;        // the keys of `sequences`
};
[[nodiscard]] Indices no_indices(const CallDesc& call);

// The commands of tern that cannot do without an op.
enum NeededBy : std::uint32_t {
  kNoCommand = 0,  // other ops are made of it, or it is kept for what is to come
  kInfer = 1,
  kTrain = 2,
  kServe = 4,
  kEveryCommand = kInfer | kTrain | kServe,
};
[[nodiscard]] constexpr NeededBy operator|(NeededBy a, NeededBy b) {
  return static_cast<NeededBy>(std::uint32_t{a} | std::uint32_t{b});
}
// "infer", "train" or "serve".
[[nodiscard]] std::optional<NeededBy> find_command(std::string_view word);
[[nodiscard]] std::string command_words(std::uint32_t commands);  // "infer, train"

}  // namespace tern::ops
