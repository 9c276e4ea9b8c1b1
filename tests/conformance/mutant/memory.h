// Reading and writing single elements of a device's tensors, for mutants.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ops/ref/tensor.h"
#include "tern/accel.h"

namespace tern::mutant {

using Bytes = std::vector<std::byte>;

class Memory {
 public:
  Memory(const tern_backend* inner, tern_stream stream) : inner_(inner), stream_(stream) {}
  [[nodiscard]] Bytes read(tern_plane plane, std::uint64_t bytes) const;
  void write(tern_plane plane, const Bytes& bytes) const;
  void finish() const;

 private:
  const tern_backend* inner_;
  tern_stream stream_;
};

// One element of a tensor.
struct Element {
  tern_plane plane{};
  tern_dtype dtype = TERN_F32;
  std::array<std::int64_t, TERN_MAX_RANK> index{};
};

// The description with its dynamic dimension cut.
[[nodiscard]] tern_tensor_desc valid_part(const tern_tensor_desc& desc, const std::int64_t* counts);
// Element `number` of the valid part in row-major order.
[[nodiscard]] Element element_at(const tern_tensor& tensor, const std::int64_t* counts, std::int64_t number);
[[nodiscard]] Bytes load(const Memory& memory, const Element& element);
void store(const Memory& memory, const Element& element, const Bytes& bytes);
[[nodiscard]] ops::ref::Tensor to_value(const Element& element, const Bytes& bytes);  // one element
[[nodiscard]] Bytes from_real(const Element& element, double value);
[[nodiscard]] Bytes from_integer(const Element& element, std::int64_t value);
// The neighbour of a float towards zero (away from it, if it is the smallest).
[[nodiscard]] Bytes neighbour(const Element& element, Bytes bytes);

}  // namespace tern::mutant
