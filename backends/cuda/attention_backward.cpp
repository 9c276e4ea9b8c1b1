// attention_backward: `flash` on the matrix units, and `tile` in plain fp32 for all the rest.
#include <algorithm>
#include <array>

#include "backends/cuda/attention.h"

namespace tern::cuda {
namespace {

constexpr AttentionArgs kArgs = {TERN_ATTENTION_BACKWARD_Q,    TERN_ATTENTION_BACKWARD_K,     TERN_ATTENTION_BACKWARD_V,
                                 TERN_ATTENTION_BACKWARD_MASK, TERN_ATTENTION_BACKWARD_SINKS, 3};

enum Variant : int { kTile, kFlash };

// ---------------------------------------------------------------- tiles in plain fp32
struct TileSize {
  std::int64_t entries = 32;
  std::int64_t keys = 32;
};
// Shared memory of the kernel that needs more, dk's and dv's.
std::uint64_t tile_bytes(const TileSize& tile, std::int64_t head_dim, std::int64_t value_dim) {
  const std::int64_t sizes = round_up(head_dim, 4) + round_up(value_dim, 4);
  const std::int64_t floats = 2 * (tile.entries + tile.keys) * sizes + 2 * tile.entries * tile.keys;
  return static_cast<std::uint64_t>(floats + 2 * std::max(tile.entries, tile.keys)) * sizeof(float);
}
TileSize tile_of(const Facts& device, std::int64_t head_dim, std::int64_t value_dim) {
  TileSize tile;
  const auto shrink = [&](std::int64_t least, std::uint64_t most) {
    while (tile.keys > least && tile_bytes(tile, head_dim, value_dim) > most) {
      (tile.entries > tile.keys ? tile.entries : tile.keys) /= 2;
    }
    while (tile.entries > least && tile_bytes(tile, head_dim, value_dim) > most) tile.entries /= 2;
  };
  shrink(16, device.shared_memory / 2);  // two blocks a multiprocessor
  shrink(4, device.shared_memory);
  return tile;
}

// ---------------------------------------------------------------- tiles of the matrix units
// cu/attention_backward_flash.cu has these: the least that a head fits is taken.
struct Shape {
  const char* name;
  std::int64_t head, value;
  std::int64_t others;  // rows of a streamed tile
  std::int64_t shares;  // of dk's and dv's columns
};
constexpr std::array<Shape, 5> kShapes = {{{"64", 64, 64, 64, 1},
                                           {"96", 96, 96, 64, 1},
                                           {"128", 128, 128, 64, 1},
                                           {"192", 192, 128, 32, 1},
                                           {"256", 256, 256, 32, 2}}};
constexpr std::int64_t kFlashRows = 64, kFlashThreads = 128, kRowPad = 8;
const Shape* shape_of(std::int64_t head_dim, std::int64_t value_dim) {
  const auto* const it = std::ranges::find_if(
      kShapes, [&](const Shape& shape) { return head_dim <= shape.head && value_dim <= shape.value; });
  return it == kShapes.end() ? nullptr : it;
}
std::uint64_t flash_bytes(const Shape& shape) {
  const std::int64_t rows = kFlashRows + 2 * shape.others;
  return static_cast<std::uint64_t>(2 * rows * (shape.head + shape.value + 2 * kRowPad));
}

// ---------------------------------------------------------------- the entries
void check_like(Check& check, int arg, const tern_tensor_desc& rows, std::int64_t width) {
  check.floats({arg}).rank(arg, 3).dim(arg, 0, rows.shape[0]).dim(arg, 1, rows.shape[1]).dim(arg, 2, width);
}

void check_matrix_units(Check& check, const PlanDesc& desc) {
  const auto &q = desc.arg(kArgs.q), &v = desc.arg(kArgs.v);
  for (const int arg : {kArgs.q, kArgs.k, kArgs.v, int{TERN_ATTENTION_BACKWARD_DOUT}}) {
    check_vectors(check, desc, arg, q.dtype);
  }
  check.that(desc.attrs<tern_attention_backward_attrs>().scale > 0.0F, "the matrix units want a scale above 0");
  const Shape* const shape = shape_of(q.shape[2], v.shape[2]);
  check.that(shape != nullptr, "a head is too large for the matrix units' kernels");
  if (!check.ok()) return;
  check.that(flash_bytes(*shape) <= desc.device.shared_memory,
             "a head is too large for the shared memory of this device");
}

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &q = desc.arg(kArgs.q), &k = desc.arg(kArgs.k), &v = desc.arg(kArgs.v);
  Check check(desc, reason);
  check_attention(check, desc, kArgs);
  check_list(check, desc, TERN_ATTENTION_BACKWARD_CU_SEQLENS_Q);
  check_list(check, desc, TERN_ATTENTION_BACKWARD_CU_SEQLENS_K);
  check_like(check, TERN_ATTENTION_BACKWARD_DOUT, q, v.shape[2]);
  check_like(check, TERN_ATTENTION_BACKWARD_OUT, q, v.shape[2]);
  check_like(check, TERN_ATTENTION_BACKWARD_DQ, q, q.shape[2]);
  check_like(check, TERN_ATTENTION_BACKWARD_DK, k, k.shape[2]);
  check_like(check, TERN_ATTENTION_BACKWARD_DV, v, v.shape[2]);
  check.dtype(TERN_ATTENTION_BACKWARD_LSE, TERN_F32).rank(TERN_ATTENTION_BACKWARD_LSE, 2);
  check.dim(TERN_ATTENTION_BACKWARD_LSE, 0, q.shape[0]).dim(TERN_ATTENTION_BACKWARD_LSE, 1, q.shape[1]);
  check.dtype(TERN_ATTENTION_BACKWARD_DSINKS, TERN_F32).dim(TERN_ATTENTION_BACKWARD_DSINKS, 0, q.shape[1]);
  check.that(!desc.present(TERN_ATTENTION_BACKWARD_DSINKS) || desc.present(TERN_ATTENTION_BACKWARD_SINKS),
             "dsinks come with sinks");
  if (!check.ok()) return false;
  if (desc.variant == kFlash) {
    check_matrix_units(check, desc);
  } else {
    const TileSize tile = tile_of(desc.device, q.shape[2], v.shape[2]);
    check.that(tile_bytes(tile, q.shape[2], v.shape[2]) <= desc.device.shared_memory,
               "a head is too large for the shared memory of this device");
  }
  return check.ok();
}

// delta.
std::uint64_t workspace(const PlanDesc& desc) {
  const auto& q = desc.arg(kArgs.q);
  return static_cast<std::uint64_t>(q.shape[0] * q.shape[1]) * sizeof(float);
}

Functions functions(const PlanDesc& desc) {
  const auto &q = desc.arg(kArgs.q), &v = desc.arg(kArgs.v);
  Functions list = {"attention_delta", "attention_dq", "attention_dkv"};
  if (desc.variant == kFlash) {
    const std::string name =
        std::string(q.dtype == TERN_BF16 ? "_bf16_" : "_f16_") + shape_of(q.shape[2], v.shape[2])->name;
    list = {"attention_delta", "attention_flash_dq" + name, "attention_flash_dkv" + name};
  }
  if (desc.present(TERN_ATTENTION_BACKWARD_DSINKS)) list.emplace_back("attention_dsinks");
  return list;
}

AttentionSizes sizes_of(const Launch& launch) {
  const TensorView &q = launch[kArgs.q], &k = launch[kArgs.k], &v = launch[kArgs.v];
  AttentionSizes sizes{};
  take_attrs(launch.attr<tern_attention_backward_attrs>(), sizes);
  sizes.heads = q.dim(1);
  sizes.kv_heads = k.dim(1);
  sizes.head_dim = q.dim(2);
  sizes.value_dim = v.dim(2);
  sizes.sequences = std::min(launch[TERN_ATTENTION_BACKWARD_CU_SEQLENS_Q].dim(0),
                             launch[TERN_ATTENTION_BACKWARD_CU_SEQLENS_K].dim(0)) -
                    1;
  sizes.sequences = std::max<std::int64_t>(sizes.sequences, 0);
  sizes.q_rows = q.dim(0);
  sizes.k_rows = k.dim(0);
  take_strides(q, sizes.q);
  take_key_strides(k, false, sizes.k);
  take_key_strides(v, false, sizes.v);
  sizes.sinks = stride_of(launch[kArgs.sinks]);
  take_strides(launch[kArgs.mask], sizes.mask);
  take_strides(launch[TERN_ATTENTION_BACKWARD_OUT], sizes.out);
  take_strides(launch[TERN_ATTENTION_BACKWARD_LSE], sizes.lse);
  take_strides(launch[TERN_ATTENTION_BACKWARD_DOUT], sizes.dout);
  take_strides(launch[TERN_ATTENTION_BACKWARD_DQ], sizes.dq);
  take_strides(launch[TERN_ATTENTION_BACKWARD_DK], sizes.dk);
  take_strides(launch[TERN_ATTENTION_BACKWARD_DV], sizes.dv);
  sizes.has_mask = launch[kArgs.mask].present() ? 1 : 0;
  sizes.dsinks = stride_of(launch[TERN_ATTENTION_BACKWARD_DSINKS]);
  sizes.block_size = 1;
  return sizes;
}

// What a launch of dq or of dk and dv has.
struct Geometry {
  std::int64_t rows = kFlashRows;
  std::int64_t shares = 1;
  std::uint64_t shared = 0;
};
Geometry geometry_of(const Launch& launch, AttentionSizes& sizes) {
  if (launch.variant() == kFlash) {
    const Shape& shape = *shape_of(sizes.head_dim, sizes.value_dim);
    return {kFlashRows, shape.shares, flash_bytes(shape)};
  }
  const TileSize tile = tile_of(launch.device(), sizes.head_dim, sizes.value_dim);
  sizes.tile = static_cast<std::int32_t>(tile.entries);
  sizes.tile_keys = static_cast<std::int32_t>(tile.keys);
  sizes.head_pitch = static_cast<std::int32_t>(round_up(sizes.head_dim, 4));
  sizes.value_pitch = static_cast<std::int32_t>(round_up(sizes.value_dim, 4));
  return {tile.entries, 1, tile_bytes(tile, sizes.head_dim, sizes.value_dim)};
}

void run(const Launch& launch) {
  AttentionSizes sizes = sizes_of(launch);
  const Geometry geometry = geometry_of(launch, sizes);
  const TensorView &dout = launch[TERN_ATTENTION_BACKWARD_DOUT], &lse = launch[TERN_ATTENTION_BACKWARD_LSE];
  const Place delta = sizes.q_rows > 0 ? launch.workspace() : Place{};
  const auto call = [&](std::size_t i) {
    Call out = launch.call(i);
    out.arg(dout).arg(launch[kArgs.q]).arg(launch[kArgs.k]).arg(launch[kArgs.v]).arg(lse).arg(delta);
    out.arg(launch[TERN_ATTENTION_BACKWARD_CU_SEQLENS_Q]).arg(launch[TERN_ATTENTION_BACKWARD_CU_SEQLENS_K]);
    out.arg(launch[kArgs.mask]).shared(geometry.shared);
    return out;
  };
  launch.call(0)
      .arg(dout)
      .arg(launch[TERN_ATTENTION_BACKWARD_OUT])
      .arg(delta)
      .arg(sizes)
      .run(32 * sizes.q_rows * sizes.heads, kGroup);
  if (sizes.q_rows > 0) {
    const std::int64_t tiles = most_tiles(sizes.q_rows, sizes.heads / sizes.kv_heads, geometry.rows, sizes.sequences);
    call(1).arg(launch[TERN_ATTENTION_BACKWARD_DQ]).arg(sizes).run({tiles, sizes.kv_heads, 1}, {kFlashThreads, 1, 1});
  }
  if (sizes.k_rows > 0) {
    const std::int64_t tiles = most_tiles(sizes.k_rows, 1, geometry.rows, sizes.sequences);
    Call dkv = call(2);
    dkv.arg(launch[TERN_ATTENTION_BACKWARD_DK]).arg(launch[TERN_ATTENTION_BACKWARD_DV]).arg(sizes);
    dkv.run({tiles, sizes.kv_heads, geometry.shares}, {kFlashThreads, 1, 1});
  }
  if (launch[TERN_ATTENTION_BACKWARD_DSINKS].present()) {
    Call dsinks = launch.call(3);
    dsinks.arg(delta).arg(lse).arg(launch[kArgs.sinks]).arg(launch[TERN_ATTENTION_BACKWARD_DSINKS]).arg(sizes);
    dsinks.run({sizes.heads, 1, 1}, {kGroup, 1, 1});
  }
}

constexpr KernelEntry kKernels[] = {{TERN_OP_ATTENTION_BACKWARD, "flash", supports, workspace, functions, run, kFlash},
                                    {TERN_OP_ATTENTION_BACKWARD, "tile", supports, workspace, functions, run, kTile}};

}  // namespace

KernelList attention_backward_kernels() { return kKernels; }

}  // namespace tern::cuda
