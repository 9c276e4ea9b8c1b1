// The compiled kernels: one image a file of cu/, built into the plugin, and loaded onto a device when one of its
// kernels is first asked for.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/cuda/driver.h"

namespace tern::cuda {

// A compiled file.
struct Image {
  const char* file;     // "softcap"
  const char* kernels;  // their names, a space behind each
  const void* code;     // a fatbin: an image for each architecture
};
// All that were built in; none where nvcc wasn't there.
[[nodiscard]] std::span<const Image> images();
// What they were built for: "80, 90a, 100".
[[nodiscard]] const char* built_architectures();
// The version of the nvcc that compiled them: "13.0".
[[nodiscard]] const char* built_by();

// A kernel of a loaded image.
struct Function {
  std::string name;
  CUfunction handle = nullptr;
  // Lets a block have so many bytes beyond what the kernel declares. Throws where the device has fewer.
  void allow_shared(std::size_t bytes) const;

 private:
  mutable std::mutex mutex_;
  mutable std::size_t allowed_ = 0;
};

// What is loaded on one device, whose context is current at every call. Any number of threads.
class Modules {
 public:
  Modules();
  ~Modules();
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;
  // Valid as long as this. Throws where there is no such kernel, or the device can't run it.
  [[nodiscard]] const Function& get(const std::string& name);

 private:
  [[nodiscard]] CUmodule load(std::size_t image);
  std::mutex mutex_;
  std::vector<CUmodule> loaded_;  // by image; null: not yet
  std::unordered_map<std::string, std::unique_ptr<Function>> functions_;
};

}  // namespace tern::cuda
