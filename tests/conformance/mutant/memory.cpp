#include "mutant/memory.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/dtype.h"

namespace tern::mutant {
namespace {

void must(tern_status status) {
  if (status != TERN_OK) throw std::runtime_error("a mutant could not reach the memory of its device");
}

}  // namespace

Bytes Memory::read(tern_plane plane, std::uint64_t bytes) const {
  Bytes out(bytes);
  if (bytes > 0) must(inner_->copy_to_host(out.data(), plane, bytes, stream_));
  finish();
  return out;
}

void Memory::write(tern_plane plane, const Bytes& bytes) const {
  if (!bytes.empty()) must(inner_->copy_to_device(plane, bytes.data(), bytes.size(), stream_));
  finish();
}

void Memory::finish() const { must(inner_->stream_synchronize(stream_)); }

tern_tensor_desc valid_part(const tern_tensor_desc& desc, const std::int64_t* counts) {
  tern_tensor_desc out = desc;
  if (out.dynamic_dim < 0) return out;
  out.shape[out.dynamic_dim] = std::clamp<std::int64_t>(counts[out.count_slot], 0, out.shape[out.dynamic_dim]);
  out.dynamic_dim = -1;
  return out;
}

Element element_at(const tern_tensor& tensor, const std::int64_t* counts, std::int64_t number) {
  const tern_tensor_desc desc = valid_part(tensor.desc, counts);
  Element out;
  out.dtype = desc.dtype;
  std::int64_t at = 0;
  for (int d = desc.rank - 1; d >= 0; --d) {
    out.index[static_cast<std::size_t>(d)] = number % desc.shape[d];
    at += number % desc.shape[d] * desc.strides[d];
    number /= desc.shape[d];
  }
  out.plane = tensor.planes[0];
  out.plane.offset += static_cast<std::uint64_t>(at * dtype_bytes(desc.dtype));
  return out;
}

Bytes load(const Memory& memory, const Element& element) {
  return memory.read(element.plane, static_cast<std::uint64_t>(dtype_bytes(element.dtype)));
}

void store(const Memory& memory, const Element& element, const Bytes& bytes) { memory.write(element.plane, bytes); }

ops::ref::Tensor to_value(const Element& element, const Bytes& bytes) {
  const std::span<const std::byte> plane(bytes);
  return ops::ref::decode(make_desc(element.dtype, {1}), std::span(&plane, 1));
}

Bytes from_real(const Element& element, double value) {
  ops::ref::Tensor one;
  one.desc = make_desc(element.dtype, {1});
  one.real = {value};
  Bytes out(static_cast<std::size_t>(dtype_bytes(element.dtype)));
  ops::ref::encode(one, one.desc, out);
  return out;
}

Bytes from_integer(const Element& element, std::int64_t value) {
  ops::ref::Tensor one;
  one.desc = make_desc(element.dtype, {1});
  one.integer = {value};
  Bytes out(static_cast<std::size_t>(dtype_bytes(element.dtype)));
  ops::ref::encode(one, one.desc, out);
  return out;
}

Bytes neighbour(const Element& element, Bytes bytes) {
  // The bits of a float's size, sign apart, rise with it.
  std::uint32_t bits = 0;
  std::memcpy(&bits, bytes.data(), bytes.size());
  const std::uint32_t sign = element.dtype == TERN_F32 ? 0x80000000U : 0x8000U;
  bits = (bits & ~sign) != 0 ? bits - 1 : bits + 1;
  std::memcpy(bytes.data(), &bits, bytes.size());
  return bytes;
}

}  // namespace tern::mutant
