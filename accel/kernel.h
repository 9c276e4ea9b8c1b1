// One op planned for one device, and bound to memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "accel/device.h"
#include "ops/tensor_desc.h"

namespace tern::accel {

// An op with the descs of its arguments in the table's order: owns what tern_op_desc points to.
struct OpDesc {
  std::uint32_t op = 0;
  std::vector<TensorDesc> args;
  std::vector<std::byte> attrs;
  std::uint32_t needs = 0;
  std::uint32_t accumulate = 0;
  std::vector<std::int8_t> alias;  // empty: nothing shares memory

  [[nodiscard]] tern_op_desc c_desc() const;
  // A text that is equal exactly where the kernel to choose is: the key of remembered choices.
  [[nodiscard]] std::string key() const;
};

// Whether the device runs the op as it stands; `reason` says why not.
struct Verdict {
  bool native = false;
  std::string reason;
};
[[nodiscard]] Verdict supports(const Device& device, const OpDesc& desc);

// A binding of a plan to memory; unbound when it goes. The caller sees to it that its last launch is over by then.
class Bound : public Handle<tern_bound, &tern_backend::unbind> {
 public:
  using Handle::Handle;
  // Node id of the launch where the stream is capturing; of no use elsewhere.
  // NOLINTNEXTLINE(modernize-use-nodiscard)
  std::uint64_t launch(const tern_host_args& host_args, const Stream& stream) const;
};

// How to plan an op or to compile a graph: tern_plan_options with memory of its own.
struct PlanOptions {
  std::string choice;  // names the kernel as an earlier plan did; empty: the device chooses, and may measure once
  std::uint64_t workspace_limit = 0;                           // bytes; 0: none
  std::array<std::int64_t, TERN_MAX_COUNTS> typical_counts{};  // 0: unknown

  [[nodiscard]] tern_plan_options c_options() const;  // valid as long as this is
};

// Where a bound kernel finds its memory beside its arguments.
struct BindMemory {
  tern_plane workspace{};
  tern_plane counts{};  // TERN_MAX_COUNTS int64; needed where a dimension is dynamic
  void* host_scratch = nullptr;
};
[[nodiscard]] tern_bind_args bind_args(std::span<const tern_tensor> args, const BindMemory& memory);

class Plan : public Handle<tern_plan, &tern_backend::plan_destroy> {
 public:
  Plan() = default;
  Plan(const DevicePtr& device, const OpDesc& desc, const PlanOptions& options);
  // The plan of a remembered choice; none where the device no longer has it.
  static std::optional<Plan> of_choice(const DevicePtr& device, const OpDesc& desc, const PlanOptions& options);
  [[nodiscard]] const tern_plan_info& info() const { return info_; }
  [[nodiscard]] Bound bind(std::span<const tern_tensor> args, const BindMemory& memory) const;

 private:
  tern_status make(const DevicePtr& device, const OpDesc& desc, const PlanOptions& options);
  tern_plan_info info_{};
};

}  // namespace tern::accel
