// The cpu plugin through its C interface alone, and one call of an op on it beside the fp64 oracle.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/ref/tensor.h"
#include "ops/tensor_desc.h"
#include "tern/accel.h"
#include "tern/accel_ops.h"

namespace tern::test {

// The plugin opened on one instruction set.
class Plugin {
 public:
  Plugin(const std::string& target, int num_threads);
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;
  const tern_backend* table = nullptr;
  tern_device device = nullptr;  // null: this CPU lacks the target
  tern_stream stream = nullptr;
  [[nodiscard]] std::string last_error() const;
};

// device_open of cpu:0 without options.
inline constexpr tern_open_args kFirstDevice = {.size = sizeof(tern_open_args)};

inline constexpr const char* kTargets[] = {"baseline", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "amx_bf16", "neon"};

struct Arg {
  TensorDesc desc = absent_desc();
  std::vector<std::byte> bytes;  // plane 0
};

struct Call {
  std::uint32_t op = 0;
  std::vector<Arg> args;
  std::vector<std::byte> attrs;
  std::uint32_t accumulate = 0;
  std::vector<std::int64_t> counts;

  template <typename Attrs>
  void set_attrs(const Attrs& value) {
    const auto* at = reinterpret_cast<const std::byte*>(&value);
    attrs.assign(at, at + sizeof value);
  }
};

// Random elements in an argument of this desc, the gaps between them filled with NaN patterns.
Arg random_real(const TensorDesc& desc, std::uint64_t seed, double scale = 1.0);
Arg integers(const TensorDesc& desc, const std::vector<std::int64_t>& values);
Arg blank(const TensorDesc& desc);  // an output's memory: NaN patterns
TensorDesc strided(tern_dtype dtype, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides);

// Runs the call on the plugin, between canaries. Its outputs' bytes replace those in the call.
void run(Plugin& plugin, Call& call);
// Runs it on every target, and holds every output to the oracle's by ops/tolerance.h.
void check(Call call, const std::string& label);

}  // namespace tern::test
