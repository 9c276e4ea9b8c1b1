// One launch of one op on the simulated device.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "accel/kernel.h"
#include "ops/build.h"
#include "tests/unit/backend_sim/sim_device.h"

namespace tern::test {

struct Given {
  TensorDesc desc = absent_desc();
  std::vector<std::byte> bytes = {};
};

template <typename T>
Given given(const TensorDesc& desc, const std::vector<T>& values) {
  const auto bytes = bytes_of(values);
  return {desc, {bytes.begin(), bytes.end()}};
}

// Launches with the counts; lengths are those of `args`, all of them. Gives what every argument holds afterwards;
// throws Failure.
inline std::vector<std::vector<std::byte>> run_kernel(const accel::DevicePtr& device, std::uint32_t op,
                                                      const std::vector<Given>& args, std::vector<std::byte> attrs,
                                                      const std::array<std::int64_t, TERN_MAX_COUNTS>& counts,
                                                      const std::vector<std::size_t>& lengths = {}) {
  accel::OpDesc desc{op, {}, std::move(attrs)};
  const accel::Stream stream = device->make_stream();
  std::vector<accel::Buffer> buffers;
  std::vector<tern_tensor> tensors;
  for (const Given& arg : args) {
    desc.args.push_back(arg.desc);
    tern_tensor tensor{};
    tensor.desc = arg.desc;
    buffers.push_back(device->allocate(arg.bytes.size(), "an argument"));
    if (!arg.bytes.empty()) {
      device->copy_to_device(buffers.back().plane(), arg.bytes, stream);
      tensor.planes[0] = buffers.back().plane();
    }
    tensors.push_back(tensor);
  }
  const accel::Plan plan(device, desc, {});
  accel::BindMemory memory;
  const accel::Buffer workspace = device->allocate(plan.info().workspace_bytes, "a workspace");
  if (plan.info().workspace_bytes > 0) memory.workspace = workspace.plane();
  const accel::Buffer counted = device->allocate(sizeof counts, "the counts");
  memory.counts = counted.plane();
  std::vector<std::max_align_t> scratch(plan.info().host_scratch_bytes / sizeof(std::max_align_t) + 1);
  memory.host_scratch = reinterpret_cast<std::byte*>(scratch.data());
  const accel::Bound bound = plan.bind(tensors, memory);
  device->copy_to_device(counted.plane(), std::as_bytes(std::span(counts)), stream);
  std::vector<tern_host_array> arrays;
  for (const std::size_t arg : lengths) {
    arrays.push_back({reinterpret_cast<const std::int32_t*>(args[arg].bytes.data()),
                      static_cast<std::int64_t>(args[arg].bytes.size() / sizeof(std::int32_t))});
  }
  tern_host_args host{};
  host.size = sizeof host;
  host.num_arrays = static_cast<std::uint32_t>(arrays.size());
  host.arrays = arrays.data();
  std::copy(counts.begin(), counts.end(), host.counts);
  (void)bound.launch(host, stream);
  std::vector<std::vector<std::byte>> out;
  for (std::size_t a = 0; a < args.size(); ++a) {
    out.emplace_back(args[a].bytes.size());
    if (!out.back().empty()) device->copy_to_host(out.back(), buffers[a].plane(), stream);
  }
  stream.synchronize();
  return out;
}

template <typename T>
std::vector<T> values_of(const std::vector<std::byte>& bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::copy(bytes.begin(), bytes.end(), writable_bytes_of(out).begin());
  return out;
}

}  // namespace tern::test
