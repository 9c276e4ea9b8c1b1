#include "graph/finite_probe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "base/strings.h"
#include "ops/table.h"

namespace tern::graph {
namespace {

double element(tern_dtype dtype, const std::byte* at) {
  if (dtype == TERN_F32) {
    float value = 0;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof(bits));
  return dtype == TERN_BF16 ? bf16_to_float(bits) : fp16_to_float(bits);
}

bool is_read(const TensorDesc& desc) {
  const bool floating = desc.dtype == TERN_F32 || desc.dtype == TERN_BF16 || desc.dtype == TERN_F16;
  return is_present(desc) && !is_quantised(desc) && desc.layout == 0 && floating;
}

// What stands beyond the actual count is nobody's number.
TensorDesc cut(TensorDesc desc, std::span<const std::int64_t> counts) {
  if (desc.dynamic_dim < 0) return desc;
  std::int64_t& size = desc.shape[desc.dynamic_dim];
  size = std::clamp<std::int64_t>(counts[desc.count_slot], 0, size);
  return desc;
}

std::optional<double> first_in(const ProbedCall& call, std::size_t arg) {
  const tern_tensor& tensor = call.tensors[arg];
  if (!is_read(tensor.desc) || tensor.planes[0].buffer == nullptr) return std::nullopt;
  std::vector<std::byte> bytes(plane_bytes(tensor.desc).bytes[0]);
  call.device->copy_to_host(bytes, tensor.planes[0], call.stream);
  call.stream.synchronize();
  return first_non_finite(cut(tensor.desc, call.counts), bytes);
}

}  // namespace

std::string non_finite_name(double value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

std::string NonFinite::text() const {
  const std::string name = non_finite_name(value);
  if (op.empty()) return cat("the weight ", tensor, " holds ", name);
  if (tensor.empty()) return cat("op ", op, " first gives ", name);
  return cat("op ", op, reads_tensor ? " of " : " after ", tensor, " first gives ", name);
}

void FiniteProbe::before(const ProbedCall& call) {
  if (first_) return;
  std::vector<std::string> weights;
  const auto& inputs = call.node.call.inputs;
  for (std::size_t arg = 0; arg < inputs.size() && !first_; ++arg) {
    if (!inputs[arg].present()) continue;
    const Storage& storage = call.graph.storage_of(inputs[arg]);
    if (storage.kind != StorageKind::constant) continue;
    weights.push_back(storage.name);
    if (const auto value = first_in(call, arg)) first_ = NonFinite{"", storage.name, *value};
  }
  if (!weights.empty()) last_read_ = join(weights, ", ");
}

void FiniteProbe::after(const ProbedCall& call) {
  if (first_) return;
  const ops::OpSpec& spec = ops::op_spec(call.node.call.op);
  for (std::size_t arg = 0; arg < call.tensors.size(); ++arg) {
    if (spec.args[arg].role == ops::Role::input) continue;
    const auto value = first_in(call, arg);
    if (!value) continue;
    const auto& inputs = call.node.call.inputs;
    const bool reads = std::any_of(inputs.begin(), inputs.end(), [&](ops::Value input) {
      return input.present() && call.graph.storage_of(input).kind == StorageKind::constant;
    });
    first_ = NonFinite{std::string(spec.name), last_read_, *value, reads};
    return;
  }
}

std::optional<double> first_non_finite(const TensorDesc& desc, std::span<const std::byte> bytes) {
  if (!is_read(desc) || num_elements(desc) == 0) return std::nullopt;
  const auto size = static_cast<std::size_t>(desc.dtype == TERN_F32 ? 4 : 2);
  std::array<std::int64_t, TERN_MAX_RANK> index{};
  std::size_t offset = 0;  // elements
  while (true) {
    const double value = element(desc.dtype, bytes.data() + offset * size);
    if (!std::isfinite(value)) return value;
    int dim = desc.rank - 1;
    for (; dim >= 0; --dim) {
      const auto d = static_cast<std::size_t>(dim);
      const auto stride = static_cast<std::size_t>(desc.strides[dim]);
      offset += stride;
      if (++index[d] < desc.shape[dim]) break;
      offset -= stride * static_cast<std::size_t>(desc.shape[dim]);
      index[d] = 0;
    }
    if (dim < 0) return std::nullopt;
  }
}

std::optional<double> first_non_finite(const TensorStore& store, const std::string& name) {
  const TensorDesc& desc = store.at(name).desc;
  if (!is_read(desc)) return std::nullopt;
  std::vector<std::byte> bytes(total_bytes(desc));
  store.download(name, bytes);
  return first_non_finite(desc, bytes);
}

}  // namespace tern::graph
