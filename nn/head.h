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

// The cross entropy of these logits, which are never held: targets [rows] i32, weights [rows] f32. Of `options`, the
// caller chooses the outputs; compute, softcap and needs are filled in here.
ops::LinearCrossEntropyOut cross_entropy(Context& context, const Head& head, Value rows, Value targets, Value weights,
                                         ops::LinearCrossEntropyOptions options);

}  // namespace tern::nn
