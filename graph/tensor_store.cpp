#include "graph/tensor_store.h"

#include <stdexcept>

#include "base/strings.h"

namespace tern::graph {
namespace {

// Planes one after another, each on the device's alignment.
tern_tensor lay_out(const TensorDesc& desc, tern_buffer buffer, std::uint64_t alignment, std::uint64_t* total) {
  tern_tensor tensor{};
  tensor.desc = desc;
  std::uint64_t offset = 0;
  const PlaneBytes planes = plane_bytes(desc);
  for (int p = 0; p < TERN_MAX_PLANES; ++p) {
    if (planes.bytes[p] == 0) continue;
    tensor.planes[p] = {buffer, offset};
    offset += (planes.bytes[p] + alignment - 1) / alignment * alignment;
  }
  *total = offset;
  return tensor;
}

}  // namespace

tern_tensor& TensorStore::create(const std::string& name, const TensorDesc& desc) {
  std::uint64_t total = 0;
  (void)lay_out(desc, nullptr, device_->info().alignment, &total);
  accel::CachingAllocator::Block block = allocator_->allocate(total, name);
  tern_tensor& stored = adopt(name, lay_out(desc, block.plane().buffer, device_->info().alignment, &total));
  entries_.at(name)->block = std::move(block);
  return stored;
}

tern_tensor& TensorStore::adopt(const std::string& name, const tern_tensor& tensor) {
  auto entry = std::make_unique<Entry>();
  entry->tensor = tensor;
  const auto [place, is_new] = entries_.emplace(name, std::move(entry));
  if (!is_new) throw std::logic_error(cat("tensor store: the name ", name, " is taken"));
  return place->second->tensor;
}

tern_tensor& TensorStore::adopt(const std::string& name, const TensorDesc& desc, accel::Buffer buffer) {
  std::uint64_t total = 0;
  const tern_tensor tensor = lay_out(desc, buffer.raw(), device_->info().alignment, &total);
  tern_tensor& stored = adopt(name, tensor);
  entries_.at(name)->buffer = std::move(buffer);
  return stored;
}

void TensorStore::erase(const std::string& name) { entries_.erase(name); }

const tern_tensor* TensorStore::find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second->tensor;
}

const tern_tensor& TensorStore::at(const std::string& name) const {
  const tern_tensor* tensor = find(name);
  if (tensor == nullptr) throw std::logic_error(cat("tensor store: no tensor ", name));
  return *tensor;
}

std::uint64_t TensorStore::bytes() const {
  std::uint64_t total = 0;
  for (const auto& [name, entry] : entries_) {
    total += entry->block.bytes();
    for (const auto& [uses, pack] : entry->packs) total += pack.memory.bytes();
  }
  return total;
}

void TensorStore::upload(const std::string& name, std::span<const std::byte> bytes) {
  const tern_tensor& tensor = at(name);
  const PlaneBytes planes = plane_bytes(tensor.desc);
  if (bytes.size() != total_bytes(tensor.desc)) {
    throw std::logic_error(
        cat("tensor store: ", name, " takes ", total_bytes(tensor.desc), " bytes, not ", bytes.size()));
  }
  const accel::Stream stream = device_->make_stream();
  std::size_t at = 0;
  for (int p = 0; p < TERN_MAX_PLANES; ++p) {
    device_->copy_to_device(tensor.planes[p], bytes.subspan(at, planes.bytes[p]), stream);
    at += planes.bytes[p];
  }
  stream.synchronize();
  wrote(name);
}

void TensorStore::download(const std::string& name, std::span<std::byte> bytes) const {
  const tern_tensor& tensor = at(name);
  const PlaneBytes planes = plane_bytes(tensor.desc);
  if (bytes.size() != total_bytes(tensor.desc)) {
    throw std::logic_error(
        cat("tensor store: ", name, " gives ", total_bytes(tensor.desc), " bytes, not ", bytes.size()));
  }
  const accel::Stream stream = device_->make_stream();
  std::size_t at = 0;
  for (int p = 0; p < TERN_MAX_PLANES; ++p) {
    device_->copy_to_host(bytes.subspan(at, planes.bytes[p]), tensor.planes[p], stream);
    at += planes.bytes[p];
  }
  stream.synchronize();
}

void TensorStore::fill_zero(const std::string& name) {
  const tern_tensor& tensor = at(name);
  const PlaneBytes planes = plane_bytes(tensor.desc);
  const accel::Stream stream = device_->make_stream();
  for (int p = 0; p < TERN_MAX_PLANES; ++p) device_->fill(tensor.planes[p], 0, planes.bytes[p], stream);
  stream.synchronize();
  wrote(name);
}

void TensorStore::wrote(const std::string& name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return;
  for (auto& [uses, pack] : found->second->packs) pack.stale = true;
}

const tern_tensor* TensorStore::packed(const std::string& name, std::uint32_t uses) {
  Entry& entry = *entries_.at(name);
  const auto known = entry.packs.find(uses);
  if (known != entry.packs.end()) {
    if (known->second.stale) pack(entry, known->second, uses);
    return &known->second.tensor;
  }
  const auto& api = device_->api();
  if (!device_->backend().has(&tern_backend::packed_info)) return nullptr;
  tern_packed_info info{};
  info.size = sizeof(info);
  const tern_status status = api.packed_info(device_->raw(), &entry.tensor.desc, uses, &info);
  if (status == TERN_UNSUPPORTED) return nullptr;
  accel::check(status, device_->backend(), cat(device_->name(), ": layout of ", name));
  Pack made;
  made.memory = allocator_->allocate(info.bytes, cat(name, " in the device's layout"));
  made.tensor.desc = entry.tensor.desc;
  made.tensor.desc.layout = info.layout;
  made.tensor.planes[0] = made.memory.plane();
  pack(entry, made, uses);
  return &entry.packs.emplace(uses, std::move(made)).first->second.tensor;
}

void TensorStore::pack(const Entry& entry, Pack& pack, std::uint32_t uses) const {
  const accel::Stream stream = device_->make_stream();
  accel::check(device_->api().pack(pack.tensor, entry.tensor, uses, stream.raw()), device_->backend(),
               cat(device_->name(), ": packing a weight"));
  stream.synchronize();
  pack.stale = false;
}

}  // namespace tern::graph
