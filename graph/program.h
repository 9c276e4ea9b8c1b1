// A graph made ready to run on one device: bound, planned, placed in memory, ordered over lanes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "accel/choice_cache.h"
#include "accel/device.h"
#include "graph/bind.h"
#include "graph/graph.h"
#include "graph/memory_plan.h"

namespace tern::graph {

// Constants and resources on a device, by the names that graphs use.
class TensorStore {
 public:
  explicit TensorStore(accel::DevicePtr device) : device_(std::move(device)) {}

  // Allocates and leaves the memory as it is. The name must be new.
  tern_tensor& create(const std::string& name, const TensorDesc& desc);
  // A tensor in memory that the caller keeps alive (a mapped file's pages).
  tern_tensor& adopt(const std::string& name, const tern_tensor& tensor);
  tern_tensor& adopt(const std::string& name, const TensorDesc& desc, accel::Buffer buffer);
  void erase(const std::string& name);

  [[nodiscard]] const tern_tensor* find(const std::string& name) const;
  [[nodiscard]] const tern_tensor& at(const std::string& name) const;  // throws std::logic_error
  [[nodiscard]] const accel::DevicePtr& device() const { return device_; }
  [[nodiscard]] std::uint64_t bytes() const;  // allocated here, packed copies included

  // Host <-> device, waiting for the copy. Spans hold the tensor's elements, contiguous, plane after plane.
  void upload(const std::string& name, std::span<const std::byte> bytes);
  void download(const std::string& name, std::span<std::byte> bytes) const;
  void fill_zero(const std::string& name);

  // The weight in the device's private layout for those uses: packed once and kept until the weight is written or
  // erased. Null where the device has none for it.
  [[nodiscard]] const tern_tensor* packed(const std::string& name, std::uint32_t uses);

 private:
  struct Entry {
    tern_tensor tensor{};
    accel::Buffer buffer;
    std::map<std::uint32_t, std::pair<tern_tensor, accel::Buffer>> packs;  // by uses
  };
  accel::DevicePtr device_;
  std::map<std::string, std::unique_ptr<Entry>> entries_;
};

struct ProgramOptions {
  BindOptions bind;
  bool capture = true;  // where the device can
  bool pack_weights = true;
};

// What the host gives for one run. Inputs may hold fewer entries of their dynamic dimension than planned: the rest is
// padded as the input's Padding says.
struct RunInputs {
  std::map<std::string, std::span<const std::byte>> inputs;
  std::array<std::int64_t, TERN_MAX_COUNTS> counts{};
};

struct MemoryReport {
  std::uint64_t arenas = 0;     // intermediates, inputs, workspaces
  std::uint64_t live_peak = 0;  // floor under any plan
  std::uint64_t library = 0;    // taken by the vendor's library
  std::uint64_t host_scratch = 0;
  std::uint64_t staging = 0;  // pinned host copies of inputs and outputs
};

class Program {
 public:
  // Throws Failure (device) where an op cannot be bound or memory does not suffice; std::logic_error where the store
  // lacks a name or holds another shape. `host` runs fallbacks.
  static std::unique_ptr<Program> build(const Graph& graph, const std::shared_ptr<TensorStore>& store,
                                        accel::ChoiceCache& choices, const ProgramOptions& options,
                                        const accel::DevicePtr& host = nullptr);
  ~Program();

  // Runs once and waits. Errors of the device are thrown as Failure.
  void run(const RunInputs& inputs);
  // An output of the last run, cut to its actual count.
  [[nodiscard]] std::span<const std::byte> output(const std::string& name) const;

  [[nodiscard]] const MemoryReport& memory() const;
  [[nodiscard]] const std::vector<BindingRow>& bindings() const;
  [[nodiscard]] const Graph& graph() const;

 private:
  struct Impl;
  explicit Program(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tern::graph
