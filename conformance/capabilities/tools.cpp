#include "conformance/capabilities/tools.h"

#include <cstring>

#include "ops/build.h"

namespace tern::conformance {

Bytes pattern(std::size_t size, unsigned seed) {
  Bytes out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>((i * 31 + seed) & 0xff);
  return out;
}

std::string expect(tern_status expected, tern_status status, const std::string& call) {
  if (status == expected) return {};
  return cat(call, ": expected ", accel::status_name(expected), ", found ", accel::status_name(status));
}

std::string expect_unsupported(tern_status status, const std::string& call) {
  return expect(TERN_UNSUPPORTED, status, call);
}

std::string first_problem(const std::vector<std::string>& problems) {
  for (const std::string& problem : problems) {
    if (!problem.empty()) return problem;
  }
  return {};
}

Bytes fetch(const Bench& bench, tern_plane plane, std::size_t size) {
  Bytes out(size);
  bench.device->copy_to_host(out, plane, bench.stream);
  bench.stream.synchronize();
  return out;
}

CaseSource plain_source(std::uint32_t op) { return {op, Variant{}, 0}; }

std::shared_ptr<const accel::Backend> same_backend(const Bench& bench) {
  return accel::Backend::wrap(&bench.device->api());
}

Doubling::Doubling() {
  const TensorDesc x = make_desc(TERN_F32, {kCount});
  desc_ = {TERN_OP_AXPBY, {x, absent_desc(), x}, ops::pack_attrs(tern_axpby_attrs{2.0F, 0.0F})};
  for (int v = 0; v < 2; ++v) {
    values_[v].desc = x;
    values_[v].kind = v == 0 ? TERN_VALUE_INPUT : TERN_VALUE_OUTPUT;
    values_[v].state = -1;
    values_[v].argument = v;
  }
  node_.op = desc_.c_desc();
  node_.op.args = nullptr;
  node_.lane = TERN_LANE_COMPUTE;
  node_.inputs = inputs_;
  node_.outputs = outputs_;
  graph_.size = sizeof(graph_);
  graph_.num_values = 2;
  graph_.num_nodes = 1;
  graph_.num_arguments = 2;
  graph_.values = values_;
  graph_.nodes = &node_;
}

std::vector<tern_tensor> Doubling::tensors(const accel::Device& device, tern_plane x, tern_plane y) const {
  const tern_tensor in{desc_.args[TERN_AXPBY_X], {x}};
  const tern_tensor out{desc_.args[TERN_AXPBY_OUT], {y}};
  if (!device.can(TERN_CAP_EAGER)) return {in, out};
  tern_tensor absent{};
  absent.desc = absent_desc();
  return {in, absent, out};
}

Bytes Doubling::input(float from) {
  Bytes out(kBytes);
  for (std::size_t i = 0; i < static_cast<std::size_t>(kCount); ++i) {
    const float value = from + static_cast<float>(i);
    std::memcpy(out.data() + 4 * i, &value, 4);
  }
  return out;
}

Bytes Doubling::output(float from) {
  Bytes out(kBytes);
  for (std::size_t i = 0; i < static_cast<std::size_t>(kCount); ++i) {
    const float value = 2.0F * (from + static_cast<float>(i));
    std::memcpy(out.data() + 4 * i, &value, 4);
  }
  return out;
}

tern_host_args Doubling::host_args() {
  tern_host_args args{};
  args.size = sizeof(args);
  return args;
}

}  // namespace tern::conformance
