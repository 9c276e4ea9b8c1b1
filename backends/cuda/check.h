// What an op's kernels ask of a desc beyond its signature: dtypes and shapes that go together.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "backends/cuda/kernel.h"

namespace tern::cuda {

// Each question is passed by absent arguments; the first that fails is the reason.
class Check {
 public:
  Check(const PlanDesc& desc, std::string& reason) : desc_(desc), reason_(reason) {}
  Check& floats(std::initializer_list<int> args);  // f32, bf16 or f16, strided
  Check& dtype(int arg, tern_dtype dtype);
  Check& rank(int arg, int rank);
  Check& same_shape(std::initializer_list<int> args);
  Check& dim(int arg, int d, std::int64_t size);
  Check& contiguous();  // every argument
  Check& that(bool good, const char* reason);
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  void refuse(std::string reason);
  [[nodiscard]] const char* name(int arg) const;
  const PlanDesc& desc_;
  std::string& reason_;
  bool ok_ = true;
};

[[nodiscard]] inline bool is_small_float(tern_dtype dtype) {
  return dtype == TERN_F32 || dtype == TERN_BF16 || dtype == TERN_F16;
}

// x up to a multiple of `to`, and how many times `to` that is.
[[nodiscard]] constexpr std::int64_t round_up(std::int64_t x, std::int64_t to) { return (x + to - 1) / to * to; }
[[nodiscard]] constexpr std::int64_t parts_of(std::int64_t x, std::int64_t to) { return (x + to - 1) / to; }

}  // namespace tern::cuda
