#include <algorithm>

#include "backends/opencl/attention.h"

namespace tern::opencl {
namespace {

constexpr AttentionArgs kArgs = {TERN_ATTENTION_BACKWARD_Q,    TERN_ATTENTION_BACKWARD_K,     TERN_ATTENTION_BACKWARD_V,
                                 TERN_ATTENTION_BACKWARD_MASK, TERN_ATTENTION_BACKWARD_SINKS, 3};

// Local memory of the kernel that needs more, dk's and dv's.
std::uint64_t local_bytes(const AttentionTile& tile, std::int64_t head_dim, std::int64_t value_dim) {
  const std::int64_t sizes = round_up(head_dim, tile.width) + round_up(value_dim, tile.width);
  const std::int64_t floats = 2 * (tile.entries + tile.keys) * sizes + 2 * tile.entries * tile.keys;
  return static_cast<std::uint64_t>(floats + 2 * std::max(tile.entries, tile.keys)) * sizeof(float);
}

AttentionTile tile_of(const PlanDesc& desc) {
  const std::int64_t head_dim = desc.arg(kArgs.q).shape[2], value_dim = desc.arg(kArgs.v).shape[2];
  AttentionTile tile;
  if (!desc.device.cpu) tile = {.width = 4, .group = 64, .entries = 16, .keys = 16, .rows = 2};
  while (tile.entries > tile.rows && local_bytes(tile, head_dim, value_dim) > desc.device.local_memory) {
    tile.entries /= 2;
  }
  while (tile.keys > tile.width && local_bytes(tile, head_dim, value_dim) > desc.device.local_memory) tile.keys /= 2;
  return tile;
}

void check_like(Check& check, int arg, const tern_tensor_desc& rows, std::int64_t width) {
  check.floats({arg}).rank(arg, 3).dim(arg, 0, rows.shape[0]).dim(arg, 1, rows.shape[1]).dim(arg, 2, width);
}

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &q = desc.arg(kArgs.q), &k = desc.arg(kArgs.k), &v = desc.arg(kArgs.v);
  Check check(desc, reason);
  check_attention(check, desc, kArgs);
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
  return check
      .that(local_bytes(tile_of(desc), q.shape[2], v.shape[2]) <= desc.device.local_memory,
            "a head is too large for the local memory of this device")
      .ok();
}

// delta.
std::uint64_t workspace(const PlanDesc& desc) {
  const auto& q = desc.arg(kArgs.q);
  return static_cast<std::uint64_t>(q.shape[0] * q.shape[1]) * sizeof(float);
}

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  tile_defines(defines, tile_of(desc))
      .tensor("dout", desc, TERN_ATTENTION_BACKWARD_DOUT)
      .tensor("q", desc, kArgs.q)
      .tensor("k", desc, kArgs.k)
      .tensor("v", desc, kArgs.v)
      .tensor("out", desc, TERN_ATTENTION_BACKWARD_OUT)
      .tensor("dq", desc, TERN_ATTENTION_BACKWARD_DQ)
      .tensor("dk", desc, TERN_ATTENTION_BACKWARD_DK)
      .tensor("dv", desc, TERN_ATTENTION_BACKWARD_DV)
      .tensor("dsinks", desc, TERN_ATTENTION_BACKWARD_DSINKS)
      .adds("dsinks", desc, TERN_ATTENTION_BACKWARD_DSINKS);
  std::vector<Function> list = {{"attention_backward", "attention_delta", defines.text()},
                                {"attention_backward", "attention_dq", defines.text()},
                                {"attention_backward", "attention_dkv", defines.text()}};
  if (desc.present(TERN_ATTENTION_BACKWARD_DSINKS)) {
    list.push_back({"attention_backward", "attention_dsinks", defines.text()});
  }
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
  take_strides(k, sizes.k);
  take_strides(v, sizes.v);
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
  return sizes;
}

void run(const Launch& launch) {
  const AttentionTile tile = tile_of({launch.planned(), launch.device(), launch.variant()});
  AttentionSizes sizes = sizes_of(launch);
  take_pitches(tile, sizes);
  const TensorView &q = launch[kArgs.q], &k = launch[kArgs.k], &v = launch[kArgs.v], &mask = launch[kArgs.mask];
  const TensorView &dout = launch[TERN_ATTENTION_BACKWARD_DOUT], &lse = launch[TERN_ATTENTION_BACKWARD_LSE];
  const TensorView& bounds_q = launch[TERN_ATTENTION_BACKWARD_CU_SEQLENS_Q];
  const TensorView& bounds_k = launch[TERN_ATTENTION_BACKWARD_CU_SEQLENS_K];
  const std::uint64_t room = local_bytes(tile, sizes.head_dim, sizes.value_dim);
  const Place delta = sizes.q_rows > 0 ? launch.workspace() : Place{};
  const std::int64_t group = sizes.heads / sizes.kv_heads;
  launch.call(0)
      .arg(dout)
      .arg(launch[TERN_ATTENTION_BACKWARD_OUT])
      .arg(delta)
      .arg(sizes)
      .run(sizes.q_rows * sizes.heads, launch.device().cpu ? 4 : 64);
  if (sizes.q_rows > 0) {
    Call dq = launch.call(1);
    dq.arg(dout).arg(q).arg(k).arg(v).arg(lse).arg(delta).arg(bounds_q).arg(bounds_k).arg(mask);
    const std::int64_t tiles = most_tiles(sizes.q_rows, group, tile.entries, sizes.sequences);
    dq.arg(launch[TERN_ATTENTION_BACKWARD_DQ]).local(room).arg(sizes);
    dq.run({tiles * tile.group, sizes.kv_heads, 1}, {tile.group, 1, 1});
  }
  if (sizes.k_rows > 0) {
    Call dkv = launch.call(2);
    dkv.arg(dout).arg(q).arg(k).arg(v).arg(lse).arg(delta).arg(bounds_q).arg(bounds_k).arg(mask);
    const std::int64_t tiles = most_tiles(sizes.k_rows, 1, tile.entries, sizes.sequences);
    dkv.arg(launch[TERN_ATTENTION_BACKWARD_DK]).arg(launch[TERN_ATTENTION_BACKWARD_DV]).local(room).arg(sizes);
    dkv.run({tiles * tile.group, sizes.kv_heads, 1}, {tile.group, 1, 1});
  }
  if (launch[TERN_ATTENTION_BACKWARD_DSINKS].present()) {
    Call dsinks = launch.call(3);
    dsinks.arg(delta).arg(lse).arg(launch[kArgs.sinks]).arg(launch[TERN_ATTENTION_BACKWARD_DSINKS]).arg(sizes);
    dsinks.run(sizes.heads * tile.group, tile.group);
  }
}

constexpr KernelEntry kKernels[] = {{TERN_OP_ATTENTION_BACKWARD, "flash", supports, workspace, functions, run}};

}  // namespace

KernelList attention_backward_kernels() { return kKernels; }

}  // namespace tern::opencl
