// What a kernel of this backend is: the entry that names it, and what it gets at launch.
//
// A file <op>.cpp defines `KernelList <op>_kernels()`, which the build finds; cl/<file>.cl holds the kernels' text
// behind cl/common.clh. The runtime (plan.cpp) has checked what it hands over: descs against the op's signature, planes
// against their buffers' bounds, counts against shapes. A kernel checks what `supports` can see.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "backends/opencl/cl.h"
#include "backends/opencl/facts.h"
#include "tern/accel.h"
#include "tern/accel_ops.h"
#include "tern/plugin/packing.h"

namespace tern::opencl {

struct Stream;
struct Bound;

// Memory of the device at launch.
struct Place {
  cl_mem memory = nullptr;   // null: there is none
  std::uint64_t offset = 0;  // bytes
};

// An argument at launch. desc.shape has dynamic dimensions cut to their actual counts; strides are in elements.
struct TensorView {
  tern_tensor_desc desc{};
  Place planes[TERN_MAX_PLANES] = {};

  [[nodiscard]] bool present() const { return desc.rank != 0; }
  [[nodiscard]] tern_dtype dtype() const { return desc.dtype; }
  [[nodiscard]] std::int64_t dim(int i) const { return desc.shape[i]; }
  [[nodiscard]] std::int64_t stride(int i) const { return desc.strides[i]; }
  [[nodiscard]] std::int64_t elements() const {
    std::int64_t n = present() ? 1 : 0;
    for (int i = 0; i < desc.rank; ++i) n *= desc.shape[i];
    return n;
  }
};

// What plan knows: everything but memory and actual counts. Shapes are the largest ones.
struct PlanDesc {
  const tern_op_desc& op;
  const Facts& device;
  int variant = 0;  // of the entry

  [[nodiscard]] const tern_tensor_desc& arg(int i) const { return op.args[i]; }
  [[nodiscard]] bool present(int i) const { return op.args[i].rank != 0; }
  [[nodiscard]] bool accumulates(int i) const { return (op.accumulate >> i & 1U) != 0; }
  template <typename Attrs>
  [[nodiscard]] const Attrs& attrs() const {
    return *static_cast<const Attrs*>(op.attrs);
  }
};

// The -D options of a program.
class Defines {
 public:
  Defines& set(const char* name, std::int64_t value);
  // name_T: the dtype of an argument, by which GET and PUT of cl/common.clh convert; HAS_name: whether it is there.
  Defines& tensor(const char* name, const PlanDesc& desc, int arg);
  // ADDS_name: whether this output adds to what it holds.
  Defines& adds(const char* name, const PlanDesc& desc, int arg);
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// One kernel of one program.
struct Function {
  const char* file;     // cl/<file>.cl
  const char* name;     // of the kernel in it
  std::string options;  // Defines' text. Each other text is another compilation: keep them few
};

// Sets a kernel's arguments, in order, and queues it.
class Call {
 public:
  Call(cl_kernel kernel, Stream& stream, const char* name) : kernel_(kernel), stream_(stream), name_(name) {}
  // INPUT(x) or OUTPUT(x) of cl/common.clh: the memory, and where in it.
  Call& arg(const TensorView& tensor, int plane = 0) { return arg(tensor.planes[plane]); }
  Call& arg(const Place& place);
  // A number, or a struct of numbers that the source defines alike. An int for an int, an int64_t for a long.
  template <typename T>
  requires(std::is_trivially_copyable_v<T> && !std::same_as<T, bool> &&
           !std::is_pointer_v<T>) Call& arg(const T& value) {
    return bytes(&value, sizeof value);
  }
  // Local memory of each work-group.
  Call& local(std::size_t bytes);
  // Queues work-groups of `group` work-items until there are at least `items` in each dimension: the kernel itself
  // returns beyond what it was asked for. Nothing where there are no items. Sizes of groups are few and fixed: some
  // drivers compile for each.
  void run(std::array<std::int64_t, 3> items, std::array<std::int64_t, 3> group);
  void run(std::int64_t items, std::int64_t group) { run({items, 1, 1}, {group, 1, 1}); }

 private:
  Call& bytes(const void* value, std::size_t size);
  cl_kernel kernel_;
  Stream& stream_;
  const char* name_;
  cl_uint next_ = 0;
};

// What an entry's run gets.
class Launch {
 public:
  Launch(const Bound& bound, std::span<const TensorView> args, std::span<const tern_host_array> arrays, Stream& stream)
      : bound_(bound), args_(args), arrays_(arrays), stream_(stream) {}

  [[nodiscard]] const TensorView& operator[](int i) const { return args_[static_cast<std::size_t>(i)]; }
  template <typename Attrs>
  [[nodiscard]] const Attrs& attr() const {
    return *static_cast<const Attrs*>(attrs());
  }
  [[nodiscard]] bool accumulates(int i) const;
  [[nodiscard]] const tern_op_desc& planned() const;  // at its largest shapes
  [[nodiscard]] const Facts& device() const;
  [[nodiscard]] int variant() const;
  // Host copies of `lengths` arguments; may be empty: the tensors hold the same.
  [[nodiscard]] std::span<const tern_host_array> arrays() const { return arrays_; }
  // The workspace, 64-byte aligned, from `offset` bytes on.
  [[nodiscard]] Place workspace(std::uint64_t offset = 0) const;
  // The i-th of what KernelEntry::functions gave.
  [[nodiscard]] Call call(std::size_t i) const;
  // Sets bytes.
  void fill(const Place& place, std::uint8_t byte, std::uint64_t bytes) const;

 private:
  [[nodiscard]] const void* attrs() const;
  const Bound& bound_;
  std::span<const TensorView> args_;
  std::span<const tern_host_array> arrays_;
  Stream& stream_;
};

// Sums are split at fixed places and combined in a fixed order, so that the same call gives the same bits.
struct KernelEntry {
  std::uint32_t op;  // TERN_OP_*
  const char* name;  // the choice; unique within an op
  // Whether this kernel takes the desc; if not, says why in plain words. Null: takes whatever the signature permits.
  bool (*supports)(const PlanDesc& desc, std::string& reason);
  std::uint64_t (*workspace)(const PlanDesc& desc);          // bytes; null: none
  std::vector<Function> (*functions)(const PlanDesc& desc);  // what run calls; compiled in plan
  void (*run)(const Launch& launch);                         // throws Error, which becomes a status at the border
  int variant = 0;  // of one source: a place in the file's own table of tile sizes
};

// Work-items of a group in plain kernels where work-items have nothing to do with each other.
[[nodiscard]] inline std::int64_t plain_group(const Facts& facts) { return facts.cpu ? 1 : 64; }

using tern_plugin::packing_block;
using tern_plugin::PackingBlock;
using tern_plugin::plane_bytes;

// Every kernel, the preferred ones of an op first. Defined in kernels.cpp.
[[nodiscard]] std::span<const KernelEntry* const> kernel_entries();

}  // namespace tern::opencl
