// The two sides of the product that gives a head's logits, for losses that take it more than once.
#pragma once

#include "nn/head.h"

namespace tern::nn {

// An adapter is further columns of both.
struct HeadOperands {
  Value rows;    // [rows, width]
  Value weight;  // [vocab, width]
  float softcap = 0.0F;
  bool adapted = false;
};
HeadOperands head_operands(Context& context, const Head& head, Value rows);

// The cross entropy of these logits, as that of a Head (nn/head.h). For an adapter, dw is filled in, too.
ops::LinearCrossEntropyOut cross_entropy(Context& context, const HeadOperands& of, Value targets, Value weights,
                                         ops::LinearCrossEntropyOptions options);

}  // namespace tern::nn
