// Linear layers, with the adapters that sit on them.
#pragma once

#include <string>

#include "nn/context.h"

namespace tern::nn {

// y = x W^T (+ b) (+ adapter): x [rows, in] -> [rows, out]. `module` names the layer as Hugging Face does: its weight
// is
// "<module>.weight" [out, in], stored dense or quantised; "<module>.bias" [out] is added where the model has one.
Value linear(Context& context, const std::string& module, Value x);

// x W^T (+ bias), without an adapter: x [rows, in], w [out, in] dense or quantised, bias [out] or absent -> [rows, out]
// in the dtype `out`, the inputs rounded to `compute`.
Value product(Context& context, Value x, Value w, Value bias, tern_dtype out, tern_compute compute);
// Whether the device has such a product of `rows` rows of that dtype in TERN_COMPUTE_X15.
[[nodiscard]] bool multiplies_in_x15(const accel::Device& device, tern_dtype dtype, std::int64_t rows,
                                     const TensorDesc& weight);

// An adapter's input, with dropout where it is drawn: x [rows, in] -> [rows, in].
Value adapter_input(Context& context, Value x);
// What the adapter adds to y, in y's dtype, else in fp32: x [rows, in], y [rows, out] or absent.
Value add_adapter(Context& context, const LoraLayer& adapter, Value x, Value y);

}  // namespace tern::nn
