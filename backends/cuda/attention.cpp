// attention and attention_paged: keys lie end to end, or in blocks. Three kernels: `decode` for few rows a sequence and
// `flash` for many, both of the matrix units, and `tile` in plain fp32 for all the rest.
#include "backends/cuda/attention.h"

#include <array>
#include <span>

namespace tern::cuda {
namespace {

// Where the arguments of the two ops stand.
struct Places {
  AttentionArgs args;
  int table;  // -1: none
  int bounds_q;
  int bounds_k;
  int out;
  int lse;
};
constexpr Places kEndToEnd = {
    {TERN_ATTENTION_Q, TERN_ATTENTION_K, TERN_ATTENTION_V, TERN_ATTENTION_MASK, TERN_ATTENTION_SINKS, 3},
    -1,
    TERN_ATTENTION_CU_SEQLENS_Q,
    TERN_ATTENTION_CU_SEQLENS_K,
    TERN_ATTENTION_OUT,
    TERN_ATTENTION_LSE};
constexpr Places kPaged = {
    {TERN_ATTENTION_PAGED_Q, TERN_ATTENTION_PAGED_K_CACHE, TERN_ATTENTION_PAGED_V_CACHE, TERN_ATTENTION_PAGED_MASK,
     TERN_ATTENTION_PAGED_SINKS, 4, TERN_ATTENTION_PAGED_K_SCALE, TERN_ATTENTION_PAGED_V_SCALE},
    TERN_ATTENTION_PAGED_BLOCK_TABLE,
    TERN_ATTENTION_PAGED_CU_SEQLENS_Q,
    TERN_ATTENTION_PAGED_KV_LENS,
    TERN_ATTENTION_PAGED_OUT,
    TERN_ATTENTION_PAGED_LSE};
[[nodiscard]] const Places& places_of(const tern_op_desc& op) {
  return op.op == TERN_OP_ATTENTION ? kEndToEnd : kPaged;
}

enum Variant : int { kTile, kFlash, kDecode };

// What the choice of tiles depends on: nothing of it changes from launch to launch.
struct Problem {
  std::int64_t q_rows, heads, kv_heads, head_dim, value_dim, max_seqlen_q, max_seqlen_k;
  bool row_invariant;
  tern_dtype keys;  // of k and v
  // Entries of a sequence (cu/attention.cuh) for one kv head, at most; 0: not known.
  [[nodiscard]] std::int64_t entries() const { return max_seqlen_q * (heads / std::max<std::int64_t>(kv_heads, 1)); }
};
static_assert(sizeof(tern_attention_attrs) == sizeof(tern_attention_paged_attrs));
// The attributes of the two ops are alike.
[[nodiscard]] const tern_attention_attrs& attrs_of(const tern_op_desc& op) {
  return *static_cast<const tern_attention_attrs*>(op.attrs);
}
Problem problem_of(const tern_op_desc& op) {
  const Places& at = places_of(op);
  const tern_attention_attrs& attrs = attrs_of(op);
  const auto &q = op.args[at.args.q], &k = op.args[at.args.k], &v = op.args[at.args.v];
  const int heads = at.args.kv_rank - 2;
  return {q.shape[0],
          q.shape[1],
          k.shape[heads],
          q.shape[2],
          v.shape[heads + 1],
          attrs.max_seqlen_q,
          attrs.max_seqlen_k,
          (op.needs & TERN_NEED_ROW_INVARIANT) != 0,
          k.dtype};
}

// ---------------------------------------------------------------- parts of keys
// As cu/attention.cuh has them: 16 of `keys`, 16 of twice as many, and so on.
struct Parts {
  std::int64_t count = 1;
  std::int64_t keys = 0;  // 0: they aren't cut
};
std::int64_t count_parts(std::int64_t keys, std::int64_t part_keys) {
  constexpr std::int64_t kOfSize = 16;
  std::int64_t count = 0;
  for (std::int64_t size = part_keys;; size *= 2, count += kOfSize) {
    if (keys <= kOfSize * size) return std::max<std::int64_t>(count + parts_of(keys, size), 1);
    keys -= kOfSize * size;
  }
}
// Where few rows decode, several blocks share one's keys. With row invariance the number of rows may not decide.
Parts parts_of_keys(const Facts& device, const Problem& p) {
  if (p.entries() <= 0 || p.entries() > 64) return {};
  const std::int64_t part_keys = p.row_invariant ? 1024 : 256;
  if (!p.row_invariant && p.q_rows * p.kv_heads >= 4 * std::int64_t{device.multiprocessors}) return {};
  const std::int64_t count = count_parts(p.max_seqlen_k, part_keys);
  return count == 1 ? Parts{} : Parts{count, part_keys};
}
// How many parts this launch's keys reach into: those of the host's copy of the lengths, where it gave one. A row's
// parts are the same however many others have, and so are its bits.
std::int64_t parts_reached(const Launch& launch, const Places& at, const Parts& parts) {
  if (parts.keys == 0 || launch.arrays().size() < 2) return parts.count;
  const tern_host_array& lengths = launch.arrays()[1];
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < lengths.count; ++i) {
    const std::int64_t begin = at.table >= 0 || i == 0 ? 0 : lengths.data[i - 1];
    longest = std::max<std::int64_t>(longest, lengths.data[i] - begin);
  }
  return std::min(count_parts(longest, parts.keys), parts.count);
}
std::uint64_t bytes_of_parts(const Facts& device, const Problem& p) {
  const Parts parts = parts_of_keys(device, p);
  const std::int64_t floats = parts.keys == 0 ? 0 : p.q_rows * p.heads * parts.count * (2 + p.value_dim);
  return static_cast<std::uint64_t>(floats) * sizeof(float);
}

// ---------------------------------------------------------------- tiles in plain fp32
constexpr std::int64_t kTileThreads = 128;
struct TileSize {
  std::int64_t entries = 64;
  std::int64_t keys = 32;
};
std::uint64_t tile_bytes(const TileSize& tile, const Problem& p) {
  const std::int64_t sizes = round_up(p.head_dim, 4) + round_up(p.value_dim, 4);
  return static_cast<std::uint64_t>(tile.entries * (sizes + tile.keys + 3) + tile.keys * sizes) * sizeof(float);
}
TileSize tile_of(const Facts& device, const Problem& p) {
  TileSize tile;
  while (p.entries() > 0 && tile.entries > 4 && tile.entries / 2 >= p.entries()) tile.entries /= 2;
  const std::uint64_t half = device.shared_memory / 2;  // two blocks a multiprocessor
  while (tile.entries > 16 && tile_bytes(tile, p) > half) tile.entries /= 2;
  while (tile.keys > 16 && tile_bytes(tile, p) > half) tile.keys /= 2;
  while (tile.entries > 4 && tile_bytes(tile, p) > device.shared_memory) tile.entries /= 2;
  while (tile.keys > 4 && tile_bytes(tile, p) > device.shared_memory) tile.keys /= 2;
  return tile;
}

// ---------------------------------------------------------------- tiles of the matrix units
// cu/attention_flash.cu and cu/attention_decode.cu have these: the least that a head fits is taken.
struct Shape {
  const char* name;
  std::int64_t head, value;
  std::int64_t keys, warps, entries;  // of flash
  std::int64_t stages;                // of decode
};
constexpr std::array<Shape, 5> kShapes = {{{"64", 64, 64, 64, 4, 128, 4},
                                           {"96", 96, 96, 64, 4, 128, 3},
                                           {"128", 128, 128, 64, 4, 128, 3},
                                           {"192", 192, 128, 64, 4, 128, 2},
                                           {"256", 256, 256, 64, 8, 128, 2}}};
constexpr std::array<Shape, 3> kCodeShapes = {
    {{"64", 64, 64, 64, 4, 128, 6}, {"128", 128, 128, 64, 4, 128, 4}, {"256", 256, 256, 64, 8, 128, 3}}};
constexpr std::int64_t kDecodeEntries = 16, kDecodeKeys = 16, kDecodeWarps = 4;
constexpr std::int64_t kRowPad = 16;  // bytes behind each row in shared memory
const Shape* shape_of(const Problem& p) {
  const std::span<const Shape> shapes = is_code(p.keys) ? std::span<const Shape>(kCodeShapes) : kShapes;
  const auto it = std::ranges::find_if(
      shapes, [&](const Shape& shape) { return p.head_dim <= shape.head && p.value_dim <= shape.value; });
  return it == shapes.end() ? nullptr : &*it;
}
// Of a key and its value in shared memory.
std::int64_t row_bytes(const Shape& shape, bool codes) {
  return (codes ? 1 : 2) * (shape.head + shape.value) + 2 * kRowPad;
}
std::uint64_t flash_bytes(const Shape& shape, bool codes) {
  const std::int64_t rows = shape.entries * (2 * shape.head + kRowPad) + shape.keys * row_bytes(shape, codes);
  return static_cast<std::uint64_t>(rows + 8 * shape.entries + (codes ? 16 : 8) * 2 * shape.keys);
}
std::uint64_t decode_bytes(const Shape& shape, bool codes) {
  const std::int64_t stage = kDecodeKeys * (row_bytes(shape, codes) + (codes ? 8 : 0));
  const std::int64_t merged = 4 * kDecodeEntries * (shape.value + 2 + 4);
  return static_cast<std::uint64_t>(kDecodeWarps * std::max(shape.stages * stage, merged));
}
// The kernel of a problem: attention_decode_bf16_128, attention_flash_f16_i8_64.
std::string kernel_of(const char* what, const Problem& p, tern_dtype dtype) {
  const char* const keys = p.keys == TERN_I8 ? "i8_" : p.keys == TERN_F8_E4M3 ? "e4m3_" : "";
  return std::string(what) + (dtype == TERN_BF16 ? "_bf16_" : "_f16_") + keys + shape_of(p)->name;
}

// ---------------------------------------------------------------- entries
void check_matrix_units(Check& check, const PlanDesc& desc, const Places& at) {
  const Problem p = problem_of(desc.op);
  const tern_dtype dtype = desc.arg(at.args.q).dtype;
  const bool codes = is_code(p.keys);
  check_vectors(check, desc, at.args.q, dtype);
  for (const int arg : {at.args.k, at.args.v}) check_vectors(check, desc, arg, codes ? p.keys : dtype);
  check.that(attrs_of(desc.op).scale > 0.0F, "the matrix units want a scale above 0");
  const Shape* const shape = shape_of(p);
  check.that(shape != nullptr, "a head is too large for the matrix units' kernels");
  if (!check.ok()) return;
  if (desc.variant == kDecode) {
    check.that(p.entries() > 0 && p.entries() <= 64, "a sequence has too many rows for decoding");
  }
  const std::uint64_t bytes = desc.variant == kDecode ? decode_bytes(*shape, codes) : flash_bytes(*shape, codes);
  check.that(bytes <= desc.device.shared_memory, "a head is too large for the shared memory of this device");
}

bool supports(const PlanDesc& desc, std::string& reason) {
  const Places& at = places_of(desc.op);
  const auto &q = desc.arg(at.args.q), &v = desc.arg(at.args.v);
  Check check(desc, reason);
  check_attention(check, desc, at.args);
  check_list(check, desc, at.bounds_q);
  check_list(check, desc, at.bounds_k);
  check.floats({at.out}).rank(at.out, 3).dim(at.out, 0, q.shape[0]).dim(at.out, 1, q.shape[1]);
  check.dim(at.out, 2, v.shape[at.args.kv_rank - 1]);
  check.dtype(at.lse, TERN_F32).rank(at.lse, 2).dim(at.lse, 0, q.shape[0]).dim(at.lse, 1, q.shape[1]);
  if (!check.ok()) return false;
  const Problem p = problem_of(desc.op);
  if (desc.variant == kTile) {
    check.that(tile_bytes(tile_of(desc.device, p), p) <= desc.device.shared_memory,
               "a head is too large for the shared memory of this device");
  } else {
    check_matrix_units(check, desc, at);
  }
  return check.ok();
}

std::uint64_t workspace(const PlanDesc& desc) {
  return desc.variant == kFlash ? 0 : bytes_of_parts(desc.device, problem_of(desc.op));
}

Functions functions(const PlanDesc& desc) {
  const Problem p = problem_of(desc.op);
  const tern_dtype dtype = desc.arg(places_of(desc.op).args.q).dtype;
  if (desc.variant == kFlash) return {kernel_of("attention_flash", p, dtype)};
  Functions list = {desc.variant == kTile ? "attention" : kernel_of("attention_decode", p, dtype)};
  if (parts_of_keys(desc.device, p).keys > 0) list.emplace_back("attention_merge");
  return list;
}

AttentionSizes sizes_of(const Launch& launch, const Places& at, const Problem& p) {
  const TensorView &q = launch[at.args.q], &bounds_k = launch[at.bounds_k];
  AttentionSizes sizes{};
  take_attrs(launch.attr<tern_attention_attrs>(), sizes);
  sizes.heads = p.heads;
  sizes.kv_heads = p.kv_heads;
  sizes.head_dim = p.head_dim;
  sizes.value_dim = p.value_dim;
  sizes.sequences = std::min(launch[at.bounds_q].dim(0) - 1, bounds_k.dim(0) - (at.table >= 0 ? 0 : 1));
  sizes.sequences = std::max<std::int64_t>(sizes.sequences, 0);
  sizes.q_rows = q.dim(0);
  take_strides(q, sizes.q);
  take_key_strides(launch[at.args.k], at.table >= 0, sizes.k);
  take_key_strides(launch[at.args.v], at.table >= 0, sizes.v);
  if (is_code(p.keys)) {
    take_strides(launch[at.args.k_scale], sizes.k_scale);
    take_strides(launch[at.args.v_scale], sizes.v_scale);
  }
  sizes.sinks = stride_of(launch[at.args.sinks]);
  take_strides(launch[at.args.mask], sizes.mask);
  take_strides(launch[at.out], sizes.out);
  take_strides(launch[at.lse], sizes.lse);
  sizes.block_size = 1;
  if (at.table >= 0) {
    sizes.block_size = launch[at.args.k].dim(1);
    take_strides(launch[at.table], sizes.table);
  }
  sizes.has_mask = launch[at.args.mask].present() ? 1 : 0;
  return sizes;
}

struct Geometry {
  Dim3 blocks;
  std::int64_t threads;
  std::uint64_t shared;
};
Geometry geometry_of(const Launch& launch, const Problem& p, const AttentionSizes& sizes) {
  const std::int64_t group = p.heads / p.kv_heads;
  if (launch.variant() == kTile) {
    const std::int64_t tiles = most_tiles(sizes.q_rows, group, sizes.tile, sizes.sequences);
    const TileSize tile = {sizes.tile, sizes.tile_keys};
    return {{tiles, p.kv_heads, sizes.parts}, kTileThreads, tile_bytes(tile, p)};
  }
  const Shape& shape = *shape_of(p);
  if (launch.variant() == kFlash) {
    const std::int64_t tiles = most_tiles(sizes.q_rows, group, shape.entries, sizes.sequences);
    return {{tiles, p.kv_heads, 1}, 32 * shape.warps, flash_bytes(shape, is_code(p.keys))};
  }
  // A sequence each, and one more for rows outside of all; then tiles of each part.
  const std::int64_t tiles = parts_of(p.entries(), kDecodeEntries);
  return {{(sizes.sequences + 1) * tiles, p.kv_heads, sizes.parts},
          32 * kDecodeWarps,
          decode_bytes(shape, is_code(p.keys))};
}

void run(const Launch& launch) {
  const Places& at = places_of(launch.planned());
  const Problem p = problem_of(launch.planned());
  AttentionSizes sizes = sizes_of(launch, at, p);
  if (sizes.q_rows == 0) return;
  const Parts parts = launch.variant() == kFlash ? Parts{} : parts_of_keys(launch.device(), p);
  sizes.parts = parts_reached(launch, at, parts);
  sizes.part_keys = parts.keys;
  const TileSize tile = tile_of(launch.device(), p);
  sizes.tile =
      static_cast<std::int32_t>(launch.variant() == kDecode ? parts_of(p.entries(), kDecodeEntries) : tile.entries);
  sizes.tile_keys = static_cast<std::int32_t>(tile.keys);
  sizes.head_pitch = static_cast<std::int32_t>(round_up(p.head_dim, 4));
  sizes.value_pitch = static_cast<std::int32_t>(round_up(p.value_dim, 4));
  const Geometry geometry = geometry_of(launch, p, sizes);
  const TensorView absent;
  const Place partial = parts.keys > 0 ? launch.workspace() : Place{};
  Call call = launch.call(0);
  call.arg(launch[at.args.q]).arg(launch[at.args.k]).arg(launch[at.args.v]);
  call.arg(at.table >= 0 ? launch[at.table] : absent).arg(launch[at.bounds_q]).arg(launch[at.bounds_k]);
  call.arg(launch[at.args.sinks]).arg(launch[at.args.mask]).arg(launch[at.out]).arg(launch[at.lse]);
  const bool codes = is_code(p.keys);
  call.arg(codes ? launch[at.args.k_scale] : absent).arg(codes ? launch[at.args.v_scale] : absent).arg(partial);
  if (launch.variant() == kDecode) call.overlapped();
  call.arg(sizes).shared(geometry.shared).run(geometry.blocks, {geometry.threads, 1, 1});
  if (parts.keys == 0) return;
  Call merge = launch.call(1);
  merge.arg(partial).arg(launch[at.args.sinks]).arg(launch[at.out]).arg(launch[at.lse]).arg(sizes);
  merge.overlapped().run({sizes.q_rows * sizes.heads, 1, 1}, {kGroup, 1, 1});
}

constexpr KernelEntry kKernels[] = {{TERN_OP_ATTENTION, "decode", supports, workspace, functions, run, kDecode},
                                    {TERN_OP_ATTENTION, "flash", supports, nullptr, functions, run, kFlash},
                                    {TERN_OP_ATTENTION, "tile", supports, workspace, functions, run, kTile},
                                    {TERN_OP_ATTENTION_PAGED, "decode", supports, workspace, functions, run, kDecode},
                                    {TERN_OP_ATTENTION_PAGED, "flash", supports, nullptr, functions, run, kFlash},
                                    {TERN_OP_ATTENTION_PAGED, "tile", supports, workspace, functions, run, kTile}};

}  // namespace

KernelList attention_kernels() { return kKernels; }

}  // namespace tern::cuda
