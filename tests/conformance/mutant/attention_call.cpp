#include "mutant/attention_call.h"

#include <cstring>

namespace tern::mutant {
namespace {

AttentionPlaces places_of(std::uint32_t op) {
  switch (op) {
    case TERN_OP_ATTENTION:
      return {TERN_ATTENTION_Q,
              TERN_ATTENTION_K,
              TERN_ATTENTION_V,
              TERN_ATTENTION_CU_SEQLENS_Q,
              TERN_ATTENTION_CU_SEQLENS_K,
              -1,
              TERN_ATTENTION_SINKS,
              TERN_ATTENTION_MASK,
              TERN_ATTENTION_OUT,
              TERN_ATTENTION_LSE};
    case TERN_OP_ATTENTION_PAGED:
      return {TERN_ATTENTION_PAGED_Q,       TERN_ATTENTION_PAGED_K_CACHE,
              TERN_ATTENTION_PAGED_V_CACHE, TERN_ATTENTION_PAGED_CU_SEQLENS_Q,
              TERN_ATTENTION_PAGED_KV_LENS, TERN_ATTENTION_PAGED_BLOCK_TABLE,
              TERN_ATTENTION_PAGED_SINKS,   TERN_ATTENTION_PAGED_MASK,
              TERN_ATTENTION_PAGED_OUT,     TERN_ATTENTION_PAGED_LSE};
    default:
      return {TERN_ATTENTION_BACKWARD_Q,
              TERN_ATTENTION_BACKWARD_K,
              TERN_ATTENTION_BACKWARD_V,
              TERN_ATTENTION_BACKWARD_CU_SEQLENS_Q,
              TERN_ATTENTION_BACKWARD_CU_SEQLENS_K,
              -1,
              TERN_ATTENTION_BACKWARD_SINKS,
              TERN_ATTENTION_BACKWARD_MASK,
              TERN_ATTENTION_BACKWARD_OUT,
              TERN_ATTENTION_BACKWARD_LSE};
  }
}

}  // namespace

AttentionCall::AttentionCall(const tern_op_desc& desc, std::vector<ops::ref::Tensor>& args)
    : op_(desc.op), at_(places_of(desc.op)), args_(args) {
  std::memcpy(&attrs_, desc.attrs, sizeof(attrs_));
}

ops::ref::AttentionInputs AttentionCall::inputs() {
  if (op_ != TERN_OP_ATTENTION_PAGED) {
    return ops::ref::ragged_inputs(attrs_, arg(at_.q), arg(at_.k), arg(at_.sinks), arg(at_.mask), arg(at_.cu_q),
                                   arg(at_.lens));
  }
  return {attrs_,
          arg(at_.q),
          arg(at_.k),
          arg(at_.sinks),
          arg(at_.mask),
          arg(at_.cu_q),
          [this](std::int64_t s) { return arg(at_.lens).integer[static_cast<std::size_t>(s)]; },
          [this](std::int64_t s, std::int64_t key) {
            const std::int64_t block = arg(at_.k).size(1);
            const auto entry = static_cast<std::size_t>(s * arg(at_.table).size(1) + key / block);
            return arg(at_.table).integer.at(entry) * block + key % block;
          }};
}

}  // namespace tern::mutant
