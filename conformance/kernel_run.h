// One op on a device, eagerly or as a graph of one node where the device only compiles graphs.
#pragma once

#include <memory>
#include <optional>

#include "accel/kernel.h"
#include "conformance/memory.h"
#include "conformance/pages.h"

namespace tern::conformance {

// What minor version of the interface the host seems to have. A newer one: each struct that may grow is longer, with
// junk behind; ops have one more argument, absent, and more attributes, zero. An older one: what ops have at their end
// and is absent or zero isn't there.
enum class HostVersion { same, newer, older };

// host_args that `unmap` takes away: whoever reads them later crashes or reads what it must not.
class HostArgs {
 public:
  explicit HostArgs(const Case& c, HostVersion version = HostVersion::same);
  [[nodiscard]] const tern_host_args& get() const { return *args_; }
  void unmap() { pages_.take_away(); }

 private:
  Pages pages_;
  const tern_host_args* args_ = nullptr;
};

// What is planned: the kernel itself or a compiled graph. The desc, its attributes and the arrays of tensors are gone
// once the call that was given them has returned.
class Kernel {
 public:
  // `choice`: as an earlier plan named it, or "". `whole_graph`: as a graph of one node although the device is eager.
  Kernel(const accel::DevicePtr& device, const accel::OpDesc& desc, const std::string& choice, bool whole_graph = false,
         HostVersion version = HostVersion::same);
  [[nodiscard]] const tern_plan_info& info() const { return info_; }

  // Bound to one memory, with a poisoned workspace of its own.
  class Instance {
   public:
    // Uploads the counts, fills the workspace with `poison`, then launches. Node id where the stream is capturing:
    // `poison` is then -1, and nothing is uploaded or filled.
    std::uint64_t launch(const tern_host_args& host_args, const accel::Stream& stream, int poison);
    // The counts alone: before a captured launch is replayed.
    void upload_counts(const tern_host_args& host_args, const accel::Stream& stream);
    // After the stream is idle: "" or what was written outside of the workspace.
    [[nodiscard]] std::string check_workspace(const accel::Stream& stream);

   private:
    friend class Kernel;
    const Kernel* kernel_ = nullptr;
    std::optional<Guarded> workspace_;
    std::optional<Guarded> counts_;
    Bytes scratch_;
    accel::Bound bound_;
    Pages given_;                         // to bind, and gone since
    std::vector<tern_tensor> arguments_;  // of a recipe
    accel::BindMemory memory_;
  };
  [[nodiscard]] std::unique_ptr<Instance> bind(const std::vector<tern_tensor>& tensors, int shift) const;

 private:
  using Plan = accel::Handle<tern_plan, &tern_backend::plan_destroy>;
  void plan(const accel::OpDesc& desc, const std::string& choice);
  void compile(const accel::OpDesc& desc, const std::string& choice);
  accel::DevicePtr device_;
  HostVersion version_;
  Pages given_;  // to plan or compile, and gone since
  tern_plan_info info_{};
  Plan plan_;
  accel::Recipe recipe_;
  std::vector<std::size_t> recipe_args_;  // argument of the op by argument of the recipe
};

}  // namespace tern::conformance
