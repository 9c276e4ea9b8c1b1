// Weights in the device's private layouts, which take the place of the plain form while nobody holds that.
#include <algorithm>
#include <stdexcept>

#include "base/strings.h"
#include "graph/tensor_store_entry.h"

namespace tern::graph {

std::optional<tern_packed_info> packed_info(const accel::Device& device, const std::string& name,
                                            const TensorDesc& weight, std::uint32_t uses) {
  if (!device.backend().has(&tern_backend::packed_info)) return std::nullopt;
  tern_packed_info info{};
  info.size = sizeof(info);
  const tern_status status = device.api().packed_info(device.raw(), &weight, uses, &info);
  if (status == TERN_UNSUPPORTED) return std::nullopt;
  accel::check(status, device.backend(), cat(device.name(), ": layout of ", name));
  return info;
}

bool TensorStore::has_pack(const std::string& name, std::uint32_t uses) const {
  return entry_of(name).packs.contains(uses);
}

std::uint64_t TensorStore::packed_memory(const std::string& name, std::uint32_t uses) const {
  return entry_of(name).packs.at(uses).memory.bytes();
}

bool TensorStore::plain_is_held(const std::string& name) const {
  const Entry& entry = entry_of(name);
  return entry.hold.use_count() > 1 ||
         std::any_of(entry.parts.begin(), entry.parts.end(), [&](const auto& part) { return plain_is_held(part); });
}

TensorStore::Hold TensorStore::hold_plain(const std::string& name) {
  Entry& entry = entry_of(name);
  if (!entry.parts.empty()) {
    auto holds = std::make_shared<std::vector<Hold>>();
    for (const std::string& part : entry.parts) holds->push_back(hold_plain(part));
    return holds;
  }
  make_plain(entry, name);
  const auto let_go = [held = entry.hold, changes = pack_changes_](const void*) mutable {
    held.reset();
    ++*changes;
  };
  return {entry.hold.get(), let_go};
}

// The plain form in memory, and no packs that nobody reads.
void TensorStore::make_plain(Entry& entry, const std::string& name) {
  if (entry.gone && entry.mapped == 0) entry.tensor = unpacked(entry, name, entry.block);
  entry.gone = false;
  std::erase_if(entry.packs, [](const auto& pack) { return pack.second.hold.use_count() == 1; });
}

// What a pack holds in its plain form, in new memory. While the plain form is gone every pack is up to date.
tern_tensor TensorStore::unpacked(const Entry& entry, const std::string& name,
                                  accel::CachingAllocator::Block& memory) const {
  const tern_tensor plain = place(entry.tensor.desc, name, memory);
  if (only_counts()) return plain;
  const auto& [uses, pack] = *entry.packs.begin();
  const accel::Stream stream = device_->make_stream();
  accel::check(device_->api().unpack(plain, pack.tensor, uses, stream.raw()), device_->backend(),
               cat(device_->name(), ": unpacking ", name));
  stream.synchronize();
  return plain;
}

// Where packs hold all that the plain form does, and nobody reads that.
void TensorStore::let_plain_go(Entry& entry) {
  if (entry.gone || entry.hold.use_count() > 1) return;
  for (const auto& [uses, pack] : entry.packs) {
    if (pack.stale) return;
  }
  if (!entry.block && !entry.let_go) return;  // memory that only its owner could give back
  entry.gone = true;
  if (entry.let_go) entry.let_go();
  if (!entry.block) return;
  entry.block = {};
  for (tern_plane& plane : entry.tensor.planes) plane = {};
}

TensorStore::Hold TensorStore::hold_packed(const std::string& name, std::uint32_t uses) {
  Entry& entry = entry_of(name);
  if (const auto known = entry.packs.find(uses); known != entry.packs.end()) return known->second.hold;
  const auto info = packed_info(*device_, name, entry.tensor.desc, uses);
  if (!info) throw std::logic_error(cat("tensor store: ", name, " has no private layout for the uses ", uses));
  const Hold held = hold_plain(name);
  Pack made;
  made.memory = allocate(info->bytes, cat(name, " in the device's layout"));
  made.tensor.desc = entry.tensor.desc;
  made.tensor.desc.layout = info->layout;
  made.tensor.planes[0] = made.memory.plane();
  return entry.packs.emplace(uses, std::move(made)).first->second.hold;
}

const tern_tensor& TensorStore::packed(const std::string& name, std::uint32_t uses) {
  Entry& entry = entry_of(name);
  Pack& known = entry.packs.at(uses);
  if (known.stale) pack(entry, known, uses);
  let_plain_go(entry);
  return known.tensor;
}

void TensorStore::pack(const Entry& entry, Pack& pack, std::uint32_t uses) const {
  if (only_counts()) {
    pack.stale = false;
    return;
  }
  const accel::Stream stream = device_->make_stream();
  accel::check(device_->api().pack(pack.tensor, entry.tensor, uses, stream.raw()), device_->backend(),
               cat(device_->name(), ": packing a weight"));
  stream.synchronize();
  pack.stale = false;
}

}  // namespace tern::graph
