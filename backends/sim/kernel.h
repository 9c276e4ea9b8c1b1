// Running one op by its oracle on the bytes of its arguments.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "backends/sim/world.h"

namespace tern::sim {

// An argument with its planes found: exactly the bytes that its desc takes.
struct Operand {
  TensorDesc desc;
  std::array<std::span<std::byte>, TERN_MAX_PLANES> planes;
};

struct KernelCall {
  const Device* device = nullptr;
  std::uint32_t op = 0;
  std::span<const std::byte> attrs;
  std::uint32_t accumulate = 0;
  std::vector<Operand> args;
  const HostArgs* host_args = nullptr;
  std::size_t first_array = 0;  // of host_args: this op's
};
// Throws where the data breaks the contract (an index outside of its range).
void run_kernel(const KernelCall& call);

// Why the device does not run the op, or "". TERN_INVALID_ARGUMENT is thrown where the contract is broken.
[[nodiscard]] std::string why_not(const Device& device, std::uint32_t op, std::span<const TensorDesc> args,
                                  std::span<const std::byte> attrs, std::uint32_t needs, std::uint32_t accumulate);

// Why the device doesn't compile these nodes as one graph, or "".
[[nodiscard]] std::string why_not_as_one(const Opened& opened, const tern_graph_desc& graph);

// A tensor's planes, their ranges and alignment checked. `what` names it.
[[nodiscard]] Operand find_operand(const Device& device, const tern_tensor& tensor, const std::string& what,
                                   bool check_alignment);

// The arrays of lengths of an op whose desc had `given_args` arguments.
[[nodiscard]] LengthArrays length_arrays(std::uint32_t op, std::uint32_t given_args);

// Checks counts against `args` and the arrays of lengths against the op; copies them.
[[nodiscard]] HostArgs copy_host_args(const Device& device, const tern_host_args* given, const LengthArrays& arrays,
                                      std::span<const TensorDesc> args);

// The counts of a launch whose arguments are `args`: the host's, which the device's plane of counts must repeat; of a
// captured launch on a device that reads them there, the plane's.
[[nodiscard]] HostArgs counts_at_run(const Device& device, const HostArgs& host, tern_plane counts,
                                     std::span<const TensorDesc> args);

// layout.cpp: private layouts of weights.
// Bytes of `desc` in the private layout that it names; 0: not one of this device.
[[nodiscard]] std::uint64_t packed_bytes(const Device& device, const TensorDesc& desc);
// The uses that a private layout serves.
[[nodiscard]] std::uint32_t layout_uses(std::int32_t layout);
// The planes of the weight that a packed one holds, one after another, and where each begins.
struct Unpacked {
  std::vector<std::byte> bytes;
  std::array<std::span<std::byte>, TERN_MAX_PLANES> planes;
  TensorDesc desc;  // strided
};
[[nodiscard]] Unpacked unpack_weight(const TensorDesc& desc, std::span<const std::byte> packed);

}  // namespace tern::sim
