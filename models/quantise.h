// Quantising weights while they are loaded, to the numbers that the tools which people know make of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/tensor_desc.h"

namespace tern::models {

enum class QuantiseMethod {
  nf4,   // bitsandbytes: 64 elements share the largest magnitude, each is the nearest of 16 levels
  int8,  // a row shares its largest magnitude over 127, as bitsandbytes has its int8
  fp8,   // E4M3 in blocks of 128 x 128 with fp32 scales, as transformers' fine-grained fp8
};

struct QuantiseOptions {
  QuantiseMethod method = QuantiseMethod::nf4;
  // Of nf4: less their mean, 256 scales share the largest magnitude, each the nearest of 256 levels.
  bool double_quant = true;
};

// A weight [rows, columns] as the method has it.
[[nodiscard]] TensorDesc quantised_desc(const QuantiseOptions& options, std::int64_t rows, std::int64_t columns);
// Its planes, one after the other, from as many values.
[[nodiscard]] std::vector<std::byte> quantised_planes(const QuantiseOptions& options, std::int64_t rows,
                                                      std::int64_t columns, std::span<const float> values);

}  // namespace tern::models
