// Linear layers, with the adapters that sit on them.
#pragma once

#include <string>

#include "nn/context.h"

namespace tern::nn {

// y = x W^T (+ b) (+ adapter): x [rows, in] -> [rows, out]. `module` names the layer as Hugging Face does: its weight
// is
// "<module>.weight" [out, in], stored dense or quantised; "<module>.bias" [out] is added where the model has one.
Value linear(Context& context, const std::string& module, Value x);

// Logits of the output projection: rows [rows, hidden] -> [rows, vocab] f32. `weight` [vocab, hidden] is its own or the
// embedding's.
Value logits(Context& context, const std::string& weight, Value rows);

}  // namespace tern::nn
