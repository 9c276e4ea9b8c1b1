#include "conformance/op_checker.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/dtype.h"
#include "base/strings.h"
#include "conformance/compare.h"
#include "conformance/index_check.h"
#include "graph/bind.h"

namespace tern::conformance {
namespace {

std::array<Bytes, TERN_MAX_PLANES> read_planes(const graph::ProbedCall& call, const tern_tensor& tensor) {
  std::array<Bytes, TERN_MAX_PLANES> out;
  const PlaneBytes sizes = plane_bytes(tensor.desc);
  for (int p = 0; p < TERN_MAX_PLANES; ++p) {
    if (sizes.bytes[p] == 0) continue;
    Bytes& plane = out[static_cast<std::size_t>(p)];
    plane.resize(static_cast<std::size_t>(sizes.bytes[p]));
    call.device->copy_to_host(plane, tensor.planes[p], call.stream);
  }
  call.stream.synchronize();
  return out;
}

// An output that nobody reads has no memory where its op was compiled.
bool is_seen(const graph::ProbedCall& call, std::size_t arg) {
  return is_present(call.tensors[arg].desc) && call.tensors[arg].planes[0].buffer != nullptr;
}

std::string constants_of(const graph::ProbedCall& call) {
  std::vector<std::string> names;
  for (const ops::Value value : call.node.call.inputs) {
    if (!value.present()) continue;
    const graph::Storage& storage = call.graph.storage_of(value);
    if (storage.kind == graph::StorageKind::constant) names.push_back(storage.name);
  }
  return join(names, ", ");
}

bool any_special(const ops::ref::Tensor& tensor) {
  return std::any_of(tensor.real.begin(), tensor.real.end(), [](double value) { return !std::isfinite(value); });
}

}  // namespace

void OpChecker::before(const graph::ProbedCall& call) {
  const accel::OpDesc desc = graph::op_desc(call.graph, call.node.call);
  case_ = Case{};
  case_.op = desc.op;
  case_.label = cat("call ", calls_ + 1, " of a model's run");
  case_.attrs = desc.attrs;
  case_.needs = desc.needs;
  case_.accumulate = desc.accumulate;
  case_.alias = desc.alias;
  std::copy_n(call.counts.begin(), std::min(call.counts.size(), case_.counts.size()), case_.counts.begin());
  case_.args.resize(desc.args.size());
  for (std::size_t a = 0; a < desc.args.size(); ++a) {
    Argument& argument = case_.args[a];
    argument.desc = desc.args[a];
    if (!is_present(argument.desc)) continue;
    argument.packed = call.packed[a];
    if (!is_seen(call, a)) continue;
    argument.planes = read_planes(call, call.tensors[a]);
    if (case_.read(a) && any_special(decode(argument.desc, argument.planes, case_.counts))) case_.special = true;
  }
}

void OpChecker::after(const graph::ProbedCall& call) {
  ++calls_;
  ModelTally& tally = tallies_[case_.op];
  ++tally.calls;
  std::string problem = index_problem(case_);
  double worst = problem.empty() ? 0.0 : INFINITY;
  const auto expected = problem.empty() ? run_oracle(case_) : std::vector<ops::ref::Tensor>();
  for (std::size_t a = 0; a < expected.size(); ++a) {
    if (!case_.written(a) || !is_seen(call, a)) continue;
    const auto got = decode(case_.args[a].desc, read_planes(call, call.tensors[a]), case_.counts);
    const Comparison comparison = compare(case_, static_cast<int>(a), expected[a], got);
    if (comparison.worst > worst) problem = comparison.problem;
    worst = std::max(worst, comparison.worst);
  }
  tally.worst = std::max(tally.worst, worst);
  if (problem.empty()) return;
  ++tally.wrong;
  if (!first_) first_ = ModelFinding{calls_, constants_of(call), problem, case_};
}

std::string OpChecker::table() const {
  std::string out = "op                       calls  wrong  worst/tolerance\n";
  for (const auto& [op, tally] : tallies_) {
    std::array<char, 128> line{};
    std::snprintf(line.data(), line.size(), "%-22s %7lld %6lld %16.3f\n", std::string(ops::op_spec(op).name).c_str(),
                  static_cast<long long>(tally.calls), static_cast<long long>(tally.wrong), tally.worst);
    out += line.data();
  }
  return out;
}

}  // namespace tern::conformance
