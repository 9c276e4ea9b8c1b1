#include "graph/tensor_store.h"

#include <algorithm>
#include <stdexcept>

#include "base/strings.h"
#include "graph/row_parts.h"
#include "graph/tensor_store_entry.h"

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

TensorStore::TensorStore(accel::DevicePtr device, accel::Backing backing)
    : device_(std::move(device)), allocator_(accel::CachingAllocator::create(device_, backing)) {}
TensorStore::~TensorStore() = default;

// A lack of memory says who holds it.
accel::CachingAllocator::Block TensorStore::allocate(std::uint64_t bytes, const std::string& what) const {
  try {
    return allocator_->allocate(bytes, what);
  } catch (const Failure& failure) {
    std::vector<std::string> owners;
    for (const auto& [owner, held] : bytes_by_owner()) owners.push_back(cat(owner, " ", human_bytes(held)));
    if (owners.empty() || failure.error().problem.empty()) throw;
    Error error = failure.error();
    error.problem += cat(" (", join(owners, ", "), ")");
    throw Failure(std::move(error));
  }
}

// Memory for a tensor, and its planes there.
tern_tensor TensorStore::place(const TensorDesc& desc, const std::string& name,
                               accel::CachingAllocator::Block& memory) const {
  std::uint64_t total = 0;
  (void)lay_out(desc, nullptr, device_->info().alignment, &total);
  memory = allocate(total, name);
  return lay_out(desc, memory.plane().buffer, device_->info().alignment, &total);
}

void TensorStore::add(const std::string& name, const TensorDesc& desc, bool on_host, const std::string& owner) {
  if (!on_host) {
    accel::CachingAllocator::Block block;
    (void)adopt(name, place(desc, name, block));
    entries_.at(name)->block = std::move(block);
    entries_.at(name)->owner = owner;
    return;
  }
  accel::HostBuffer host = only_counts() ? accel::HostBuffer() : device_->allocate_host(total_bytes(desc));
  tern_tensor tensor{};
  tensor.desc = desc;
  (void)adopt(name, tensor);
  entries_.at(name)->host = std::move(host);
  entries_.at(name)->on_host = total_bytes(desc);
}

void TensorStore::add_parts(const std::string& name, const TensorDesc& desc, bool on_host, const std::string& owner) {
  const auto ranges = row_parts(desc, device_->info(), name);
  if (ranges.size() < 2) return add(name, desc, on_host, owner);
  tern_tensor whole{};
  whole.desc = desc;
  (void)adopt(name, whole);
  try {
    for (const RowRange& rows : ranges) {
      const std::string part = part_name(name, rows);
      add(part, part_desc(desc, rows), on_host, owner);
      entries_.at(name)->parts.push_back(part);
    }
  } catch (...) {
    erase(name);
    throw;
  }
}

void TensorStore::create(const std::string& name, const TensorDesc& desc, const std::string& owner) {
  add_parts(name, desc, false, owner);
}

void TensorStore::create_on_host(const std::string& name, const TensorDesc& desc, const std::string& owner) {
  add_parts(name, desc, true, owner);
}

bool TensorStore::is_on_host(const std::string& name) const {
  const Entry& entry = entry_of(name);
  return entry.parts.empty() ? entry.on_host != 0 : is_on_host(entry.parts.front());
}

std::span<std::byte> TensorStore::host_bytes(const std::string& name) const {
  const accel::HostBuffer& host = entry_of(name).host;
  return {host.data(), host.data() == nullptr ? 0 : total_bytes(entry_of(name).tensor.desc)};
}

tern_tensor& TensorStore::adopt(const std::string& name, const tern_tensor& tensor) {
  auto entry = std::make_unique<Entry>();
  entry->tensor = tensor;
  const auto [place, is_new] = entries_.emplace(name, std::move(entry));
  if (!is_new) throw std::logic_error(cat("tensor store: the name ", name, " is taken"));
  return place->second->tensor;
}

tern_tensor& TensorStore::adopt(const std::string& name, const TensorDesc& desc, accel::Buffer buffer,
                                std::function<void()> let_go) {
  std::uint64_t total = 0;
  const tern_tensor tensor = lay_out(desc, buffer.raw(), device_->info().alignment, &total);
  tern_tensor& stored = adopt(name, tensor);
  entries_.at(name)->buffer = std::move(buffer);
  entries_.at(name)->let_go = std::move(let_go);
  entries_.at(name)->mapped = total;
  return stored;
}

void TensorStore::count_mapped(const std::string& name, const TensorDesc& desc, std::function<void()> let_go) {
  if (!only_counts()) throw std::logic_error(cat("tensor store: ", name, " is to be counted, in a store that holds"));
  std::uint64_t total = 0;
  (void)adopt(name, lay_out(desc, nullptr, device_->info().alignment, &total));
  entries_.at(name)->let_go = std::move(let_go);
  entries_.at(name)->mapped = total;
}

void TensorStore::erase(const std::string& name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return;
  for (const std::string& part : found->second->parts) entries_.erase(part);
  entries_.erase(found);
}

const tern_tensor* TensorStore::find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second->tensor;
}

const tern_tensor& TensorStore::at(const std::string& name) const { return entry_of(name).tensor; }

std::uint64_t TensorStore::bytes() const {
  std::uint64_t total = 0;
  for (const auto& [owner, bytes] : bytes_by_owner()) total += bytes;
  return total;
}

std::uint64_t TensorStore::bytes(const std::string& name) const {
  const Entry& entry = entry_of(name);
  std::uint64_t total = entry.block.bytes();
  for (const auto& [uses, pack] : entry.packs) total += pack.memory.bytes();
  for (const std::string& part : entry.parts) total += bytes(part);
  return total;
}

std::map<std::string, std::uint64_t> TensorStore::bytes_by_owner() const {
  std::map<std::string, std::uint64_t> bytes_of;
  for (const auto& [name, entry] : entries_) {
    if (!entry->parts.empty()) continue;  // they are entries themselves
    if (const std::uint64_t taken = bytes(name); taken > 0) bytes_of[entry->owner] += taken;
  }
  return bytes_of;
}

std::uint64_t TensorStore::host_bytes() const {
  std::uint64_t total = 0;
  for (const auto& [name, entry] : entries_) total += entry->on_host;
  return total;
}

std::uint64_t TensorStore::mapped_bytes() const {
  std::uint64_t total = 0;
  for (const auto& [name, entry] : entries_) total += entry->gone ? 0 : entry->mapped;
  return total;
}

std::uint64_t TensorStore::packed_bytes() const {
  std::uint64_t total = 0;
  for (const auto& [name, entry] : entries_) {
    for (const auto& [uses, pack] : entry->packs) total += pack.memory.bytes();
  }
  return total;
}

// Calls `use` with each plane that the entry and its parts have, and the bytes that belong there of `bytes`, which hold
// the whole tensor, plane after plane.
template <typename Byte, typename Use>
void TensorStore::for_planes(const Entry& entry, std::span<Byte> bytes, const Use& use) const {
  const PlaneBytes planes = plane_bytes(entry.tensor.desc);
  std::uint64_t at = 0;
  for (int p = 0; p < TERN_MAX_PLANES; ++p) {
    std::span<Byte> rest = bytes.subspan(at, planes.bytes[p]);
    at += planes.bytes[p];
    if (rest.empty()) continue;
    if (entry.parts.empty()) use(entry, p, rest);
    for (const std::string& name : entry.parts) {
      const Entry& part = entry_of(name);
      const std::uint64_t own = plane_bytes(part.tensor.desc).bytes[p];
      use(part, p, rest.first(own));
      if (own < planes.bytes[p]) rest = rest.subspan(own);  // else every row needs all of the plane: a permutation
    }
  }
}

void TensorStore::upload(const std::string& name, std::span<const std::byte> bytes) {
  const Hold held = hold_plain(name);
  const TensorDesc& desc = at(name).desc;
  if (bytes.size() != total_bytes(desc)) {
    throw std::logic_error(cat("tensor store: ", name, " takes ", total_bytes(desc), " bytes, not ", bytes.size()));
  }
  if (only_counts()) return;
  const accel::Stream stream = device_->make_stream();
  for_planes(entry_of(name), bytes, [&](const Entry& entry, int p, std::span<const std::byte> from) {
    if (entry.host.data() != nullptr) {
      std::ranges::copy(from, entry.host.data());
    } else {
      device_->copy_to_device(entry.tensor.planes[p], from, stream);
    }
  });
  stream.synchronize();
  wrote(name);
}

void TensorStore::upload_row(const std::string& name, std::int64_t row, std::span<const std::byte> bytes) {
  const Hold held = hold_plain(name);
  const TensorDesc& desc = at(name).desc;
  if (row < 0 || row >= desc.shape[0] ||
      bytes.size() * static_cast<std::uint64_t>(desc.shape[0]) != total_bytes(desc)) {
    throw std::logic_error(cat("tensor store: ", bytes.size(), " bytes are no row ", row, " of ", name));
  }
  if (only_counts()) return;
  const accel::Stream stream = device_->make_stream();
  const auto write = [&](const Entry& entry, std::int64_t own_row) {
    const std::uint64_t begin = static_cast<std::uint64_t>(own_row) * bytes.size();
    if (entry.host.data() != nullptr) {
      std::ranges::copy(bytes, entry.host.data() + begin);
      return;
    }
    tern_plane plane = entry.tensor.planes[0];
    plane.offset += begin;
    device_->copy_to_device(plane, bytes, stream);
  };
  const Entry& whole = entry_of(name);
  std::int64_t first = 0;  // of the part
  for (const std::string& part : whole.parts) {
    const Entry& entry = entry_of(part);
    const std::int64_t rows = entry.tensor.desc.shape[0];
    if (first <= row && row < first + rows) write(entry, row - first);
    first += rows;
  }
  if (whole.parts.empty()) write(whole, row);
  stream.synchronize();
  wrote(name);
}

void TensorStore::download(const std::string& name, std::span<std::byte> bytes) const {
  const TensorDesc& desc = at(name).desc;
  if (bytes.size() != total_bytes(desc)) {
    throw std::logic_error(cat("tensor store: ", name, " gives ", total_bytes(desc), " bytes, not ", bytes.size()));
  }
  if (only_counts()) throw std::logic_error(cat("tensor store: ", name, " is only counted"));
  const accel::Stream stream = device_->make_stream();
  for_planes(entry_of(name), bytes, [&](const Entry& entry, int p, std::span<std::byte> to) {
    if (entry.host.data() != nullptr) {
      std::copy_n(entry.host.data(), to.size(), to.begin());
    } else if (entry.gone && entry.mapped == 0) {
      accel::CachingAllocator::Block memory;
      device_->copy_to_host(to, unpacked(entry, name, memory).planes[p], stream);
      stream.synchronize();
    } else {
      device_->copy_to_host(to, entry.tensor.planes[p], stream);
    }
  });
  stream.synchronize();
}

void TensorStore::fill_zero(const std::string& name) {
  for (const std::string& part : entry_of(name).parts) fill_zero(part);
  if (!entry_of(name).parts.empty()) return;
  if (only_counts()) return;
  if (is_on_host(name)) {
    std::ranges::fill(host_bytes(name), std::byte{});
    return;
  }
  const Hold held = hold_plain(name);
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
  wrote(found->second.get());
  for (const std::string& part : found->second->parts) wrote(part);
}

void TensorStore::wrote(Entry* tensor) {
  for (auto& [uses, pack] : tensor->packs) {
    pack.stale = true;
    ++*pack_changes_;
  }
}

TensorStore::Entry& TensorStore::entry_of(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw std::logic_error(cat("tensor store: no tensor ", name));
  return *found->second;
}

}  // namespace tern::graph
