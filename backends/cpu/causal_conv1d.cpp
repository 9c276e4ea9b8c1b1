#include <algorithm>

#include "backends/cpu/attention_tile.h"
#include "backends/cpu/check.h"
#include "backends/cpu/column_sum.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/recurrent.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kRowBlock = 64;  // rows that a thread goes through with the same weights

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &x = desc.arg(TERN_CAUSAL_CONV1D_X), &weight = desc.arg(TERN_CAUSAL_CONV1D_WEIGHT);
  return Check(desc, reason)
      .floats({TERN_CAUSAL_CONV1D_X, TERN_CAUSAL_CONV1D_WEIGHT, TERN_CAUSAL_CONV1D_BIAS, TERN_CAUSAL_CONV1D_STATE,
               TERN_CAUSAL_CONV1D_Y})
      .dtype(TERN_CAUSAL_CONV1D_CU_SEQLENS, TERN_I32)
      .dtype(TERN_CAUSAL_CONV1D_KV_LENS, TERN_I32)
      .dtype(TERN_CAUSAL_CONV1D_SEATS, TERN_I32)
      .that(desc.present(TERN_CAUSAL_CONV1D_STATE) == desc.present(TERN_CAUSAL_CONV1D_SEATS) &&
                desc.present(TERN_CAUSAL_CONV1D_STATE) == desc.present(TERN_CAUSAL_CONV1D_KV_LENS),
            "state comes with seats and kv_lens")
      .rank(TERN_CAUSAL_CONV1D_X, 2)
      .rank(TERN_CAUSAL_CONV1D_WEIGHT, 2)
      .rank(TERN_CAUSAL_CONV1D_STATE, 3)
      .same_shape({TERN_CAUSAL_CONV1D_X, TERN_CAUSAL_CONV1D_Y})
      .same_shape({TERN_CAUSAL_CONV1D_KV_LENS, TERN_CAUSAL_CONV1D_SEATS})
      .rank(TERN_CAUSAL_CONV1D_CU_SEQLENS, 1)
      .dim(TERN_CAUSAL_CONV1D_SEATS, 0, desc.arg(TERN_CAUSAL_CONV1D_CU_SEQLENS).shape[0] - 1)
      .that(weight.shape[1] >= 1, "weight has no column")
      .dim(TERN_CAUSAL_CONV1D_WEIGHT, 0, x.shape[1])
      .dim(TERN_CAUSAL_CONV1D_BIAS, 0, x.shape[1])
      .dim(TERN_CAUSAL_CONV1D_STATE, 1, weight.shape[1] - 1)
      .dim(TERN_CAUSAL_CONV1D_STATE, 2, x.shape[1])
      .ok();
}

std::uint64_t weights_workspace(const PlanDesc& desc, int weight) {
  return static_cast<std::uint64_t>(desc.arg(weight).shape[1] * kColumns * desc.num_threads) * sizeof(float);
}

std::uint64_t workspace(const PlanDesc& desc) { return weights_workspace(desc, TERN_CAUSAL_CONV1D_WEIGHT); }

// Calls visit(begin, end, first, n, weights) for blocks of rows and of n channels from `first` on: weights [taps + 1,
// kColumns] in fp32.
template <typename Visit>
void for_blocks(const KernelArgs& args, const TensorView& weight, std::int64_t rows, Visit&& visit) {
  const std::int64_t width = weight.dim(1), channels = weight.dim(0);
  const std::int64_t tiles = (channels + kColumns - 1) / kColumns;
  const TileIo io(args);
  args.pool->parallel_tasks((rows + kRowBlock - 1) / kRowBlock * tiles, [&](std::int64_t task, int thread) {
    const std::int64_t first = task % tiles * kColumns, n = std::min(kColumns, channels - first);
    const std::int64_t begin = task / tiles * kRowBlock, end = std::min(rows, begin + kRowBlock);
    float* weights = reinterpret_cast<float*>(args.workspace) + width * kColumns * thread;
    for (std::int64_t j = 0; j < width; ++j) {
      float* to = weights + j * kColumns;
      const std::int64_t at = first * weight.stride(0) + j * weight.stride(1);
      const float* from = io.load(weight, at, weight.stride(0), n, to);
      if (from != to) std::copy_n(from, n, to);
    }
    visit(begin, end, first, n, weights);
  });
}

// Each sequence's last rows, oldest first. An old row is read before its place is written: places rise.
void keep_states(const KernelArgs& args, const Recurrences& recurrences) {
  const TensorView &x = args[TERN_CAUSAL_CONV1D_X], &state = args[TERN_CAUSAL_CONV1D_STATE];
  if (!state.present()) return;
  const std::int64_t taps = state.dim(1), channels = x.dim(1);
  const TileIo io(args);
  const auto count = static_cast<std::int64_t>(recurrences.sequences.size());
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelFrom / std::max<std::int64_t>(1, taps * channels));
  args.pool->parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end, int) {
    alignas(64) TileBuffer buffer;
    for (std::int64_t s = begin; s < end; ++s) {
      const Recurrence& sequence = recurrences.sequences[static_cast<std::size_t>(s)];
      if (sequence.seat == 0) continue;
      const std::int64_t base = sequence.seat * state.stride(0);
      for (std::int64_t i = 0; i < taps; ++i) {
        const std::int64_t own = sequence.length() - taps + i;
        for (std::int64_t first = 0; first < channels; first += kTile) {
          const std::int64_t n = std::min(kTile, channels - first);
          const float* from = buffer.data();
          if (own >= 0) {
            from =
                io.load(x, (sequence.begin + own) * x.stride(0) + first * x.stride(1), x.stride(1), n, buffer.data());
          } else if (sequence.goes_on) {
            const std::int64_t at = base + (taps + own) * state.stride(1) + first * state.stride(2);
            from = io.load(state, at, state.stride(2), n, buffer.data());
          } else {
            std::fill_n(buffer.data(), n, 0.0F);
          }
          if (from != buffer.data()) std::copy_n(from, n, buffer.data());
          io.store(state, base + i * state.stride(1) + first * state.stride(2), state.stride(2), n, false,
                   buffer.data());
        }
      }
    }
  });
}

void run(const KernelArgs& args) {
  const TensorView &x = args[TERN_CAUSAL_CONV1D_X], &weight = args[TERN_CAUSAL_CONV1D_WEIGHT];
  const TensorView &bias = args[TERN_CAUSAL_CONV1D_BIAS], &state = args[TERN_CAUSAL_CONV1D_STATE];
  const TensorView& y = args[TERN_CAUSAL_CONV1D_Y];
  const std::int64_t taps = weight.dim(1) - 1;
  const Recurrences recurrences =
      read_recurrences(args,
                       {TERN_CAUSAL_CONV1D_X, TERN_CAUSAL_CONV1D_CU_SEQLENS, TERN_CAUSAL_CONV1D_KV_LENS,
                        TERN_CAUSAL_CONV1D_SEATS, TERN_CAUSAL_CONV1D_STATE},
                       args.attr<tern_causal_conv1d_attrs>().max_seqlen, "causal_conv1d");
  const Kept<std::int32_t> owners = sequence_of_rows(recurrences, x.dim(0));
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  fill_outside(y, recurrences.bounds, 0.0F);
  for_blocks(args, weight, x.dim(0),
             [&](std::int64_t begin, std::int64_t end, std::int64_t first, std::int64_t n, const float* weights) {
               alignas(64) float sum[kColumns];
               alignas(64) float buffer[kColumns];
               for (std::int64_t t = begin; t < end; ++t) {
                 const std::int32_t owner = owners[static_cast<std::size_t>(t)];
                 if (owner < 0) continue;
                 const Recurrence& sequence = recurrences.sequences[static_cast<std::size_t>(owner)];
                 std::fill_n(sum, n, 0.0F);
                 if (bias.present()) {
                   const float* from = io.load(bias, first * bias.stride(0), bias.stride(0), n, sum);
                   if (from != sum) std::copy_n(from, n, sum);
                 }
                 for (std::int64_t j = 0; j <= taps; ++j) {
                   const std::int64_t own = t - sequence.begin - taps + j;
                   const float* px = nullptr;
                   if (own >= 0) {
                     const std::int64_t at = (sequence.begin + own) * x.stride(0) + first * x.stride(1);
                     px = io.load(x, at, x.stride(1), n, buffer);
                   } else if (sequence.goes_on) {
                     const std::int64_t at = sequence.seat * state.stride(0) + (taps + own) * state.stride(1);
                     px = io.load(state, at + first * state.stride(2), state.stride(2), n, buffer);
                   } else {
                     continue;
                   }
                   math.mul_add(1.0F, weights + j * kColumns, px, static_cast<std::size_t>(n), sum);
                 }
                 io.store(y, t * y.stride(0) + first * y.stride(1), y.stride(1), n, false, sum);
               }
             });
  keep_states(args, recurrences);
}

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_CAUSAL_CONV1D_BACKWARD_X);
  return Check(desc, reason)
      .floats({TERN_CAUSAL_CONV1D_BACKWARD_DY, TERN_CAUSAL_CONV1D_BACKWARD_X, TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT,
               TERN_CAUSAL_CONV1D_BACKWARD_DX})
      .dtype(TERN_CAUSAL_CONV1D_BACKWARD_CU_SEQLENS, TERN_I32)
      .dtype(TERN_CAUSAL_CONV1D_BACKWARD_DWEIGHT, TERN_F32)
      .dtype(TERN_CAUSAL_CONV1D_BACKWARD_DBIAS, TERN_F32)
      .rank(TERN_CAUSAL_CONV1D_BACKWARD_X, 2)
      .rank(TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT, 2)
      .same_shape({TERN_CAUSAL_CONV1D_BACKWARD_X, TERN_CAUSAL_CONV1D_BACKWARD_DY, TERN_CAUSAL_CONV1D_BACKWARD_DX})
      .same_shape({TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT, TERN_CAUSAL_CONV1D_BACKWARD_DWEIGHT})
      .that(desc.arg(TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT).shape[1] >= 1, "weight has no column")
      .dim(TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT, 0, x.shape[1])
      .dim(TERN_CAUSAL_CONV1D_BACKWARD_DBIAS, 0, x.shape[1])
      .ok();
}

std::uint64_t backward_workspace(const PlanDesc& desc) {
  return weights_workspace(desc, TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT);
}

struct BackwardCall {
  const KernelArgs& args;
  const TensorView& dy;
  const TensorView& x;
  const Recurrences& recurrences;
  const Kept<std::int32_t>& owners;

  // Null: the row belongs to no sequence.
  [[nodiscard]] const Recurrence* owner(std::int64_t row) const {
    const std::int32_t at = owners[static_cast<std::size_t>(row)];
    return at < 0 ? nullptr : &recurrences.sequences[static_cast<std::size_t>(at)];
  }
};

void give_x(const BackwardCall& call, const TensorView& weight, const TensorView& dx) {
  const std::int64_t taps = weight.dim(1) - 1;
  const TensorView& dy = call.dy;
  const TileIo io(call.args);
  const TileMath& math = tile_math(call.args.target);
  fill_outside(dx, call.recurrences.bounds, 0.0F);
  for_blocks(call.args, weight, dx.dim(0),
             [&](std::int64_t begin, std::int64_t end, std::int64_t first, std::int64_t n, const float* weights) {
               alignas(64) float sum[kColumns];
               alignas(64) float buffer[kColumns];
               for (std::int64_t s = begin; s < end; ++s) {
                 const Recurrence* sequence = call.owner(s);
                 if (sequence == nullptr) continue;
                 std::fill_n(sum, n, 0.0F);
                 for (std::int64_t j = taps; j >= 0 && s + taps - j < sequence->end; --j) {
                   const std::int64_t at = (s + taps - j) * dy.stride(0) + first * dy.stride(1);
                   const float* upstream = io.load(dy, at, dy.stride(1), n, buffer);
                   math.mul_add(1.0F, weights + j * kColumns, upstream, static_cast<std::size_t>(n), sum);
                 }
                 io.store(dx, s * dx.stride(0) + first * dx.stride(1), dx.stride(1), n, false, sum);
               }
             });
}

void give_weight(const BackwardCall& call, std::int64_t taps, const TensorView& dweight) {
  const TensorView &dy = call.dy, &x = call.x;
  const TileIo io(call.args);
  const TileMath& math = tile_math(call.args.target);
  for (std::int64_t j = 0; j <= taps; ++j) {
    TensorView column = dweight;
    column.desc.rank = 1;
    column.planes[0] = dweight.data<float>() + j * dweight.stride(1);
    column_sum(call.args, x.dim(0), x.dim(1), column, call.args.accumulates(TERN_CAUSAL_CONV1D_BACKWARD_DWEIGHT),
               [&](std::int64_t row, std::int64_t first, std::int64_t n, float* buffer) -> const float* {
                 const Recurrence* sequence = call.owner(row);
                 const std::int64_t from = row - taps + j;
                 if (sequence == nullptr || from < sequence->begin) {
                   std::fill_n(buffer, n, 0.0F);
                   return buffer;
                 }
                 alignas(64) float other[kColumns];
                 const float* upstream = io.load(dy, row * dy.stride(0) + first * dy.stride(1), dy.stride(1), n, other);
                 const float* px = io.load(x, from * x.stride(0) + first * x.stride(1), x.stride(1), n, buffer);
                 math.mul(upstream, px, static_cast<std::size_t>(n), buffer);
                 return buffer;
               });
  }
}

void give_bias(const BackwardCall& call, const TensorView& dbias) {
  const TensorView& dy = call.dy;
  const TileIo io(call.args);
  column_sum(call.args, dy.dim(0), dy.dim(1), dbias, call.args.accumulates(TERN_CAUSAL_CONV1D_BACKWARD_DBIAS),
             [&](std::int64_t row, std::int64_t first, std::int64_t n, float* buffer) -> const float* {
               if (call.owner(row) != nullptr) {
                 return io.load(dy, row * dy.stride(0) + first * dy.stride(1), dy.stride(1), n, buffer);
               }
               std::fill_n(buffer, n, 0.0F);
               return buffer;
             });
}

void run_backward(const KernelArgs& args) {
  const TensorView &dy = args[TERN_CAUSAL_CONV1D_BACKWARD_DY], &x = args[TERN_CAUSAL_CONV1D_BACKWARD_X];
  const TensorView& weight = args[TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT];
  const TensorView& dweight = args[TERN_CAUSAL_CONV1D_BACKWARD_DWEIGHT];
  const TensorView& dbias = args[TERN_CAUSAL_CONV1D_BACKWARD_DBIAS];
  const Recurrences recurrences =
      read_recurrences(args, {TERN_CAUSAL_CONV1D_BACKWARD_X, TERN_CAUSAL_CONV1D_BACKWARD_CU_SEQLENS},
                       args.attr<tern_causal_conv1d_backward_attrs>().max_seqlen, "causal_conv1d_backward");
  const Kept<std::int32_t> owners = sequence_of_rows(recurrences, x.dim(0));
  const BackwardCall call{args, dy, x, recurrences, owners};
  give_x(call, weight, args[TERN_CAUSAL_CONV1D_BACKWARD_DX]);
  if (dweight.present()) give_weight(call, weight.dim(1) - 1, dweight);
  if (dbias.present()) give_bias(call, dbias);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_CAUSAL_CONV1D, "causal_conv1d", supports, workspace, nullptr, run},
                                    {TERN_OP_CAUSAL_CONV1D_BACKWARD, "causal_conv1d_backward", supports_backward,
                                     backward_workspace, nullptr, run_backward}};

}  // namespace

KernelList causal_conv1d_kernels() { return kKernels; }

}  // namespace tern::cpu
