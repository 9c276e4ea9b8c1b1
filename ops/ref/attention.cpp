#include "ops/ref/attention_row.h"

namespace tern::ops::ref {

void attention(Call& call) {
  const AttentionInputs in =
      ragged_inputs(attention_attrs<tern_attention_attrs>(call), input(call, TERN_ATTENTION_Q),
                    input(call, TERN_ATTENTION_K), input(call, TERN_ATTENTION_SINKS), input(call, TERN_ATTENTION_MASK),
                    input(call, TERN_ATTENTION_CU_SEQLENS_Q), input(call, TERN_ATTENTION_CU_SEQLENS_K));
  Output out(call, TERN_ATTENTION_OUT);
  Output lse(call, TERN_ATTENTION_LSE);
  attend(in, input(call, TERN_ATTENTION_V), out, lse);
}

}  // namespace tern::ops::ref
