// What the device does not run, and why.
#include <algorithm>
#include <cstring>

#include "backends/sim/kernel.h"
#include "base/dtype.h"
#include "base/strings.h"
#include "ops/attention_paged.h"
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

// What an attention op asks of the vendor's fused kernels; their attributes are alike.
struct Attention {
  tern_attention_attrs attrs{};
  TensorDesc q, k, v, sinks;
};
Attention attention_of(std::span<const TensorDesc> args, std::span<const std::byte> attrs, std::size_t q,
                       std::size_t sinks) {
  Attention out{{}, args[q], args[q + 1], args[q + 2], args[sinks]};
  std::memcpy(&out.attrs, attrs.data(), std::min(attrs.size(), sizeof out.attrs));
  return out;
}

// Of both fused kernels.
std::string fused_refusal(const Attention& a) {
  if (is_present(a.sinks)) return "the fused attention takes no sinks";
  if (a.attrs.softcap != 0.0F) return "the fused attention has no soft cap";
  if (a.q.shape[1] > 256) return cat("the fused attention has at most 256 heads, not ", a.q.shape[1]);
  return {};
}

// FlashAttentionVarLenScore and its Grad.
std::string flash_refusal(const Attention& a, const TensorDesc& bounds) {
  const std::int64_t width = a.q.shape[2];
  if (width > 768) return cat("heads of the fused attention have at most 768 features, not ", width);
  if (a.v.shape[2] > width) {
    return cat("values of the fused attention are no wider than keys: ", a.v.shape[2], " and ", width);
  }
  if (a.q.shape[0] > std::int64_t{1} << 20) return cat("the fused attention takes at most 1048576 rows");
  if (bounds.shape[0] > 2049) return cat("the fused attention takes at most 2048 sequences");
  return {};
}

// FusedInferAttentionScore over a paged cache: a prefill's rows lie one after another (TND), a decoding step has one a
// sequence.
std::string paged_refusal(const Attention& a) {
  const std::int64_t width = a.q.shape[2];
  const std::int64_t values = a.v.shape[3];
  const std::int64_t block = a.k.shape[1];
  const bool decodes = a.attrs.max_seqlen_q == 1;
  if (ops::has_scales(a.k.dtype)) return "the fused paged attention has no scale for each row of a cache in 8 bits";
  const bool halves = a.k.dtype == TERN_F16 || a.k.dtype == TERN_BF16;  // the cache
  if (width > (decodes ? 512 : 256) || (!decodes && width % 16 != 0)) {
    return cat("heads of the fused paged attention have ",
               decodes ? "at most 512 features" : "16, 32, ... 256 features", ", not ", width);
  }
  if (values != width && !(width == 192 && values == 128)) {
    return cat("values of the fused paged attention are as wide as keys, or 128 beside 192: ", values, " and ", width);
  }
  if (block > 512 || (decodes ? halves && block % 16 != 0 : block % 128 != 0)) {
    return cat("blocks of the fused paged attention hold ",
               decodes ? "at most 512 tokens, in 16-bit caches a multiple of 16" : "128, 256, 384 or 512 tokens",
               ", not ", block);
  }
  if (a.k.shape[2] * width > 65535) return "a token's keys are more than 65535 numbers";
  return {};
}

// What the vendor's attention refuses ("Ops", CANN 8 and 9).
std::string ascend_attention_refusal(std::uint32_t op, std::span<const TensorDesc> args,
                                     std::span<const std::byte> attrs) {
  switch (op) {
    case TERN_OP_ATTENTION: {
      const Attention a = attention_of(args, attrs, TERN_ATTENTION_Q, TERN_ATTENTION_SINKS);
      const std::string why = fused_refusal(a);
      return why.empty() ? flash_refusal(a, args[TERN_ATTENTION_CU_SEQLENS_Q]) : why;
    }
    case TERN_OP_ATTENTION_BACKWARD: {
      const Attention a = attention_of(args, attrs, TERN_ATTENTION_BACKWARD_Q, TERN_ATTENTION_BACKWARD_SINKS);
      const std::string why = fused_refusal(a);
      return why.empty() ? flash_refusal(a, args[TERN_ATTENTION_BACKWARD_CU_SEQLENS_Q]) : why;
    }
    case TERN_OP_ATTENTION_PAGED: {
      const Attention a = attention_of(args, attrs, TERN_ATTENTION_PAGED_Q, TERN_ATTENTION_PAGED_SINKS);
      const std::string why = fused_refusal(a);
      return why.empty() ? paged_refusal(a) : why;
    }
    default:
      return {};
  }
}

std::string ascend_refusal(std::uint32_t op, std::span<const TensorDesc> args, std::span<const std::byte> attrs,
                           std::uint32_t accumulate) {
  if (accumulate != 0 && op != TERN_OP_MATMUL && op != TERN_OP_MATMUL_Q && op != TERN_OP_ALL_FINITE &&
      op != TERN_OP_AXPBY) {
    return "only products and sums accumulate";
  }
  if (op == TERN_OP_QK_NORM_ROPE || op == TERN_OP_QK_NORM_ROPE_BACKWARD) return "no fused kernel";
  return ascend_attention_refusal(op, args, attrs);
}

std::string embedded_refusal(std::uint32_t op, std::span<const TensorDesc> args) {
  if (op == TERN_OP_RMS_NORM && is_present(args[TERN_RMS_NORM_RESIDUAL])) return "no fused residual";
  const bool any_quantised =
      std::any_of(args.begin(), args.end(), [](const TensorDesc& arg) { return is_present(arg) && is_quantised(arg); });
  return any_quantised && op != TERN_OP_DEQUANTIZE ? "quantised weights must be expanded" : "";
}

// Products in a 16-bit dtype that the device lacks.
std::string compute_refusal(const Device& device, const OpSpec& spec, std::span<const std::byte> attrs) {
  for (std::size_t i = 0; i < spec.attrs.size(); ++i) {
    if (spec.attrs[i].name != "compute") continue;
    std::int32_t compute = 0;
    std::memcpy(&compute, attrs.data() + i * sizeof compute, sizeof compute);
    if ((compute == TERN_COMPUTE_F16 || compute == TERN_COMPUTE_BF16) && device.info.matmul_rate[compute] <= 0) {
      return cat("it multiplies nothing in ", dtype_name(compute));
    }
  }
  return {};
}

// What real devices of the kind lack, so that decompositions and fallbacks are walked.
std::string personality_refusal(const Device& device, std::uint32_t op, std::span<const TensorDesc> args,
                                std::span<const std::byte> attrs, std::uint32_t accumulate) {
  if (!device.can(TERN_CAP_PHILOX) && op == TERN_OP_DROPOUT && !is_present(args[TERN_DROPOUT_MASK])) {
    return "the device draws no random bits: a mask is needed";
  }
  switch (device.config.personality) {
    case Personality::ascend:
      return ascend_refusal(op, args, attrs, accumulate);
    case Personality::embedded:
      return embedded_refusal(op, args);
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
  std::string reason = compute_refusal(device, spec, attrs);
  if (reason.empty()) reason = packed_refusal(device, spec, op, args, attrs);
  if (reason.empty()) reason = personality_refusal(device, op, args, attrs, accumulate);
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
