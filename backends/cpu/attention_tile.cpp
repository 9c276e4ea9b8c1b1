#include "backends/cpu/attention_tile.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/check.h"
#include "backends/cpu/matmul_operand.h"
#include "base/dtype.h"
#include "base/half.h"
#include "base/status.h"
#include "base/strings.h"

namespace tern::cpu {
namespace {

// Codes of a row of a head to bf16.
void widen_row(const HeadRows& rows, std::int64_t row, std::int64_t head, std::int64_t dim, std::uint16_t* to) {
  const std::byte* from = rows.at(row, head);
  if (rows.stride_element == 1) return rows.kernels->widen_codes(rows.dtype, from, dim, to);
  for (std::int64_t i = 0; i < dim; ++i)
    rows.kernels->widen_codes(rows.dtype, from + i * rows.stride_element, 1, to + i);
}

// The rows of a head side by side, as they are stored, codes as bf16: [count, dim].
GemmOperand gather(const HeadRows& rows, std::int64_t head, std::int64_t first, std::int64_t count, std::int64_t dim,
                   std::byte* to) {
  GemmOperand operand;
  operand.dtype = panel_dtype(rows.dtype);
  if (rows.scales != nullptr) {
    auto* wide = reinterpret_cast<std::uint16_t*>(to);
    for (std::int64_t r = 0; r < count; ++r) widen_row(rows, first + r, head, dim, wide + r * dim);
    operand.data = to;
    operand.stride_outer = dim;
    operand.stride_k = 1;
    return operand;
  }
  if (rows.table == nullptr) {
    operand.data = rows.at(first, head);
    operand.stride_outer = rows.stride_row;
    operand.stride_k = rows.stride_element;
    return operand;
  }
  const std::int64_t size = dtype_size(rows.dtype);
  for (std::int64_t r = 0; r < count; ++r) {
    const std::byte* from = rows.at(first + r, head);
    std::byte* line = to + r * dim * size;
    if (rows.stride_element == 1) {
      std::memcpy(line, from, static_cast<std::size_t>(dim * size));
      continue;
    }
    for (std::int64_t i = 0; i < dim; ++i) {
      std::memcpy(line + i * size, from + i * rows.stride_element * size, static_cast<std::size_t>(size));
    }
  }
  operand.data = to;
  operand.stride_outer = dim;
  operand.stride_k = 1;
  return operand;
}

void store(tern_dtype dtype, void* data, std::int64_t index, float value) {
  if (dtype == TERN_F32) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<std::uint16_t*>(data)[index] = dtype == TERN_BF16 ? float_to_bf16(value) : float_to_fp16(value);
  }
}

}  // namespace

const std::byte* HeadRows::at(std::int64_t row, std::int64_t head) const {
  return data + offset(row, head) * element_bytes();
}

HeadRows head_rows(const TensorView& tensor, std::int64_t first) {
  HeadRows rows;
  rows.dtype = tensor.dtype();
  rows.data = tensor.data<std::byte>() + first * tensor.stride(0) * dtype_size(rows.dtype);
  rows.stride_row = tensor.stride(0);
  rows.stride_head = tensor.stride(1);
  rows.stride_element = tensor.stride(2);
  return rows;
}

void read_scales(const HeadRows& rows, std::int64_t head, std::int64_t first, std::int64_t count, float* to) {
  constexpr std::int64_t kUsual = 16;  // tokens of a block
  std::int64_t block = first / rows.block_size, place = first % rows.block_size;
  for (std::int64_t done = 0; done < count; ++block, place = 0) {
    const std::int64_t n = std::min(count - done, rows.block_size - place);
    const float* from = rows.scales + rows.table[block * rows.table_stride] * rows.scale_block +
                        place * rows.scale_row + head * rows.scale_head;
    if (rows.scale_row == 1 && n == kUsual) {  // so many that it's no call
      std::memcpy(to + done, from, kUsual * sizeof(float));
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[done + i] = from[i * rows.scale_row];
    }
    done += n;
  }
  if (const float factor = code_factor(rows.dtype); factor != 1.0F) rows.kernels->scale(to, factor, count);
}

void read_row(const GemmKernels& kernels, const HeadRows& rows, std::int64_t row, std::int64_t head, std::int64_t n,
              float* to) {
  const std::byte* from = rows.at(row, head);
  if (rows.stride_element == 1) return kernels.widen(rows.dtype, from, to, n);
  for (std::int64_t i = 0; i < n; ++i) {
    kernels.widen(rows.dtype, from + i * rows.stride_element * dtype_size(rows.dtype), to + i, 1);
  }
}

void write_row(const GemmKernels& kernels, const TensorView& tensor, std::int64_t row, std::int64_t head,
               const float* from, std::int64_t n) {
  const std::int64_t at = row * tensor.stride(0) + head * tensor.stride(1);
  if (tensor.stride(2) == 1) {
    kernels.narrow(tensor.dtype(), from, tensor.data<std::byte>() + at * dtype_size(tensor.dtype()), n);
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) store(tensor.dtype(), tensor.planes[0], at + i * tensor.stride(2), from[i]);
}

bool KeyMask::shows_any(std::int64_t row, std::int64_t lo, std::int64_t hi) const {
  if (data == nullptr) return lo < hi;
  for (std::int64_t key = lo; key < hi; ++key) {
    if (shows(row, key)) return true;
  }
  return false;
}

void KeyMask::hide(std::int64_t row, std::int64_t lo, std::int64_t hi, float value, float* x) const {
  const std::uint8_t* line = data + row * stride_row + lo * stride_key;
  if (stride_key == 1) {
    for (std::int64_t i = 0; i < hi - lo; ++i) x[i] = line[i] != 0 ? x[i] : value;
    return;
  }
  for (std::int64_t i = 0; i < hi - lo; ++i) x[i] = line[i * stride_key] != 0 ? x[i] : value;
}

KeyMask key_mask(const TensorView& mask) {
  if (!mask.present()) return {};
  return {mask.data<const std::uint8_t>(), mask.stride(0), mask.stride(1)};
}

bool Geometry::sees_any(const Sequence& s, std::int64_t i) const {
  const Range seen = visible(s, i);
  return mask.shows_any(s.q0 + i, seen.lo, seen.hi);
}

Geometry::Range Geometry::visible(const Sequence& s, std::int64_t i) const {
  if (!has_borders()) return {0, s.len_k};
  const std::int64_t p = i + s.len_k - s.len_q;
  std::int64_t lo = 0;
  std::int64_t hi = causal ? p + 1 : s.len_k;
  if (window > 0) lo = p + 1 - window;
  if (window_right > 0) hi = std::min(hi, p + window_right);
  if (chunk > 0) {
    lo = std::max(lo, p / chunk * chunk);
    hi = std::min(hi, (p / chunk + 1) * chunk);
  }
  return {std::max<std::int64_t>(0, lo), std::clamp<std::int64_t>(hi, 0, s.len_k)};
}

Kept<QueryTile> query_tiles(const Kept<Sequence>& sequences, const Geometry& geometry, std::int64_t tile_rows) {
  Kept<QueryTile> tiles;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const std::int64_t rows = sequences[s].len_q * geometry.group;
    // The last rows of a causal sequence see the most keys: they begin first.
    for (std::int64_t tile = (rows + tile_rows - 1) / tile_rows - 1; tile >= 0; --tile) {
      const std::int64_t first = tile * tile_rows;
      for (std::int64_t h = 0; h < geometry.kv_heads; ++h) {
        tiles.push_back(
            {static_cast<std::int32_t>(s), static_cast<std::int32_t>(h), first, std::min(tile_rows, rows - first)});
      }
    }
  }
  return tiles;
}

Kept<std::int32_t> read_lengths(const KernelArgs& args, std::size_t array, int arg) {
  if (array < args.arrays.size()) {
    const tern_host_array& given = args.arrays[array];
    return {given.data, given.data + given.count};
  }
  const TensorView& tensor = args[arg];
  Kept<std::int32_t> lengths;
  for (std::int64_t i = 0; i < tensor.dim(0); ++i) {
    lengths.push_back(tensor.data<std::int32_t>()[i * tensor.stride(0)]);
  }
  return lengths;
}

void add_scales(const TensorView& scales, const RowKernels& kernels, HeadRows& rows) {
  if (!scales.present()) return;
  rows.scales = scales.data<float>();
  rows.scale_block = scales.stride(0);
  rows.scale_row = scales.stride(1);
  rows.scale_head = scales.stride(2);
  rows.kernels = &kernels;
}

HeadRows paged_rows(const TensorView& cache, const TensorView& table, std::int64_t sequence) {
  HeadRows rows;
  rows.data = cache.data<std::byte>();
  rows.dtype = cache.dtype();
  rows.stride_block = cache.stride(0);
  rows.stride_row = cache.stride(1);
  rows.stride_head = cache.stride(2);
  rows.stride_element = cache.stride(3);
  rows.block_size = cache.dim(1);
  rows.table = table.data<std::int32_t>() + sequence * table.stride(0);
  rows.table_stride = table.stride(1);
  return rows;
}

void check_pages(const TensorView& cache, const TensorView& table, std::int64_t sequence, Geometry::Range range) {
  const std::int64_t page = cache.dim(1), length = range.hi;
  const std::int64_t pages = length <= 0 || page == 0 ? 0 : (length - 1) / page + 1;
  if (length < 0 || pages > table.dim(1) || (length > 0 && page == 0)) {
    throw Failure(data_error(cat("kv_lens[", sequence, "]"), cat("0 to ", table.dim(1) * page, " keys"), cat(length),
                             kCallAsSpecified));
  }
  for (std::int64_t b = range.lo / std::max<std::int64_t>(page, 1); b < pages; ++b) {
    const std::int32_t block = table.data<std::int32_t>()[sequence * table.stride(0) + b * table.stride(1)];
    if (block >= 1 && block < cache.dim(0)) continue;  // block 0 is nobody's
    throw Failure(data_error(cat("block_table[", sequence, ", ", b, "]"), cat("1 to ", cache.dim(0) - 1), cat(block),
                             kCallAsSpecified));
  }
}

void check_cumulated(const Kept<std::int32_t>& lengths, std::int64_t rows, const char* name) {
  std::int64_t last = 0;
  for (const std::int32_t at : lengths) {
    if (at < last || at > rows) {
      throw Failure(data_error(name, cat("numbers that rise from 0 to at most ", rows), cat(at, " after ", last),
                               kCallAsSpecified));
    }
    last = at;
  }
}

Kept<Sequence> packed_sequences(const Kept<std::int32_t>& cu_q, const Kept<std::int32_t>& cu_k) {
  if (cu_q.size() != cu_k.size()) {
    throw Failure(
        data_error("cu_seqlens_k", cat(cu_q.size(), " entries, as cu_seqlens_q"), cat(cu_k.size()), kCallAsSpecified));
  }
  Kept<Sequence> sequences;
  for (std::size_t s = 0; s + 1 < cu_q.size(); ++s) {
    sequences.push_back({cu_q[s], cu_q[s + 1] - cu_q[s], cu_k[s], cu_k[s + 1] - cu_k[s]});
  }
  return sequences;
}

void check_keys(const Kept<Sequence>& sequences, bool has_borders, std::int64_t most, const TensorView& mask,
                const char* name) {
  if (mask.present()) most = std::min(most, mask.dim(1));
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const Sequence& sequence = sequences[s];
    const std::int64_t least = has_borders ? sequence.len_q : 0;
    if (sequence.len_k >= least && sequence.len_k <= most) continue;
    throw Failure(
        data_error(name, cat(least, " to ", most, " keys of sequence ", s), cat(sequence.len_k), kCallAsSpecified));
  }
}

void fill_rows(const TensorView& tensor, std::int64_t begin, std::int64_t end, float value) {
  if (!tensor.present()) return;
  const bool flat = tensor.desc.rank == 2;
  for (std::int64_t r = begin; r < end; ++r) {
    for (std::int64_t h = 0; h < tensor.dim(1); ++h) {
      const std::int64_t at = r * tensor.stride(0) + h * tensor.stride(1);
      for (std::int64_t i = 0; i < (flat ? 1 : tensor.dim(2)); ++i) {
        store(tensor.dtype(), tensor.planes[0], at + (flat ? 0 : i * tensor.stride(2)), value);
      }
    }
  }
}

void fill_outside(const TensorView& tensor, const Kept<std::int32_t>& cumulated, float value) {
  if (!tensor.present()) return;
  fill_rows(tensor, 0, cumulated.empty() ? tensor.dim(0) : cumulated.front(), value);
  if (!cumulated.empty()) fill_rows(tensor, cumulated.back(), tensor.dim(0), value);
}

void pack_rows_outer(const PanelFormat& format, const HeadRows& rows, std::int64_t head, std::int64_t first,
                     std::int64_t count, std::int64_t dim, std::int64_t width, std::uint32_t* dst, std::byte* gathered,
                     float* scratch) {
  const GemmOperand operand = gather(rows, head, first, count, dim, gathered);
  pack_panels(format, operand, 0, count, 0, dim, width, dst, width * format.steps(dim), scratch);
}

void pack_rows_k(const PanelFormat& format, const HeadRows& rows, std::int64_t head, std::int64_t first,
                 std::int64_t count, std::int64_t dim, std::int64_t width, std::uint32_t* dst, std::byte* gathered,
                 float* scratch) {
  GemmOperand operand = gather(rows, head, first, count, dim, gathered);
  std::swap(operand.stride_outer, operand.stride_k);
  pack_panels(format, operand, 0, dim, 0, count, width, dst, width * format.steps(count), scratch);
}

PanelFormat forward_format(Target target, tern_dtype q, tern_dtype k, tern_dtype v, std::int64_t head_dim) {
  constexpr std::int64_t kFewFeatures = 32;
  const bool parts_suffice = q == TERN_BF16 || head_dim >= kFewFeatures;
  const bool halves = panel_dtype(k) == TERN_BF16 && panel_dtype(v) == TERN_BF16 && parts_suffice;
  PanelFormat format = panel_format(target, halves && q != TERN_F16 ? TERN_BF16 : attention_compute(q, k, v));
  format.by_rows = format.pairs && format.kernels->multiply_rows_bf16 != nullptr;
  format.parts = q == TERN_F32 ? 2 : 1;
  return format.by_rows ? format : panel_format(target, attention_compute(q, k, v));
}

std::int64_t LeftRows::size(const PanelFormat& format, std::int64_t rows, std::int64_t k) {
  const std::int64_t steps = format.steps(k);
  if (!format.by_rows) return rows * steps;
  return format.parts * round_up(rows, kTileRows) * round_up(steps, kTilePairs);
}

void LeftRows::pack(const float* from, std::int64_t ld, float* scratch) const {
  const std::int64_t steps = format.steps(k);
  if (format.by_rows) {
    const std::int64_t pairs = round_up(steps, kTilePairs);
    return format.kernels->split_rows({.from = from,
                                       .ld = ld,
                                       .rows = rows,
                                       .k = k,
                                       .to = words,
                                       .pairs = pairs,
                                       .parts = format.parts,
                                       .part = round_up(rows, kTileRows) * pairs});
  }
  GemmOperand operand;
  operand.data = from;
  operand.stride_outer = ld;
  operand.stride_k = 1;
  pack_panels(format, operand, 0, rows, 0, k, width, words, width * steps, scratch);
}

void LeftRows::multiply(const Product& p) const {
  const std::int64_t steps = format.steps(k);
  if (format.by_rows) {
    const RowsOrder order = rows_in_tiles(round_up(steps, kTilePairs));
    return format.kernels->multiply_rows_bf16({.k = steps,
                                               .a = words + order.at(p.first, 0),
                                               .a_order = order,
                                               .parts = format.parts,
                                               .a_part = round_up(rows, kTileRows) / kTileRows * order.block,
                                               .b = p.b,
                                               .b_panel_stride = p.b_panel_stride,
                                               .from = nullptr,
                                               .ld_from = 0,
                                               .c = p.c,
                                               .ldc = p.ldc,
                                               .m = p.m,
                                               .n = static_cast<int>(p.n)});
  }
  for (std::int64_t r = 0; r < p.m; r += width) {
    format.multiply({.k = steps,
                     .a = words + (p.first + r) * steps,
                     .a_stride = width,
                     .b = p.b,
                     .b_panel_stride = p.b_panel_stride,
                     .from = nullptr,
                     .ld_from = 0,
                     .c = p.c + r * p.ldc,
                     .ldc = p.ldc,
                     .m = static_cast<int>(std::min(width, p.m - r)),
                     .n = static_cast<int>(p.n)});
  }
}

void multiply_panels(const PanelFormat& format, std::int64_t k, const std::uint32_t* a, std::int64_t a_width,
                     const std::uint32_t* b, float* c, std::int64_t ldc, std::int64_t m, std::int64_t n, bool add) {
  const std::int64_t steps = format.steps(k);
  for (std::int64_t r = 0; r < m; r += a_width) {
    format.multiply({.k = steps,
                     .a = a + r * steps,
                     .a_stride = a_width,
                     .b = b,
                     .b_panel_stride = steps * format.kernels->nr,
                     .from = add ? c + r * ldc : nullptr,
                     .ld_from = ldc,
                     .c = c + r * ldc,
                     .ldc = ldc,
                     .m = static_cast<int>(std::min(a_width, m - r)),
                     .n = static_cast<int>(n)});
  }
}

bool check_attention(const AttentionDescs& descs, std::string& reason) {
  const auto& [q, k, v, mask, kv_rank, has_codes] = descs;
  for (const auto* desc : {&q, &k, &v}) {
    const tern_dtype dtype = desc == &q || !has_codes ? desc->dtype : panel_dtype(desc->dtype);
    if (is_product_dtype(dtype)) continue;
    reason = cat("an input is ", dtype_name(desc->dtype), ", attention takes f32, bf16 and f16");
    return false;
  }
  if (q.rank != 3 || k.rank != kv_rank || v.rank != kv_rank) {
    reason = "q, k or v has the wrong rank";
    return false;
  }
  const std::int64_t kv_heads = k.shape[kv_rank - 2];
  bool fit = k.shape[kv_rank - 1] == q.shape[2];
  for (int d = 0; d + 1 < kv_rank; ++d) fit = fit && k.shape[d] == v.shape[d];
  if (!fit || kv_heads == 0 || q.shape[1] % kv_heads != 0) {
    reason = "the shapes of q, k and v do not fit each other";
    return false;
  }
  if (mask.rank != 0 && (mask.dtype != TERN_BOOL || mask.rank != 2 || mask.shape[0] != q.shape[0])) {
    reason = "the dtype or the shape of mask does not fit q";
    return false;
  }
  return true;
}

}  // namespace tern::cpu
