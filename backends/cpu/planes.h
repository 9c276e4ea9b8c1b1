// Quantised weights whose codes, scales and zero points lie in planes of their own (tern_packing in accel_types.h).
//
// int8, fp8, nf4 and fp4 lie along: a row of the weight is a row of the plane. AWQ and GPTQ lie across: every plane has
// a row for an input, or for a group of them, of all outputs.
#pragma once

#include <cstdint>

#include "backends/cpu/kernel.h"
#include "backends/cpu/x15.h"

namespace tern::cpu {

[[nodiscard]] inline bool lies_across(tern_packing packing) {
  return packing == TERN_PACK_AWQ_INT4 || packing == TERN_PACK_GPTQ_INT4;
}

// Whether this device reads the scheme, of a weight with rows of `k` elements; if not, says why.
[[nodiscard]] bool reads_planes(const tern_scheme& scheme, std::int64_t k, std::string& reason);

// AWQ and GPTQ of k inputs: the outputs from `first` on, of `stride` that a row of the planes has.
struct AcrossWeight {
  Target target;
  tern_scheme scheme;
  const std::uint32_t* words;
  const std::uint8_t* scale;
  const std::uint32_t* zero;
  std::int64_t k, stride, first;

  [[nodiscard]] int bits() const { return scheme.packing == TERN_PACK_AWQ_INT4 ? 4 : scheme.bits; }
  // The words of `row` from the one of output `column` on, both counted from here; how far apart outputs' words are.
  [[nodiscard]] const std::uint32_t* words_at(std::int64_t row, std::int64_t column) const {
    if (scheme.packing == TERN_PACK_AWQ_INT4) return words + (row * stride + first + column) / 8;
    return words + row * bits() / 32 * stride + first + column;
  }
};

// Scales and zero points of outputs [column, column + n) in a group.
void across_scales(const AcrossWeight& w, std::int64_t group, std::int64_t column, std::int64_t n, float* scales,
                   std::int32_t* zeros);

// Codes of an input in rows of GPTQ's words: they begin with a bit of `words`, and end in `next` where that isn't null.
struct GptqCodes {
  const std::uint32_t* words;
  const std::uint32_t* next;
  int shift, bits;

  [[nodiscard]] std::uint32_t at(std::int64_t i) const {
    std::uint32_t code = words[i] >> shift;
    if (next != nullptr) code |= next[i] << (32 - shift);
    return code & ((1U << bits) - 1U);
  }
};
// Those of input `row`, outputs from `column` on.
[[nodiscard]] GptqCodes gptq_codes(const AcrossWeight& w, std::int64_t row, std::int64_t column);

struct QuantisedRows;

// Rows of x in fp32, one after the other, `ld` apart. By pairs of nf4 and fp4, each kAlongStep elements lie in another
// order: those that pairs have first, then those that they have last.
struct FewRows {
  const float* x;
  std::int64_t ld;
  int rows;
};
inline constexpr std::int64_t kFewRows = 16;
// Elements along a row that share a scale, or that the loop takes at once.
inline constexpr std::int64_t kAlongStep = 32;

struct PlaneKernels {
  // n codes times a scale, each rounded once; n is a multiple of 16.
  void (*int8)(const std::uint8_t* codes, float scale, float* dst, std::int64_t n);
  void (*f8)(const std::uint8_t* codes, float scale, float* dst, std::int64_t n);
  void (*levels4)(const std::uint8_t* pairs, const float* levels, float scale, float* dst, std::int64_t n);
  // n outputs of an input: (code - zero) scale. `words` of AWQ as words_at gives them, n a multiple of 8.
  void (*awq)(const std::uint32_t* words, const float* scales, const float* zeros, float* dst, std::int64_t n);
  void (*gptq)(const GptqCodes& codes, const float* scales, const float* zeros, float* dst, std::int64_t n);
  // In fp32: y[r ld + c] = row r of x times output column + c, for c < n, of a weight that lies along; groups of it are
  // a multiple of 32. `scales`: of the k / kAlongStep steps of each output in turn.
  void (*multiply_along)(const QuantisedRows& w, const float* scales, std::int64_t column, std::int64_t n,
                         const FewRows& x, float* y, std::int64_t ld);
  // x15: y[r ld + c] = row r of x times output column + c, for c < n; groups of the weight are a multiple of 32.
  void (*multiply)(const AcrossWeight& w, std::int64_t column, std::int64_t n, const X15Rows& x, float* y,
                   std::int64_t ld);
};
[[nodiscard]] const PlaneKernels& plane_kernels(Target target);

// One table per file; null where the compiler's machine has no such target.
[[nodiscard]] const PlaneKernels* plane_kernels_avx2();
[[nodiscard]] const PlaneKernels* plane_kernels_avx512_vnni();

// Columns that a thread takes side by side in `multiply`.
inline constexpr std::int64_t kAcrossColumns = 512;

// A quantised weight by rows of it, in blocks or in planes along; of what lies across, by inputs.
struct QuantisedRows {
  tern_scheme scheme = {};
  const std::uint8_t* planes[TERN_MAX_PLANES] = {};
  std::int64_t k = 0;          // elements of a row of the weight
  std::int64_t outputs = 0;    // that the planes have
  std::int64_t first = 0;      // output that counts as the first
  std::int64_t row_bytes = 0;  // of a row of plane 0; GPTQ: of one of words

  [[nodiscard]] AcrossWeight across(Target target) const {
    return {target,
            scheme,
            reinterpret_cast<const std::uint32_t*>(planes[0]),
            planes[1],
            reinterpret_cast<const std::uint32_t*>(planes[2]),
            k,
            outputs,
            first};
  }
  // GPTQ: the row of the planes that has each input; null where they're in order.
  [[nodiscard]] const std::int32_t* order() const {
    const bool in_order = scheme.packing != TERN_PACK_GPTQ_INT4 || (scheme.flags & TERN_SCHEME_IN_ORDER) != 0;
    return in_order ? nullptr : reinterpret_cast<const std::int32_t*>(planes[3]);
  }
  // Where elements [column, column + n) of a row lie in plane 0.
  struct Bytes {
    const std::uint8_t* at;
    std::int64_t count;
  };
  [[nodiscard]] Bytes bytes(std::int64_t row, std::int64_t column, std::int64_t n) const;
};
[[nodiscard]] QuantisedRows quantised_rows(const TensorView& weight);

// Scales of the steps of kAlongStep elements of an output that lies along; groups are a multiple of it.
void along_scales(Target target, const QuantisedRows& rows, std::int64_t output, float* scales);

// Inputs [first, first + n) of one output of a weight that lies across: its scale and zero point are read once a group.
void expand_output(Target target, const QuantisedRows& rows, std::int64_t output, std::int64_t first, std::int64_t n,
                   float* dst);

// Expands such rows. Not for two threads at once.
class RowExpander {
 public:
  RowExpander(Target target, const QuantisedRows& rows);
  // n elements from `column` on, a multiple of 32; in blocks of GGUF up to 31 more are written.
  void expand(std::int64_t row, std::int64_t column, std::int64_t n, float* dst);
  void expand(std::int64_t row, std::int64_t column, std::int64_t n, std::uint16_t* dst);  // in bf16

 private:
  void expand_along(std::int64_t row, std::int64_t column, std::int64_t n, float* dst) const;
  void expand_across(std::int64_t row, std::int64_t column, std::int64_t n, float* dst);

  static constexpr std::int64_t kMost = 512;  // elements that share a row's scales in turn
  Target target_;
  QuantisedRows rows_;
  bool in_blocks_ = false;
  std::int64_t row_groups_ = 0;                   // of planes that lie along
  std::int64_t group_ = -1, column_ = 0, n_ = 0;  // of the scales that are kept
  alignas(64) float scales_[kMost];
  alignas(64) float zeros_[kMost];
};

}  // namespace tern::cpu
