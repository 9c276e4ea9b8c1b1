// Linear layers, with the adapters that sit on them.
#pragma once

#include <string>

#include "nn/context.h"

namespace tern::nn {

// y = x W^T (+ b) (+ adapter): x [rows, in] -> [rows, out]. `module` names the layer as Hugging Face does: its weight
// is "<module>.weight" [out, in], stored dense or quantised; "<module>.bias" [out] is added where the model has one,
// and then what the layer's adapter adds, or each row's.
Value linear(Context& context, const std::string& module, Value x);

// x W^T (+ bias), without an adapter: x [rows, in], w [out, in] dense or quantised, bias [out] or absent -> [rows, out]
// in the dtype `out`, the inputs rounded to `compute`.
Value product(Context& context, Value x, Value w, Value bias, tern_dtype out, tern_compute compute);
// Whether the device has such a product of `rows` rows of that dtype in `compute`, TERN_COMPUTE_X15 or _INT8.
[[nodiscard]] bool multiplies_in(tern_compute compute, const accel::Device& device, tern_dtype dtype,
                                 std::int64_t rows, const TensorDesc& weight);

// What a layer's adapter drops of its input in training.
struct AdapterDropout {
  float rate = 0.0F;  // 0: nothing
  std::int32_t site = 0;
  Value keys;
  Value mask;  // absent where the device draws dropout itself
};
// Of the next adapter, whose input is x [rows, in].
[[nodiscard]] AdapterDropout adapter_dropout(Context& context, Value x);
// x without what is dropped: x [rows, in] -> [rows, in].
Value dropped(Context& context, Value x, const AdapterDropout& dropout);
// scaling dropout(x) A^T -> [rows, rank] in fp32, as adapters are small and carry the whole training signal.
Value shrink(Context& context, const std::string& lora_a, float scaling, Value x, const AdapterDropout& dropout);
// What the adapter adds to y, in y's dtype, else in fp32: x [rows, in], y [rows, out] or absent.
Value add_adapter(Context& context, const LoraLayer& adapter, Value x, const AdapterDropout& dropout, Value y);

}  // namespace tern::nn
