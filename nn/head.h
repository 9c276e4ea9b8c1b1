// The output projection of a language model.
#pragma once

#include <string>

#include "nn/context.h"
#include "ops/linear_cross_entropy.h"

namespace tern::nn {

// logits = softcap(scale * rows W^T)
struct Head {
  std::string weight;    // stored name of W [vocab, hidden], its own or the embedding's
  float scale = 1.0F;    // of the logits
  float softcap = 0.0F;  // bound of the scaled logits' size (ops/softcap.h); 0: none
};

// rows [rows, hidden] -> [rows, vocab] f32.
Value logits(Context& context, const Head& head, Value rows);

// The two sides of the product that gives these logits. An adapter is further columns of both.
struct HeadOperands {
  Value rows;    // [rows, width]
  Value weight;  // [vocab, width]
  float softcap = 0.0F;
  bool adapted = false;
};
HeadOperands head_operands(Context& context, const Head& head, Value rows);

// The cross entropy of these logits, which are never held: targets [rows] i32, weights [rows] f32. Of `options`, the
// caller chooses the outputs; compute, softcap, needs and, for an adapter, dw are filled in here.
ops::LinearCrossEntropyOut cross_entropy(Context& context, const HeadOperands& of, Value targets, Value weights,
                                         ops::LinearCrossEntropyOptions options);

}  // namespace tern::nn
