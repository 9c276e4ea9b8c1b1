// Which experts each row goes to. There are few experts, and fewer are chosen, so the next best is looked for again.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/norm.h"

namespace tern::cpu {
namespace {

constexpr float kLeast = -std::numeric_limits<float>::infinity();

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto& weights = desc.arg(TERN_MOE_ROUTE_WEIGHTS);
  return Check(desc, reason)
      .floats({TERN_MOE_ROUTE_LOGITS})
      .dtype(TERN_MOE_ROUTE_BIAS, TERN_F32)
      .dtype(TERN_MOE_ROUTE_WEIGHTS, TERN_F32)
      .dtype(TERN_MOE_ROUTE_EXPERTS, TERN_I32)
      .rank(TERN_MOE_ROUTE_LOGITS, 2)
      .rank(TERN_MOE_ROUTE_WEIGHTS, 2)
      .dim(TERN_MOE_ROUTE_LOGITS, 0, weights.shape[0])
      .dim(TERN_MOE_ROUTE_BIAS, 0, desc.arg(TERN_MOE_ROUTE_LOGITS).shape[1])
      .same_shape({TERN_MOE_ROUTE_WEIGHTS, TERN_MOE_ROUTE_EXPERTS})
      .ok();
}

// Of each thread: the scores, what decides, and how good the groups are.
std::uint64_t workspace(const PlanDesc& desc) {
  return float_rows(desc.arg(TERN_MOE_ROUTE_LOGITS).shape[1], std::int64_t{3} * desc.num_threads);
}

// softmax(row) or the sigmoid of each, into `score`.
void fill_scores(const TileIo& io, const TensorView& logits, std::int64_t row, bool sigmoid, float* score) {
  const std::int64_t experts = logits.dim(1);
  const float* from = io.load(logits, row * logits.stride(0), logits.stride(1), experts, score);
  if (sigmoid) {
    for (std::int64_t e = 0; e < experts; ++e) score[e] = 1.0F / (1.0F + std::exp(-from[e]));
    return;
  }
  float top = kLeast;
  for (std::int64_t e = 0; e < experts; ++e) top = std::max(top, from[e]);
  double sum = 0.0;
  for (std::int64_t e = 0; e < experts; ++e) {
    score[e] = std::exp(from[e] - top);
    sum += static_cast<double>(score[e]);
  }
  const auto total = static_cast<float>(sum);
  for (std::int64_t e = 0; e < experts; ++e) score[e] /= total;
}

// The next one of [begin, end) after `last` in falling order, ties by rising number; -1 as `last` gives the first. What
// is NaN has no place.
std::int64_t next_best(const float* value, std::int64_t begin, std::int64_t end, std::int64_t last) {
  std::int64_t best = -1;
  for (std::int64_t e = begin; e < end; ++e) {
    if (std::isnan(value[e])) continue;
    const bool follows = last < 0 || value[e] < value[last] || (value[e] == value[last] && e > last);
    if (follows && (best < 0 || value[e] > value[best])) best = e;
  }
  return best;
}

// Takes the experts of all groups but the best out of `choice`.
void keep_groups(const tern_moe_route_attrs& attrs, std::int64_t experts, float* choice, float* group) {
  const std::int64_t size = experts / attrs.groups;
  for (std::int64_t g = 0; g < attrs.groups; ++g) {
    std::int64_t last = -1;
    group[g] = 0.0F;
    for (std::int32_t i = 0; i < attrs.group_top; ++i) {
      last = next_best(choice, g * size, (g + 1) * size, last);
      group[g] += choice[last];
    }
    if (std::isnan(group[g])) group[g] = kLeast;
  }
  std::int64_t last = -1;
  for (std::int32_t i = 0; i < attrs.top_groups; ++i) last = next_best(group, 0, attrs.groups, last);
  for (std::int64_t g = 0; g < attrs.groups; ++g) {
    if (group[g] > group[last] || (group[g] == group[last] && g <= last)) continue;
    std::fill_n(choice + g * size, size, std::numeric_limits<float>::quiet_NaN());
  }
}

void run(const KernelArgs& args) {
  const auto& attrs = args.attr<tern_moe_route_attrs>();
  const TensorView &logits = args[TERN_MOE_ROUTE_LOGITS], &bias = args[TERN_MOE_ROUTE_BIAS];
  const TensorView &weights = args[TERN_MOE_ROUTE_WEIGHTS], &chosen = args[TERN_MOE_ROUTE_EXPERTS];
  const std::int64_t experts = logits.dim(1), top_k = chosen.dim(1);
  const TileIo io(args);
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelFrom / (experts * (top_k + 8)));
  args.pool->parallel_for(logits.dim(0), grain, [&](std::int64_t begin, std::int64_t end, int thread) {
    float* score = float_row(args, experts, std::int64_t{3} * thread);
    float* choice = float_row(args, experts, std::int64_t{3} * thread + 1);
    float* group = float_row(args, experts, std::int64_t{3} * thread + 2);
    for (std::int64_t r = begin; r < end; ++r) {
      fill_scores(io, logits, r, attrs.sigmoid != 0, score);
      for (std::int64_t e = 0; e < experts; ++e) {
        const float c = bias.present() ? score[e] + bias.data<const float>()[e * bias.stride(0)] : score[e];
        choice[e] = std::isnan(c) ? kLeast : c;
      }
      if (attrs.groups > 1) keep_groups(attrs, experts, choice, group);
      float sum = 0.0F;
      std::int64_t last = -1;
      for (std::int64_t i = 0; i < top_k; ++i) {
        last = next_best(choice, 0, experts, last);
        chosen.data<std::int32_t>()[r * chosen.stride(0) + i * chosen.stride(1)] = static_cast<std::int32_t>(last);
        sum += score[last];
      }
      const float factor = attrs.normalise != 0 ? attrs.scale / sum : attrs.scale;
      for (std::int64_t i = 0; i < top_k; ++i) {
        const std::int32_t e = chosen.data<std::int32_t>()[r * chosen.stride(0) + i * chosen.stride(1)];
        weights.data<float>()[r * weights.stride(0) + i * weights.stride(1)] = factor * score[e];
      }
    }
  });
}

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  const auto& experts = desc.arg(TERN_MOE_ROUTE_BACKWARD_EXPERTS);
  return Check(desc, reason)
      .floats({TERN_MOE_ROUTE_BACKWARD_LOGITS, TERN_MOE_ROUTE_BACKWARD_DLOGITS})
      .dtype(TERN_MOE_ROUTE_BACKWARD_DWEIGHTS, TERN_F32)
      .dtype(TERN_MOE_ROUTE_BACKWARD_EXPERTS, TERN_I32)
      .rank(TERN_MOE_ROUTE_BACKWARD_LOGITS, 2)
      .rank(TERN_MOE_ROUTE_BACKWARD_EXPERTS, 2)
      .dim(TERN_MOE_ROUTE_BACKWARD_LOGITS, 0, experts.shape[0])
      .same_shape({TERN_MOE_ROUTE_BACKWARD_LOGITS, TERN_MOE_ROUTE_BACKWARD_DLOGITS})
      .same_shape({TERN_MOE_ROUTE_BACKWARD_DWEIGHTS, TERN_MOE_ROUTE_BACKWARD_EXPERTS})
      .ok();
}

// Of each thread: the scores and their gradients.
std::uint64_t backward_workspace(const PlanDesc& desc) {
  return float_rows(desc.arg(TERN_MOE_ROUTE_BACKWARD_LOGITS).shape[1], std::int64_t{2} * desc.num_threads);
}

void run_backward(const KernelArgs& args) {
  const auto& attrs = args.attr<tern_moe_route_backward_attrs>();
  const TensorView &dweights = args[TERN_MOE_ROUTE_BACKWARD_DWEIGHTS], &logits = args[TERN_MOE_ROUTE_BACKWARD_LOGITS];
  const TensorView &chosen = args[TERN_MOE_ROUTE_BACKWARD_EXPERTS], &dlogits = args[TERN_MOE_ROUTE_BACKWARD_DLOGITS];
  const std::int64_t experts = logits.dim(1), top_k = chosen.dim(1);
  const bool sigmoid = attrs.sigmoid != 0, normalise = attrs.normalise != 0;
  const TileIo io(args);
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelFrom / (experts * 8));
  args.pool->parallel_for(logits.dim(0), grain, [&](std::int64_t begin, std::int64_t end, int thread) {
    float* score = float_row(args, experts, std::int64_t{2} * thread);
    float* grad = float_row(args, experts, std::int64_t{2} * thread + 1);
    for (std::int64_t r = begin; r < end; ++r) {
      const auto expert = [&](std::int64_t i) {
        const std::int64_t e = chosen.data<const std::int32_t>()[r * chosen.stride(0) + i * chosen.stride(1)];
        require_index(e, experts, "moe_route_backward: experts");
        return e;
      };
      const auto upstream = [&](std::int64_t i) {
        return attrs.scale * dweights.data<const float>()[r * dweights.stride(0) + i * dweights.stride(1)];
      };
      fill_scores(io, logits, r, sigmoid, score);
      std::fill_n(grad, experts, 0.0F);
      float sum = 0.0F, mean = 0.0F;
      for (std::int64_t i = 0; i < top_k; ++i) {
        sum += score[expert(i)];
        mean += upstream(i) * score[expert(i)];
      }
      for (std::int64_t i = 0; i < top_k; ++i) {
        grad[expert(i)] += normalise ? (upstream(i) - mean / sum) / sum : upstream(i);
      }
      // Normalised, a softmax's gradients add up to nothing. Else `mean` is their mean by the scores.
      const float pull = sigmoid || normalise ? 0.0F : mean;
      for (std::int64_t e = 0; e < experts; ++e) {
        grad[e] = sigmoid ? grad[e] * score[e] * (1.0F - score[e]) : score[e] * (grad[e] - pull);
      }
      io.store(dlogits, r * dlogits.stride(0), dlogits.stride(1), experts, false, grad);
    }
  });
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_MOE_ROUTE, "moe_route", supports, workspace, nullptr, run},
    {TERN_OP_MOE_ROUTE_BACKWARD, "moe_route_backward", supports_backward, backward_workspace, nullptr, run_backward}};

}  // namespace

KernelList moe_route_kernels() { return kKernels; }

}  // namespace tern::cpu
