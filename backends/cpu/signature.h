// The shape of each op's argument list as tern/accel_ops.h documents it: what the runtime checks before a kernel runs.
#pragma once

#include <cstdint>
#include <string>

#include "tern/accel.h"

namespace tern::cpu {

// Masks have a bit per argument.
struct Signature {
  std::uint32_t op;
  const char* name;
  std::uint32_t num_args;
  std::uint32_t attrs_size;
  std::uint32_t outputs;     // written
  std::uint32_t states;      // read and written in place
  std::uint32_t optional;    // may have rank 0
  std::uint32_t accumulate;  // may be asked to add
  std::uint32_t lengths;     // also in host_args
  std::uint32_t quantised;   // may have a packing
  std::uint32_t packable;    // may have a private layout
};

[[nodiscard]] const Signature* find_signature(std::uint32_t op);

// Whether the desc is one that the contract permits; if not, `reason` says what is wrong with it. Broken descs (wrong
// number of arguments, negative shapes) set `invalid`: they are the caller's error, not a want of this device.
[[nodiscard]] bool check_desc(const tern_op_desc& desc, std::string& reason, bool& invalid);

// Bytes from a plane's first element to the end of its last; false where that does not fit 64 bits.
[[nodiscard]] bool strided_extent(const tern_tensor_desc& desc, std::uint64_t& bytes);

}  // namespace tern::cpu
