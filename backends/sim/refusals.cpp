// What the device does not run, and why.
#include <algorithm>

#include "backends/sim/kernel.h"
#include "base/dtype.h"
#include "base/strings.h"
#include "ops/rules.h"
#include "tern/accel_ops.h"

namespace tern::sim {
namespace {

using ops::OpSpec;

std::string packed_refusal(const Device& device, const OpSpec& spec, std::uint32_t op, std::span<const TensorDesc> args,
                           std::span<const std::byte> attrs) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!is_present(args[i]) || args[i].layout == 0) continue;
    if (packed_bytes(device, args[i]) == 0) {
      return cat(spec.args[i].name, ": layout ", args[i].layout, " is none of ", device.name());
    }
    const std::uint32_t uses = ops::op_rules(op).uses({op, args, attrs}, static_cast<int>(i));
    if ((layout_uses(args[i].layout) & uses) != uses) {
      return cat(spec.args[i].name, ": packed for other uses than this one");
    }
  }
  return {};
}

// What real devices of the kind lack, so that decompositions and fallbacks are walked.
std::string personality_refusal(const Device& device, std::uint32_t op, std::span<const TensorDesc> args,
                                std::uint32_t accumulate) {
  if (!device.can(TERN_CAP_PHILOX)) {
    if (op == TERN_OP_DROPOUT && !is_present(args[TERN_DROPOUT_MASK])) {
      return "the device draws no random bits: a mask is needed";
    }
  }
  switch (device.config.personality) {
    case Personality::ascend:
      if (accumulate != 0 && op != TERN_OP_MATMUL && op != TERN_OP_MATMUL_Q && op != TERN_OP_ALL_FINITE &&
          op != TERN_OP_AXPBY) {
        return "only products and sums accumulate";
      }
      if ((op == TERN_OP_ATTENTION && is_present(args[TERN_ATTENTION_SINKS])) ||
          (op == TERN_OP_ATTENTION_BACKWARD && is_present(args[TERN_ATTENTION_BACKWARD_SINKS])) ||
          (op == TERN_OP_ATTENTION_PAGED && is_present(args[TERN_ATTENTION_PAGED_SINKS]))) {
        return "the fused attention takes no sinks";
      }
      if (op == TERN_OP_QK_NORM_ROPE || op == TERN_OP_QK_NORM_ROPE_BACKWARD) return "no fused kernel";
      break;
    case Personality::embedded:
      if (op == TERN_OP_RMS_NORM && is_present(args[TERN_RMS_NORM_RESIDUAL])) return "no fused residual";
      for (const TensorDesc& arg : args) {
        if (is_present(arg) && is_quantised(arg) && op != TERN_OP_DEQUANTIZE)
          return "quantised weights must be expanded";
      }
      break;
    case Personality::discrete:
    case Personality::graph:
      break;
  }
  return {};
}

}  // namespace

std::string why_not(const Device& device, std::uint32_t op, std::span<const TensorDesc> args,
                    std::span<const std::byte> attrs, std::uint32_t needs, std::uint32_t accumulate) {
  if (op == 0 || op >= TERN_OP_LIMIT) return cat("op ", op, " is not known to this device");
  if (std::string problem = ops::check_call(op, args, attrs, accumulate); !problem.empty()) {
    fail(TERN_INVALID_ARGUMENT, problem);
  }
  const OpSpec& spec = ops::op_spec(op);
  const auto surplus = attrs.subspan(spec.attrs.size() * 4);
  if (std::any_of(surplus.begin(), surplus.end(), [](std::byte b) { return b != std::byte{0}; })) {
    return cat(spec.name, ": attributes of a newer version");
  }
  if ((needs & ~(std::uint32_t{TERN_NEED_DETERMINISTIC} | TERN_NEED_ROW_INVARIANT)) != 0) {
    return cat(spec.name, ": an unknown need");
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (is_present(args[i]) && (device.info.storage_dtypes >> args[i].dtype & 1U) == 0) {
      return cat(spec.name, ": ", spec.args[i].name, ": ", dtype_name(args[i].dtype), " is not stored");
    }
  }
  std::string reason = packed_refusal(device, spec, op, args, attrs);
  if (reason.empty()) reason = personality_refusal(device, op, args, accumulate);
  return reason.empty() ? reason : cat(spec.name, ": ", reason);
}

std::string why_not_as_one(const Opened& opened, const tern_graph_desc& graph) {
  if (graph.num_nodes > opened.graph_nodes) {
    return cat("a graph of ", graph.num_nodes, " ops is too large: at most ", opened.graph_nodes, " go into one");
  }
  const auto has = [&](std::uint32_t op) {
    return std::any_of(graph.nodes, graph.nodes + graph.num_nodes,
                       [&](const tern_graph_node& node) { return node.op.op == op; });
  };
  if (has(TERN_OP_SUM_SQUARES) && has(TERN_OP_ADAMW)) {
    return "sum_squares and adamw don't go into one graph";
  }
  return {};
}

}  // namespace tern::sim
