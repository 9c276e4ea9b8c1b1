// What a kernel of this backend is: the entry that names it, and what it gets at launch.
//
// A file <op>.cpp defines `KernelList <op>_kernels()`, which the build finds; cu/<file>.cu holds the kernels
// themselves, over cu/common.cuh. The runtime (plan.cpp) has checked what it hands over: descs against the op's
// signature, planes against their buffers' bounds, counts against shapes. A kernel checks what `supports` can see.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "backends/cuda/facts.h"
#include "tern/accel.h"
#include "tern/accel_ops.h"
#include "tern/plugin/packing.h"

namespace tern::cuda {

struct CUstream_st;  // CUstream of driver.h points to it
struct Stream;
struct Bound;
struct Function;  // a kernel of a loaded module

// Memory of the device at launch: its address, 0 where there is none.
using Place = std::uint64_t;

// The struct Tensor of cu/common.cuh: what a kernel is told of a tensor.
struct DeviceTensor {
  Place at = 0;
  std::int32_t dtype = TERN_F32;
  std::int32_t adds = 0;  // whether this output adds to what it holds
};

// An argument at launch. desc.shape has dynamic dimensions cut to their actual counts; strides are in elements.
struct TensorView {
  tern_tensor_desc desc{};
  Place planes[TERN_MAX_PLANES] = {};
  bool adds = false;

  [[nodiscard]] bool present() const { return desc.rank != 0; }
  [[nodiscard]] tern_dtype dtype() const { return desc.dtype; }
  [[nodiscard]] std::int64_t dim(int i) const { return desc.shape[i]; }
  [[nodiscard]] std::int64_t stride(int i) const { return desc.strides[i]; }
  [[nodiscard]] std::int64_t elements() const {
    std::int64_t n = present() ? 1 : 0;
    for (int i = 0; i < desc.rank; ++i) n *= desc.shape[i];
    return n;
  }
  [[nodiscard]] DeviceTensor plane(int i) const { return {planes[i], desc.dtype, adds ? 1 : 0}; }
};

// What plan knows: everything but memory and actual counts. Shapes are the largest ones.
struct PlanDesc {
  const tern_op_desc& op;
  const Facts& device;
  int variant = 0;  // of the entry

  [[nodiscard]] const tern_tensor_desc& arg(int i) const { return op.args[i]; }
  [[nodiscard]] bool present(int i) const { return op.args[i].rank != 0; }
  [[nodiscard]] bool accumulates(int i) const { return (op.accumulate >> i & 1U) != 0; }
  [[nodiscard]] bool needs(std::uint32_t need) const { return (op.needs & need) != 0; }
  template <typename Attrs>
  [[nodiscard]] const Attrs& attrs() const {
    return *static_cast<const Attrs*>(op.attrs);
  }
};

using Dim3 = std::array<std::int64_t, 3>;

// Collects a kernel's arguments, in order, and queues it.
class Call {
 public:
  Call(const Function& function, Stream& stream) : function_(function), stream_(stream) {}
  // A Tensor of cu/common.cuh. An absent one has the address 0.
  Call& arg(const TensorView& tensor, int plane = 0) { return arg(tensor.plane(plane)); }
  // A pointer (a Place), a number, or a struct of numbers that the kernel defines alike. An int for an int, an int64_t
  // for a long.
  template <typename T>
  requires(std::is_trivially_copyable_v<T> && !std::same_as<T, bool> &&
           !std::is_pointer_v<T>) Call& arg(const T& value) {
    return bytes(&value, sizeof value, alignof(T));
  }
  // Bytes of shared memory of each block beyond what the kernel declares: DYNAMIC_SHARED of cu/common.cuh. At most
  // Facts::shared_memory.
  Call& shared(std::size_t bytes) {
    shared_ = bytes;
    return *this;
  }
  // The kernel begins with wait_for_previous() of cu/common.cuh in every thread, so it may be started while what was
  // queued before it still runs.
  Call& overlapped() {
    overlapped_ = true;
    return *this;
  }
  // Queues `blocks` of `threads`. Nothing where there are none. Blocks' second and third dimensions reach 65,535.
  void run(Dim3 blocks, Dim3 threads);
  // Queues blocks of `threads` until there are `items`: the kernel itself returns beyond what it was asked for.
  void run(std::int64_t items, std::int64_t threads) { run({(items + threads - 1) / threads, 1, 1}, {threads, 1, 1}); }

 private:
  static constexpr std::size_t kMostBytes = 4096;  // of arguments, as the driver has it
  static constexpr std::size_t kMostArgs = 64;
  Call& bytes(const void* value, std::size_t size, std::size_t alignment);
  const Function& function_;
  Stream& stream_;
  std::size_t shared_ = 0;
  bool overlapped_ = false;
  std::size_t used_ = 0;
  std::size_t count_ = 0;
  std::array<std::size_t, kMostArgs> begins_{};
  alignas(16) std::array<std::byte, kMostBytes> data_{};
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
  [[nodiscard]] bool accumulates(int i) const { return args_[static_cast<std::size_t>(i)].adds; }
  [[nodiscard]] const tern_op_desc& planned() const;  // at its largest shapes
  [[nodiscard]] const Facts& device() const;
  [[nodiscard]] int variant() const;
  // Host copies of `lengths` arguments; may be empty: the tensors hold the same. A launch that reads them, or counts,
  // is run again when a captured graph is given other numbers: it may queue other sizes then, but the same kernels.
  [[nodiscard]] std::span<const tern_host_array> arrays() const { return arrays_; }
  // The workspace, 256-byte aligned, from `offset` bytes on.
  [[nodiscard]] Place workspace(std::uint64_t offset = 0) const;
  // The i-th of what KernelEntry::functions gave.
  [[nodiscard]] Call call(std::size_t i) const;
  // Sets bytes.
  void fill(Place place, std::uint8_t byte, std::uint64_t bytes) const;
  // Queues what a vendor's library does: `queue` is given the stream, and throws Error where the library refuses. A
  // captured graph keeps it as it is, so `identity` is bytes of all that it depends on (addresses, sizes, the
  // algorithm): an update is taken only where they are the same.
  void library(const char* name, std::span<const std::byte> identity,
               const std::function<void(CUstream_st*)>& queue) const;
  [[nodiscard]] Stream& stream() const { return stream_; }

 private:
  [[nodiscard]] const void* attrs() const;
  const Bound& bound_;
  std::span<const TensorView> args_;
  std::span<const tern_host_array> arrays_;
  Stream& stream_;
};

// Names of kernels, each defined by KERNEL(name) in one of cu/*.cu.
using Functions = std::vector<std::string>;

// Sums are split at fixed places and combined in a fixed order, so that the same call gives the same bits.
struct KernelEntry {
  std::uint32_t op;  // TERN_OP_*
  const char* name;  // the choice; unique within an op
  // Whether this kernel takes the desc; if not, says why in plain words. Null: takes whatever the signature permits.
  bool (*supports)(const PlanDesc& desc, std::string& reason);
  std::uint64_t (*workspace)(const PlanDesc& desc);  // bytes; null: none
  Functions (*functions)(const PlanDesc& desc);      // what run calls; found in plan
  void (*run)(const Launch& launch);                 // throws Error, which becomes a status at the border
  int variant = 0;                                   // of one source: a place in the file's own table of tile sizes
};

// Threads of a block in plain kernels, where threads have nothing to do with each other.
inline constexpr std::int64_t kPlainThreads = 128;

using tern_plugin::packing_block;
using tern_plugin::PackingBlock;
using tern_plugin::plane_bytes;

// Every kernel, the preferred ones of an op first. Defined in kernels.cpp.
[[nodiscard]] std::span<const KernelEntry* const> kernel_entries();

}  // namespace tern::cuda
