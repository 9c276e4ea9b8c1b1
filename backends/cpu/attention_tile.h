// What the attention kernels share: sequences cut into tiles of query rows, and the packing of rows for products.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "backends/cpu/attention_kernels.h"
#include "backends/cpu/gemm.h"
#include "backends/cpu/kept_memory.h"
#include "backends/cpu/kernel.h"

namespace tern::cpu {

// Keys are taken in blocks at fixed places of their sequence, each with a softmax of its own that is joined to those
// before it: a row's bits then depend on nothing but its own keys.
inline constexpr std::int64_t kKeyBlock = 256;
inline constexpr std::int64_t kTilePanels = 8;    // of the product's rows: a tile is that many times GemmKernels::mr
inline constexpr std::int64_t kMatrixRows = 256;  // of a tile where there are matrix instructions

// Rows of heads, one after the other or in the blocks of a paged cache.
struct HeadRows {
  const std::byte* data = nullptr;  // row 0 of the sequence, head 0
  tern_dtype dtype = TERN_F32;
  std::int64_t stride_row = 0;  // elements
  std::int64_t stride_head = 0;
  std::int64_t stride_element = 0;
  const std::int32_t* table = nullptr;  // paged: row j lies in block table[j / block_size]
  std::int64_t table_stride = 0;
  std::int64_t block_size = 0;
  std::int64_t stride_block = 0;
  // Of a cache in 8 bits, whose elements are codes: what each row of a head is times; null: there are none.
  const float* scales = nullptr;
  std::int64_t scale_block = 0;  // strides
  std::int64_t scale_row = 0;
  std::int64_t scale_head = 0;
  const RowKernels* kernels = nullptr;  // where there are scales

  [[nodiscard]] std::int64_t element_bytes() const { return dtype == TERN_F32 ? 4 : scales != nullptr ? 1 : 2; }
  [[nodiscard]] std::int64_t offset(std::int64_t row, std::int64_t head) const {
    const std::int64_t place =
        table == nullptr ? row * stride_row
                         : table[row / block_size * table_stride] * stride_block + row % block_size * stride_row;
    return place + head * stride_head;
  }
  [[nodiscard]] const std::byte* at(std::int64_t row, std::int64_t head) const;
};
// [rows, heads, dim] from row `first` on.
[[nodiscard]] HeadRows head_rows(const TensorView& tensor, std::int64_t first);
// Scales of rows [first, first + count) of a head, as kernels multiply by them (code_factor).
void read_scales(const HeadRows& rows, std::int64_t head, std::int64_t first, std::int64_t count, float* to);
// One row of one head as floats, and the other way round.
void read_row(const GemmKernels& kernels, const HeadRows& rows, std::int64_t row, std::int64_t head, std::int64_t n,
              float* to);
void write_row(const GemmKernels& kernels, const TensorView& tensor, std::int64_t row, std::int64_t head,
               const float* from, std::int64_t n);

struct Sequence {
  std::int64_t q0, len_q, k0, len_k;
};

// Which keys of its sequence a query row sees within its borders: mask[row of q, key].
struct KeyMask {
  const std::uint8_t* data = nullptr;  // null: all
  std::int64_t stride_row = 0;
  std::int64_t stride_key = 0;

  [[nodiscard]] bool present() const { return data != nullptr; }
  [[nodiscard]] bool shows(std::int64_t row, std::int64_t key) const {
    return data == nullptr || data[row * stride_row + key * stride_key] != 0;
  }
  [[nodiscard]] bool shows_any(std::int64_t row, std::int64_t lo, std::int64_t hi) const;
  // x[i] becomes `value` where key lo + i is hidden.
  void hide(std::int64_t row, std::int64_t lo, std::int64_t hi, float value, float* x) const;
};
[[nodiscard]] KeyMask key_mask(const TensorView& mask);

struct Geometry {
  std::int64_t heads, kv_heads, group, head_dim, value_dim;
  Logits logits;
  bool causal;
  std::int64_t window, window_right, chunk;  // 0: none
  KeyMask mask;

  struct Range {
    std::int64_t lo, hi;
  };
  // Whether the keys that a row sees depend on where it stands.
  [[nodiscard]] bool has_borders() const { return causal || window > 0 || window_right > 0 || chunk > 0; }
  // The keys that row i of the sequence sees, but for those that the mask hides. Both ends rise with i.
  [[nodiscard]] Range visible(const Sequence& s, std::int64_t i) const;
  [[nodiscard]] bool sees_any(const Sequence& s, std::int64_t i) const;
};

// Of attributes that the three ops have alike.
template <typename Attrs>
[[nodiscard]] Geometry make_geometry(const Attrs& attrs, const TensorView& q, std::int64_t kv_heads,
                                     std::int64_t value_dim, const TensorView& mask) {
  return {
      q.dim(1),          kv_heads,     q.dim(1) / kv_heads, q.dim(2),    value_dim,     {attrs.scale, attrs.softcap},
      attrs.causal != 0, attrs.window, attrs.window_right,  attrs.chunk, key_mask(mask)};
}

// Rows [first, first + count) of one kv head's queries; row r is query row r / group of head kv_head * group + r %
// group.
struct QueryTile {
  std::int32_t sequence;
  std::int32_t kv_head;
  std::int64_t first, count;
};
[[nodiscard]] Kept<QueryTile> query_tiles(const Kept<Sequence>& sequences, const Geometry& geometry,
                                          std::int64_t tile_rows);

// What the host said, or the tensor itself.
[[nodiscard]] Kept<std::int32_t> read_lengths(const KernelArgs& args, std::size_t array, int arg);
// The rows of one sequence in the blocks of a cache [blocks, block_size, heads, dim], and a check of the blocks that
// hold keys [range.lo, range.hi): those of keys before may be gone. Throws Failure.
[[nodiscard]] HeadRows paged_rows(const TensorView& cache, const TensorView& table, std::int64_t sequence);
// Scales [blocks, block_size, heads] of a cache in 8 bits; absent: its elements are floats.
void add_scales(const TensorView& scales, const RowKernels& kernels, HeadRows& rows);
void check_pages(const TensorView& cache, const TensorView& table, std::int64_t sequence, Geometry::Range range);
// Checks that cumulated lengths rise within [0, rows]; throws Failure naming `name`.
void check_cumulated(const Kept<std::int32_t>& lengths, std::int64_t rows, const char* name);
[[nodiscard]] Kept<Sequence> packed_sequences(const Kept<std::int32_t>& cu_q, const Kept<std::int32_t>& cu_k);
// What the host promises of a sequence's keys: as many as rows at least where these have borders, and no more than
// `most` or, where there is a mask, than it has columns. Throws Failure naming `name`.
void check_keys(const Kept<Sequence>& sequences, bool has_borders, std::int64_t most, const TensorView& mask,
                const char* name);

// Fills rows [begin, end) of [rows, heads, dim] (or [rows, heads]) with `value`.
void fill_rows(const TensorView& tensor, std::int64_t begin, std::int64_t end, float value);
// The same for rows that no sequence holds.
void fill_outside(const TensorView& tensor, const Kept<std::int32_t>& cumulated, float value);

// What keys or values are multiplied as: bf16 holds a code of 8 bits.
[[nodiscard]] inline tern_dtype panel_dtype(tern_dtype dtype) {
  return dtype == TERN_I8 || dtype == TERN_F8_E4M3 ? TERN_BF16 : dtype;
}
// Whether products of these inputs may be computed in bf16 without rounding any of them.
[[nodiscard]] inline tern_dtype attention_compute(tern_dtype q, tern_dtype k, tern_dtype v) {
  return q == TERN_BF16 && panel_dtype(k) == TERN_BF16 && panel_dtype(v) == TERN_BF16 ? TERN_BF16 : TERN_F32;
}

// Packs rows [first, first + count) of one head for a product in which they are `outer` (scores) or `k` (values).
// `gathered` holds count * dim elements of 4 bytes.
void pack_rows_outer(const PanelFormat& format, const HeadRows& rows, std::int64_t head, std::int64_t first,
                     std::int64_t count, std::int64_t dim, std::int64_t width, std::uint32_t* dst, std::byte* gathered,
                     float* scratch);
void pack_rows_k(const PanelFormat& format, const HeadRows& rows, std::int64_t head, std::int64_t first,
                 std::int64_t count, std::int64_t dim, std::int64_t width, std::uint32_t* dst, std::byte* gathered,
                 float* scratch);

// How the forward's products are computed: by matrix instructions where keys and values are bf16. A query or a weight
// in fp32 is then two parts of bf16, which leaves at most 2^-18 of it out. Over n features that is about 2^-18 /
// sqrt(n) of the sum of |q k|, of which the op's tolerance has room for 2^-24 (2 + 4 sqrt(n)): too little in heads of
// fewer than 32, whose products are fp32.
[[nodiscard]] PanelFormat forward_format(Target target, tern_dtype q, tern_dtype k, tern_dtype v,
                                         std::int64_t head_dim);

// Rows of floats that are the left side of products: in panels of `width` rows or, where there are matrix instructions,
// in tiles.
struct LeftRows {
  const PanelFormat& format;
  std::int64_t rows, k, width;
  std::uint32_t* words;

  [[nodiscard]] static std::int64_t size(const PanelFormat& format, std::int64_t rows, std::int64_t k);  // in words
  void pack(const float* from, std::int64_t ld, float* scratch) const;
  // c[m, n] = rows [first, first + m) by panels of k' >= k, which are b_panel_stride words apart. `first` is a multiple
  // of `width` and of kTileRows.
  struct Product {
    std::int64_t first, m;
    const std::uint32_t* b;
    std::int64_t b_panel_stride;
    float* c;
    std::int64_t ldc, n;
  };
  void multiply(const Product& product) const;
};

// c[m, n] = a b for packed panels of a, or c + a b.
void multiply_panels(const PanelFormat& format, std::int64_t k, const std::uint32_t* a, std::int64_t a_width,
                     const std::uint32_t* b, float* c, std::int64_t ldc, std::int64_t m, std::int64_t n, bool add);

struct AttentionDescs {
  const tern_tensor_desc &q, &k, &v, &mask;
  int kv_rank;
  bool has_codes = false;  // keys and values may be of 8 bits
};
[[nodiscard]] bool check_attention(const AttentionDescs& descs, std::string& reason);

}  // namespace tern::cpu
