// What a kernel of this backend is: the entry that names it and the arguments that it gets at launch.
//
// A kernel file <op>.cpp defines `std::span<const KernelEntry> <op>_kernels()`, declared below and listed in
// kernels.cpp; nothing registers itself. The runtime (plan.cpp) has checked what it hands over: descs against the op's
// signature, planes against their buffers' bounds, counts and index ranges against shapes. A kernel checks only what
// `supports` cannot see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backends/cpu/target.h"
#include "base/thread_pool.h"
#include "tern/accel.h"
#include "tern/accel_ops.h"

namespace tern::cpu {

// What the caller does about an argument that a kernel refuses.
inline constexpr const char* kCallAsSpecified = "call it as docs/backend-spec.md says";

// An argument at launch. desc.shape has dynamic dimensions cut to their actual counts; strides are in elements.
struct TensorView {
  tern_tensor_desc desc{};
  void* planes[TERN_MAX_PLANES] = {};

  [[nodiscard]] bool present() const { return desc.rank != 0; }
  [[nodiscard]] tern_dtype dtype() const { return desc.dtype; }
  [[nodiscard]] std::int64_t dim(int i) const { return desc.shape[i]; }
  [[nodiscard]] std::int64_t stride(int i) const { return desc.strides[i]; }
  template <typename T>
  [[nodiscard]] T* data(int plane = 0) const {
    return static_cast<T*>(planes[plane]);
  }
  [[nodiscard]] std::int64_t elements() const {
    std::int64_t n = present() ? 1 : 0;
    for (int i = 0; i < desc.rank; ++i) n *= desc.shape[i];
    return n;
  }
};

// What plan knows: everything but addresses and actual counts. Shapes are the largest ones.
struct PlanDesc {
  const tern_op_desc& op;
  Target target;    // the instruction set that kernels must use, forced by TERN_CPU_TARGET or the best there is
  int num_threads;  // of the pool: thread indices that parallel_for passes lie below it

  [[nodiscard]] const tern_tensor_desc& arg(int i) const { return op.args[i]; }
  [[nodiscard]] bool present(int i) const { return op.args[i].rank != 0; }
  template <typename Attrs>
  [[nodiscard]] const Attrs& attrs() const {
    return *static_cast<const Attrs*>(op.attrs);
  }
};

struct KernelArgs {
  std::span<const TensorView> args;  // in the op table's order; absent ones have rank 0
  const void* attrs = nullptr;       // tern_<op>_attrs, owned by the plan
  std::uint32_t accumulate = 0;      // bit per argument
  std::uint32_t needs = 0;           // TERN_NEED_*
  std::span<const tern_host_array>
      arrays;                      // host copies of `lengths` arguments; may be empty: the tensors hold the same
  std::byte* workspace = nullptr;  // 64-byte aligned, of KernelEntry::workspace bytes at the planned shapes
  void* state = nullptr;           // what KernelEntry::prepare returned
  Target target = Target::baseline;
  ThreadPool* pool = nullptr;

  [[nodiscard]] const TensorView& operator[](int i) const { return args[static_cast<std::size_t>(i)]; }
  [[nodiscard]] bool accumulates(int i) const { return (accumulate >> i & 1U) != 0; }
  template <typename Attrs>
  [[nodiscard]] const Attrs& attr() const {
    return *static_cast<const Attrs*>(attrs);
  }
};

// Results must not depend on the number of threads: split work at fixed places, combine partial sums in a fixed order.
struct KernelEntry {
  std::uint32_t op;  // TERN_OP_*
  const char* name;  // "rms_norm": the choice is name@target; unique within an op
  // Whether this kernel takes the desc; if not, says why in plain words. Null: takes whatever the signature permits.
  bool (*supports)(const PlanDesc& desc, std::string& reason);
  std::uint64_t (*workspace)(const PlanDesc& desc);        // null: none
  std::shared_ptr<void> (*prepare)(const PlanDesc& desc);  // once a plan, e.g. a library's primitive; null: nothing
  void (*run)(const KernelArgs& args);  // throws Failure or std::bad_alloc; both become a status at the border
};

// Every kernel, the preferred ones of an op first. Defined in kernels.cpp.
[[nodiscard]] std::span<const KernelEntry* const> kernel_entries();

// Private layouts of weights: defined in pack.cpp. Called behind the checks of the C interface.
[[nodiscard]] bool packed_info(const tern_tensor_desc& weight, std::uint32_t uses, Target target,
                               tern_packed_info& info, std::string& reason);
void pack(const TensorView& packed, const TensorView& weight, std::uint32_t uses, Target target, ThreadPool& pool);
void unpack(const TensorView& weight, const TensorView& packed, std::uint32_t uses, Target target, ThreadPool& pool);
// Bytes of plane 0 of a tensor in a private layout; 0 where the layout is not one of ours.
[[nodiscard]] std::uint64_t packed_bytes(const tern_tensor_desc& packed, Target target);

}  // namespace tern::cpu
