// Which arguments of an op have their rows in common. A graph may leave one of them static where the others have
// counts.
#include <initializer_list>

#include "backends/npu/composer.h"
#include "tern/plugin.h"

namespace tern::npu {
namespace {

struct Group {
  std::uint32_t op;
  std::uint32_t args;  // a bit each
  bool all_dims;       // of equal shapes; else only their first dimension
};

constexpr std::uint32_t bits(std::initializer_list<int> args) {
  std::uint32_t mask = 0;
  for (int arg : args) mask |= 1U << arg;
  return mask;
}

constexpr Group kGroups[] = {
    {TERN_OP_CAST_COPY, bits({0, 1}), true},
    {TERN_OP_AXPBY, bits({0, 1, 2}), true},
    {TERN_OP_MUL, bits({0, 1, 2}), true},
    {TERN_OP_SCALE, bits({TERN_SCALE_X, TERN_SCALE_Y}), true},
    {TERN_OP_SOFTCAP, bits({0, 1}), true},
    {TERN_OP_ACT, bits({0, 1}), true},
    {TERN_OP_ACT_BACKWARD, bits({0, 1, 2}), true},
    {TERN_OP_ACT_MUL, bits({0, 1, 2}), true},
    {TERN_OP_ACT_MUL_BACKWARD, bits({0, 1, 2, 3, 4}), true},
    {TERN_OP_DROPOUT, bits({0, 1, 2, 3}), false},
    {TERN_OP_GATHER_ROWS, bits({TERN_GATHER_ROWS_INDEX, TERN_GATHER_ROWS_Y}), false},
    {TERN_OP_SCATTER_ADD_ROWS, bits({TERN_SCATTER_ADD_ROWS_X, TERN_SCATTER_ADD_ROWS_INDEX}), false},
    {TERN_OP_EMBEDDING, bits({TERN_EMBEDDING_IDS, TERN_EMBEDDING_Y}), false},
    {TERN_OP_SHARD_INDEX, bits({0, 1}), false},
    {TERN_OP_MATMUL_Q, bits({TERN_MATMUL_Q_X, TERN_MATMUL_Q_Y}), false},
    {TERN_OP_ROPE, bits({TERN_ROPE_X, TERN_ROPE_POSITIONS, TERN_ROPE_Y}), false},
    {TERN_OP_RMS_NORM,
     bits({TERN_RMS_NORM_X, TERN_RMS_NORM_RESIDUAL, TERN_RMS_NORM_Y, TERN_RMS_NORM_SUM, TERN_RMS_NORM_RSTD}), false},
    {TERN_OP_RMS_NORM_BACKWARD,
     bits({TERN_RMS_NORM_BACKWARD_DY, TERN_RMS_NORM_BACKWARD_X, TERN_RMS_NORM_BACKWARD_RSTD,
           TERN_RMS_NORM_BACKWARD_DSUM, TERN_RMS_NORM_BACKWARD_DX}),
     false},
    {TERN_OP_LAYER_NORM,
     bits({TERN_LAYER_NORM_X, TERN_LAYER_NORM_RESIDUAL, TERN_LAYER_NORM_Y, TERN_LAYER_NORM_SUM, TERN_LAYER_NORM_MEAN,
           TERN_LAYER_NORM_RSTD}),
     false},
    {TERN_OP_LAYER_NORM_BACKWARD,
     bits({TERN_LAYER_NORM_BACKWARD_DY, TERN_LAYER_NORM_BACKWARD_X, TERN_LAYER_NORM_BACKWARD_MEAN,
           TERN_LAYER_NORM_BACKWARD_RSTD, TERN_LAYER_NORM_BACKWARD_DSUM, TERN_LAYER_NORM_BACKWARD_DX}),
     false},
    {TERN_OP_ATTENTION, bits({TERN_ATTENTION_Q, TERN_ATTENTION_OUT, TERN_ATTENTION_LSE, TERN_ATTENTION_MASK}), false},
    {TERN_OP_ATTENTION, bits({TERN_ATTENTION_K, TERN_ATTENTION_V}), false},
    {TERN_OP_ATTENTION_BACKWARD,
     bits({TERN_ATTENTION_BACKWARD_DOUT, TERN_ATTENTION_BACKWARD_Q, TERN_ATTENTION_BACKWARD_OUT,
           TERN_ATTENTION_BACKWARD_LSE, TERN_ATTENTION_BACKWARD_DQ, TERN_ATTENTION_BACKWARD_MASK}),
     false},
    {TERN_OP_ATTENTION_BACKWARD,
     bits({TERN_ATTENTION_BACKWARD_K, TERN_ATTENTION_BACKWARD_V, TERN_ATTENTION_BACKWARD_DK,
           TERN_ATTENTION_BACKWARD_DV}),
     false},
    {TERN_OP_KV_WRITE, bits({TERN_KV_WRITE_K, TERN_KV_WRITE_V, TERN_KV_WRITE_SLOTS}), false},
    {TERN_OP_ATTENTION_PAGED,
     bits({TERN_ATTENTION_PAGED_Q, TERN_ATTENTION_PAGED_OUT, TERN_ATTENTION_PAGED_LSE, TERN_ATTENTION_PAGED_MASK}),
     false},
    {TERN_OP_LINEAR_CROSS_ENTROPY,
     bits({TERN_LINEAR_CROSS_ENTROPY_H, TERN_LINEAR_CROSS_ENTROPY_TARGETS, TERN_LINEAR_CROSS_ENTROPY_WEIGHTS,
           TERN_LINEAR_CROSS_ENTROPY_LSE, TERN_LINEAR_CROSS_ENTROPY_ROW_MAX, TERN_LINEAR_CROSS_ENTROPY_ROW_SUM,
           TERN_LINEAR_CROSS_ENTROPY_ROW_TARGET, TERN_LINEAR_CROSS_ENTROPY_DH}),
     false},
    {TERN_OP_SINK_SCALE, bits({TERN_SINK_SCALE_X, TERN_SINK_SCALE_LSE, TERN_SINK_SCALE_OUT, TERN_SINK_SCALE_LSE_OUT}),
     false},
    {TERN_OP_MOE_ROUTE, bits({TERN_MOE_ROUTE_LOGITS, TERN_MOE_ROUTE_WEIGHTS, TERN_MOE_ROUTE_EXPERTS}), false},
    {TERN_OP_MOE_ROUTE_BACKWARD, bits({0, 1, 2, 3}), false},
    {TERN_OP_MOE_PERMUTE,
     bits({TERN_MOE_PERMUTE_X, TERN_MOE_PERMUTE_EXPERTS, TERN_MOE_PERMUTE_Y, TERN_MOE_PERMUTE_PLACES}), false},
    {TERN_OP_MOE_COMBINE, bits({0, 1, 2, 3}), false},
    {TERN_OP_MOE_COMBINE_BACKWARD, bits({0, 1, 2, 3, 4, 5}), false},
    {TERN_OP_GROUPED_MATMUL, bits({TERN_GROUPED_MATMUL_X, TERN_GROUPED_MATMUL_Y}), false},
    {TERN_OP_GROUPED_MATMUL_BACKWARD, bits({TERN_GROUPED_MATMUL_BACKWARD_DY, TERN_GROUPED_MATMUL_BACKWARD_X}), false},
};

}  // namespace

std::int64_t shared_entries(const tern_op_desc& op, int arg, int dim, const std::int64_t* counts) {
  const std::int64_t entries = op.args[arg].shape[dim];
  for (const Group& group : kGroups) {
    if (group.op != op.op || (group.args >> arg & 1U) == 0 || (dim > 0 && !group.all_dims)) continue;
    for (std::uint32_t other = 0; other < op.num_args; ++other) {
      const tern_tensor_desc& desc = op.args[other];
      if ((group.args >> other & 1U) == 0 || desc.rank == 0 || desc.dynamic_dim != dim) continue;
      if (desc.shape[dim] == entries) return tern_plugin_entries(&desc, dim, counts);
    }
  }
  return entries;
}

}  // namespace tern::npu
