#include "conformance/case.h"

#include <algorithm>

#include "ops/rules.h"

namespace tern::conformance {

std::vector<TensorDesc> descs_of(const Case& c) {
  std::vector<TensorDesc> out;
  for (const Argument& arg : c.args) out.push_back(arg.desc);
  return out;
}

accel::OpDesc op_desc(const Case& c) {
  accel::OpDesc out;
  out.op = c.op;
  out.args = descs_of(c);
  out.attrs = c.attrs;
  out.needs = c.needs;
  out.accumulate = c.accumulate;
  out.alias = c.alias;
  return out;
}

TensorDesc cut(const TensorDesc& desc, std::span<const std::int64_t> counts) {
  TensorDesc out = desc;
  if (out.dynamic_dim < 0) return out;
  std::int64_t& size = out.shape[out.dynamic_dim];
  size = std::clamp<std::int64_t>(counts[out.count_slot], 0, size);
  out.dynamic_dim = -1;
  return out;
}

ops::ref::Tensor decode(const TensorDesc& desc, const std::array<Bytes, TERN_MAX_PLANES>& planes,
                        std::span<const std::int64_t> counts) {
  std::array<std::span<const std::byte>, TERN_MAX_PLANES> spans;
  for (std::size_t i = 0; i < planes.size(); ++i) spans[i] = planes[i];
  return ops::ref::decode(cut(desc, counts), spans);
}

std::vector<ops::ref::Tensor> run_oracle(const Case& c) {
  std::vector<ops::ref::Tensor> args(c.args.size());
  for (std::size_t i = 0; i < args.size(); ++i) {
    const Argument& arg = c.args[i];
    if (!is_present(arg.desc)) continue;
    if (c.read(i)) {
      args[i] = decode(arg.desc, arg.planes, c.counts);
    } else {
      args[i].desc = cut(arg.desc, c.counts);
    }
  }
  ops::ref::Call call{c.op, c.attrs, c.accumulate, args};
  ops::op_rules(c.op).reference(call);
  return args;
}

HostLengths host_lengths(const Case& c) {
  HostLengths out;
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    if ((c.spec().args[i].flags & ops::kLengths) == 0) continue;
    // Where a device computes the whole capacity it is told the whole, padding and all.
    TensorDesc desc = c.args[i].desc;
    if (!c.any_tails) desc.dynamic_dim = -1;
    const ops::ref::Tensor values = decode(desc, c.args[i].planes, c.counts);
    out.arrays.emplace_back(values.integer.begin(), values.integer.end());
  }
  return out;
}

}  // namespace tern::conformance
