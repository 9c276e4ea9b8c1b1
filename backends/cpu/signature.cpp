#include "backends/cpu/signature.h"

#include "backends/cpu/kernel.h"
#include "base/dtype.h"
#include "base/strings.h"

namespace tern::cpu {
namespace {

template <typename... Args>
constexpr std::uint32_t bits(Args... args) {
  return ((1U << static_cast<unsigned>(args)) | ... | 0U);
}

// In tern/accel_ops.h's order. A unit test holds this to the op table.
constexpr Signature kSignatures[] = {
    {TERN_OP_CAST_COPY, "cast_copy", 2, 0, bits(1), 0, 0, bits(1), 0, 0, 0},
    {TERN_OP_GATHER_ROWS, "gather_rows", 3, 0, bits(2), 0, 0, 0, 0, 0, 0},
    {TERN_OP_SCATTER_ADD_ROWS, "scatter_add_rows", 3, 0, bits(2), 0, 0, bits(2), 0, 0, 0},
    {TERN_OP_AXPBY, "axpby", 3, sizeof(tern_axpby_attrs), bits(2), 0, bits(1), bits(2), 0, 0, 0},
    {TERN_OP_MUL, "mul", 3, 0, bits(2), 0, 0, bits(2), 0, 0, 0},
    {TERN_OP_ROW_SUM, "row_sum", 2, sizeof(tern_row_sum_attrs), bits(1), 0, 0, bits(1), 0, 0, 0},
    {TERN_OP_SCALE, "scale", 3, 0, bits(2), 0, 0, bits(2), 0, 0, 0},
    {TERN_OP_DROPOUT, "dropout", 4, sizeof(tern_dropout_attrs), bits(3), 0, bits(2), bits(3), 0, 0, 0},
    {TERN_OP_SUM_SQUARES, "sum_squares", 2, 0, bits(1), 0, 0, bits(1), 0, 0, 0},
    {TERN_OP_ALL_FINITE, "all_finite", 2, 0, bits(1), 0, 0, bits(1), 0, 0, 0},
    {TERN_OP_MATMUL, "matmul", 4, sizeof(tern_matmul_attrs), bits(3), 0, bits(2), bits(3), 0, 0, bits(1)},
    {TERN_OP_MATMUL_Q, "matmul_q", 4, sizeof(tern_matmul_q_attrs), bits(3), 0, bits(2), bits(3), 0, bits(1), bits(1)},
    {TERN_OP_DEQUANTIZE, "dequantize", 2, 0, bits(1), 0, 0, 0, 0, bits(0), 0},
    {TERN_OP_EMBEDDING, "embedding", 3, 0, bits(2), 0, 0, 0, 0, bits(0), 0},
    {TERN_OP_RMS_NORM, "rms_norm", 6, sizeof(tern_rms_norm_attrs), bits(3, 4, 5), 0, bits(1, 4, 5), 0, 0, 0, 0},
    {TERN_OP_RMS_NORM_BACKWARD, "rms_norm_backward", 7, sizeof(tern_rms_norm_backward_attrs), bits(5, 6), 0, bits(4, 6),
     bits(6), 0, 0, 0},
    {TERN_OP_ROPE, "rope", 5, sizeof(tern_rope_attrs), bits(4), 0, 0, bits(4), 0, 0, 0},
    {TERN_OP_QK_NORM_ROPE, "qk_norm_rope", 7, sizeof(tern_qk_norm_rope_attrs), bits(5, 6), 0, bits(6), 0, 0, 0, 0},
    {TERN_OP_QK_NORM_ROPE_BACKWARD, "qk_norm_rope_backward", 9, sizeof(tern_qk_norm_rope_backward_attrs), bits(7, 8), 0,
     bits(8), bits(8), 0, 0, 0},
    {TERN_OP_ACT_MUL, "act_mul", 3, sizeof(tern_act_mul_attrs), bits(2), 0, 0, 0, 0, 0, 0},
    {TERN_OP_ACT_MUL_BACKWARD, "act_mul_backward", 5, sizeof(tern_act_mul_backward_attrs), bits(3, 4), 0, 0, 0, 0, 0,
     0},
    {TERN_OP_ATTENTION, "attention", 8, sizeof(tern_attention_attrs), bits(6, 7), 0, bits(5, 7), 0, bits(3, 4), 0, 0},
    {TERN_OP_ATTENTION_BACKWARD, "attention_backward", 13, sizeof(tern_attention_backward_attrs), bits(9, 10, 11, 12),
     0, bits(8, 12), bits(12), bits(6, 7), 0, 0},
    {TERN_OP_KV_WRITE, "kv_write", 5, 0, 0, bits(3, 4), 0, 0, 0, 0, 0},
    {TERN_OP_ATTENTION_PAGED, "attention_paged", 9, sizeof(tern_attention_paged_attrs), bits(7, 8), 0, bits(6, 8), 0,
     bits(4, 5), 0, 0},
    {TERN_OP_LINEAR_CROSS_ENTROPY, "linear_cross_entropy", 10, sizeof(tern_linear_cross_entropy_attrs),
     bits(4, 5, 6, 7, 8, 9), 0, bits(5, 6, 7, 8, 9), bits(4, 9), 0, bits(1), bits(1)},
    {TERN_OP_ADAMW, "adamw", 6, 0, bits(5), bits(0, 1, 2), bits(5), 0, 0, 0, 0},
    {TERN_OP_SAMPLE, "sample", 16, 0, bits(14, 15), 0, bits(11, 12), 0, 0, 0, 0},
    {TERN_OP_SOFTCAP, "softcap", 2, sizeof(tern_softcap_attrs), bits(1), 0, 0, 0, 0, 0, 0},
};

bool has(std::uint32_t mask, std::uint32_t i) { return (mask >> i & 1U) != 0; }

// What is wrong with one argument's desc in itself; empty: nothing.
std::string check_tensor(const tern_tensor_desc& desc, bool output) {
  if (desc.rank < 0 || desc.rank > TERN_MAX_RANK) return cat("rank ", desc.rank, ", expected 0 to ", TERN_MAX_RANK);
  if (desc.dtype < 0 || desc.dtype >= TERN_DTYPE_COUNT) return cat("no dtype has the number ", desc.dtype);
  if (desc.dynamic_dim >= desc.rank || desc.dynamic_dim < -1)
    return cat("dynamic_dim ", int{desc.dynamic_dim}, " is no dimension");
  if (desc.dynamic_dim >= 0 && desc.count_slot >= TERN_MAX_COUNTS)
    return cat("count_slot ", int{desc.count_slot}, " is no slot");
  std::uint64_t unused = 0;
  for (int d = 0; d < desc.rank; ++d) {
    if (desc.shape[d] < 0) return cat("shape[", d, "] is ", desc.shape[d]);
    if (desc.layout != 0 || desc.scheme.packing != TERN_PACK_NONE) continue;
    if (desc.strides[d] < 0)
      return cat("strides[", d, "] is ", desc.strides[d], ": negative strides are not part of the interface");
    if (output && desc.strides[d] == 0 && desc.shape[d] > 1) return "a stride of 0 on an output";
  }
  if (!strided_extent(desc, unused)) return "its extent does not fit 64 bits";
  return {};
}

}  // namespace

const Signature* find_signature(std::uint32_t op) {
  for (const auto& signature : kSignatures) {
    if (signature.op == op) return &signature;
  }
  return nullptr;
}

bool check_desc(const tern_op_desc& desc, std::string& reason, bool& invalid) {
  invalid = false;
  const Signature* signature = find_signature(desc.op);
  if (signature == nullptr) {
    reason = cat("no op of this version has the id ", desc.op);
    return false;
  }
  auto broken = [&](const std::string& text) {
    invalid = true;
    reason = cat(signature->name, ": ", text);
    return false;
  };
  if (desc.args == nullptr || desc.num_args != signature->num_args) {
    return broken(cat("expected ", signature->num_args, " arguments, found ", desc.num_args));
  }
  if (desc.attrs_size < signature->attrs_size || (signature->attrs_size > 0 && desc.attrs == nullptr)) {
    return broken(cat("expected ", signature->attrs_size, " bytes of attributes, found ", desc.attrs_size));
  }
  if ((desc.accumulate & ~signature->accumulate) != 0) return broken("an argument that cannot accumulate is asked to");
  for (std::uint32_t i = 0; i < signature->num_args; ++i) {
    const auto& arg = desc.args[i];
    if (const auto wrong = check_tensor(arg, has(signature->outputs | signature->states, i)); !wrong.empty()) {
      return broken(cat("argument ", i, ": ", wrong));
    }
    if (arg.rank == 0 && !has(signature->optional, i))
      return broken(cat("argument ", i, " is absent and not optional"));
    if (arg.rank == 0) continue;
    if (arg.scheme.packing != TERN_PACK_NONE && !has(signature->quantised, i)) {
      return broken(cat("argument ", i, " cannot be quantised"));
    }
    if (arg.layout != 0 && !has(signature->packable, i))
      return broken(cat("argument ", i, " cannot have a private layout"));
  }
  return true;
}

bool strided_extent(const tern_tensor_desc& desc, std::uint64_t& bytes) {
  bytes = 0;
  if (desc.rank == 0) return true;
  std::uint64_t last = 0;  // element, from the first
  std::uint64_t count = 1;
  bool empty = false;
  const bool strided = desc.layout == 0 && desc.scheme.packing == TERN_PACK_NONE;
  for (int d = 0; d < desc.rank; ++d) {
    if (desc.shape[d] == 0) empty = true;
    if (desc.shape[d] <= 0) continue;
    std::uint64_t reach = 0;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(desc.shape[d] - 1),
                               strided ? static_cast<std::uint64_t>(desc.strides[d]) : 0, &reach) ||
        __builtin_add_overflow(last, reach, &last) ||
        __builtin_mul_overflow(count, static_cast<std::uint64_t>(desc.shape[d]), &count)) {
      return false;
    }
  }
  if (empty) return true;
  if (count > (std::uint64_t{1} << 62)) return false;
  return !__builtin_mul_overflow(last + 1, static_cast<std::uint64_t>(dtype_bytes(desc.dtype)), &bytes);
}

}  // namespace tern::cpu
