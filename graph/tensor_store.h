// Tensors that outlive a run: weights, optimizer state, key-value caches.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "accel/allocator.h"
#include "accel/device.h"
#include "ops/tensor_desc.h"

namespace tern::graph {

// The device's private layout of a weight for those uses; none where it has none. `name` is for errors.
[[nodiscard]] std::optional<tern_packed_info> packed_info(const accel::Device& device, const std::string& name,
                                                          const TensorDesc& weight, std::uint32_t uses);

// Constants and resources on a device, by the names that graphs use.
class TensorStore {
 public:
  static constexpr const char* kModel = "model";  // owns what nobody else does

  // Of Backing::none the store counts what it would hold and holds nothing: what is written there goes nowhere, and
  // programs over it take no memory and can't run (Program::realise). Reading from it is a std::logic_error.
  explicit TensorStore(accel::DevicePtr device, accel::Backing backing = accel::Backing::device);
  ~TensorStore();
  TensorStore(const TensorStore&) = delete;
  TensorStore& operator=(const TensorStore&) = delete;

  // Allocates and leaves the memory as it is. The name must be new. What is larger than the device allocates at a time
  // is held in parts of rows, tensors of their own (graph/row_parts.h), and has no planes itself; all that follows
  // works on the whole by its name, but for host_bytes, handle and packs.
  // `owner` is whom a lack of memory names (graph/tensor_scope.h).
  void create(const std::string& name, const TensorDesc& desc, const std::string& owner = kModel);
  // The same in the host's memory, pinned: what is copied to the device when a program needs it (offload). It has no
  // planes.
  void create_on_host(const std::string& name, const TensorDesc& desc, const std::string& owner = kModel);
  [[nodiscard]] bool is_on_host(const std::string& name) const;
  [[nodiscard]] std::span<std::byte> host_bytes(const std::string& name) const;  // of a tensor on the host
  // A tensor in memory that the caller keeps alive (a mapped file's pages). `let_go`, where given, is called once a
  // pack has taken its place: its pages need not stay, but must come back when they are read.
  tern_tensor& adopt(const std::string& name, const tern_tensor& tensor);
  tern_tensor& adopt(const std::string& name, const TensorDesc& desc, accel::Buffer buffer,
                     std::function<void()> let_go = {});
  // A tensor in pages of a file that nobody maps, in a store that only counts.
  void count_mapped(const std::string& name, const TensorDesc& desc, std::function<void()> let_go = {});
  [[nodiscard]] bool only_counts() const { return allocator_->only_counts(); }
  void erase(const std::string& name);

  // The planes are those of the plain form: null while a pack has taken its place, which a Hold prevents.
  [[nodiscard]] const tern_tensor* find(const std::string& name) const;
  [[nodiscard]] const tern_tensor& at(const std::string& name) const;  // throws std::logic_error
  [[nodiscard]] const accel::DevicePtr& device() const { return device_; }
  // What the store and the programs over it take memory from.
  [[nodiscard]] const std::shared_ptr<accel::CachingAllocator>& allocator() const { return allocator_; }
  [[nodiscard]] std::uint64_t bytes() const;         // allocated here, packs included
  [[nodiscard]] std::uint64_t packed_bytes() const;  // of them, packs
  [[nodiscard]] std::uint64_t host_bytes() const;    // in the host's memory
  [[nodiscard]] std::uint64_t mapped_bytes() const;  // in a file's pages, of tensors whose plain form is read
  [[nodiscard]] std::uint64_t bytes(const std::string& name) const;           // of one tensor, packs included
  [[nodiscard]] std::map<std::string, std::uint64_t> bytes_by_owner() const;  // bytes(), without owners of nothing

  // Host <-> device, waiting for the copy. Spans hold the tensor's elements, contiguous, plane after plane.
  void upload(const std::string& name, std::span<const std::byte> bytes);
  // The same of one row of its first dimension, of a tensor with one plane.
  void upload_row(const std::string& name, std::int64_t row, std::span<const std::byte> bytes);
  void download(const std::string& name, std::span<std::byte> bytes) const;
  void fill_zero(const std::string& name);

  // While one lives, what it was taken for stays where it is in memory.
  using Hold = std::shared_ptr<const void>;
  // For those who read or write a tensor as it was stored. Where a pack had taken its place it is unpacked first; packs
  // that nobody holds then go. Throws Failure (device) where memory does not suffice.
  [[nodiscard]] Hold hold_plain(const std::string& name);
  [[nodiscard]] bool plain_is_held(const std::string& name) const;

  [[nodiscard]] bool has_pack(const std::string& name, std::uint32_t uses) const;
  [[nodiscard]] std::uint64_t packed_memory(const std::string& name, std::uint32_t uses) const;  // bytes of that pack
  // The weight in that layout, made where it is new (the device must have it). It takes the plain form's place, which
  // goes unless it is held.
  [[nodiscard]] Hold hold_packed(const std::string& name, std::uint32_t uses);
  // The same while a hold on it lives, packed again where the weight was written since.
  [[nodiscard]] const tern_tensor& packed(const std::string& name, std::uint32_t uses);

  // Something wrote on the tensor: its packed copies are made again before their next use.
  void wrote(const std::string& name);
  // The same without a search; the handle is good until the tensor is erased.
  struct Entry;
  [[nodiscard]] Entry* handle(const std::string& name) const { return &entry_of(name); }
  void wrote(Entry* tensor);
  // Changes whenever a pack became stale, or somebody let go of a plain form: what packed() would do may have changed.
  [[nodiscard]] std::uint64_t pack_changes() const { return *pack_changes_; }

 private:
  [[nodiscard]] Entry& entry_of(const std::string& name) const;
  void add_parts(const std::string& name, const TensorDesc& desc, bool on_host, const std::string& owner);
  void add(const std::string& name, const TensorDesc& desc, bool on_host, const std::string& owner);
  [[nodiscard]] accel::CachingAllocator::Block allocate(std::uint64_t bytes, const std::string& what) const;
  template <typename Byte, typename Use>
  void for_planes(const Entry& entry, std::span<Byte> bytes, const Use& use) const;
  [[nodiscard]] tern_tensor place(const TensorDesc& desc, const std::string& name,
                                  accel::CachingAllocator::Block& memory) const;
  void make_plain(Entry& entry, const std::string& name);
  static void let_plain_go(Entry& entry);
  [[nodiscard]] tern_tensor unpacked(const Entry& entry, const std::string& name,
                                     accel::CachingAllocator::Block& memory) const;
  struct Pack;
  void pack(const Entry& entry, Pack& pack, std::uint32_t uses) const;
  accel::DevicePtr device_;
  std::shared_ptr<accel::CachingAllocator> allocator_;
  std::map<std::string, std::unique_ptr<Entry>> entries_;
  std::shared_ptr<std::uint64_t> pack_changes_ = std::make_shared<std::uint64_t>(0);
};

}  // namespace tern::graph
