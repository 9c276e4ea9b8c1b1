// A safetensors file that is in memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "checkpoint/safetensors.h"

namespace tern::checkpoint {

// The bytes of a file, which the caller keeps while the result is used; `name` is what errors call it. What is checked
// is what Safetensors::open checks.
[[nodiscard]] Result<Safetensors> parse_safetensors(const std::string& name, std::span<const std::byte> bytes);

}  // namespace tern::checkpoint
