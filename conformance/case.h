// One call of an op with everything in it: what a device is given, and what a failing case's file holds.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "accel/kernel.h"
#include "ops/emit.h"
#include "ops/ref/tensor.h"
#include "ops/table.h"
#include "ops/tensor_desc.h"

namespace tern::conformance {

using Bytes = std::vector<std::byte>;

struct Argument {
  TensorDesc desc = absent_desc();
  // Memory of each plane as the device gets it: inputs, states, and what an output holds before. Bytes between elements
  // of inputs are NaN, and so are elements beyond a dynamic dimension's count where `any_tails`; else these are finite.
  std::array<Bytes, TERN_MAX_PLANES> planes;
  bool packed = false;     // hand it over in the device's private layout, where it has one
  bool both_uses = false;  // and in one that serves x w^T and dy w, whichever this call does
};

struct Case {
  std::uint32_t op = 0;
  std::string label;  // "bf16, padded rows, accumulate"
  std::vector<Argument> args;
  Bytes attrs;
  std::uint32_t accumulate = 0;
  std::uint32_t needs = 0;
  std::vector<std::int8_t> alias;  // per argument: the input whose memory an output shares, or -1
  std::array<std::int64_t, TERN_MAX_COUNTS> counts{};
  bool special = false;    // NaN or infinity stands in an input
  bool any_tails = false;  // beyond a count anything may stand: for devices that never look there

  [[nodiscard]] const ops::OpSpec& spec() const { return ops::op_spec(op); }
  [[nodiscard]] bool written(std::size_t arg) const { return spec().args[arg].role != ops::Role::input; }
  // Whether the argument's memory holds something before the call.
  [[nodiscard]] bool read(std::size_t arg) const {
    return spec().args[arg].role != ops::Role::output || (accumulate >> arg & 1U) != 0;
  }
  [[nodiscard]] bool shares_memory(std::size_t arg) const { return !alias.empty() && alias[arg] >= 0; }
};

// What the device is asked.
[[nodiscard]] accel::OpDesc op_desc(const Case& c);
[[nodiscard]] std::vector<TensorDesc> descs_of(const Case& c);
// `desc` with its dynamic dimension cut to the case's count.
[[nodiscard]] TensorDesc cut(const TensorDesc& desc, std::span<const std::int64_t> counts);
// An argument's elements, dynamic dimensions cut.
[[nodiscard]] ops::ref::Tensor decode(const TensorDesc& desc, const std::array<Bytes, TERN_MAX_PLANES>& planes,
                                      std::span<const std::int64_t> counts);
// Every argument as the oracle leaves it: inputs as they are, outputs with values and slack.
[[nodiscard]] std::vector<ops::ref::Tensor> run_oracle(const Case& c);

// The lengths that go into host_args: arrays in the table's order.
struct HostLengths {
  std::vector<std::vector<std::int32_t>> arrays;
};
[[nodiscard]] HostLengths host_lengths(const Case& c);

// A failing case as a text file that runs anywhere; `read_case` gives the Error of a file that is none.
[[nodiscard]] std::string write_case(const Case& c);
[[nodiscard]] Result<Case> read_case(const std::string& text, const std::string& file);

}  // namespace tern::conformance
