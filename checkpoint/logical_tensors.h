// The weights of a checkpoint as a model sees them: what quantisers split over several tensors (codes, scales, zero
// points, permutations) comes together again as planes with a scheme, under the weight's own name and shape.
//
// Understood: GGUF blocks; FP8 with block scales (`weight_scale_inv`, DeepSeek and Qwen); AWQ (gemm and gemv); GPTQ,
// with and without `g_idx`, versions 1 and 2; compressed-tensors' packed int, int8 and fp8; bitsandbytes' nf4 and fp4,
// single and double, and int8; MXFP4 pairs (`_blocks`, `_scales`, gpt-oss). Another `quantization_config` is an error
// that names it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint_source.h"
#include "tern/accel.h"

namespace tern::checkpoint {

// How the planes of TERN_PACK_GPTQ_INT4 lie in a file.
enum class Arrangement {
  usual,     // as the packing has them: a row for inputs, or for a group of them, of all outputs
  by_rows,   // words and scales of an output are a row; zero points are packed along outputs, a column for a group
  awq_gemv,  // and so are zero points, packed along the groups; rows of scales and zero points may be longer
};

struct LogicalTensor {
  std::string name;                 // "model.layers.0.mlp.up_proj.weight"
  std::vector<std::int64_t> shape;  // as unquantised, outermost first: a linear weight is [out, in]
  tern_scheme scheme = {};          // packing TERN_PACK_NONE: `data` alone, plain or a GGUF block type
  const SourceTensor* data = nullptr;
  const SourceTensor* scale = nullptr;
  const SourceTensor* zero = nullptr;         // nf4, double quantised: the scales of the scales
  const SourceTensor* permutation = nullptr;  // GPTQ's g_idx: the group of each input, where they are in another order
  Arrangement arrangement = Arrangement::usual;
  bool zero_borrows =
      false;           // GPTQ: zero points are stored less one, and there is one of 0 among them (packed_words.h)
  float scale_by = 1;  // what each scale is multiplied by
  // nf4 and fp4 only: the 16 levels, and the levels and shift of quantised scales.
  const SourceTensor* codebook = nullptr;
  const SourceTensor* scale_codebook = nullptr;
  float scale_offset = 0;
  int scale_block = 0;

  [[nodiscard]] std::uint64_t stored_bytes() const;
  [[nodiscard]] std::string storage_name() const;  // "BF16", "Q4_1", "awq_int4"
};

// What the checkpoint's own tools compute otherwise than tern, to be printed: they round what comes into a product.
[[nodiscard]] std::vector<std::string> notes_on_quantization(const CheckpointSource& source);

// Views into the source, which must outlive them. Every group is checked: each plane is there with the dtype and shape
// that the others imply.
[[nodiscard]] Result<std::vector<LogicalTensor>> logical_tensors(const CheckpointSource& source);

// Expands rows [first, first + count) of the tensor seen as [product of leading dimensions, last dimension] to fp32 by
// the formula of the format. values.size() is count times the last dimension. Throws std::logic_error for rows that
// are not there.
[[nodiscard]] Status read_rows_f32(const LogicalTensor& tensor, std::int64_t first, std::int64_t count,
                                   std::span<float> values);

// Rows of a tensor of MXFP4 pairs as ggml's blocks of the same numbers, 17 bytes for 32 of them: the scale, then
// element i in the low half of byte i and element i + 16 in its high half; appended to `blocks`. Throws
// std::logic_error for rows that are not there.
void append_mxfp4_blocks(const LogicalTensor& tensor, std::int64_t first, std::int64_t count,
                         std::vector<std::byte>& blocks);

}  // namespace tern::checkpoint
