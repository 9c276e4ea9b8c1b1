// Tensors that outlive a run: weights, optimizer state, key-value caches.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "accel/allocator.h"
#include "accel/device.h"
#include "ops/tensor_desc.h"

namespace tern::graph {

// Constants and resources on a device, by the names that graphs use.
class TensorStore {
 public:
  explicit TensorStore(accel::DevicePtr device)
      : device_(std::move(device)), allocator_(accel::CachingAllocator::create(device_)) {}

  // Allocates and leaves the memory as it is. The name must be new.
  tern_tensor& create(const std::string& name, const TensorDesc& desc);
  // A tensor in memory that the caller keeps alive (a mapped file's pages).
  tern_tensor& adopt(const std::string& name, const tern_tensor& tensor);
  tern_tensor& adopt(const std::string& name, const TensorDesc& desc, accel::Buffer buffer);
  void erase(const std::string& name);

  [[nodiscard]] const tern_tensor* find(const std::string& name) const;
  [[nodiscard]] const tern_tensor& at(const std::string& name) const;  // throws std::logic_error
  [[nodiscard]] const accel::DevicePtr& device() const { return device_; }
  // What the store and the programs over it take memory from.
  [[nodiscard]] const std::shared_ptr<accel::CachingAllocator>& allocator() const { return allocator_; }
  [[nodiscard]] std::uint64_t bytes() const;  // allocated here, packed copies included

  // Host <-> device, waiting for the copy. Spans hold the tensor's elements, contiguous, plane after plane.
  void upload(const std::string& name, std::span<const std::byte> bytes);
  void download(const std::string& name, std::span<std::byte> bytes) const;
  void fill_zero(const std::string& name);

  // The weight in the device's private layout for those uses, packed again where the weight was written since. Null
  // where the device has none for it.
  [[nodiscard]] const tern_tensor* packed(const std::string& name, std::uint32_t uses);

  // Something wrote on the tensor: its packed copies are made again before their next use.
  void wrote(const std::string& name);

 private:
  struct Pack {
    tern_tensor tensor{};
    accel::CachingAllocator::Block memory;
    bool stale = true;
  };
  struct Entry {
    tern_tensor tensor{};
    accel::CachingAllocator::Block block;  // created here
    accel::Buffer buffer;                  // or adopted
    std::map<std::uint32_t, Pack> packs;   // by uses
  };
  void pack(const Entry& entry, Pack& pack, std::uint32_t uses) const;
  accel::DevicePtr device_;
  std::shared_ptr<accel::CachingAllocator> allocator_;
  std::map<std::string, std::unique_ptr<Entry>> entries_;
};

}  // namespace tern::graph
