// Runs one call of an op on the cpu backend, through its C interface, with a chosen instruction set, and compares every
// output with the fp64 oracle under the op's tolerance.
#pragma once

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ops/tensor_desc.h"
#include "tern/accel_ops.h"

namespace tern::test {

// Every packing in GGUF blocks.
inline constexpr tern_packing kBlockPackings[] = {
    TERN_PACK_GGUF_Q4_0,   TERN_PACK_GGUF_Q4_1,   TERN_PACK_GGUF_Q5_0, TERN_PACK_GGUF_Q5_1, TERN_PACK_GGUF_Q8_0,
    TERN_PACK_GGUF_Q2_K,   TERN_PACK_GGUF_Q3_K,   TERN_PACK_GGUF_Q4_K, TERN_PACK_GGUF_Q5_K, TERN_PACK_GGUF_Q6_K,
    TERN_PACK_GGUF_IQ4_NL, TERN_PACK_GGUF_IQ4_XS, TERN_PACK_GGUF_MXFP4};

struct Argument {
  TensorDesc desc = absent_desc();
  std::vector<std::byte> bytes;  // plane 0
};

struct OpCase {
  std::uint32_t op = 0;
  std::vector<Argument> args;
  std::vector<std::byte> attrs;
  std::uint32_t accumulate = 0;
  std::uint32_t needs = TERN_NEED_DETERMINISTIC | TERN_NEED_ROW_INVARIANT;
  std::string choice;  // of the kernel; empty: the device's
  int num_threads = 2;

  explicit OpCase(std::uint32_t id);  // every argument absent
  template <typename Attrs>
  void set_attrs(const Attrs& value) {
    attrs.resize(sizeof value);
    std::memcpy(attrs.data(), &value, sizeof value);
  }
  // Values in [-1, 1], and NaN between the elements of a strided tensor.
  void random(int arg, TensorDesc desc, std::uint32_t seed);
  void integers(int arg, const std::vector<std::int32_t>& values, std::vector<std::int64_t> shape = {});
  void floats(int arg, const std::vector<float>& values);
  void output(int arg, TensorDesc desc);  // poisoned with NaN
};

[[nodiscard]] TensorDesc padded(TensorDesc desc, std::int64_t gap);  // rows of the last dimension `gap` elements apart

// Those of kTargets that this machine runs.
[[nodiscard]] const std::vector<std::string>& targets();

struct Outcome {
  std::string choice;
  std::vector<std::vector<std::byte>> bytes;  // per argument, as the device left them
};
// Throws where the device refuses.
[[nodiscard]] Outcome run_on(const std::string& target, const OpCase& c);
// Hands argument `arg` over in the device's private layout.
[[nodiscard]] Outcome run_packed(const std::string& target, const OpCase& c, int arg, std::uint32_t use);
// Fails the test for each element outside of the tolerance.
void expect_oracle(const OpCase& c, const Outcome& outcome, const std::string& label);
// On one target: runs, checks that this target's kernel answered, compares with the oracle.
void check_on(const std::string& target, const OpCase& c, const std::string& label);
// On every target.
void check_everywhere(const OpCase& c, const std::string& label);

}  // namespace tern::test
